"""One partition's log, as one C++ object. Knows no socket; Python holds `Log` (`_log.pyx`).

Locks, in the order in which they may be taken:
    maintenance    retention, truncation, compaction: one at a time; may be held across syncs
    saved_guard    the last journaled checkpoint; may be held across syncs
    guard          the appender: end of the log, producers, epochs. Never held across a sync
    replicas.guard (`_replicas.pxd`)
    list_guard     the list of segments and of aborted transactions; held for a copy, no system call
    segment.guard  (`_segment.pxd`)
    watches.guard  (`_partition_waits.pxd`)
"""

from libc.stdint cimport int64_t
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._descriptors cimport DirectoryRef, FileRef
from appliance.native._native cimport atomic_bool, atomic_i64, mutex
from appliance.storage._checkpoint_journal cimport Checkpoint, EpochEntry, Hole
from appliance.storage._index cimport AbortedTxn
from appliance.storage._partition_waits cimport WatchList
from appliance.storage._producers cimport ProducerTable
from appliance.storage._replicas cimport Replicas
from appliance.storage._segment cimport SegmentRef
from appliance.storage._storage cimport StorageRef

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
    void* committer                # its engine's: `log_committer` of `_commit_requests.pxd`

    mutex maintenance
    Unreadable unreadable          # maintenance; what compaction stops before
    vector[SegmentRef] undropped   # maintenance; behind no reader's start, but not unlinked yet
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
    atomic_i64 replicated_to       # what all others that must have a record have on disk; of a
                                   # follower what its leader told; INT64_MAX: nobody else must
    atomic_i64 role                # set under guard
    Replicas replicas
    atomic_i64 awaited             # threads that wait until a record is acknowledged
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
    atomic_i64 flush_by_ns         # when the commit of that record is due; INT64_MAX: never
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
    int64_t listed_until_ns        # the committer's guard; its first deadline there; 0: it has none
    WatchList watches              # who waits for this log to move

ctypedef shared_ptr[PartitionLog] LogRef

# A copy of the list.
cdef vector[SegmentRef] log_segments(PartitionLog* log) noexcept nogil

cdef int log_roll(PartitionLog* log) noexcept nogil
cdef int log_roll_locked(PartitionLog* log) noexcept nogil

# The active time index as Kafka leaves it at a clean stop: ending with the largest timestamp.
cdef void log_seal_times(PartitionLog* log) noexcept nogil

cdef void log_fail(PartitionLog* log, int code) noexcept nogil

# Lets go of files and indexes that nobody used since `before_ns`, where nothing is left to write.
cdef void log_rest(PartitionLog* log, int64_t before_ns) noexcept nogil

# Closes such files, and keeps what is in memory: for whoever needs a descriptor and holds no lock.
# How many were closed; 0 when somebody is at work here.
cdef int64_t log_close_idle(PartitionLog* log, int64_t before_ns) noexcept nogil

# Whether it has bytes that only an open file may write.
cdef bint log_is_dirty(PartitionLog* log) noexcept nogil
