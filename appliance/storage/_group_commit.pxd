from appliance.storage._commit_requests cimport Committer

cdef int committer_start(Committer* committer) noexcept nogil
# Commits what is wanted, writes a checkpoint of every log, stops the threads.
cdef void committer_stop(Committer* committer) noexcept nogil
