"""Fetch v4-18: bytes of segments, as they are on disk, to whoever has read up to there.

A fetch that finds less than min_bytes waits: it puts a watch on every partition, is told when one
moves, and answers at the latest after max_wait_ms. Waiting on data that is written but not durable
asks for a commit, so that it costs one flush and not the partition's flush interval.

Small ranges are copied into the answer, so that it leaves in one call; large ones are sent from the
page cache by sendfile. The first partition with data gives at least one batch whatever the limits;
of the others, a batch that does not fit is left for the next fetch.

A session's answer names only partitions with something new: data, an error, a moved watermark.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libcpp.memory cimport make_shared
from libcpp.vector cimport vector

from appliance.native._bytes cimport Cursor, load_i64
from appliance.native._codes cimport BATCH_TORN, LOG_CLOSED, OK, WOULD_WAIT
from appliance.native._files cimport disk_may_wait, read_whole
from appliance.native._native cimport monotonic_ns
from appliance.native._traffic cimport ROW_FETCH_WAITED
from appliance.network._connection cimport (
    Answer, Connection, Fetch, FetchRef, FetchTarget, Slot, Span, answer_begin, connection_charge,
    connection_mute, slot_at, slot_ready,
)
from appliance.network._fetch_session cimport (
    SESSION_FULL, SESSION_INCREMENTAL, SESSION_NONE, Forgotten, session_begin, session_change,
    session_end, session_renew, session_use,
)
from appliance.network._plane cimport Plane
from appliance.network._produce cimport HANDLED, MALFORMED
from appliance.network._quota cimport Quota, quota_delay, quota_window
from appliance.network._topics cimport (
    TOPIC_BYTES_OUT, TOPIC_FETCHES_FAILED, TOPIC_ID_SIZE, TopicRef, topic_count, topic_log,
    topics_find,
)
from appliance.protocol._frame cimport (
    Piece, put_count, put_i16, put_i32, put_i64, put_raw, put_room, put_string, put_tags,
    read_count, read_i8, read_i32, read_i64, read_piece, read_string, skip_tags,
)
from appliance.protocol._kafka_error cimport kafka_error
from appliance.storage._cold_reads cimport (
    LOOKUP_BYTES, LOOKUPS_MAX, ColdReadRef, Lookup, cold_read_new, cold_read_put,
)
from appliance.storage._committer cimport committer_ask
from appliance.storage._index cimport AbortedTxn
from appliance.storage._last_stable_offset cimport log_high_watermark, log_last_stable_offset
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._read cimport (
    READ_STABLE, READ_VISIBLE, Slice, log_aborted, log_note_fault, log_read,
)
from appliance.storage._watch cimport (
    MAIL_WAKE, WATCH_STABLE, WATCH_VISIBLE, Watch, watch_add, watch_rearm, watch_remove,
)

cdef enum:
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_REQUEST = 42
    FETCH_SESSION_ID_NOT_FOUND = 70
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNKNOWN_TOPIC_ID = 100
    FIRST_FLEXIBLE = 12
    FIRST_BY_ID = 13
    COLD_ROUNDS_MAX = 3            # that bring nothing: memory is taken back as soon as filled

# What was found for one target.
cdef cppclass Result:
    size_t target
    int16_t error
    int64_t visible
    int64_t stable
    int64_t start
    Slice slice

cdef cppclass Parsed:
    FetchRef fetch
    int32_t max_wait_ms
    int32_t session_id
    int32_t epoch
    vector[FetchTarget] targets
    vector[Forgotten] forgotten
    int64_t topics
    bint is_over                   # names more than may be; what follows was not read


# ---- without the GIL ----

# Parsing

cdef int fetch(Connection* connection, int64_t slot_number, int version, int correlation_id,
               Cursor* cursor) noexcept nogil:
    cdef Parsed parsed
    cdef Slot* slot = slot_at(connection, slot_number)
    cdef int use
    cdef bint is_late
    _parse(connection, &parsed, version, correlation_id, cursor)
    if cursor.failed and not parsed.is_over:
        return MALFORMED
    connection.plane.counters.fetch_requests.fetch_add(1)
    _answer_waiting(connection)
    use = session_use(connection, version, parsed.session_id, parsed.epoch)
    if parsed.is_over or parsed.targets.size() + connection.session.targets.size() > <size_t>(
            connection.plane.limits.fetch_partitions):
        use = -INVALID_REQUEST
    elif use == SESSION_FULL and not _has_room(connection, parsed.targets.size()):
        session_end(connection)
        use = SESSION_NONE  # as Kafka when its cache is full
    elif use == SESSION_INCREMENTAL and not _has_room(connection, parsed.targets.size()):
        use = -FETCH_SESSION_ID_NOT_FOUND
    if use < 0:
        _put_nothing(slot, parsed.fetch.get(), <int16_t>-use, 0)
        slot_ready(connection, slot)
        return HANDLED
    _use_session(connection, &parsed, use)
    if connection.quotas.fetch.get() != NULL:
        if _is_held_back(connection, slot, parsed.fetch.get()):
            return HANDLED
    parsed.fetch.get().slot = slot_number
    slot.fetch = parsed.fetch
    is_late = parsed.max_wait_ms <= 0 or not _may_wait(connection, slot)
    if not fetch_check(connection, slot, is_late) and not is_late:
        _wait(connection, slot, slot_number, parsed.max_wait_ms)
    return HANDLED


cdef bint _is_held_back(Connection* connection, Slot* slot, Fetch* fetch) noexcept nogil:
    """Answers with nothing while more was fetched than the quota allows, by whichever connection of
    this client. Else the answer is held to what may be used at once, so that it is never much
    later than a client would wait for it."""
    cdef Quota* quota = connection.quotas.fetch.get()
    cdef int64_t window_ns = connection.plane.quotas.window_ns
    cdef int64_t delay_ns = quota_delay(quota, monotonic_ns(), window_ns)
    if delay_ns == 0:
        fetch.max_bytes = min(fetch.max_bytes, quota_window(quota, window_ns))
        fetch.min_bytes = min(fetch.min_bytes, <int32_t>fetch.max_bytes)
        return False
    fetch.throttle_ms = connection_mute(connection, delay_ns)
    _put_nothing(slot, fetch, 0, fetch.session_id if fetch.is_incremental else 0)
    slot_ready(connection, slot)
    return True


cdef bint _has_room(Connection* connection, int64_t more) noexcept nogil:
    return (connection.plane.fetch_partitions.load() + more
            <= connection.plane.limits.fetch_partitions_all)


cdef bint _may_wait(Connection* connection, Slot* slot) noexcept nogil:
    """A fetch that waits holds memory for each partition: beyond the limits it is answered with
    what there is. Clients have one at a time."""
    cdef int64_t more = slot.fetch.get().targets.size()
    return (_has_room(connection, more)
            and connection.waiting_partitions + more <= connection.plane.limits.fetch_partitions)


cdef void _parse(Connection* connection, Parsed* parsed, int version, int correlation_id,
                 Cursor* cursor) noexcept nogil:
    cdef bint is_flexible = version >= FIRST_FLEXIBLE
    cdef int64_t topics
    cdef Fetch* fetch
    parsed.fetch = make_shared[Fetch]()
    fetch = parsed.fetch.get()
    fetch.is_due = False
    fetch.cold_rounds = 0
    fetch.cold_total = 0
    fetch.version = <int16_t>version
    fetch.throttle_ms = 0
    fetch.correlation_id = correlation_id
    if version < 15:
        read_i32(cursor)  # replica id: there are no replicas
    parsed.max_wait_ms = read_i32(cursor)
    fetch.min_bytes = read_i32(cursor)
    fetch.max_bytes = min(<int64_t>read_i32(cursor), connection.plane.limits.fetch_bytes)
    fetch.is_committed = read_i8(cursor) == 1
    parsed.session_id = 0
    parsed.epoch = -1
    parsed.topics = 0
    parsed.is_over = False
    if version >= 7:
        parsed.session_id = read_i32(cursor)
        parsed.epoch = read_i32(cursor)
    topics = read_count(cursor, is_flexible)
    while topics > 0 and not cursor.failed and not parsed.is_over:
        topics -= 1
        _parse_topic(connection, parsed, version, cursor)
        _note_topic(connection, parsed)
    if version >= 7:
        topics = read_count(cursor, is_flexible)
        while topics > 0 and not cursor.failed and not parsed.is_over:
            topics -= 1
            _parse_forgotten(connection, parsed, version, cursor)
            _note_topic(connection, parsed)
    if version >= 11:
        read_string(cursor, is_flexible)  # rack
    skip_tags(cursor, is_flexible)


cdef void _note_topic(Connection* connection, Parsed* parsed) noexcept nogil:
    cdef size_t most = connection.plane.limits.fetch_partitions
    parsed.topics += 1
    parsed.is_over = (<size_t>parsed.topics > most or parsed.targets.size() > most
                      or parsed.forgotten.size() > most)


cdef void _parse_topic(Connection* connection, Parsed* parsed, int version,
                       Cursor* cursor) noexcept nogil:
    cdef bint is_flexible = version >= FIRST_FLEXIBLE
    cdef bint is_by_id = version >= FIRST_BY_ID
    cdef Piece key = _read_key(cursor, version)
    cdef int64_t partitions = read_count(cursor, is_flexible)
    cdef TopicRef topic = topics_find(&connection.plane.topics, key, is_by_id)
    cdef FetchTarget* target
    cdef size_t most = connection.plane.limits.fetch_partitions
    while partitions > 0 and not cursor.failed and parsed.targets.size() <= most:
        partitions -= 1
        parsed.targets.resize(parsed.targets.size() + 1)
        target = &parsed.targets.back()
        target.topic = topic
        target.partition = read_i32(cursor)
        target.log = topic_log(topic, target.partition)
        target.leader_epoch = read_i32(cursor) if version >= 9 else -1
        target.offset = read_i64(cursor)
        if version >= 12:
            read_i32(cursor)  # last fetched epoch: followers only
        if version >= 5:
            read_i64(cursor)  # log start offset: followers only
        target.max_bytes = read_i32(cursor)
        target.told_visible = target.told_start = -1
        target.told_error = 0
        skip_tags(cursor, is_flexible)
    skip_tags(cursor, is_flexible)


cdef void _parse_forgotten(Connection* connection, Parsed* parsed, int version,
                           Cursor* cursor) noexcept nogil:
    cdef bint is_flexible = version >= FIRST_FLEXIBLE
    cdef size_t most = connection.plane.limits.fetch_partitions
    cdef Forgotten forgotten
    forgotten.key = _read_key(cursor, version)
    cdef int64_t partitions = read_count(cursor, is_flexible)
    while partitions > 0 and not cursor.failed and parsed.forgotten.size() <= most:
        partitions -= 1
        forgotten.partition = read_i32(cursor)
        parsed.forgotten.push_back(forgotten)
    skip_tags(cursor, is_flexible)


cdef Piece _read_key(Cursor* cursor, int version) noexcept nogil:
    if version >= FIRST_BY_ID:
        return read_piece(cursor, TOPIC_ID_SIZE)
    return read_string(cursor, version >= FIRST_FLEXIBLE)


cdef void _use_session(Connection* connection, Parsed* parsed, int use) noexcept nogil:
    cdef Fetch* fetch = parsed.fetch.get()
    fetch.is_incremental = use == SESSION_INCREMENTAL
    if use == SESSION_NONE:
        fetch.session_id = 0
        fetch.own.swap(parsed.targets)
        fetch.targets = &fetch.own
        return
    if use == SESSION_FULL:
        session_begin(connection, &parsed.targets, fetch.version >= FIRST_BY_ID)
    else:
        session_change(connection, &parsed.targets, &parsed.forgotten,
                       fetch.version >= FIRST_BY_ID)
    fetch.session_id = connection.session.id
    fetch.first = connection.session.first
    fetch.targets = &connection.session.targets


# Waiting

cdef void _answer_waiting(Connection* connection) noexcept nogil:
    """A session's partitions are about to change: what waits on them is answered first."""
    cdef Slot* slot
    cdef size_t i
    if connection.session.id == 0 or connection.waiting + connection.lookups == 0:
        return
    for i in range(connection.slots.size()):
        slot = &connection.slots[i]
        if slot.fetch.get() != NULL and slot.fetch.get().session_id != 0:
            # Without what would have to be read from the disk first: it is asked for again.
            _check(connection, slot, True, False)


