"""Fetch v4-18: bytes of segments, as they are on disk, to whoever has read up to there.

Here a request is read, and joined with the session that it belongs to. `_fetch_read.pyx` finds what
there is for it, `_fetch_answer.pyx` writes that down, and `_fetch_park.pyx` has a fetch wait that
finds less than min_bytes.
"""

from cython.operator cimport dereference
from libc.stdint cimport int16_t, int32_t, int64_t
from libcpp.memory cimport make_shared
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._bytes cimport Cursor
from appliance.native._native cimport ScopeLock, monotonic_ns
from appliance.network._connection cimport (
    Connection, Fetch, FetchRef, FetchSession, FetchTarget, Slot, connection_mute, slot_at,
    slot_ready,
)
from appliance.network._control_plane_inbox cimport Racks
from appliance.network._dispatch cimport HANDLED, MALFORMED
from appliance.network._fetch_answer cimport fetch_put_nothing
from appliance.network._fetch_park cimport (
    fetch_answer_parked, fetch_check, fetch_has_room, fetch_may_park, fetch_park,
)
from appliance.network._fetch_session cimport (
    SESSION_FULL, SESSION_INCREMENTAL, SESSION_NONE, Forgotten, session_begin, session_change,
    session_end, session_use,
)
from appliance.network._quota cimport Quota, quota_delay, quota_window
from appliance.network._topic_table cimport TopicRef, read_topic, topic_log, topics_find
from appliance.protocol._frame cimport (
    Piece, read_count, read_i8, read_i32, read_i64, read_piece, read_string, read_uvarint,
    skip_tags,
)
from appliance.storage._read cimport READ_END, READ_STABLE, READ_VISIBLE

cdef enum:
    INVALID_REQUEST = 42
    FETCH_SESSION_ID_NOT_FOUND = 70
    REPLICA_STATE = 1              # a tag of the request
    REPORT_NS = 100000000          # a follower is late after seconds; a thousand reports: 0.3 ms

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
    fetch_answer_parked(connection)
    use = session_use(connection, version, parsed.session_id, parsed.epoch)
    if parsed.is_over or parsed.targets.size() + connection.session.targets.size() > <size_t>(
            connection.plane.limits.fetch_partitions):
        use = -INVALID_REQUEST
    elif use == SESSION_FULL and not fetch_has_room(connection, parsed.targets.size()):
        session_end(connection)
        use = SESSION_NONE  # as Kafka when its cache is full
    elif use == SESSION_INCREMENTAL and not fetch_has_room(connection, parsed.targets.size()):
        use = -FETCH_SESSION_ID_NOT_FOUND
    if use < 0:
        fetch_put_nothing(slot, parsed.fetch.get(), <int16_t>-use, 0)
        slot_ready(connection, slot)
        return HANDLED
    _use_session(connection, &parsed, use)
    if connection.quotas.fetch.get() != NULL and parsed.fetch.get().replica < 0:
        if _is_held_back(connection, slot, parsed.fetch.get()):
            return HANDLED
    parsed.fetch.get().slot = slot_number
    slot.fetch = parsed.fetch
    is_late = parsed.max_wait_ms <= 0 or not fetch_may_park(connection, slot)
    if not fetch_check(connection, slot, is_late) and not is_late:
        fetch_park(connection, slot, slot_number, parsed.max_wait_ms)
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
    fetch_put_nothing(slot, fetch, 0, fetch.session_id if fetch.is_incremental else 0)
    slot_ready(connection, slot)
    return True


cdef void _parse(Connection* connection, Parsed* parsed, int version, int correlation_id,
                 Cursor* cursor) noexcept nogil:
    cdef bint is_flexible = version >= FETCH_FLEXIBLE
    cdef int64_t topics
    cdef Fetch* fetch
    cdef Piece rack
    parsed.fetch = make_shared[Fetch]()
    fetch = parsed.fetch.get()
    fetch.version = <int16_t>version
    fetch.correlation_id = correlation_id
    fetch.replica = -1
    fetch.replica_life = 0
    fetch.has_rack = False
    if version < FETCH_REPLICA_STATE:
        fetch.replica = read_i32(cursor)
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
        rack = read_string(cursor, is_flexible)
        if rack.size > 0:
            _note_rack(connection, fetch, rack)
    if version < FETCH_REPLICA_STATE:
        skip_tags(cursor, is_flexible)
    else:
        _parse_tags(fetch, cursor)
    fetch.limit = READ_STABLE if fetch.is_committed else READ_VISIBLE
    if fetch.replica >= 0:
        fetch.is_committed = False  # it gets what transactions will have ended with, too
        fetch.limit = READ_END


