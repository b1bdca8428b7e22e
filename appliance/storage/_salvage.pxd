"""Damaged bytes of a log: sets them aside, cuts them, and notes the loss."""

from libc.stdint cimport int64_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._segment cimport Segment

cdef enum Cause:
    CAUSE_SEGMENT_MISSING = 0      # the journal lists it, the directory lacks it
    CAUSE_FILE_SHORT = 1           # the file ends before what was durable in it
    CAUSE_BATCH_DAMAGED = 2        # torn, corrupt, or in the wrong place
    CAUSE_NOT_NOTED = 3            # the same without a noted durable offset: maybe a loss
    CAUSE_TXN_INDEX = 4            # some aborted transactions are unknown, and served

# Unreadable records that were, or may have been, acknowledged: [first, end).
cdef cppclass Loss:
    int64_t first_offset
    int64_t end_offset
    int cause
    string aside                   # the file in the log's directory with the remaining bytes

# The result of opening a log. Offsets are -1 if they do not apply.
cdef cppclass Recovered:
    int64_t promised_offset        # records below were durable
    bint is_noted                  # and later records were not, except in the last moment
    int64_t scanned_bytes          # read and checked by recovery
    int64_t cut_bytes              # of a torn tail
    int64_t cut_records            # in unacknowledged whole batches after it
    int64_t cut_offset             # the log's end after the cut
    int64_t aside_bytes            # moved to `.corrupt-*` files
    bint was_known                 # the journal had a checkpoint
    vector[Loss] losses
    vector[int64_t] doubted        # bases of segments with an impossible transaction index
    int64_t txn_indexes            # corrected ones

    inline void __init__() noexcept nogil:
        this.promised_offset = this.cut_offset = -1
        this.is_noted = this.was_known = False
        this.scanned_bytes = this.cut_bytes = this.cut_records = this.aside_bytes = 0
        this.txn_indexes = 0

# Notes [first, end) as a hole, and as a loss if it was not known.
cdef void salvage_hole(PartitionLog* log, int64_t first, int64_t end, int cause,
                       const string& aside, Recovered* recovered) noexcept nogil

# A new, empty segment at the end of the list.
cdef int salvage_segment(PartitionLog* log, int64_t base) noexcept nogil

# Segment `slot` has a bad batch. 0: whole batches after it, up to offset `high`, became a new
# segment at slot + 1, and the bytes between were set aside. 1: there are none, and nothing changed.
# Or a code.
cdef int salvage_split(PartitionLog* log, size_t slot, int64_t high, int cause,
                       Recovered* recovered) noexcept nogil

# Ends the list at the bad batch of segment `slot`. `keeps_all`: sets all cut bytes aside; otherwise
# only bytes with whole batches. `aside`: the file.
cdef int salvage_cut(PartitionLog* log, size_t slot, bint keeps_all, string* aside,
                     Recovered* recovered) noexcept nogil

# The segment's own file for `Loss.aside`: it was not moved.
cdef string salvage_file_of(Segment* segment) noexcept nogil