cdef void _wait(Connection* connection, Slot* slot, int64_t slot_number,
                int32_t max_wait_ms) noexcept nogil:
    cdef Fetch* fetch = slot.fetch.get()
    cdef FetchTarget* target
    cdef Watch* watch
    cdef size_t i
    fetch.watches.resize(fetch.targets.size())
    for i in range(fetch.targets.size()):
        target = &fetch.targets.at(i)
        watch = &fetch.watches[i]
        watch.kind = WATCH_STABLE if fetch.is_committed else WATCH_VISIBLE
        watch.offset = -1  # until it is re-armed, everything wakes it
        watch.is_told = False
        watch.inbox = connection.inbox.get()
        watch.connection = connection.id
        watch.slot = slot_number
        if target.log.get() != NULL:
            watch_add(&target.log.get().watches, watch)
    connection.waiting += 1
    _count_waiting(connection, fetch.watches.size())
    slot.deadline_ns = monotonic_ns() + <int64_t>max_wait_ms * 1000000
    # Only now: what became visible before the watches were there told nobody.
    fetch_check(connection, slot, False)


cdef void fetch_forget(Connection* connection, Slot* slot) noexcept nogil:
    cdef Fetch* fetch = slot.fetch.get()
    cdef size_t i
    _end_lookup(connection, fetch)
    if not fetch.watches.empty():
        for i in range(fetch.targets.size()):
            if fetch.targets.at(i).log.get() != NULL:
                watch_remove(&fetch.targets.at(i).log.get().watches, &fetch.watches[i])
        connection.waiting -= 1
        _count_waiting(connection, -<int64_t>fetch.watches.size())
    slot.fetch.reset()


