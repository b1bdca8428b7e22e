"""Offset, time and transaction index. Byte pictures:

offset index entry, 8 bytes      | relative offset i32 | position i32 |
time index entry, 12 bytes       | timestamp i64 | relative offset i32 |
aborted transaction, 34 bytes    | version i16 = 0 | producer id i64 | first offset i64
                                 | last offset i64 | last stable offset i64 |

Entries are big-endian and strictly increasing in every column but the time index's offset.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._bytes cimport load_i16, load_i32, load_i64, store_i16, store_i32, store_i64
from appliance.native._codes cimport OK
from appliance.native._files cimport (
    NAME_SIZE, file_name, load_file, open_file, storage_code, sync_directory,
    sync_file, write_whole,
)
from appliance.native._native cimport (
    ENOENT, O_CREAT, O_RDWR, O_TRUNC, close, errno, ftruncate, mutant, renameat, unlinkat,
)


# ---- without the GIL ----

cdef void index_add_offset(Index* index, int64_t relative_offset, int64_t position) noexcept nogil:
    cdef OffsetEntry entry
    if not index.offsets.empty():
        if relative_offset <= index.offsets.back().relative_offset:
            return
        if position <= index.offsets.back().position:
            return
    entry.relative_offset = <int32_t>relative_offset
    entry.position = <int32_t>position
    index.offsets.push_back(entry)


cdef void index_add_time(Index* index, int64_t timestamp, int64_t relative_offset) noexcept nogil:
    cdef TimeEntry entry
    if not index.times.empty():
        if timestamp <= index.times.back().timestamp:
            return
        if relative_offset < index.times.back().relative_offset:
            return
    entry.timestamp = timestamp
    entry.relative_offset = <int32_t>relative_offset
    index.times.push_back(entry)


cdef int64_t index_position(const Index* index, int64_t relative_offset) noexcept nogil:
    cdef size_t low = 0, high = index.offsets.size(), middle
    while low < high:
        middle = (low + high) // 2
        if index.offsets[middle].relative_offset <= relative_offset:
            low = middle + 1
        else:
            high = middle
    return 0 if low == 0 else index.offsets[low - 1].position


cdef int64_t index_position_before(const Index* index, int64_t position) noexcept nogil:
    cdef size_t low = 0, high = index.offsets.size(), middle
    while low < high:
        middle = (low + high) // 2
        if index.offsets[middle].position < position:
            low = middle + 1
        else:
            high = middle
    return 0 if low == 0 else index.offsets[low - 1].position


cdef int64_t index_offset_before(const Index* index, int64_t timestamp) noexcept nogil:
    cdef size_t low = 0, high = index.times.size(), middle
    while low < high:
        middle = (low + high) // 2
        if index.times[middle].timestamp < timestamp:
            low = middle + 1
        else:
            high = middle
    return -1 if low == 0 else index.times[low - 1].relative_offset


cdef int index_load(Index* index, int directory_fd, int64_t base_offset,
                    int64_t size) noexcept nogil:
    cdef vector[uint8_t] data
    cdef char[NAME_SIZE] name
    cdef int64_t count
    index.offsets.clear()
    index.times.clear()
    file_name(name, base_offset, b".index")
    count = load_file(directory_fd, name, &data)
    if count < 0:
        return <int>count
    _keep_offsets(index, &data, size)
    file_name(name, base_offset, b".timeindex")
    count = load_file(directory_fd, name, &data)
    if count < 0:
        return <int>count
    _keep_times(index, &data)
    index.offsets_stored = index.offsets.size()
    index.times_stored = index.times.size()
    return OK


cdef void _keep_offsets(Index* index, const vector[uint8_t]* data, int64_t size) noexcept nogil:
    cdef size_t at = 0, kept
    cdef int64_t relative_offset, position
    while at + OFFSET_ENTRY_SIZE <= data.size():
        relative_offset = load_i32(data.data() + at)
        position = load_i32(data.data() + at + 4)
        kept = index.offsets.size()
        if relative_offset < 0 or position < 0 or position >= size:
            return
        index_add_offset(index, relative_offset, position)
        # A preallocated file of Kafka's ends in zeros, a torn one in anything: the rise ends there.
        if index.offsets.size() == kept:
            return
        at += OFFSET_ENTRY_SIZE


cdef void _keep_times(Index* index, const vector[uint8_t]* data) noexcept nogil:
    cdef size_t at = 0, kept
    cdef int64_t timestamp, relative_offset
    while at + TIME_ENTRY_SIZE <= data.size():
        timestamp = load_i64(data.data() + at)
        relative_offset = load_i32(data.data() + at + 8)
        kept = index.times.size()
        if timestamp < 0 or relative_offset < 0 or (timestamp == 0 and relative_offset == 0):
            return
        index_add_time(index, timestamp, relative_offset)
        if index.times.size() == kept:
            return
        at += TIME_ENTRY_SIZE


cdef int index_store(Index* index, int directory_fd, int64_t base_offset,
                     bint durable) noexcept nogil:
    cdef vector[uint8_t] data
    cdef size_t i
    cdef int code
    data.resize((index.offsets.size() - index.offsets_stored) * OFFSET_ENTRY_SIZE)
    for i in range(index.offsets_stored, index.offsets.size()):
        _write_offset_entry(data.data(), i - index.offsets_stored, &index.offsets[i])
    code = _store_tail(directory_fd, base_offset, b".index", &data,
                       index.offsets_stored * OFFSET_ENTRY_SIZE, durable)
    if code != OK:
        index.offsets_stored = 0 if durable else index.offsets_stored
        return code
    index.offsets_stored = index.offsets.size()
    data.resize((index.times.size() - index.times_stored) * TIME_ENTRY_SIZE)
    for i in range(index.times_stored, index.times.size()):
        _write_time_entry(data.data(), i - index.times_stored, &index.times[i])
    code = _store_tail(directory_fd, base_offset, b".timeindex", &data,
                       index.times_stored * TIME_ENTRY_SIZE, durable)
    if code == OK:
        index.times_stored = index.times.size()
    elif durable:
        # A failed sync may have dropped any page of the file: the next store writes all of it anew.
        index.offsets_stored = index.times_stored = 0
    return code


cdef void _write_offset_entry(uint8_t* data, size_t i, const OffsetEntry* entry) noexcept nogil:
    store_i32(data + i * OFFSET_ENTRY_SIZE, entry.relative_offset)
    store_i32(data + i * OFFSET_ENTRY_SIZE + 4, entry.position)


cdef void _write_time_entry(uint8_t* data, size_t i, const TimeEntry* entry) noexcept nogil:
    store_i64(data + i * TIME_ENTRY_SIZE, entry.timestamp)
    store_i32(data + i * TIME_ENTRY_SIZE + 8, entry.relative_offset)


cdef int _store_tail(int directory_fd, int64_t base_offset, const char* suffix,
                     const vector[uint8_t]* data, int64_t position, bint durable) noexcept nogil:
    cdef char[NAME_SIZE] name
    cdef int fd, code
    file_name(name, base_offset, suffix)
    fd = open_file(directory_fd, name, O_RDWR | O_CREAT)
    if fd < 0:
        return fd
    # A file longer than what was kept of it ends in bytes that were not believed: they go first.
    code = OK if ftruncate(fd, position) == 0 else storage_code(errno)
    if code == OK:
        code = write_whole(fd, data.data(), data.size(), position)
    if code == OK and durable:
        code = sync_file(fd)
    close(fd)
    return code


cdef void index_truncate(Index* index, int64_t position) noexcept nogil:
    cdef int64_t last_relative = -1
    while not index.offsets.empty() and index.offsets.back().position >= position:
        index.offsets.pop_back()
    if not index.offsets.empty():
        last_relative = index.offsets.back().relative_offset
    # A time entry is trusted only up to the last offset entry that is still here.
    while not index.times.empty() and index.times.back().relative_offset > last_relative:
        index.times.pop_back()
    # The files may hold more than that: the next store cuts them there.
    index.offsets_stored = min(index.offsets_stored, index.offsets.size())
    index.times_stored = min(index.times_stored, index.times.size())


cdef int txn_index_store(int directory_fd, int64_t base_offset, const AbortedTxn* aborted,
                         size_t count) noexcept nogil:
    cdef vector[uint8_t] data
    cdef char[NAME_SIZE] name
    cdef char[NAME_SIZE] fresh
    cdef uint8_t* entry
    cdef size_t i
    cdef int fd, code
    data.resize(count * TXN_ENTRY_SIZE)
    for i in range(count):
        entry = data.data() + i * TXN_ENTRY_SIZE
        store_i16(entry, 0)
        store_i64(entry + 2, aborted[i].producer_id)
        store_i64(entry + 10, aborted[i].first_offset)
        store_i64(entry + 18, aborted[i].last_offset)
        store_i64(entry + 26, aborted[i].last_stable_offset)
    file_name(name, base_offset, b".txnindex")
    file_name(fresh, base_offset, b".txnindex.cleaned")
    if count == 0:
        # Stale entries would hide records that were written later at the same offsets.
        if unlinkat(directory_fd, name, 0) < 0 and errno != ENOENT:
            return storage_code(errno)
        return sync_directory(directory_fd)
    # A file half rewritten would lose entries, and so show aborted records: the name moves instead.
    fd = open_file(directory_fd, fresh, O_RDWR | O_CREAT | O_TRUNC)
    if fd < 0:
        return fd
    code = write_whole(fd, data.data(), data.size(), 0)
    if code == OK and not mutant(b"txn_index_not_synced"):
        code = sync_file(fd)
    close(fd)
    if code == OK and renameat(directory_fd, fresh, directory_fd, name) < 0:
        code = storage_code(errno)
    if code != OK:
        unlinkat(directory_fd, fresh, 0)
    if code == OK and not mutant(b"txn_index_not_synced"):
        code = sync_directory(directory_fd)
    return code


cdef int txn_index_load(int directory_fd, int64_t base_offset, int64_t end_offset,
                        vector[AbortedTxn]* into) noexcept nogil:
    cdef vector[uint8_t] data
    cdef char[NAME_SIZE] name
    cdef AbortedTxn aborted
    cdef size_t at = 0
    cdef int64_t count, last = -1
    file_name(name, base_offset, b".txnindex")
    count = load_file(directory_fd, name, &data)
    if count < 0:
        return <int>count
    while at + TXN_ENTRY_SIZE <= data.size():
        aborted.producer_id = load_i64(data.data() + at + 2)
        aborted.first_offset = load_i64(data.data() + at + 10)
        aborted.last_offset = load_i64(data.data() + at + 18)
        aborted.last_stable_offset = load_i64(data.data() + at + 26)
        if load_i16(data.data() + at) != 0 or not _is_sound(&aborted, max(last, base_offset - 1)):
            return 1
        if aborted.last_offset >= end_offset:
            return OK
        at += TXN_ENTRY_SIZE
        last = aborted.last_offset
        # After a compaction an entry may stand in two files for a while.
        if into.empty() or aborted.last_offset > into.back().last_offset:
            into.push_back(aborted)
    return OK if at > 0 and at == data.size() else 1


cdef bint _is_sound(const AbortedTxn* aborted, int64_t above) noexcept nogil:
    return (0 <= aborted.first_offset < aborted.last_offset and aborted.last_offset > above
            and 0 <= aborted.last_stable_offset <= aborted.last_offset + 1)
