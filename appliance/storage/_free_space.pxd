"""Free space of the data directory, and the reserve."""

from libc.stdint cimport int64_t

from appliance.storage._storage cimport Storage

# Checks the free space; sets or clears is_full; creates the reserve again when there is space.
cdef void space_poll(Storage* storage) noexcept nogil

# After ENOSPC of an append: writes stop until space_poll detects free space.
cdef void space_mark_full(Storage* storage) noexcept nogil

# Releases the reserve for a necessary write (recovery, retention's journal). True if there was one.
cdef bint space_release_reserve(Storage* storage) noexcept nogil

# Free bytes from which on a full disk is full no more: a little above the mark, so that the state
# does not flutter with every append.
cdef inline int64_t space_resume_bytes(const Storage* storage) noexcept nogil:
    return storage.low_water_bytes + storage.low_water_bytes // 8
