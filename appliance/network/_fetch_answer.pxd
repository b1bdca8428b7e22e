"""The answer of a fetch."""

from libc.stdint cimport int16_t, int32_t, int64_t
from libcpp.vector cimport vector

from appliance.network._connection cimport Connection, Fetch, Slot
from appliance.network._fetch_read cimport FetchResult

cdef void fetch_put_answer(Connection* connection, Slot* slot, Fetch* fetch,
                           vector[FetchResult]* results, int64_t total) noexcept nogil
# One that names no partition.
cdef void fetch_put_nothing(Slot* slot, Fetch* fetch, int16_t error,
                            int32_t session_id) noexcept nogil