cdef void _count_waiting(Connection* connection, int64_t more) noexcept nogil:
    connection.waiting_partitions += more
    connection.plane.fetch_partitions.fetch_add(more)


cdef bint fetch_check(Connection* connection, Slot* slot, bint is_late) noexcept nogil:
    return _check(connection, slot, is_late, True)


cdef bint _check(Connection* connection, Slot* slot, bint is_late,
                 bint may_look_up) noexcept nogil:
    """Whether it is answered now."""
    cdef Fetch* fetch = slot.fetch.get()
    cdef vector[Result] results
    cdef vector[Lookup] cold
    cdef int64_t total = 0
    cdef bint has_error = False, is_session = fetch.session_id != 0
    fetch.is_due = fetch.is_due or is_late
    if fetch.cold.get() != NULL and fetch.cold.get().is_done.load():
        _end_lookup(connection, fetch)
    _look(connection.plane, fetch, &results, &total, &has_error, &cold)
    if may_look_up and not cold.empty() and not _suffices(fetch, total, has_error):
        _look_up(connection, fetch, &cold, total)
        return False
    if total < fetch.min_bytes and not has_error and not fetch.is_due:
        if not connection.plane.is_draining.load():
            slot.row = ROW_FETCH_WAITED
            return False
    if may_look_up and not cold.empty():
        _read_left_out(connection, fetch, &cold)
    _put_answer(connection, slot, fetch, &results, total)
    fetch_forget(connection, slot)
    if has_error and is_session:  # one of its fetches waits at a time, and this one did
        session_renew(connection)
    slot_ready(connection, slot)
    return True


