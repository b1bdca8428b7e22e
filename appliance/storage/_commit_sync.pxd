from libcpp.vector cimport vector

from appliance.storage._commit_requests cimport Committer
from appliance.storage._log_commit cimport CommitPlan

# Syncs the files and directories of all plans; sets the result of plans with a failure.
cdef void sync_plans(Committer* committer, vector[CommitPlan]* plans) noexcept nogil

# Whether so many descriptors are made durable by one syncfs, and doing that; False: it failed.
cdef bint sync_is_for_file_system(Committer* committer, size_t jobs) noexcept nogil
cdef bint sync_file_system(Committer* committer) noexcept nogil

cdef void sync_pool_start(Committer* committer) noexcept nogil
cdef void sync_pool_stop(Committer* committer) noexcept nogil
