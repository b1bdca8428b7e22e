"""Notes of durable offsets, in the file `watermarks` of the data directory.

The journal moves a recovery point only sometimes. Records acknowledged since are after that point,
where damage looks like the torn end that a power cut leaves. So each commit, after its syncs and
before any response, also writes the durable offset here: one small write into the page cache, no
sync.

    the broker was killed     the page cache is still there: every note is, so recovery knows
    the power was cut         the notes are as old as their last sync, SYNC_NS at most; a syncfs
                              of a later commit carries them too

    header, at 0 and 4096 in turn, the higher sequence counts
        magic 8 | sequence i64 | life i64 | journal generation i64 | its records i64 | boot id 36
        | crc u32
    slots from 8192 on, 512 bytes each
        crc u32 | name size u16 | name               crc over life, size and name
        at 320 and 352 in turn:  offset i64 | sequence i64 | crc u32       over life, name, both

1. A note is written only after the syncs that it speaks of, so it is true wherever it is found.
2. What it says may become untrue only by a truncation or a deletion. Both take it back, durably,
   before the journal says a word.
3. A new life counts its notes anew: the journal's new generation has all that the old ones said.
4. A note that cannot be written ends the file: better none than one that is too low.
5. A failed sync is told once. Who syncs after another's failure is told of success, with nothing
   written. So syncs go one by one, and the file has ended before the next could begin.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance._crc cimport crc32c
from appliance.native._bytes cimport (
    load_i16, load_i64, load_u32, store_i16, store_i64, store_u32,
)
from appliance.native._codes cimport OK
from appliance.native._files cimport (
    file_size, open_file, read_whole, storage_code, sync_directory, sync_file, write_whole,
)
from appliance.native._native cimport (
    ENOENT, O_CREAT, O_RDONLY, O_RDWR, ScopeLock, close, errno, unlinkat,
)

cdef enum:
    HEADER_STEP = 4096
    HEADER_SIZE = 80
    SLOTS_AT = 8192
    SLOT_SIZE = 512
    NAME_MAX = 255                 # of a file name
    NOTES_AT = 320
    NOTE_STEP = 32
    NOTE_SIZE = 20
    GROW_SLOTS = 128               # at a time: 64 KiB, so that a full disk is met seldom

cdef const char* MAGIC = b"wtrmarks"
cdef const char* FILE_NAME = b"watermarks"
cdef const char* BOOT_ID = b"/proc/sys/kernel/random/boot_id"


# ---- without the GIL ----

# Reading

cdef int watermarks_open(Watermarks* marks, int directory_fd) noexcept nogil:
    cdef vector[uint8_t] data
    cdef int64_t got
    cdef int fd
    marks.directory_fd = directory_fd
    marks.was_found = marks.is_same_boot = marks.is_doomed = False
    _load_boot(marks)
    fd = open_file(directory_fd, FILE_NAME, O_RDWR)
    if fd < 0:
        return OK  # absent, or nothing that can be believed
    marks.fd = fd
    marks.file_size = max(file_size(fd), <int64_t>0)
    data.resize(marks.file_size)
    got = read_whole(fd, data.data(), data.size(), 0)
    if got < 0:
        return OK  # unreadable: nothing is known, which is what the start will say
    data.resize(got)
    _read_header(marks, &data, 0)
    _read_header(marks, &data, HEADER_STEP)
    if marks.was_found:
        _read_slots(marks, &data)
    return OK


cdef void _load_boot(Watermarks* marks) noexcept nogil:
    cdef int fd = open_file(-100, BOOT_ID, O_RDONLY)
    memset(marks.boot, 0, BOOT_SIZE)
    if fd >= 0:
        read_whole(fd, <uint8_t*>marks.boot, BOOT_SIZE, 0)
        close(fd)


cdef void _read_header(Watermarks* marks, const vector[uint8_t]* data, int64_t at) noexcept nogil:
    cdef const uint8_t* header = data.data() + at
    if <int64_t>data.size() < at + HEADER_SIZE or memcmp(header, MAGIC, 8) != 0:
        return
    if load_u32(header + 76) != crc32c(0, header, 76):
        return
    if marks.was_found and load_i64(header + 8) <= marks.header_sequence:
        return
    marks.was_found = True
    marks.header_sequence = load_i64(header + 8)
    marks.found_life = load_i64(header + 16)
    marks.found_generation = load_i64(header + 24)
    marks.found_records = load_i64(header + 32)
    marks.is_same_boot = marks.boot[0] != 0 and memcmp(header + 40, marks.boot, BOOT_SIZE) == 0


cdef void _read_slots(Watermarks* marks, const vector[uint8_t]* data) noexcept nogil:
    cdef const uint8_t* slot
    cdef int64_t at = SLOTS_AT, size
    cdef uint32_t seed
    while at + SLOT_SIZE <= <int64_t>data.size():
        slot = data.data() + at
        at += SLOT_SIZE
        size = load_i16(slot + 4)
        if not 0 < size <= NAME_MAX:
            continue
        seed = _seed(marks.found_life, slot + 4, size + 2)
        if load_u32(slot) == seed:
            _read_notes(marks, string(<const char*>slot + 6, size), slot, seed)


cdef void _read_notes(Watermarks* marks, const string& name, const uint8_t* slot,
                      uint32_t seed) noexcept nogil:
    cdef const uint8_t* note
    cdef int64_t sequence = -1
    cdef int i
    for i in range(2):
        note = slot + NOTES_AT + i * NOTE_STEP
        if load_u32(note + 16) == crc32c(seed, note, 16) and load_i64(note + 8) > sequence:
            sequence = load_i64(note + 8)
            marks.found[name] = load_i64(note)


cdef uint32_t _seed(int64_t life, const uint8_t* name, int64_t size) noexcept nogil:
    cdef uint8_t[8] raw
    store_i64(raw, life)
    return crc32c(crc32c(0, raw, 8), name, size)


cdef int64_t watermarks_find(Watermarks* marks, const string& name) noexcept nogil:
    cdef int64_t offset = -1
    marks.guard.lock()
    if marks.found.count(name) > 0:
        offset = marks.found[name]
    if marks.marks.count(name) > 0:  # a log that is opened again
        offset = max(offset, marks.marks[name].offset)
    marks.guard.unlock()
    return offset


# Writing

cdef int watermarks_start(Watermarks* marks, int64_t life, int64_t records) noexcept nogil:
    cdef int code = OK
    cdef bint is_new = marks.fd <= 0
    marks.guard.lock()
    marks.life = life
    marks.slots = 0
    marks.marks.clear()
    if is_new:
        marks.fd = open_file(marks.directory_fd, FILE_NAME, O_RDWR | O_CREAT)
        code = min(marks.fd, <int>OK)
        marks.file_size = max(file_size(marks.fd), <int64_t>0) if code == OK else 0
    if code == OK:
        code = _grow(marks, SLOTS_AT + GROW_SLOTS * SLOT_SIZE)
    if code == OK:
        code = _write_header(marks, life, records)
    if code == OK:
        code = sync_file(marks.fd)
    if code == OK:
        code = _carry(marks)
    if code == OK and is_new:
        code = sync_directory(marks.directory_fd)
    marks.is_on.store(code == OK)
    marks.is_doomed = False
    if code != OK:
        _give_up(marks)
        # Whoever tries again needs a file with a name, and no failed sync behind it.
        if marks.fd > 0:
            close(marks.fd)
        marks.fd = 0
    marks.guard.unlock()
    return code


cdef int _carry(Watermarks* marks) noexcept nogil:
    """What was promised of logs that are not open: missing, or failed. It must not be forgotten."""
    cdef int code = OK
    if marks.found.empty():
        return OK
    for entry in marks.found:
        if code == OK:
            code = _take_slot(marks, entry.first)
        if code == OK:
            code = _write_note(marks, &marks.marks[entry.first], entry.second)
    return code if code != OK else sync_file(marks.fd)


cdef int _grow(Watermarks* marks, int64_t size) noexcept nogil:
    cdef vector[uint8_t] zeros
    cdef int code
    if marks.file_size >= size:
        return OK
    zeros.resize(size - marks.file_size)
    code = write_whole(marks.fd, zeros.data(), zeros.size(), marks.file_size)
    if code == OK:
        marks.file_size = size
    return code


cdef int _write_header(Watermarks* marks, int64_t generation, int64_t records) noexcept nogil:
    cdef uint8_t[HEADER_SIZE] header
    marks.header_sequence += 1
    memcpy(header, MAGIC, 8)
    store_i64(header + 8, marks.header_sequence)
    store_i64(header + 16, marks.life)
    store_i64(header + 24, generation)
    store_i64(header + 32, records)
    memcpy(header + 40, marks.boot, BOOT_SIZE)
    store_u32(header + 76, crc32c(0, header, 76))
    return write_whole(marks.fd, header, HEADER_SIZE, (marks.header_sequence & 1) * HEADER_STEP)


cdef void watermarks_note(Watermarks* marks, const string& name, int64_t offset) noexcept nogil:
    cdef Watermark* mark
    cdef int code = OK
    if not marks.is_on.load():
        return
    marks.guard.lock()
    if marks.marks.count(name) == 0:
        code = _take_slot(marks, name)
    if code == OK:
        mark = &marks.marks[name]
        if offset > mark.offset:
            code = _write_note(marks, mark, offset)
    if code != OK:
        _give_up(marks)
    marks.guard.unlock()


cdef int _take_slot(Watermarks* marks, const string& name) noexcept nogil:
    cdef vector[uint8_t] head
    cdef Watermark mark
    cdef int code
    if not marks.free_slots.empty():
        mark.slot = marks.free_slots.back()
        marks.free_slots.pop_back()
    else:
        mark.slot = marks.slots
        marks.slots += 1
    mark.sequence = 0
    mark.offset = -1
    head.resize(NOTES_AT)
    store_i16(head.data() + 4, <int>name.size())
    memcpy(head.data() + 6, name.data(), name.size())
    mark.seed = _seed(marks.life, head.data() + 4, name.size() + 2)
    store_u32(head.data(), mark.seed)
    marks.marks[name] = mark
    code = OK
    if SLOTS_AT + (mark.slot + 1) * SLOT_SIZE > marks.file_size:
        code = _grow(marks, marks.file_size + GROW_SLOTS * SLOT_SIZE)
    if code == OK:
        code = write_whole(marks.fd, head.data(), head.size(), SLOTS_AT + mark.slot * SLOT_SIZE)
    return code


cdef int _write_note(Watermarks* marks, Watermark* mark, int64_t offset) noexcept nogil:
    cdef uint8_t[NOTE_SIZE] note
    mark.offset = offset
    mark.sequence += 1
    store_i64(note, offset)
    store_i64(note + 8, mark.sequence)
    store_u32(note + 16, crc32c(mark.seed, note, 16))
    marks.is_dirty.store(True)
    return write_whole(marks.fd, note, NOTE_SIZE, SLOTS_AT + mark.slot * SLOT_SIZE + NOTES_AT
                       + (mark.sequence & 1) * NOTE_STEP)


cdef void watermarks_note_journal(Watermarks* marks, int64_t generation,
                                  int64_t records) noexcept nogil:
    if not marks.is_on.load():
        return
    marks.guard.lock()
    marks.is_dirty.store(True)
    if _write_header(marks, generation, records) != OK:
        _give_up(marks)
    marks.guard.unlock()


cdef int watermarks_take_back(Watermarks* marks, const vector[string]* names,
                              int64_t offset) noexcept nogil:
    cdef ScopeLock syncs
    cdef bint is_changed = False
    cdef int code
    syncs.hold(marks.sync_guard)
    marks.guard.lock()
    code = _lower(marks, names, offset, &is_changed)
    marks.guard.unlock()
    if code == OK and is_changed:
        code = sync_file(marks.fd)
    if code != OK:
        # What is written there may be believed by the next start: away with it.
        marks.guard.lock()
        code = _give_up(marks)
        marks.guard.unlock()
    return code


cdef int _lower(Watermarks* marks, const vector[string]* names, int64_t offset,
                bint* is_changed) noexcept nogil:
    cdef uint8_t[SLOT_SIZE] nothing
    cdef Watermark* mark
    cdef size_t i
    cdef int code = _give_up(marks) if marks.is_doomed else OK
    memset(nothing, 0, SLOT_SIZE)
    for i in range(names.size()):
        if offset < 0:
            marks.found.erase(names.at(i))
        if code != OK or not marks.is_on.load() or marks.marks.count(names.at(i)) == 0:
            continue
        mark = &marks.marks[names.at(i)]
        is_changed[0] = True
        if offset >= 0:
            code = _write_note(marks, mark, min(offset, mark.offset))
            continue
        # All of it: the same name may come back, and its notes would look like these.
        code = write_whole(marks.fd, nothing, SLOT_SIZE, SLOTS_AT + mark.slot * SLOT_SIZE)
        marks.free_slots.push_back(mark.slot)
        marks.marks.erase(names.at(i))
    return code


cdef int watermarks_sync(Watermarks* marks) noexcept nogil:
    cdef ScopeLock syncs
    cdef int code = OK
    syncs.hold(marks.sync_guard)
    if marks.is_on.load() and marks.is_dirty.exchange(False):
        code = sync_file(marks.fd)
        if code != OK:
            marks.guard.lock()
            _give_up(marks)
            marks.guard.unlock()
    return code


cdef int _give_up(Watermarks* marks) noexcept nogil:
    """No file is better than a wrong one; the next start says that nothing was noted."""
    cdef int code
    marks.is_on.store(False)
    marks.is_doomed = True
    if unlinkat(marks.directory_fd, FILE_NAME, 0) < 0 and errno != ENOENT:
        return storage_code(errno)
    code = sync_directory(marks.directory_fd)
    marks.is_doomed = code != OK
    return code


cdef void watermarks_close(Watermarks* marks) noexcept nogil:
    marks.is_on.store(False)
    if marks.fd > 0:
        close(marks.fd)
    marks.fd = 0