cdef bint _suffices(Fetch* fetch, int64_t total, bint has_error) noexcept nogil:
    """Whether what is at hand is answered without what the disk has."""
    return has_error or total > 0 and (fetch.is_due or total >= fetch.min_bytes)


cdef void _look_up(Connection* connection, Fetch* fetch, vector[Lookup]* cold,
                   int64_t total) noexcept nogil:
    """Meanwhile the connection is not read: what a client may ask of the disk at once is little."""
    if fetch.cold.get() != NULL:
        return  # its end is told
    if total > fetch.cold_total:
        fetch.cold_rounds = 0
    fetch.cold_rounds += 1
    fetch.cold_total = total
    fetch.cold = _begin(connection, fetch, cold)
    connection.lookups += 1


cdef void _end_lookup(Connection* connection, Fetch* fetch) noexcept nogil:
    connection.lookups -= fetch.cold.get() != NULL
    fetch.cold.reset()


cdef void _read_left_out(Connection* connection, Fetch* fetch,
                         vector[Lookup]* cold) noexcept nogil:
    """Else a partition that must be read from the disk would never be answered beside one that is
    written to all the time. One such read at a time: it may go on over several fetches."""
    if connection.left_out.get() != NULL and not connection.left_out.get().is_done.load():
        return
    connection.left_out = fetch.cold
    if fetch.cold.get() == NULL:
        connection.left_out = _begin(connection, fetch, cold)


cdef ColdReadRef _begin(Connection* connection, Fetch* fetch,
                        vector[Lookup]* cold) noexcept nogil:
    cdef ColdReadRef read = cold_read_new(connection.inbox, MAIL_WAKE, connection.id, fetch.slot)
    read.get().lookups.swap(cold[0])
    cold_read_put(&connection.plane.cold, read)
    return read


