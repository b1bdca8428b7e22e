"""What one thread counts for metrics: how long requests took, by API, and how long its turns.

Each counter has one writer, so that counting costs no locked instruction and no cache line moves
between cores. A reader may see a histogram's count a moment before its sum.
"""

from libc.stdint cimport int64_t

from appliance.native._native cimport atomic_i64

cdef enum:
    TIME_BUCKETS = 17              # of TIME_BOUNDS_NS; the last has no bound
    API_KEYS = 96                  # more than there are
    ROW_FETCH_WAITED = 96          # a Fetch that waited for data: its time says little of us
    ROW_OTHER = 97                 # a key that no API has
    ROWS = 98

cdef cppclass Times:
    atomic_i64[TIME_BUCKETS] counts
    atomic_i64 sum_ns

# `new Traffic()` zeroes it.
cdef cppclass Traffic:
    Times[ROWS] requests           # from the whole frame to the last byte handed to the kernel
    Times turns                    # of the thread's loop, from waking up to waiting again

cdef int traffic_row(int api_key) noexcept nogil
cdef void times_note(Times* times, int64_t ns) noexcept nogil
