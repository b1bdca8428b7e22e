"""How many connections a listener may have, how many a second, and what became of them."""

from libc.stdint cimport int64_t

from appliance.native._native cimport atomic_i64
from appliance.network._quota cimport Quota

# Why a connection had to wait.
cdef enum Throttle:
    THROTTLED_BY_CONNECTIONS = 0   # there are as many as max.connections
    THROTTLED_BY_RATE = 1          # there were as many as max.connection.creation.rate
    THROTTLED_BY_ADDRESS = 2       # a quota of its address, connection_creation_rate
    THROTTLES = 3

cdef enum:
    ANY_NUMBER = 0                 # in the place of a limit, as is NO_RATE

# Of a listener, or of all together; `throttled` is counted of listeners alone.
cdef cppclass ConnectionQuota:
    atomic_i64 connections_max
    Quota creation                 # connections a second
    atomic_i64 open
    atomic_i64 accepted
    atomic_i64[3] throttled        # how often its next connection had to wait, by `Throttle`

cdef bint connection_quota_is_full(ConnectionQuota* quota, int64_t open) noexcept nogil
# Of two that both count: for how long, in ns, no more may come.
cdef int64_t connection_quotas_delay(ConnectionQuota* one, ConnectionQuota* other,
                                     int64_t window_ns) noexcept nogil
# One more has come.
cdef void connection_quotas_charge(ConnectionQuota* one, ConnectionQuota* other,
                                   int64_t window_ns) noexcept nogil
# Limits that hold from now on; what was owed at another rate is forgotten.
cdef void connection_quota_set(ConnectionQuota* quota, int64_t connections_max,
                               int64_t rate) noexcept nogil
