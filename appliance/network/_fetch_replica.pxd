"""Fetches of followers: what they report, and who may fetch from a log that has replicas."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.network._connection cimport Fetch, FetchTarget
from appliance.network._control_plane_inbox cimport Plane
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._read cimport Slice

cdef enum:
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75

# Each of its logs learns how far the follower is; its targets, whether it is refused there or has
# other records. Once, and only when it is known that it may.
cdef void fetch_report(Fetch* fetch) noexcept nogil

# Where nothing could be read at `offset`: whether the log's first batch begins there. The log may
# start in the middle of it, since records are deleted by offset. Else `start` is where that batch
# begins: where a follower begins anew whose log ends before.
cdef bint fetch_finds_start(PartitionLog* log, int64_t offset, int64_t max_bytes, Slice* slice,
                            int64_t* start) noexcept nogil

# How much of a log that is to be followed slowly that follower may get now; nothing holds back who
# is in sync. What it got is charged.
cdef int64_t fetch_share_of_follower(Plane* plane, PartitionLog* log, int32_t node) noexcept nogil
cdef void fetch_charge_follower(Plane* plane, int32_t node, const FetchTarget* target,
                                int64_t size) noexcept nogil

# Kafka's error for a fetch of a follower, or from a log that is not alone; 0: it is served.
cdef int16_t fetch_refusal_of_role(const Fetch* fetch, const FetchTarget* target) noexcept nogil

# The tags of a partition that has an error, or diverges: from where on, and who leads it.
cdef void fetch_put_tags(vector[uint8_t]* out, const FetchTarget* target, int16_t error,
                         bint diverges) noexcept nogil
