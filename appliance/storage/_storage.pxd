"""The data directory as a whole: its lock, its own files, and what all its logs share."""

from libc.stdint cimport int64_t
from libcpp.memory cimport shared_ptr

from appliance.native._descriptors cimport FileRef
from appliance.native._native cimport atomic_bool, atomic_i64, monotonic_ns, wall_ms
from appliance.storage._checkpoint_journal cimport Journal
from appliance.storage._read_faults cimport ReadFaults
from appliance.storage._watermark_file cimport Watermarks

cdef cppclass Storage:
    FileRef directory
    int lock_fd                    # flock: one broker per directory
    Journal journal
    Watermarks marks
    ReadFaults faults              # reads of the logs that failed or were refused
    atomic_bool is_full            # clients' appends are refused
    atomic_i64 free_bytes          # at the last check
    int64_t low_water_bytes        # refuse below this
    int64_t reserve_bytes          # size of the file `reserve`
    int64_t write_behind_bytes
    atomic_bool reserve_is_held
    atomic_i64 commits_at_disk     # commits with running syncs, for which bulk readers wait
    atomic_i64 committed_ns        # when the last of them ended
    atomic_i64 believed_ahead_ms   # believed time less monotonic time; 0: nobody said, believe all

ctypedef shared_ptr[Storage] StorageRef

# Locks the directory, and reads the state of the last life; LOG_CLOSED: another process has it.
cdef int storage_open(Storage* storage, const char* path) noexcept nogil

# After every log that is there was opened: a fresh journal generation. From here on an end without
# storage_close is an unclean one.
cdef int storage_start(Storage* storage) noexcept nogil

# Unlocks the directory; `cleanly`: the logs were flushed and checkpointed.
cdef int storage_close(Storage* storage, bint cleanly) noexcept nogil

# Whether the file system can be written to. One that gave up after an error lets a sync succeed
# that wrote nothing: syncfs does nothing on a read-only one, and of btrfs's fsyncs that were under
# way only one hears of it.
cdef bint storage_takes_writes(Storage* storage) noexcept nogil

# journal_commit, with the reserve's help on a full disk; how far it came is noted.
cdef int storage_commit(Storage* storage) noexcept nogil


# The time, as a span: at least `earliest` by whatever may be right, at most `latest`. They are the
# same while the machine's clock is believed (`believed_time.py` decides). By the earliest is
# deleted, expired and refused for age; by the latest is stamped, and refused for being of the
# future.
cdef inline void storage_now(Storage* storage, int64_t* earliest_ms,
                             int64_t* latest_ms) noexcept nogil:
    cdef int64_t wall = wall_ms(), ahead = storage.believed_ahead_ms.load(), believed
    believed = wall if ahead == 0 else ahead + monotonic_ns() // 1000000
    earliest_ms[0] = min(wall, believed)
    latest_ms[0] = max(wall, believed)


cdef inline int64_t storage_earliest_ms(Storage* storage) noexcept nogil:
    cdef int64_t earliest, latest
    storage_now(storage, &earliest, &latest)
    return earliest


cdef inline int64_t storage_latest_ms(Storage* storage) noexcept nogil:
    cdef int64_t earliest, latest
    storage_now(storage, &earliest, &latest)
    return latest
