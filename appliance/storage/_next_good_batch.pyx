"""Searches a file on the disk for the next good batch after damage.

Recovery, the scrub, readers of files that were set aside, and owners of internal topics use it. It
can stop between two calls, and the caller sets the rate. A damaged header with a large length costs
neither memory nor, beyond `size_max`, time.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t

from appliance._crc cimport crc32c
from appliance.native._bytes cimport load_i64
from appliance.native._codes cimport BATCH_CORRUPT, BATCH_TORN, OK
from appliance.native._descriptors cimport file_borrow
from appliance.record._batch cimport (
    ATTRIBUTE_CONTROL, BATCH_HEADER_SIZE, BatchHeader, batch_check_header, batch_load_header,
)
from appliance.storage._leader_epochs cimport epochs_fit
from appliance.storage._storage cimport StorageRef
from appliance.storage._uncached_reader cimport DiskReader, disk_at, disk_have, disk_open

from appliance.errors import from_code

cdef enum:
    MAGIC = 2
    MAGIC_AT = 16
    CRC_BEGIN = 21                 # of a batch: behind the checksum itself
    CRC_PIECE = 262144             # a batch of that size or less is read as a whole
    TURN_SIZE = 1 << 24            # of a file that was set aside, between two looks at signals
    SIZE_MAX = 1 << 27             # of a batch there: what its topic takes nobody knows


# ---- without the GIL ----

cdef void search_start(Search* search, int64_t at, int64_t end, int64_t low) noexcept nogil:
    search.at, search.end, search.low = at, end, low
    search.high = search.end_offset = search.size_max = INT64_MAX
    search.epoch_min = -1
    search.epochs = NULL
    search.index = NULL
    search.is_sure = False


cdef int search_next(DiskReader* disk, Search* search, int64_t most,
                     BatchHeader* header) noexcept nogil:
    cdef int64_t passed, done = 0
    cdef int code
    while search.at + BATCH_HEADER_SIZE <= search.end:
        if done >= most:
            return SEARCH_MORE
        code = disk_have(disk, search.at, BATCH_HEADER_SIZE)
        if code == BATCH_TORN:
            break
        if code != OK:
            return code
        passed = _pass_unlike(disk, search)
        done += passed + 1
        if search.at + BATCH_HEADER_SIZE > min(disk.begin + disk.size, search.end):
            continue
        code = _begins(disk, search, header)
        if code != 0:
            return code
        # What was summed for it counts, too.
        done += min(<int64_t>header.size, search.size_max)
        search.at += 1
    search.at = search.end
    return 0


cdef int64_t _pass_unlike(DiskReader* disk, Search* search) noexcept nogil:
    """Of the bytes at hand, those that can begin no batch that is wanted."""
    cdef const uint8_t* data = disk_at(disk, search.at)
    cdef int64_t i = 0
    cdef int64_t most = (min(disk.begin + disk.size, search.end) - search.at
                         - BATCH_HEADER_SIZE + 1)
    while i < most and not (data[i + MAGIC_AT] == MAGIC
                            and search.low <= load_i64(data + i) < search.high):
        i += 1
    search.at += i
    return i


cdef int _begins(DiskReader* disk, const Search* search, BatchHeader* header) noexcept nogil:
    """1: a good batch that is known for one; 0: not so; or a code."""
    cdef BatchHeader second
    cdef size_t i
    cdef int code = search_good(disk, search, search.at, search.low, search.high, header)
    if code != 1 or search.is_sure or search.at + header.size >= search.end:
        return code
    if search.index != NULL:
        for i in range(search.index.offsets.size()):
            if search.index.offsets[i].position == search.at:
                return 1
    code = search_good(
        disk, search, search.at + header.size, header.base_offset + header.last_offset_delta + 1,
        search.end_offset, &second)
    return 0 if code == 1 and second.leader_epoch < header.leader_epoch else code


cdef int search_good(DiskReader* disk, const Search* search, int64_t at, int64_t low, int64_t high,
                     BatchHeader* header) noexcept nogil:
    cdef int code
    header.size = 0
    if at + BATCH_HEADER_SIZE > search.end:
        return 0
    code = disk_have(disk, at, BATCH_HEADER_SIZE)
    if code != OK:
        return 0 if code == BATCH_TORN else code
    batch_load_header(disk_at(disk, at), header)
    if batch_check_header(header, min(search.end - at, search.size_max)) != OK:
        header.size = 0
        return 0
    if not low <= header.base_offset < high or header.leader_epoch < search.epoch_min:
        return 0
    if header.base_offset + header.last_offset_delta >= search.end_offset:
        return 0
    if search.epochs != NULL and not epochs_fit(search.epochs, header):
        return 0
    code = search_crc(disk, at, header)
    if code == BATCH_CORRUPT or code == BATCH_TORN:
        return 0
    return 1 if code == OK else code


cdef int search_crc(DiskReader* disk, int64_t at, const BatchHeader* header) noexcept nogil:
    """In pieces: one flipped bit may claim as much as a segment holds."""
    cdef int64_t position = at + CRC_BEGIN, end = at + header.size, size
    cdef uint32_t crc = 0
    cdef int code
    while position < end:
        size = min(end - position, <int64_t>CRC_PIECE)
        code = disk_have(disk, position, size)
        if code != OK:
            return code
        crc = crc32c(crc, disk_at(disk, position), size)
        position += size
    return OK if crc == header.crc else BATCH_CORRUPT


# ---- with the GIL ----

cdef class WholeBatches:
    """Good batches of a file that is no log's, or of a log's that leads nowhere, in its order:
    (position, size, base offset, last offset, count of records, whether it is a control batch).

    `fd` stays the caller's. `low` and `end_offset` bound the offsets; `is_sure`: whatever looks
    like a batch of theirs and has a good checksum is one."""

    cdef DiskReader disk
    cdef Search search
    cdef bint is_next              # the batch before it said where it is

    def __cinit__(self, int fd, int64_t size, *, int64_t position=0, int64_t low=0,
                  int64_t end_offset=INT64_MAX, bint is_sure=False):
        cdef StorageRef none
        cdef int code
        with nogil:
            code = disk_open(&self.disk, none, file_borrow(fd), size)
        if code != OK:
            raise from_code(code, "a file that was set aside cannot be read")
        search_start(&self.search, position, size, low)
        self.search.high = self.search.end_offset = end_offset
        self.search.size_max = SIZE_MAX
        self.search.is_sure = is_sure
        self.is_next = True

    def __iter__(self):
        return self

    def __next__(self):
        cdef BatchHeader header
        cdef Search* search = &self.search
        cdef int code = 0
        with nogil:
            if self.is_next:
                code = search_good(&self.disk, search, search.at, search.low, search.high, &header)
        while code == 0 or code == SEARCH_MORE:
            with nogil:
                code = search_next(&self.disk, search, TURN_SIZE, &header)
            if code == 0:
                raise StopIteration
        if code < 0:
            raise from_code(code, f"a file that was set aside cannot be read at {search.at}")
        position = search.at
        search.at += header.size
        self.is_next = True
        if search.is_sure:
            search.low = header.base_offset + header.last_offset_delta + 1
        return (position, header.size, header.base_offset,
                header.base_offset + header.last_offset_delta, header.records_count,
                bool(header.attributes & ATTRIBUTE_CONTROL))
