"""One partition's log: appends, reads, durability, recovery points. Knows no socket.

The C++ object is `PartitionLog`; Python holds `Log` (`appliance/_log.pyx`).

Locks, in the order in which they may be taken:
    maintenance    retention, truncation, compaction: one at a time; may be held across syncs
    saved_guard    the last journaled checkpoint; may be held across syncs
    guard          the appender: end of the log, producers, epochs. Never held across a sync
    list_guard     the list of segments and of aborted transactions; held for a copy, no system call
    segment.guard  (`_segment.pxd`)
    watches.guard  (`_watch.pxd`)
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._descriptors cimport DirectoryRef, FileRef
from appliance.native._native cimport atomic_bool, atomic_i64, mutex
from appliance.record._batch cimport BatchHeader
from appliance.storage._index cimport AbortedTxn
from appliance.storage._journal cimport Checkpoint, EpochEntry, Hole
from appliance.storage._producers cimport ProducerTable
from appliance.storage._segment cimport Segment, SegmentRef
from appliance.storage._storage cimport StorageRef
from appliance.storage._watch cimport WatchList

cdef enum Origin:
    ORIGIN_CLIENT = 0              # every rule applies
    ORIGIN_COORDINATOR = 1         # our own records and markers: also when the disk is low, and in
                                   # no sequence
    ORIGIN_UNVERIFIED = 2          # a client of whom nobody asked the transaction coordinator: goes
                                   # on with a transaction that is open here, and begins none
    ORIGIN_MIRROR = 3              # batches of another log, which keep their offsets

cdef enum ReadLimit:
    READ_VISIBLE = 0               # the high watermark
    READ_END = 1                   # the log end: recovery, compaction, replication
    READ_STABLE = 2                # the last stable offset

# Settings of one log. Written under guard; names and reasons in `config/`.
cdef struct LogSettings:
    int64_t segment_bytes
    int64_t segment_ms
    int64_t segment_index_bytes
    int64_t index_interval_bytes
    int64_t retention_ms
    int64_t retention_bytes
    int64_t flush_messages
    int64_t flush_ms
    int64_t max_message_bytes
    int64_t timestamp_before_max_ms
    int64_t timestamp_after_max_ms
    int64_t producer_expiration_ms
    bint append_time
    bint shows_appended
    bint cleanup_delete
    bint cleanup_compact
    double min_cleanable_dirty_ratio
    int64_t delete_retention_ms
    int64_t min_compaction_lag_ms
    int64_t max_compaction_lag_ms
    bint is_mirror

cdef struct EndedTxn:
    int64_t first_offset
    int64_t marker_offset

# A segment that compaction could not read.
cdef cppclass Unreadable:
    int code                       # why; OK: there is none
    int64_t base_offset            # of the segment
    int64_t position               # of the batch
    string text                    # more about it, where there is more

cdef cppclass PartitionLog:
    # constant
    string name                    # "<topic>-<partition>", the directory's name
    DirectoryRef directory         # open while somebody holds it
    StorageRef storage

    mutex maintenance
    Unreadable unreadable          # maintenance; what compaction stops before
    mutex saved_guard
    Checkpoint saved               # saved_guard
    int64_t bytes_at_saved         # saved_guard; bytes_appended then

    mutex guard
    LogSettings settings           # guard
    ProducerTable producers        # guard
    vector[EpochEntry] epochs      # guard
    int64_t unflushed_records      # guard
    FileRef dirty_directory        # guard; held since a segment was created in it, for the sync

    mutex list_guard
    vector[SegmentRef] segments    # list_guard; by base offset, the last one active, never empty
    vector[AbortedTxn] aborted     # list_guard; by last_offset
    vector[EndedTxn] ended         # list_guard; ended, marker not visible yet
    vector[Hole] holes             # list_guard

    atomic_i64 log_start_offset
    atomic_i64 log_end_offset
    atomic_i64 durable_offset      # end of what is on disk; moved by the committer alone
    atomic_i64 first_open_offset   # of the oldest open transaction; INT64_MAX: none
    atomic_i64 gaps_end            # below it compaction may have left out offsets
    atomic_i64 active_base         # of the active segment
    atomic_i64 leader_epoch
    atomic_i64 truncations         # twice their count, odd while one is under way; moved under
                                   # guard; a commit begun before one counts for nothing
    atomic_i64 bytes_appended      # in this life, as are the next three; guard writes them
    atomic_i64 batches_of_clients
    atomic_i64 bytes_of_clients
    atomic_i64 records_of_clients
    atomic_i64 bytes_durable       # of bytes_appended; moved by the committer alone, as the next
    atomic_i64 committing_ns       # the oldest_unflushed_ns of a commit under way; 0: there is none
    atomic_i64 flushed_ns          # monotonic; end of the last commit that wrote something; 0: none
    atomic_i64 flush_took_ns       # that commit
    atomic_i64 oldest_unflushed_ns  # monotonic; 0: all is durable
    atomic_i64 failed              # the code that stopped this log; OK while it lives
    atomic_i64 failed_errno        # what the kernel said then; 0: nothing
    atomic_bool is_closed          # set under guard
    atomic_bool shows_appended     # visibility=appended
    atomic_bool is_compacted       # cleanup.policy has compact: records need keys
    atomic_bool is_mirror          # mirror.source is set: a mirror alone may write
    atomic_bool behind_is_wanted   # is in the committer's list of write-backs to start
    atomic_bool commit_is_wanted   # is in the committer's list
    atomic_bool is_changed         # rolled or committed since its last checkpoint
    bint is_listed                 # the committer thread's own; among its changed logs
    WatchList watches              # who waits for this log to move

ctypedef shared_ptr[PartitionLog] LogRef

cdef struct AppendOptions:
    int origin
    int32_t leader_epoch           # -1: the log's own
    int64_t earliest_ms            # by the clock, believed or not: see storage_now
    int64_t latest_ms

cdef struct Appended:
    int64_t base_offset
    int64_t last_offset
    int64_t append_time            # -1: the batch keeps its own timestamps
    int64_t commit_by_ns           # ask the committer by then: 0 at once, INT64_MAX not at all
    bint duplicate
    bint write_behind              # tell the committer: enough unwritten bytes have gathered

# Bytes of one segment, to be sent or read while `file` is held.
cdef cppclass Slice:
    FileRef file
    int64_t segment_base           # of the segment; -1: none was looked at
    int64_t position
    int64_t size
    int64_t limit_offset           # what the reader could have seen at most

# What one commit makes durable.
cdef cppclass CommitPlan:
    LogRef log
    vector[SegmentRef] segments
    vector[FileRef] files
    vector[int64_t] sizes
    int64_t end_offset
    int64_t bytes_appended
    int64_t began_ns
    int64_t truncations
    FileRef directory              # to be synced; empty: not
    bint with_checkpoint
    Checkpoint checkpoint
    vector[SegmentRef] sealed      # whose indexes were written, and are not synced yet
    int indexes                    # the code of that
    int result
    int error                      # errno of the sync that failed; 0: none did

# Appends one checked batch (`header` is its header); stamps `data` in place. OK or a code.
cdef int log_append(PartitionLog* log, uint8_t* data, BatchHeader* header,
                    const AppendOptions* options, Appended* appended) noexcept nogil

# Batch after batch of another log, each checked. What stands before one that is refused stays
# appended. `appended` is about all that were, also after a refusal: the offsets are -1 where none
# was, and the committer is to be told what it says.
cdef int log_append_mirrored(PartitionLog* log, uint8_t* data, int64_t size,
                             Appended* appended) noexcept nogil

# Whether this producer, in this epoch, has a transaction open here.
cdef bint log_txn_is_open(PartitionLog* log, int64_t producer_id,
                          int16_t producer_epoch) noexcept nogil

# Up to max_bytes from the batch that holds `offset`, at least that whole batch; size 0 at the
# limit.
cdef int log_read(PartitionLog* log, int64_t offset, int64_t max_bytes, int limit,
                  Slice* slice) noexcept nogil

cdef int64_t log_limit(PartitionLog* log, int limit) noexcept nogil
cdef int64_t log_high_watermark(PartitionLog* log) noexcept nogil
cdef int64_t log_last_stable_offset(PartitionLog* log) noexcept nogil

# Aborted transactions that touch [from_offset, end_offset).
cdef void log_aborted(PartitionLog* log, int64_t from_offset, int64_t end_offset,
                      vector[AbortedTxn]* into) noexcept nogil

# First batch that ends at or after `from_offset`, lies below the limit and has a record at or after
# `timestamp`, as a slice of that batch. OK with size 0: none.
cdef int log_find_time(PartitionLog* log, int64_t timestamp, int64_t from_offset, int limit,
                       Slice* slice) noexcept nogil

# Last epoch <= `epoch` and the offset at which it ended.
cdef void log_end_for_epoch(PartitionLog* log, int32_t epoch, int32_t* found,
                            int64_t* end_offset) noexcept nogil

cdef int log_roll(PartitionLog* log) noexcept nogil
cdef int log_roll_locked(PartitionLog* log) noexcept nogil

# Takes a batch at the end of the log into epochs, producers and transactions (append, recovery).
cdef void log_note(PartitionLog* log, Segment* segment, const uint8_t* data,
                   const BatchHeader* header,
                   int64_t now_ms) noexcept nogil

# The committer's three steps. `begin` takes the log's guard for a moment; the syncs of plan.files
# (and directory) happen between, under no lock; `end` publishes, or fails the log.
cdef void log_commit_begin(const LogRef& log, bint with_checkpoint, CommitPlan* plan) noexcept nogil
cdef void log_commit_end(CommitPlan* plan) noexcept nogil
# How many sealed segments have indexes that are not on disk yet.
cdef int64_t log_unfinished(PartitionLog* log) noexcept nogil
# Index files up to now; those of sealed segments durably, or else noted in the plan: whoever makes
# them so says by `log_finish_indexes` what came of it.
cdef void log_store_indexes(CommitPlan* plan, bint is_durable) noexcept nogil
cdef void log_finish_indexes(CommitPlan* plan, bint is_durable) noexcept nogil
# Puts the plan's checkpoint into the journal; the caller stored the indexes, and commits the
# journal.
cdef int log_checkpoint_put(CommitPlan* plan) noexcept nogil
# Whether a checkpoint is worth its bytes.
cdef bint log_checkpoint_is_due(PartitionLog* log) noexcept nogil
cdef void log_capture(PartitionLog* log, Checkpoint* checkpoint) noexcept nogil

# Puts the saved checkpoint into the journal; saved_guard is held.
cdef void log_put_locked(PartitionLog* log) noexcept nogil
# Puts the saved checkpoint into the journal and makes it durable; saved_guard is held.
cdef int log_save_locked(PartitionLog* log) noexcept nogil

# The active time index as Kafka leaves it at a clean stop: ending with the largest timestamp.
cdef void log_seal_times(PartitionLog* log) noexcept nogil

# Asks the kernel to start writing what the active segment gathered, so that the sync finds little
# left to do. Not durability.
cdef void log_write_behind(PartitionLog* log) noexcept nogil

# The segment's transaction index, as log.aborted has it.
cdef int log_store_aborted(PartitionLog* log, Segment* segment) noexcept nogil

cdef void log_fail(PartitionLog* log, int code) noexcept nogil

# Stored bytes of that segment could not be read, or were not what was written: `code` says how.
# Other codes are let pass. Health tells, and the segment is verified.
cdef void log_note_fault(PartitionLog* log, int64_t segment_base, int64_t offset,
                         int code) noexcept nogil

# The same, of the segment that has the offset.
cdef void log_note_fault_at(PartitionLog* log, int64_t offset, int code) noexcept nogil

# Tells those who wait how far the log is now; no lock of the log's may be held.
cdef void log_tell(PartitionLog* log) noexcept nogil

# Lets go of files and indexes that nobody used since `before_ns`, where nothing is left to write.
cdef void log_rest(PartitionLog* log, int64_t before_ns) noexcept nogil

# Closes such files, and keeps what is in memory: for whoever needs a descriptor and holds no lock.
# How many were closed; 0 when somebody is at work here.
cdef int64_t log_close_idle(PartitionLog* log, int64_t before_ns) noexcept nogil

# Whether it has bytes that only an open file may write.
cdef bint log_is_dirty(PartitionLog* log) noexcept nogil
