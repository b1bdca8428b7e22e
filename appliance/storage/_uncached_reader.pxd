"""Reads a file as the disk has it, not as the page cache does, and leaves that cache as it is."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._descriptors cimport FileRef
from appliance.storage._storage cimport StorageRef

cdef cppclass DiskReader:
    StorageRef storage
    FileRef file                   # ours, of the same file as the engine's
    bint is_direct                 # else the file system knows no direct reads
    int64_t end                    # nothing behind it is asked for
    int64_t begin                  # of what is at hand
    int64_t size
    vector[uint8_t] space
    uint8_t* data                  # in `space`, at a page's address
    int64_t refused                # position of the first page that the disk refused; -1: none
    int64_t read_bytes

# OK or a code. Without a `storage` no commit is let pass.
cdef int disk_open(DiskReader* reader, const StorageRef& storage, const FileRef& file,
                   int64_t end) noexcept nogil

# Nothing is held any more.
cdef void disk_close(DiskReader* reader) noexcept nogil

# Has `need` bytes from `position` on at hand. OK; BATCH_TORN: the file ends before; or a code.
# A page that the disk refuses reads as zeros, and `refused` tells.
cdef int disk_have(DiskReader* reader, int64_t position, int64_t need) noexcept nogil

cdef inline const uint8_t* disk_at(const DiskReader* reader, int64_t position) noexcept nogil:
    return reader.data + (position - reader.begin)

# The next read comes from the disk, whatever is at hand.
cdef inline void disk_forget(DiskReader* reader) noexcept nogil:
    reader.begin = reader.size = 0
    reader.refused = -1
