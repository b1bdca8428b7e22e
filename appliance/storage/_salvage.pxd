"""What is done with a log's damaged bytes: set aside, cut, and the loss noted."""

from libc.stdint cimport int64_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._segment cimport Segment

cdef enum Cause:
    CAUSE_SEGMENT_MISSING = 0      # the journal lists it, the directory lacks it
    CAUSE_FILE_SHORT = 1           # the file ends before what was durable in it
    CAUSE_BATCH_DAMAGED = 2        # torn, corrupt, or in the wrong place
    CAUSE_NOT_NOTED = 3            # the same, where nobody noted what was durable: it may have been
    CAUSE_TXN_INDEX = 4            # what was aborted is not all known: it is served

# Records that were acknowledged, or may have been, and cannot be read: [first, end).
cdef cppclass Loss:
    int64_t first_offset
    int64_t end_offset
    int cause
    string aside                   # the file in the log's directory that holds what is left

# What opening a log met. Offsets are -1 where nothing of the kind happened.
cdef cppclass Recovered:
    int64_t promised_offset        # everything below was durable
    bint is_noted                  # and what lies behind it was not, but for the last moment
    int64_t scanned_bytes          # read and checked, because they were not known to be good
    int64_t cut_bytes              # of a torn tail
    int64_t cut_records            # in whole batches behind it, which nobody was promised
    int64_t cut_offset             # the log's end after the cut
    int64_t aside_bytes            # moved to `.corrupt-*` files
    bint was_known                 # the journal had a checkpoint
    vector[Loss] losses
    vector[int64_t] doubted        # bases of segments whose transaction index cannot be true
    int64_t txn_indexes            # that were put right

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

# Segment `slot` stopped being good. Where whole batches follow in its file, up to offset `high`,
# they become a segment of their own at slot + 1, and what lies between is set aside: 0. 1: none
# follow, nothing was done. Or a code.
cdef int salvage_split(PartitionLog* log, size_t slot, int64_t high, int cause,
                       Recovered* recovered) noexcept nogil

# Ends the list where segment `slot` stopped being good. `keeps_all`: what is cut is set aside
# whatever it is; otherwise only where whole batches are in it. `aside`: where.
cdef int salvage_cut(PartitionLog* log, size_t slot, bint keeps_all, string* aside,
                     Recovered* recovered) noexcept nogil

# The segment's file as `Loss.aside` has it: it stays where it was.
cdef string salvage_file_of(Segment* segment) noexcept nogil