cdef void _note_rack(Connection* connection, Fetch* fetch, Piece rack) noexcept nogil:
    cdef Racks* racks = &connection.plane.racks
    cdef string name
    cdef ScopeLock lock
    fetch.has_rack = True
    if not racks.are_used.load():
        return
    name.assign(<const char*>rack.data, rack.size)
    lock.hold(racks.guard)
    entry = racks.nodes.find(name)
    if name != racks.own and entry != racks.nodes.end():
        fetch.near = dereference(entry).second


cdef void _parse_tags(Fetch* fetch, Cursor* cursor) noexcept nogil:
    cdef int64_t left = read_uvarint(cursor), tag
    cdef Piece value
    cdef Cursor state
    while left > 0 and not cursor.failed:
        left -= 1
        tag = read_uvarint(cursor)
        value = read_piece(cursor, read_uvarint(cursor))
        if tag == REPLICA_STATE and not cursor.failed:
            state.at, state.end, state.failed = value.data, value.data + value.size, False
            fetch.replica = read_i32(&state)
            fetch.replica_life = read_i64(&state)
            cursor.failed = state.failed


cdef void _note_topic(Connection* connection, Parsed* parsed) noexcept nogil:
    cdef size_t most = connection.plane.limits.fetch_partitions
    parsed.topics += 1
    parsed.is_over = (<size_t>parsed.topics > most or parsed.targets.size() > most
                      or parsed.forgotten.size() > most)


cdef void _parse_topic(Connection* connection, Parsed* parsed, int version,
                       Cursor* cursor) noexcept nogil:
    cdef bint is_flexible = version >= FETCH_FLEXIBLE
    cdef bint is_by_id = version >= FETCH_BY_ID
    cdef TopicRef topic = topics_find(
        &connection.plane.topics, read_topic(cursor, is_by_id, is_flexible), is_by_id)
    cdef int64_t partitions = read_count(cursor, is_flexible)
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
        target.log_start_offset = -1
        target.last_epoch = read_i32(cursor) if version >= 12 else -1
        if version >= 5:
            target.log_start_offset = read_i64(cursor)
        target.max_bytes = read_i32(cursor)
        target.told_visible = target.told_start = -1
        target.told_error = 0
        target.decided_at = 0
        target.is_named = True
        skip_tags(cursor, is_flexible)
    skip_tags(cursor, is_flexible)


cdef void _parse_forgotten(Connection* connection, Parsed* parsed, int version,
                           Cursor* cursor) noexcept nogil:
    cdef bint is_flexible = version >= FETCH_FLEXIBLE
    cdef size_t most = connection.plane.limits.fetch_partitions
    cdef Forgotten forgotten
    forgotten.key = read_topic(cursor, version >= FETCH_BY_ID, is_flexible)
    cdef int64_t partitions = read_count(cursor, is_flexible)
    while partitions > 0 and not cursor.failed and parsed.forgotten.size() <= most:
        partitions -= 1
        forgotten.partition = read_i32(cursor)
        parsed.forgotten.push_back(forgotten)
    skip_tags(cursor, is_flexible)


cdef bint _is_report_due(FetchSession* session, const Fetch* fetch) noexcept nogil:
    """Of partitions that are not named nothing is new but that their follower still asks."""
    cdef int64_t now = monotonic_ns()
    if session.reported_life == fetch.replica_life and now - session.reported_ns < REPORT_NS:
        return False
    session.reported_life = fetch.replica_life
    session.reported_ns = now
    return True


cdef void _use_session(Connection* connection, Parsed* parsed, int use) noexcept nogil:
    cdef Fetch* fetch = parsed.fetch.get()
    fetch.is_incremental = use == SESSION_INCREMENTAL
    fetch.reports_all = fetch.replica >= 0 and (
        not fetch.is_incremental or _is_report_due(&connection.session, fetch))
    if use == SESSION_NONE:
        fetch.session_id = 0
        fetch.own.swap(parsed.targets)
        fetch.targets = &fetch.own
        return
    if use == SESSION_FULL:
        session_begin(connection, &parsed.targets, fetch.version >= FETCH_BY_ID)
    else:
        session_change(connection, &parsed.targets, &parsed.forgotten,
                       fetch.version >= FETCH_BY_ID)
    fetch.session_id = connection.session.id
    fetch.first = connection.session.first
    fetch.targets = &connection.session.targets
