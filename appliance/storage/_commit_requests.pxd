"""Makes appends durable, many partitions at a time. The only mover of durable offsets."""

from libc.stdint cimport int64_t
from libcpp.map cimport multimap
from libcpp.memory cimport shared_ptr
from libcpp.vector cimport vector

from appliance.native._histogram cimport Times
from appliance.native._native cimport atomic_bool, atomic_i64, condition, mutex, pthread_t
from appliance.storage._open_logs cimport OpenLogs
from appliance.storage._partition_log cimport LogRef, PartitionLog
from appliance.storage._storage cimport StorageRef


cdef enum SyncBy:
    SYNC_AUTO = 0                  # files when few, the file system when many
    SYNC_FILES = 1                 # fdatasync of each file, several at a time
    SYNC_FILESYSTEM = 2            # one syncfs

# One descriptor to sync, with the result.
cdef struct SyncJob:
    int fd
    bint is_directory
    int result                     # OK until it failed
    int error                      # errno, when it failed
    size_t plan

cdef cppclass Committer:
    StorageRef storage             # constant, as are the next four
    int sync_by
    int threads_count
    int64_t checkpoint_interval_ns
    int64_t poll_interval_ns       # of the free space

    OpenLogs open_logs
    atomic_bool syncfs_failed      # files from then on

    mutex guard
    condition wake                 # the committer thread: work, a deadline, stop
    condition published            # waiters: a commit ended
    vector[LogRef] wanted          # guard; to be committed now
    multimap[int64_t, LogRef] deadlines          # guard; monotonic ns
    vector[LogRef] changed         # the committer thread's own; committed since their checkpoint
    bint has_closed                # guard; some of the logs in the lists may be closed
    bint is_stopping               # guard
    bint checkpoint_is_wanted      # guard; by checkpoint(), counted by checkpoints_done
    int64_t checkpoints_begun      # guard
    int64_t checkpoints_done       # guard
    pthread_t thread

    # A thread of its own starts write-backs, since the committer may be waiting at the disk.
    mutex behind_guard
    condition behind_wake
    vector[LogRef] behind          # behind_guard
    bint behind_is_stopping        # behind_guard
    bint marks_are_due             # behind_guard; the watermarks are to be synced
    int64_t marks_synced_ns        # the committer thread's own; when that was asked last
    pthread_t behind_thread

    # The sync pool: jobs are handed out by an atomic counter.
    mutex pool_guard
    condition pool_wake
    condition pool_done
    vector[SyncJob]* jobs          # pool_guard
    atomic_i64 next_job
    int64_t jobs_left              # pool_guard
    int64_t round                  # pool_guard
    int threads_inside             # pool_guard
    bint pool_is_stopping          # pool_guard
    vector[pthread_t] pool

    # counted for metrics
    atomic_i64 commits
    atomic_i64 logs_committed
    atomic_i64 syncs
    atomic_i64 sync_ns
    atomic_i64 sync_began_ns       # of the commit at the disk; 0: there is none
    Times commit_times             # of the syncs of one commit
    atomic_i64 journal_failed      # code of the last checkpoint that could not be saved

ctypedef shared_ptr[Committer] CommitterRef

# The committer of a log's engine. Whoever was given the log keeps that alive: a `Log` of Python has
# a reference, and the data plane keeps the committer of every log that it was ever told.
cdef inline Committer* log_committer(PartitionLog* log) noexcept nogil:
    return <Committer*>log.committer

# Ask for a commit by `deadline_ns` (0: now). One that stopped takes nothing.
cdef void committer_ask(Committer* committer, const LogRef& log, int64_t deadline_ns) noexcept nogil

# Under the committer's guard. False if the log has an earlier deadline there: one is enough, since
# a log whose deadline comes is asked what it is due for.
cdef bint committer_list(Committer* committer, const LogRef& log,
                         int64_t deadline_ns) noexcept nogil

# Blocks until all records up to `offset` are durable: OK, LOG_FAILED, LOG_CLOSED, TIMED_OUT, or
# OFFSET_OUT_OF_RANGE after a truncation below it.
cdef int committer_await(Committer* committer, const LogRef& log, int64_t offset,
                         int64_t deadline_ns) noexcept nogil

# After the close of a log: wakes waiters, and drops all references here.
cdef void committer_forget(Committer* committer) noexcept nogil

# After the truncation of a log: wakes waiters.
cdef void committer_notify(Committer* committer) noexcept nogil

# Blocks until a checkpoint that began after this call is in the journal.
cdef int committer_checkpoint(Committer* committer) noexcept nogil
