"""Limits of connections, of a listener and of all listeners together: `max.connections` and
`max.connection.creation.rate`. The rate is a leaky bucket as that of every quota (`_quota.pxd`);
where there is none, nobody looks at a clock.
"""

from libc.stdint cimport int64_t

from appliance.native._native cimport monotonic_ns
from appliance.network._quota cimport NO_RATE, quota_charge, quota_delay, quota_set_rate


# ---- without the GIL ----

cdef bint connection_quota_is_full(ConnectionQuota* quota, int64_t open) noexcept nogil:
    cdef int64_t most = quota.connections_max.load()
    return most != ANY_NUMBER and open >= most


cdef bint _has_rate(ConnectionQuota* one, ConnectionQuota* other) noexcept nogil:
    return one.creation.rate.load() != NO_RATE or other.creation.rate.load() != NO_RATE


cdef int64_t connection_quotas_delay(ConnectionQuota* one, ConnectionQuota* other,
                                     int64_t window_ns) noexcept nogil:
    cdef int64_t now
    if not _has_rate(one, other):
        return 0
    now = monotonic_ns()
    return max(quota_delay(&one.creation, now, window_ns),
               quota_delay(&other.creation, now, window_ns))


cdef void connection_quotas_charge(ConnectionQuota* one, ConnectionQuota* other,
                                   int64_t window_ns) noexcept nogil:
    cdef int64_t now
    if not _has_rate(one, other):
        return
    now = monotonic_ns()
    quota_charge(&one.creation, 1, now, window_ns)
    quota_charge(&other.creation, 1, now, window_ns)


cdef void connection_quota_set(ConnectionQuota* quota, int64_t connections_max,
                               int64_t rate) noexcept nogil:
    quota.connections_max.store(connections_max)
    quota_set_rate(&quota.creation, rate)
