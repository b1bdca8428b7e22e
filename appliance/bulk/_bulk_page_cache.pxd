"""A segment's file for one that reads all of it, past the page cache and behind all commits."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._descriptors cimport FileRef
from appliance.storage._segment cimport Segment
from appliance.storage._storage cimport Storage

cdef cppclass BulkFile:
    FileRef theirs                 # the engine's, of the segment at hand
    FileRef file                   # ours, of the same file
    bint is_quiet                  # nobody commits; the kernel reads ahead for our file
    vector[uint8_t] cached         # by page of it: whether it was in the cache before
    int64_t first_page             # of it, in which the first frame began
    int64_t page                   # of it, in which the last frame ended
    int64_t passed_bytes           # of all files, read from disk and dropped from the cache again
    int64_t waited_ns              # for commits that were at the disk

# Goes on with this file, opened anew: what the kernel reads ahead is the reader's to say.
cdef void bulk_open(BulkFile* bulk, const FileRef& file) noexcept nogil
# A count or a code, as `read_whole`.
cdef int64_t bulk_read(BulkFile* bulk, Storage* storage, uint8_t* data, int64_t size,
                       int64_t position) noexcept nogil
# Drops what was read. The page that a frame ends in goes with the next frame, which begins there.
cdef void bulk_drop_behind(BulkFile* bulk, int64_t position, int64_t size) noexcept nogil
cdef void bulk_leave(BulkFile* bulk) noexcept nogil
# Has the pages read in which a batch with that offset is looked for. Who looks meets what is amiss.
cdef void bulk_bring_headers(Segment* segment, int64_t offset) noexcept nogil
