"""Fetch, from frame to segment files and back."""

from libc.stdint cimport int64_t

from appliance.native._bytes cimport Cursor
from appliance.network._connection cimport Connection, Slot

cdef enum:
    FETCH_KEY = 1
    FETCH_MIN = 4
    FETCH_MAX = 18

# As `produce` in `_produce.pxd`.
cdef int fetch(Connection* connection, int64_t slot_number, int version, int correlation_id,
               Cursor* cursor) noexcept nogil
# Looks again at a fetch that waits; True when its slot became ready. `is_late`: answers with what
# there is.
cdef bint fetch_check(Connection* connection, Slot* slot, bint is_late) noexcept nogil
cdef void fetch_forget(Connection* connection, Slot* slot) noexcept nogil
