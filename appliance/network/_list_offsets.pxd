"""ListOffsets for where a partition begins and ends."""

from libc.stdint cimport int64_t

from appliance.native._bytes cimport Cursor
from appliance.network._connection cimport Connection

cdef enum:
    LIST_OFFSETS_KEY = 2
    LIST_OFFSETS_MIN = 1
    LIST_OFFSETS_MAX = 11

# A code of `Handled`; never waits, and is never MALFORMED: what it does not understand is for the
# control plane to refuse.
cdef int list_offsets(Connection* connection, int64_t slot_number, int version, int correlation_id,
                      const Cursor* given) noexcept nogil
