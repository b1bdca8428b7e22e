"""Holes of a log: ranges below the durable offset that are damaged or gone.

Readers get an error at a hole, unless an operator lets them skip it. A hole is in the journal
before any reader gets its error.
"""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance.storage._checkpoint_journal cimport Hole
from appliance.storage._partition_log cimport PartitionLog

# Sets the damaged bytes of each segment from the holes. The caller does not hold list_guard.
cdef void holes_place(PartitionLog* log) noexcept nogil

# Whether known holes cover [first_offset, end_offset) without a gap.
cdef bint holes_cover(PartitionLog* log, int64_t first_offset, int64_t end_offset) noexcept nogil

# Adds a hole, and merges holes within it. The caller holds `maintenance`.
cdef int holes_add(PartitionLog* log, const Hole* hole) noexcept nogil

# Lets readers skip every hole that touches [first_offset, end_offset); adds the changed ones to
# `passed`.
cdef int holes_skip(PartitionLog* log, int64_t first_offset, int64_t end_offset,
                    vector[Hole]* passed) noexcept nogil

# Removes [first_offset, end_offset) from `holes`, after a repair.
cdef void holes_fill(vector[Hole]* holes, int64_t first_offset, int64_t end_offset) noexcept nogil

# Removes holes from `end_offset` on, the new end of the log.
cdef void holes_cut(PartitionLog* log, int64_t end_offset) noexcept nogil

# A new file without damage replaces the segments from `base` up to `end`.
cdef void holes_forget_bytes(vector[Hole]* holes, int64_t base, int64_t end) noexcept nogil