# Looking

cdef void _look(Plane* plane, Fetch* fetch, vector[Result]* results, int64_t* total,
                bint* has_error, vector[Lookup]* cold) noexcept nogil:
    """What stands in `cold` afterwards only the disk knows; when that is as much as one read may
    take, the partitions behind it are left for the next look."""
    cdef size_t count = fetch.targets.size(), i, first = 0
    cdef int64_t left
    cdef Result* result
    results.resize(count)
    if fetch.session_id != 0 and count > 0:
        # It moves on with every answer that had data, so that no partition starves.
        first = fetch.first % count
    for i in range(count):
        result = &results.at(i)
        result.target = (first + i) % count
        left = fetch.max_bytes - total[0] - <int64_t>cold.size() * LOOKUP_BYTES
        _look_at(plane, fetch, result, left, total[0] == 0, cold)
        total[0] += result.slice.size
        has_error[0] = has_error[0] or result.error != 0


cdef void _look_at(Plane* plane, Fetch* fetch, Result* result, int64_t left, bint is_first,
                   vector[Lookup]* cold) noexcept nogil:
    cdef FetchTarget* target = &fetch.targets.at(result.target)
    cdef PartitionLog* log = target.log.get()
    cdef int64_t most = min(target.max_bytes, left)
    cdef int code
    result.slice.size = 0
    result.visible = result.stable = result.start = -1
    result.error = _refusal(plane, fetch, target)
    if result.error != 0:
        return
    if not fetch.watches.empty():
        watch_rearm(&log.watches, &fetch.watches[result.target], _limit(fetch, log))
    result.stable = log_last_stable_offset(log)
    result.visible = log_high_watermark(log)  # after the other, which is never above it then
    result.start = log.log_start_offset.load()
    if most <= 0 and not is_first or cold.size() == LOOKUPS_MAX:
        return  # even to ask the page cache begins to read from the disk
    code = _read(fetch, target, max(most, <int64_t>1), is_first, &result.slice)
    if code == WOULD_WAIT:
        result.slice.size = 0
        _put_lookup(cold, fetch, target, max(most, <int64_t>1))
    elif code != OK:
        result.error = kafka_error(code)
        result.slice.size = 0
        result.visible = result.stable = result.start = -1
    elif result.slice.size > most and not is_first:
        result.slice.size = 0
    elif result.slice.size > 0:
        _tell_no_less(fetch, result)
    elif result.visible < log.log_end_offset.load():
        # Somebody waits for what is written: that is a reason to make it durable now.
        # Where appended is visible, who waits waits for what is still to come, and for no disk.
        committer_ask(plane.committer.get(), target.log, 0)


cdef void _tell_no_less(Fetch* fetch, Result* result) noexcept nogil:
    """The read may have seen a later watermark: what is told covers every record that is sent.

    kafka-go takes an answer whose watermark is the offset it asked for as one without records.
    """
    result.visible = max(result.visible, result.slice.limit_offset)
    if fetch.is_committed:
        result.stable = max(result.stable, result.slice.limit_offset)


cdef int _read(Fetch* fetch, FetchTarget* target, int64_t max_bytes, bint is_first,
               Slice* slice) noexcept nogil:
    """From the page cache; but where rounds brought nothing, the first is waited for, once."""
    cdef PartitionLog* log = target.log.get()
    cdef int code
    disk_may_wait(False)
    code = log_read(log, target.offset, max_bytes, _kind(fetch), slice)
    disk_may_wait(True)
    if code == WOULD_WAIT and is_first and fetch.cold_rounds >= COLD_ROUNDS_MAX:
        if fetch.cold.get() == NULL:
            fetch.cold_rounds = 0
            code = log_read(log, target.offset, max_bytes, _kind(fetch), slice)
    return code


cdef int _kind(Fetch* fetch) noexcept nogil:
    return READ_STABLE if fetch.is_committed else READ_VISIBLE


cdef void _put_lookup(vector[Lookup]* cold, Fetch* fetch, FetchTarget* target,
                      int64_t max_bytes) noexcept nogil:
    cold.resize(cold.size() + 1)
    cold.back().log = target.log
    cold.back().offset = target.offset
    cold.back().max_bytes = max_bytes
    cold.back().limit = _kind(fetch)


