"""The data directory as a whole: its journal, its free space, its reserve."""

from libc.stdint cimport int64_t
from libcpp.memory cimport shared_ptr

from appliance._journal cimport Journal
from appliance._native cimport atomic_bool, atomic_i64
from appliance._segment cimport FileRef

cdef cppclass Storage:
    FileRef directory
    int lock_fd                    # flock: one broker per directory
    Journal journal
    atomic_bool is_full            # clients' appends are refused
    atomic_i64 free_bytes          # at the last look
    int64_t low_water_bytes        # refuse below this
    int64_t reserve_bytes          # held back in the file `reserve`
    int64_t write_behind_bytes
    atomic_bool reserve_is_held
    atomic_i64 commits_at_disk     # whose syncs have not ended; bulk readers let them pass
    atomic_i64 committed_ns        # when the last of them ended

ctypedef shared_ptr[Storage] StorageRef

# Looks at the free space; sets or clears is_full; takes the reserve back when there is room.
cdef void storage_poll(Storage* storage) noexcept nogil

# An append met ENOSPC: writes stop until storage_poll finds room.
cdef void storage_mark_full(Storage* storage) noexcept nogil

# Gives the reserve to whoever must write now (recovery, retention's journal). True if it was held.
cdef bint storage_release_reserve(Storage* storage) noexcept nogil

# journal_commit, with the reserve's help on a full disk.
cdef int storage_commit(Storage* storage) noexcept nogil
