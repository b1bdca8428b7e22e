"""The segment that takes the place of compacted ones, while it is being written."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._descriptors cimport DirectoryRef, FileRef
from appliance.record._batch cimport BatchHeader
from appliance.storage._segment cimport SegmentRef
from appliance.storage._storage cimport StorageRef

cdef cppclass Replacement:
    StorageRef storage             # constant
    DirectoryRef directory         # constant; of the partition
    bint may_fill                  # the disk was full already when the round began
    int64_t index_interval
    SegmentRef segment             # its index and statistics grow with every batch
    FileRef file                   # empty while it would equal the one segment it is made from
    vector[uint8_t] waiting        # whole batches, not written yet
    int64_t written                # bytes in the file
    int64_t position               # where the next batch goes

# Begins one that is called `base_offset`; no file yet.
cdef void replacement_start(Replacement* into, int64_t base_offset) noexcept nogil

# Creates `.cleaned` unless it is there. Batches noted before are all from the file `source_fd`,
# from its first byte on: they are copied. OK or a code.
cdef int replacement_begin(Replacement* into, int source_fd) except? -1 nogil

# Adds a batch; while there is no file only notes it. OK or a code.
cdef int replacement_put(
    Replacement* into, const uint8_t* data, const BatchHeader* header
) except? -1 nogil

# Everything is on disk under the name `.swap`, and `segment` is ready for log_swap.
cdef int replacement_finish(Replacement* into) noexcept nogil

# Removes `.cleaned` if it is there, or else, `is_named`, the finished `.swap`.
cdef void replacement_drop(Replacement* into, bint is_named) noexcept nogil