cdef int64_t _limit(Fetch* fetch, PartitionLog* log) noexcept nogil:
    return log_last_stable_offset(log) if fetch.is_committed else log_high_watermark(log)


cdef int16_t _refusal(Plane* plane, Fetch* fetch, FetchTarget* target) noexcept nogil:
    cdef PartitionLog* log = target.log.get()
    cdef bint is_closed = log != NULL and log.is_closed.load()
    cdef int64_t epoch
    if log == NULL or (is_closed and not _is_there(plane, target)):
        return UNKNOWN_TOPIC_ID if fetch.version >= FIRST_BY_ID else UNKNOWN_TOPIC_OR_PARTITION
    if is_closed:  # it is being opened again, or was, or could not be
        return kafka_error(LOG_CLOSED)
    epoch = max(log.leader_epoch.load(), <int64_t>0)
    if 0 <= target.leader_epoch < epoch:
        return FENCED_LEADER_EPOCH
    if target.leader_epoch > epoch:
        return UNKNOWN_LEADER_EPOCH
    return 0


cdef bint _is_there(Plane* plane, FetchTarget* target) noexcept nogil:
    """Whether the partition of a closed log is one of its topic's still: not deleted."""
    cdef Piece name
    cdef TopicRef now
    name.data = <const uint8_t*>target.topic.get().name.data()
    name.size = target.topic.get().name.size()
    now = topics_find(&plane.topics, name, False)
    return (now.get().id == target.topic.get().id
            and topic_log(now, target.partition).get() != NULL)


# Answering

cdef void _put_head(Answer* answer, Fetch* fetch, int16_t error, int32_t session_id) noexcept nogil:
    answer_begin(answer, fetch.correlation_id, fetch.version >= FIRST_FLEXIBLE)
    put_i32(&answer.bytes, fetch.throttle_ms)
    if fetch.version >= 7:
        put_i16(&answer.bytes, error)
        put_i32(&answer.bytes, session_id)


cdef void _put_nothing(Slot* slot, Fetch* fetch, int16_t error, int32_t session_id) noexcept nogil:
    cdef bint is_flexible = fetch.version >= FIRST_FLEXIBLE
    _put_head(&slot.answer, fetch, error, session_id)
    put_count(&slot.answer.bytes, 0, is_flexible)
    put_tags(&slot.answer.bytes, is_flexible)


cdef void _put_answer(Connection* connection, Slot* slot, Fetch* fetch, vector[Result]* results,
                      int64_t total) noexcept nogil:
    cdef bint is_flexible = fetch.version >= FIRST_FLEXIBLE
    cdef vector[size_t] told
    cdef size_t i, end, runs = 0
    for i in range(results.size()):
        if _is_news(fetch, &results.at(i)):
            told.push_back(i)
    for i in range(told.size()):
        runs += i == 0 or not _share_topic(fetch, results, told[i - 1], told[i])
    if total > 0 and connection.quotas.fetch.get() != NULL:
        fetch.throttle_ms = connection_charge(connection, connection.quotas.fetch.get(), total)
    _put_head(&slot.answer, fetch, 0, fetch.session_id)
    put_count(&slot.answer.bytes, runs, is_flexible)
    i = 0
    while i < told.size():
        end = i + 1
        while end < told.size() and _share_topic(fetch, results, told[i], told[end]):
            end += 1
        _put_topic(&slot.answer, fetch, &fetch.targets.at(results.at(told[i]).target), end - i)
        while i < end:
            _put_partition(connection, slot, fetch, &results.at(told[i]))
            i += 1
        put_tags(&slot.answer.bytes, is_flexible)
    put_tags(&slot.answer.bytes, is_flexible)
    if total > 0:
        connection.plane.counters.fetched_bytes.fetch_add(total)
        connection.session.first += 1


cdef bint _share_topic(Fetch* fetch, vector[Result]* results, size_t one,
                       size_t other) noexcept nogil:
    cdef FetchTarget* a = &fetch.targets.at(results.at(one).target)
    cdef FetchTarget* b = &fetch.targets.at(results.at(other).target)
    return (a.topic.get() == b.topic.get() or a.topic.get().id == b.topic.get().id
            and a.topic.get().name == b.topic.get().name)


cdef bint _is_news(Fetch* fetch, Result* result) noexcept nogil:
    cdef FetchTarget* target = &fetch.targets.at(result.target)
    cdef bint is_news = (result.slice.size > 0 or result.error != 0 or target.told_error != 0
                         or result.visible != target.told_visible
                         or result.start != target.told_start)
    target.told_visible = result.visible
    target.told_start = result.start
    target.told_error = result.error
    return is_news or not fetch.is_incremental


