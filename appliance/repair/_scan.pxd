"""One segment read from the disk and verified batch by batch; the state of that."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from appliance.native._descriptors cimport FileRef
from appliance.record._batch cimport BatchHeader
from appliance.repair._index_check cimport IndexCheck
from appliance.storage._checkpoint_journal cimport EpochEntry, Hole
from appliance.storage._next_good_batch cimport Search
from appliance.storage._partition_log cimport LogRef
from appliance.storage._segment cimport SegmentRef
from appliance.storage._txn_index_check cimport TxnTrail
from appliance.storage._uncached_reader cimport DiskReader

cdef enum Why:
    GOOD = 0
    BAD_END = 1                    # the file ends in the batch
    BAD_FRAME = 2                  # length, format or structure
    BAD_CRC = 3
    BAD_OFFSET = 4                 # whole, and not what must follow
    BAD_EPOCH = 5
    NO_BATCH = 6                   # offsets that no batch holds
    NO_FILE = 7
    NO_OFFSETS = 8                 # bytes that hold no offset that is missed
    NOT_AGAIN = 9                  # all well at the second look
    FILE_RESTORED = 10
    WRONG_INDEX = 11
    WRONG_TXN_INDEX = 12
    UNSURE_TXN_INDEX = 13

cdef cppclass Flaw:
    Why why
    Hole hole
    bint is_refused                # by the disk

cdef cppclass Scan:
    LogRef log
    SegmentRef segment
    FileRef directory              # held: `segment.directory.get().fd` is open
    DiskReader disk
    bint is_active
    bint is_moot                   # there is nothing to verify, or not any more
    int64_t position               # of the batch to come
    int64_t end
    int64_t next_offset            # it begins there, or later where compaction was
    int64_t end_offset             # and all end before
    int64_t last_position          # of the batch before it, and what was next then; -1: none
    int64_t last_next
    int64_t gaps_end
    vector[EpochEntry] epochs
    bint is_searching              # for what comes behind damage: nothing is missed at a stop
    Search search
    int64_t claimed                # where the damaged batch says that it ends; -1: not looked at
    Flaw flaw                      # what it is that ends where the search does
    bint was_refused               # by the disk, some of what was settled
    vector[Flaw] flaws
    vector[Flaw] settled           # and not told yet
    vector[Hole] holes             # of these, to be marked
    IndexCheck index
    TxnTrail trail

# Chooses the segment and opens it; is_moot where there is none. OK or a code.
cdef int scan_start(Scan* scan, int64_t base_offset) noexcept nogil

# Reads on. 1: there is more; 0: that was all; or a code.
cdef int scan_step(Scan* scan, int64_t most) noexcept nogil

# GOOD, why the batch at `position` is not good, or a code.
cdef int scan_look(Scan* scan, int64_t position, int64_t next_offset,
                   BatchHeader* header) noexcept nogil

# Notes a flaw of the whole segment.
cdef void scan_tell(Scan* scan, Why why) noexcept nogil
