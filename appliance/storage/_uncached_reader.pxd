"""Reads a file from the disk, past the page cache, and leaves the cache unchanged."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._descriptors cimport FileRef
from appliance.storage._storage cimport StorageRef

cdef cppclass DiskReader:
    StorageRef storage
    FileRef file                   # ours, of the same file as the engine's
    bint is_direct                 # else the file system knows no direct reads
    int64_t end                    # the end of all reads
    int64_t begin                  # of the loaded bytes
    int64_t size
    vector[uint8_t] space
    uint8_t* data                  # in `space`, at a page's address
    int64_t refused                # position of the first page that the disk refused; -1: none
    int64_t read_bytes

# OK or a code. Without a `storage` the reader does not wait for commits.
cdef int disk_open(DiskReader* reader, const StorageRef& storage, const FileRef& file,
                   int64_t end) noexcept nogil

# Releases the file and the memory.
cdef void disk_close(DiskReader* reader) noexcept nogil

# Loads `need` bytes from `position` on. OK; BATCH_TORN: the file ends before; or a code. A page
# that the disk refuses reads as zeros, and `refused` has its position.
cdef int disk_have(DiskReader* reader, int64_t position, int64_t need) noexcept nogil

cdef inline const uint8_t* disk_at(const DiskReader* reader, int64_t position) noexcept nogil:
    return reader.data + (position - reader.begin)

# Drops the loaded bytes, so that the next read is from the disk.
cdef inline void disk_forget(DiskReader* reader) noexcept nogil:
    reader.begin = reader.size = 0
    reader.refused = -1