cdef void _put_topic(Answer* answer, Fetch* fetch, FetchTarget* target,
                     size_t partitions) noexcept nogil:
    if fetch.version >= FIRST_BY_ID:
        put_raw(&answer.bytes, target.topic.get().id.data(), TOPIC_ID_SIZE)
    else:
        put_string(&answer.bytes, target.topic.get().name.data(), target.topic.get().name.size(),
                   fetch.version >= FIRST_FLEXIBLE)
    put_count(&answer.bytes, partitions, fetch.version >= FIRST_FLEXIBLE)


cdef void _put_partition(Connection* connection, Slot* slot, Fetch* fetch,
                         Result* result) noexcept nogil:
    cdef vector[uint8_t]* out = &slot.answer.bytes
    cdef FetchTarget* target = &fetch.targets.at(result.target)
    put_i32(out, target.partition)
    put_i16(out, result.error)
    put_i64(out, result.visible)
    put_i64(out, result.stable)
    if fetch.version >= 5:
        put_i64(out, result.start)
    _put_aborted(out, fetch, target, result)
    if fetch.version >= 11:
        put_i32(out, -1)  # preferred read replica
    put_count(out, result.slice.size, fetch.version >= FIRST_FLEXIBLE)
    if result.slice.size > 0:
        _put_records(connection, &slot.answer, target, result)
        topic_count(target.topic, connection.thread, TOPIC_BYTES_OUT, result.slice.size)
    elif result.error != 0:
        topic_count(target.topic, connection.thread, TOPIC_FETCHES_FAILED, 1)
    put_tags(out, fetch.version >= FIRST_FLEXIBLE)


cdef void _put_aborted(vector[uint8_t]* out, Fetch* fetch, FetchTarget* target,
                       Result* result) noexcept nogil:
    cdef bint is_flexible = fetch.version >= FIRST_FLEXIBLE
    cdef vector[AbortedTxn] aborted
    cdef size_t i
    if not fetch.is_committed:
        put_count(out, -1, is_flexible)
        return
    if result.slice.size > 0:
        log_aborted(target.log.get(), target.offset, result.slice.limit_offset, &aborted)
        if not aborted.empty():
            _drop_ended(&aborted, &result.slice)
    put_count(out, aborted.size(), is_flexible)
    for i in range(aborted.size()):
        put_i64(out, aborted[i].producer_id)
        put_i64(out, aborted[i].first_offset)
        put_tags(out, is_flexible)


cdef void _drop_ended(vector[AbortedTxn]* aborted, const Slice* slice) noexcept nogil:
    """Those whose marker lies before the first batch: where readers pass a hole, or compaction was.

    A client drops what the producer wrote later until it meets that marker."""
    cdef uint8_t[8] base
    cdef size_t i, kept = 0
    if read_whole(slice.file.get().fd, base, sizeof(base), slice.position) != sizeof(base):
        return  # nor can the records be read
    for i in range(aborted.size()):
        if aborted.at(i).last_offset >= load_i64(base):
            aborted[0][kept] = aborted.at(i)
            kept += 1
    aborted.resize(kept)


cdef void _put_records(Connection* connection, Answer* answer, FetchTarget* target,
                       Result* result) noexcept nogil:
    cdef Slice* slice = &result.slice
    cdef size_t at = answer.bytes.size()
    cdef int64_t got
    cdef Span span
    if slice.size < connection.plane.limits.sendfile_bytes:
        put_room(&answer.bytes, slice.size)
        disk_may_wait(False)
        got = read_whole(slice.file.get().fd, answer.bytes.data() + at, slice.size, slice.position)
        disk_may_wait(True)
        if got == slice.size:
            return
        if got >= 0:
            got = BATCH_TORN  # the file was cut since
        log_note_fault(target.log.get(), slice.segment_base, target.offset, <int>got)
        # Not all of it is in the page cache; or the disk refuses now what it indexed before: the
        # answer's length stands already, so the failure of sendfile ends the connection.
        answer.bytes.resize(at)
    span.at = answer.bytes.size()
    span.log = target.log
    span.file = slice.file
    span.segment_base = slice.segment_base
    span.position = slice.position
    span.size = slice.size
    answer.spans.push_back(span)


# ---- with the GIL ----
