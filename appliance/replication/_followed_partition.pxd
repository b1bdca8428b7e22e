"""A partition that is fetched from its leader, and what becomes of an answer about it."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string

from appliance.network._quota cimport Quota
from appliance.replication._fetch_wire cimport Answered, Named
from appliance.storage._commit_requests cimport CommitterRef
from appliance.storage._partition_log cimport LogRef

# Guarded by its fetcher, but for what is constant.
cdef cppclass Followed:
    string topic_id                # constant, as are the next four
    string topic
    int32_t partition
    LogRef log
    CommitterRef committer         # kept as long as its log is
    bint is_in_session             # the leader knows it by the requests that were sent
    bint is_moved                  # it is to be named again
    int32_t leader_epoch           # by which it was named last
    int64_t offset                 # where it was named last: what is before it is on disk
    int64_t log_start_offset       # the same
    int64_t valid_from             # the number of the request that named it where its log ends
                                   # now; INT64_MAX: none did
    int64_t out_until_ns           # after an error it is left out until then; 0: it is not
    int64_t backoff_ns             # of the last error; 0: there was none since it went well
    int code                       # that error: one of the core, or
    int16_t error                  # Kafka's, from the leader
    int64_t watermark              # as the leader told last; -1: not yet
    int64_t leader_start           # the leader's log start, as it told last
    int64_t bytes                  # appended, as far as counted here
    int64_t cuts                   # times that its end was cut off
    int32_t unclean_epoch          # of the last unclean election; -1: there was none, or it is in
                                   # sync
    int64_t wants_cut              # from there on, what may have counted: whoever keeps the ledger
                                   # is asked first; -1: nothing
    int64_t may_cut                # from there on it is told

ctypedef shared_ptr[Followed] FollowedRef

cdef FollowedRef followed_new(const string& topic_id, const string& topic, int32_t partition,
                              const LogRef& log, const CommitterRef& committer) noexcept nogil

# Whether it may be fetched: it follows that leader, and has on disk what it has. `into` is how it
# is named, then. Else a commit was asked for, or it is left out: also where it is to follow slowly,
# and `quota` is used up.
cdef bint followed_name(Followed* it, int32_t leader, int64_t backoff_max_ns, Quota* quota,
                        Named* into) noexcept nogil

# An answer about it. What was appended is on its way to the disk.
cdef void followed_take(Followed* it, const Answered* answer, int64_t backoff_max_ns,
                        Quota* quota) noexcept nogil

# It is left out for a while: longer, the more often in a row. One of both is 0.
cdef void followed_leave_out(Followed* it, int code, int16_t error,
                             int64_t backoff_max_ns) noexcept nogil

# Whether the log is being compacted or retained, which may take long: nothing else waits for that.
cdef bint followed_is_maintained(Followed* it) noexcept nogil

# Whether the leader is to hear of it again, which knows it: something is not as it was named.
cdef bint followed_is_to_be_named(const Followed* it) noexcept nogil
