"""The checkpoint journal: files `checkpoint.0` and `checkpoint.1` in the data directory.

    record   | size u32 | crc u32 | generation i64 | sequence i64 | kind u8 | payload | zeros to 8 |
             size counts kind and payload; the CRC-32C covers generation to the end of the payload
    BEGIN    sequence 0: the head of a generation; the format of the data, major and minor u16,
             which older versions did not write (data_dir/data_format.py refuses a newer one)
    PARTITION  name size u16, name, Checkpoint: 13 x i64, leader epoch i32, and the counts i32 of
               epochs {epoch i32, start i64}, holes, bases i64; then those, then the producer
               state to the end. A hole is {first i64, end i64, position i64, end position i64,
               skipped i64} where bit 30 of their count is set, and {first i64, end i64} where not
    REMOVED    name size u16, name
    COMPLETE   the live records at the start of this generation are all there
    CLOSED     wall clock i64: a clean stop; any record after it takes that back

1. A generation counts only once its COMPLETE record can be read; until then the other file's does.
2. A file is rewritten only when the other one holds a complete generation on disk.
3. Records are appended in place into blocks written beforehand, so neither a full disk nor a
   size change of the file can stop or tear the sync; what a tear leaves fails the CRC.
4. Old records behind the end carry an older generation, or break the sequence: never believed.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy
from libcpp.string cimport string
from libcpp.vector cimport vector

from cython.operator cimport dereference

from appliance._crc cimport crc32c
from appliance.native._bytes cimport (
    load_i16, load_i32, load_i64, load_u32, store_i16, store_i32, store_i64, store_u32,
)
from appliance.native._codes cimport OK, STORAGE_FULL, STORAGE_FULL_LATE
from appliance.native._files cimport (
    drop_cache, file_size, open_file, read_whole, sync_directory, sync_file, write_whole,
)
from appliance.native._native cimport O_CREAT, O_RDWR, ScopeLock, close, mutant, wall_ms

cdef enum:
    RECORD_HEAD = 25
    NAME_SIZE_USUAL = 64
    FIXED_SIZE = 120               # a Checkpoint without name, epochs and producers
    HOLE_SIZE = 40
    HOLE_SIZE_OLD = 16             # of versions that knew no more of it
    HOLES_ARE_LONG = 1 << 30       # in the count of holes
    FILE_SIZE_MIN = 1048576
    ZEROS_SIZE = 65536

    FORMAT_MAJOR = 1               # those of data_dir/data_format.py
    FORMAT_MINOR = 1

    BEGIN = 1
    PARTITION = 2
    REMOVED = 3
    COMPLETE = 4
    CLOSED = 5


# ---- without the GIL ----

cdef void _frame(Journal* journal, vector[uint8_t]* into, int kind,
                 const uint8_t* payload, int64_t size) noexcept nogil:
    cdef size_t at = into.size()
    cdef uint8_t* record
    into.resize(at + (RECORD_HEAD + size + 7) // 8 * 8)
    record = into.data() + at
    store_i32(record, <int32_t>(size + 1))
    store_i64(record + 8, journal.generation)
    store_i64(record + 16, journal.sequence)
    record[24] = <uint8_t>kind
    if size > 0:
        memcpy(record + RECORD_HEAD, payload, size)
    store_u32(record + 4, crc32c(0, record + 8, RECORD_HEAD - 8 + size))
    journal.sequence += 1


cdef int64_t _next_record(const vector[uint8_t]* data, int64_t at, int64_t generation,
                          int64_t sequence) noexcept nogil:
    """Size of the record at `at` without padding, or -1 when it is not the one that must follow."""
    cdef const uint8_t* record = data.data() + at
    cdef int64_t left = <int64_t>data.size() - at, size
    if left < RECORD_HEAD:
        return -1
    size = <int64_t>load_u32(record) + RECORD_HEAD - 1
    if size < RECORD_HEAD or size > left or load_i64(record + 16) != sequence:
        return -1
    if generation >= 0 and load_i64(record + 8) != generation:
        return -1
    if load_u32(record + 4) != crc32c(0, record + 8,
                                      size - 8) and not mutant(b"journal_without_crc"):
        return -1
    return size


cdef struct Reading:
    int64_t generation             # -1: none
    int64_t end
    int64_t sequence
    bint complete
    bint clean


cdef void _read(Journal* journal, const vector[uint8_t]* data, Reading* reading) noexcept nogil:
    cdef int64_t at = 0, size
    cdef const uint8_t* record
    reading.generation = -1
    reading.sequence = 0
    reading.complete = reading.clean = False
    journal.live.clear()
    while True:
        size = _next_record(data, at, reading.generation, reading.sequence)
        if size < 0 or (at == 0 and data.at(24) != BEGIN):
            break
        record = data.data() + at
        reading.generation = load_i64(record + 8)
        reading.sequence += 1
        reading.clean = record[24] == CLOSED
        if record[24] == COMPLETE:
            reading.complete = True
        elif record[24] == PARTITION or record[24] == REMOVED:
            _apply(journal, record[24], record + RECORD_HEAD, size - RECORD_HEAD)
        at += (size + 7) // 8 * 8
    reading.end = at


cdef void _apply(Journal* journal, int kind, const uint8_t* payload, int64_t size) noexcept nogil:
    cdef int64_t name_size = load_i16(payload) if size >= 2 else -1
    cdef string name
    if not 0 <= name_size <= size - 2:
        return
    name = string(<const char*>payload + 2, name_size)
    if kind == REMOVED:
        journal.live.erase(name)
    else:
        journal.live[name].assign(payload, payload + size)


cdef int journal_open(Journal* journal, int directory_fd) noexcept nogil:
    cdef Reading first, second
    cdef int code
    journal.directory_fd = directory_fd
    code = _read_file(journal, 0, b"checkpoint.0", &first)
    if code == OK:
        code = _read_file(journal, 1, b"checkpoint.1", &second)
    if code != OK:
        return code
    journal.active = 1
    if not _is_newer(&second, &first):
        journal.active = 0
        code = _read_file(journal, 0, b"checkpoint.0", &second)
    if not second.complete:
        journal.live.clear()
    journal.position = second.end
    journal.generation = max(first.generation, second.generation, <int64_t>0)
    journal.was_found = second.complete
    journal.durable_generation = second.generation if second.complete else 0
    journal.durable_records = second.sequence if second.complete else 0
    journal.was_clean = second.complete and second.clean
    return code


cdef int _read_file(Journal* journal, int which, const char* name, Reading* reading) noexcept nogil:
    cdef vector[uint8_t] data
    cdef int64_t got
    if journal.fds[which] == 0:
        _read_anew(journal, name)
        journal.fds[which] = open_file(journal.directory_fd, name, O_RDWR | O_CREAT)
    if journal.fds[which] < 0:
        return journal.fds[which]
    journal.sizes[which] = file_size(journal.fds[which])
    data.resize(journal.sizes[which])
    got = read_whole(journal.fds[which], data.data(), journal.sizes[which], 0)
    if got < 0:
        return <int>got
    _read(journal, &data, reading)
    return OK


cdef void _read_anew(Journal* journal, const char* name) noexcept nogil:
    """A generation that only the page cache holds would be believed, and then the other file, which
    holds the last true one, rewritten. A sync that fails here speaks of what is dropped now; its
    descriptor is used for nothing else."""
    cdef int fd = open_file(journal.directory_fd, name, O_RDWR)
    if fd >= 0:
        drop_cache(fd)
        close(fd)


cdef bint _is_newer(const Reading* one, const Reading* other) noexcept nogil:
    if one.complete != other.complete:
        return one.complete
    return one.generation > other.generation


cdef int journal_start(Journal* journal) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(journal.guard)
    cdef int code = _rotate(journal)
    # Only now may the names of both files be needed after a power cut.
    return sync_directory(journal.directory_fd) if code == OK else code


cdef int _rotate(Journal* journal) noexcept nogil:
    """Writes the live records as a new generation into the other file, and goes on there."""
    cdef int other = 1 - journal.active, code
    cdef int64_t size
    cdef uint8_t[4] version
    cdef vector[uint8_t] image
    journal.generation += 1
    journal.sequence = 0
    store_i16(version, FORMAT_MAJOR)
    store_i16(version + 2, FORMAT_MINOR)
    _frame(journal, &image, BEGIN, version, 4)
    for entry in journal.live:
        _frame(journal, &image, PARTITION, entry.second.data(), entry.second.size())
    _frame(journal, &image, COMPLETE, NULL, 0)
    size = max(<int64_t>FILE_SIZE_MIN, <int64_t>image.size() * 4)
    code = _preallocate(journal, other, size)
    if code == OK:
        code = write_whole(journal.fds[other], image.data(), image.size(), 0)
    if code == OK and not mutant(b"journal_rotate_without_sync"):
        code = _sync(journal, other)
    if code != OK:
        return code
    journal.active = other
    journal.position = image.size()
    _reached(journal)
    return OK


cdef void _reached(Journal* journal) noexcept nogil:
    journal.pending.clear()
    journal.durable_generation = journal.generation
    journal.durable_records = journal.sequence


cdef void journal_reached(Journal* journal, int64_t* generation, int64_t* records) noexcept nogil:
    journal.guard.lock()
    generation[0] = journal.durable_generation
    records[0] = journal.durable_records
    journal.guard.unlock()


cdef int _preallocate(Journal* journal, int which, int64_t size) noexcept nogil:
    cdef vector[uint8_t] zeros
    cdef int code
    if journal.sizes[which] >= size:
        return OK
    zeros.resize(ZEROS_SIZE)
    while journal.sizes[which] < size:
        code = write_whole(journal.fds[which], zeros.data(), ZEROS_SIZE, journal.sizes[which])
        if code != OK:
            return code
        journal.sizes[which] += ZEROS_SIZE
    return OK


cdef int journal_commit(Journal* journal) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(journal.guard)
    return _commit(journal)


cdef int _commit(Journal* journal) noexcept nogil:
    cdef int code
    if journal.failed != OK:
        return journal.failed
    if journal.pending.empty():
        return OK
    if journal.position + <int64_t>journal.pending.size() > journal.sizes[journal.active]:
        # The live records include what is pending.
        return _rotate(journal)
    code = write_whole(journal.fds[journal.active], journal.pending.data(),
                       journal.pending.size(), journal.position)
    if code != OK:
        return code
    code = _sync(journal, journal.active)
    if code == STORAGE_FULL:
        return _rotate(journal)
    if code != OK:
        return code
    journal.position += journal.pending.size()
    _reached(journal)
    return OK


cdef int _sync(Journal* journal, int which) noexcept nogil:
    """Where it fails the file counts no more. What a full disk has failed has lost nothing that was
    there before: all that is live is written anew, into the other file, and here not before that
    one has it; the blocks, too."""
    cdef int code = sync_file(journal.fds[which])
    if code == STORAGE_FULL_LATE:
        journal.sizes[which] = 0
        return STORAGE_FULL
    if code != OK:
        journal.failed = code
    return code


cdef void journal_fail(Journal* journal, int code) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(journal.guard)
    if journal.failed == OK:
        journal.failed = code


cdef int journal_close(Journal* journal, bint cleanly) noexcept nogil:
    cdef uint8_t[8] now
    cdef int code = OK
    cdef int which
    journal.guard.lock()
    if cleanly and journal.failed == OK:
        code = _commit(journal)
        store_i64(now, wall_ms())
        _frame(journal, &journal.pending, CLOSED, now, 8)
        if code == OK:
            code = _commit_closed(journal)
    for which in range(2):
        if journal.fds[which] > 0:  # 0: it was not opened, and is somebody's standard input
            close(journal.fds[which])
    journal.guard.unlock()
    return code


cdef int _commit_closed(Journal* journal) noexcept nogil:
    cdef uint8_t[8] now
    cdef int code
    if journal.position + <int64_t>journal.pending.size() > journal.sizes[journal.active]:
        code = _rotate(journal)
        if code != OK:
            return code
        store_i64(now, wall_ms())
        _frame(journal, &journal.pending, CLOSED, now, 8)
    return _commit(journal)


cdef bint journal_find(Journal* journal, const string& name, Checkpoint* checkpoint) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(journal.guard)
    it = journal.live.find(name)
    return it != journal.live.end() and _decode(&dereference(it).second, checkpoint)


cdef bint journal_knows(Journal* journal, const string& name) noexcept nogil:
    cdef ScopeLock guard
    guard.hold(journal.guard)
    return journal.live.count(name) > 0


cdef void journal_put(Journal* journal, const string& name,
                      const Checkpoint* checkpoint) noexcept nogil:
    cdef vector[uint8_t] payload
    _encode(name, checkpoint, &payload)
    journal.guard.lock()
    journal.live[name] = payload
    _frame(journal, &journal.pending, PARTITION, payload.data(), payload.size())
    journal.guard.unlock()


cdef void journal_remove(Journal* journal, const string& name) noexcept nogil:
    cdef vector[uint8_t] payload
    payload.resize(2 + name.size())
    store_i16(payload.data(), <int>name.size())
    memcpy(payload.data() + 2, name.data(), name.size())
    journal.guard.lock()
    if journal.live.erase(name) > 0:
        _frame(journal, &journal.pending, REMOVED, payload.data(), payload.size())
    journal.guard.unlock()


cdef int64_t checkpoint_size(const Checkpoint* checkpoint) noexcept nogil:
    cdef int64_t variable = (12 * checkpoint.epochs.size()
                             + HOLE_SIZE * checkpoint.holes.size()
                             + 8 * checkpoint.bases.size() + checkpoint.producers.size())
    return RECORD_HEAD + NAME_SIZE_USUAL + FIXED_SIZE + variable


cdef void _encode(const string& name, const Checkpoint* c, vector[uint8_t]* into) noexcept nogil:
    cdef uint8_t* at
    cdef int64_t[13] fields
    cdef size_t i
    fields[0], fields[1], fields[2] = c.recovery_offset, c.segment_base, c.position
    fields[3], fields[4] = c.log_start_offset, c.end_limit
    fields[5], fields[6], fields[7] = c.swap_base, c.swap_end, c.cleaned_offset
    fields[8], fields[9] = c.created_ms, c.first_timestamp
    fields[10], fields[11] = c.largest_timestamp, c.largest_timestamp_offset
    fields[12] = c.gaps_end
    into.resize(2 + name.size() + FIXED_SIZE + 12 * c.epochs.size() + HOLE_SIZE * c.holes.size()
                + 8 * c.bases.size() + c.producers.size())
    at = into.data()
    store_i16(at, <int>name.size())
    memcpy(at + 2, name.data(), name.size())
    at += 2 + name.size()
    for i in range(13):
        store_i64(at + 8 * i, fields[i])
    store_i32(at + 104, c.leader_epoch)
    store_i32(at + 108, <int32_t>c.epochs.size())
    store_i32(at + 112, <int32_t>c.holes.size() | HOLES_ARE_LONG)
    store_i32(at + 116, <int32_t>c.bases.size())
    at += FIXED_SIZE
    for i in range(c.epochs.size()):
        store_i32(at, c.epochs[i].epoch)
        store_i64(at + 4, c.epochs[i].start_offset)
        at += 12
    for i in range(c.holes.size()):
        store_i64(at, c.holes[i].first_offset)
        store_i64(at + 8, c.holes[i].end_offset)
        store_i64(at + 16, c.holes[i].position)
        store_i64(at + 24, c.holes[i].end_position)
        store_i64(at + 32, c.holes[i].is_skipped)
        at += HOLE_SIZE
    for i in range(c.bases.size()):
        store_i64(at, c.bases[i])
        at += 8
    if not c.producers.empty():
        memcpy(at, c.producers.data(), c.producers.size())


cdef bint _decode(const vector[uint8_t]* payload, Checkpoint* c) noexcept nogil:
    cdef const uint8_t* at = payload.data() + 2 + load_i16(payload.data())
    cdef const uint8_t* end = payload.data() + payload.size()
    cdef EpochEntry entry
    cdef Hole hole
    cdef int32_t _i, epochs, holes, bases, hole_size
    if end - at < FIXED_SIZE:
        return False
    c.recovery_offset, c.segment_base = load_i64(at), load_i64(at + 8)
    c.position = load_i64(at + 16)
    c.log_start_offset, c.end_limit = load_i64(at + 24), load_i64(at + 32)
    c.swap_base, c.swap_end = load_i64(at + 40), load_i64(at + 48)
    c.cleaned_offset = load_i64(at + 56)
    c.created_ms, c.first_timestamp = load_i64(at + 64), load_i64(at + 72)
    c.largest_timestamp, c.largest_timestamp_offset = load_i64(at + 80), load_i64(at + 88)
    c.leader_epoch, epochs = load_i32(at + 104), load_i32(at + 108)
    holes, bases = load_i32(at + 112), load_i32(at + 116)
    c.gaps_end = load_i64(at + 96)
    at += FIXED_SIZE
    if min(epochs, holes, bases) < 0:
        return False
    hole_size = HOLE_SIZE if holes & HOLES_ARE_LONG else HOLE_SIZE_OLD
    holes &= ~HOLES_ARE_LONG
    if end - at < <int64_t>epochs * 12 + <int64_t>holes * hole_size + <int64_t>bases * 8:
        return False
    c.epochs.clear()
    c.holes.clear()
    c.bases.clear()
    for _i in range(epochs):
        entry.epoch, entry.start_offset = load_i32(at), load_i64(at + 4)
        c.epochs.push_back(entry)
        at += 12
    for _i in range(holes):
        hole = hole_new(load_i64(at), load_i64(at + 8))
        if hole_size == HOLE_SIZE:
            hole.position, hole.end_position = load_i64(at + 16), load_i64(at + 24)
            hole.is_skipped = load_i64(at + 32) != 0
        c.holes.push_back(hole)
        at += hole_size
    for _i in range(bases):
        c.bases.push_back(load_i64(at))
        at += 8
    c.producers.assign(at, end)
    return True
