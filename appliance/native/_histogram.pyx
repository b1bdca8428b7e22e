"""Histograms of times: fixed bounds, so that those of several threads can be summed."""

from libc.stdint cimport int64_t

from appliance.native._native cimport count_own

cdef int64_t[TIME_BUCKETS - 1] BOUNDS_NS = [
    100000, 250000, 500000,
    1000000, 2500000, 5000000, 10000000, 25000000, 50000000,
    100000000, 250000000, 500000000, 1000000000, 2500000000, 5000000000, 10000000000,
]


# ---- without the GIL ----

cdef int traffic_row(int api_key) noexcept nogil:
    return api_key if 0 <= api_key < API_KEYS else ROW_OTHER


cdef void times_note(Times* times, int64_t ns) noexcept nogil:
    cdef int i = 0
    while i < TIME_BUCKETS - 1 and ns > BOUNDS_NS[i]:
        i += 1
    count_own(times.counts[i], 1)
    count_own(times.sum_ns, ns)


# ---- with the GIL ----

TIME_BOUNDS_NS = tuple(BOUNDS_NS)
