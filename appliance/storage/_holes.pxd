"""Holes of a log: ranges below the durable offset that are damaged or gone.

Readers are told at a hole; an operator may let them pass. What is known of holes is in the journal
before anybody is told of it.
"""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance.storage._checkpoint_journal cimport Hole
from appliance.storage._partition_log cimport PartitionLog

# Tells each segment which of its bytes are damaged, as the holes have it. list_guard is not held.
cdef void holes_place(PartitionLog* log) noexcept nogil

# Whether known holes cover [first_offset, end_offset) without a gap.
cdef bint holes_cover(PartitionLog* log, int64_t first_offset, int64_t end_offset) noexcept nogil

# A new hole, which takes in those that lie within it. maintenance is held.
cdef int holes_add(PartitionLog* log, const Hole* hole) noexcept nogil

# Lets readers pass every hole that touches [first_offset, end_offset); those that they could not
# pass before are added to `passed`.
cdef int holes_skip(PartitionLog* log, int64_t first_offset, int64_t end_offset,
                    vector[Hole]* passed) noexcept nogil

# Takes [first_offset, end_offset) out of `holes`: what was there is there again.
cdef void holes_fill(vector[Hole]* holes, int64_t first_offset, int64_t end_offset) noexcept nogil

# The log ends at `end_offset` now: what is written there next is in no hole.
cdef void holes_cut(PartitionLog* log, int64_t end_offset) noexcept nogil

# Another file takes the place of the segments from `base` up to `end`: no damaged bytes are in it.
cdef void holes_forget_bytes(vector[Hole]* holes, int64_t base, int64_t end) noexcept nogil
