"""Fetches that wait: for records, or for the disk."""

from libc.stdint cimport int32_t, int64_t

from appliance.network._connection cimport Connection, Slot

# Whether so many more partitions may be kept, of sessions and of fetches that wait.
cdef bint fetch_has_room(Connection* connection, int64_t more) noexcept nogil
cdef bint fetch_may_park(Connection* connection, Slot* slot) noexcept nogil
cdef void fetch_park(Connection* connection, Slot* slot, int64_t slot_number,
                     int32_t max_wait_ms) noexcept nogil
# Looks at the partitions; True when the slot became ready. `is_late`: answers with what there is.
cdef bint fetch_check(Connection* connection, Slot* slot, bint is_late) noexcept nogil
# A session's partitions are about to change: what waits on them is answered first.
cdef void fetch_answer_parked(Connection* connection) noexcept nogil
cdef void fetch_forget(Connection* connection, Slot* slot) noexcept nogil
