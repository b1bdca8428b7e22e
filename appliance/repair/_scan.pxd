"""The state of a scan, which reads one segment from the disk and verifies it batch by batch."""

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
    BAD_END = 1                    # the file ends within the batch
    BAD_FRAME = 2                  # length, format or structure
    BAD_CRC = 3
    BAD_OFFSET = 4                 # whole, but not the expected offset
    BAD_EPOCH = 5
    NO_BATCH = 6                   # offsets without a batch
    NO_FILE = 7
    NO_OFFSETS = 8                 # unknown bytes, but no missing offset
    NOT_AGAIN = 9                  # damaged at first, good at the second check
    FILE_RESTORED = 10
    WRONG_INDEX = 11
    WRONG_TXN_INDEX = 12
    UNSURE_TXN_INDEX = 13

cdef cppclass Flaw:
    Why why
    Hole hole
    bint is_refused                # the disk refused to read it

cdef cppclass Scan:
    LogRef log
    SegmentRef segment
    FileRef directory              # keeps `segment.directory.get().fd` open
    DiskReader disk
    bint is_active
    bint is_moot                   # nothing to verify
    int64_t position               # of the next batch
    int64_t end
    int64_t next_offset            # its first offset; later after compaction
    int64_t end_offset             # the end of all offsets
    int64_t last_position          # of the last batch, with its next_offset; -1: none
    int64_t last_next
    int64_t gaps_end
    vector[EpochEntry] epochs
    bint is_searching              # for the next batch after damage; survives a stop
    Search search
    int64_t claimed                # the end by the damaged header; -1: not read
    Flaw flaw                      # the flaw that ends with the search
    bint was_refused               # the disk refused to read some settled flaws
    vector[Flaw] flaws
    vector[Flaw] settled           # confirmed, and not reported yet
    vector[Hole] holes             # of the settled flaws, to be marked
    IndexCheck index
    TxnTrail trail

# Opens the segment; sets is_moot if it does not exist. OK or a code.
cdef int scan_start(Scan* scan, int64_t base_offset) noexcept nogil

# Reads on. 1: more to read; 0: the end; or a code.
cdef int scan_step(Scan* scan, int64_t most) noexcept nogil

# GOOD, the flaw of the batch at `position`, or a code.
cdef int scan_look(Scan* scan, int64_t position, int64_t next_offset,
                   BatchHeader* header) noexcept nogil

# Notes a flaw of the whole segment.
cdef void scan_tell(Scan* scan, Why why) noexcept nogil
