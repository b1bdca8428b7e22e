"""The thread that follows one leader broker."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.map cimport map
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._native cimport RawBytes, atomic_bool, atomic_i64, condition, mutex
from appliance.network._quota cimport QuotaRef
from appliance.replication._fetch_wire cimport FetchRequest, Named
from appliance.replication._followed_partition cimport FollowedRef
from appliance.replication._leader_link cimport LeaderLink

# What Python and the thread share.
cdef cppclass Follower:
    int32_t leader                 # the node; constant, as are the next five
    int32_t node                   # its own
    int32_t wait_ms
    int32_t max_bytes
    int32_t partition_bytes
    int64_t backoff_max_ns
    atomic_i64 life                # the broker's; may change at any time
    atomic_bool has_news           # something is to be named, or forgotten

    mutex guard
    map[string, FollowedRef] followed  # guard; by topic id and number, so that topics stay together
    QuotaRef quota                 # of what is to be followed slowly, from all leaders; constant
    vector[Named] forgotten        # guard; removed, and the leader does not know yet
    int link_result                # guard; why there is no connection
    int link_error                 # guard
    string link_words              # guard
    condition ended                # guard
    bint is_ended                  # guard

    # the thread's own
    LeaderLink link
    FetchRequest request
    int32_t session_id             # 0: none
    int64_t asked                  # number of the last request
    int64_t answered
    int64_t backoff_ns             # of the last failure; 0: it went well since
    int64_t retry_at_ns            # no connection is tried before
    vector[uint8_t] out
    RawBytes frame                 # one answer after the other
    vector[FollowedRef] settling   # appended to, or cut, by the last answer
    vector[FollowedRef] shortening  # whose leader begins later than they do

    # counted
    atomic_bool is_connected
    atomic_i64 connects
    atomic_i64 requests
    atomic_i64 bytes_in

ctypedef shared_ptr[Follower] FollowerRef

cdef FollowerRef follower_new(int event_fd) noexcept nogil
# 0, or an errno.
cdef int follower_start(const FollowerRef& follower) noexcept nogil
# Wakes it: it looks at what is to be named or forgotten.
cdef void follower_wake(Follower* follower) noexcept nogil
# Whether it ended by `until_ns`. One that did not, because a disk or a resolver holds it, ends as
# soon as that lets go.
cdef bint follower_stop(Follower* follower, int64_t until_ns) noexcept nogil

cdef string followed_key(const uint8_t* topic_id, int32_t partition) noexcept nogil
