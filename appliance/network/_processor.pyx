"""The loop of a processor thread: read frames, answer or pass them on, send.

A turn: wait for sockets and mail; take the mail (new connections, wake-ups, replies of the control
plane); read from each readable connection once; run what is due; send what became ready. Answers
of all requests that one read brought leave in one call.

A connection is read only while its answers are taken: too many requests in flight or too many bytes
of answers, and epoll is told to be silent about what it sends. A frame that does not come in one
read is collected in memory of its own, which grows with what came, not with what the length field
claims; the claim is reserved against queued.max.request.bytes before. Requests that the control
plane has not answered yet count there too: beyond it, who sends more of them is not read.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp
from libcpp.algorithm cimport pop_heap, push_heap
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._bytes cimport Cursor, load_i32
from appliance.native._native cimport (
    EAGAIN, EINTR, close, errno, monotonic_ns, pthread_create, pthread_join, pthread_setname_np,
    wait_until,
)
from appliance.native._socket cimport (
    EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT,
    epoll_ctl, epoll_event, epoll_wait, iovec, readv,
)
from appliance.native._traffic cimport times_note, traffic_row
from appliance.native._wake_soon cimport wake_soon
from appliance.network._connection cimport (
    SEND_BROKEN, SEND_FULL, SEND_MORE, Connection, Slot, connection_has_room, connection_send,
    slot_at, slot_new, slot_ready,
)
from appliance.network._fetch cimport (
    FETCH_KEY, FETCH_MAX, FETCH_MIN, fetch, fetch_check, fetch_forget,
)
from appliance.network._fetch_session cimport session_end
from appliance.network._list_offsets cimport (
    LIST_OFFSETS_KEY, LIST_OFFSETS_MAX, LIST_OFFSETS_MIN, list_offsets,
)
from appliance.network._plane cimport (
    CLOSURE_CONTROL_SIZE, CLOSURE_FRAME_SIZE, CLOSURE_FRAME_TIMEOUT, CLOSURE_HELD,
    CLOSURE_MALFORMED, CLOSURE_SEND_TIMEOUT, ClosureFacts, Plane, closure_put, gone_put, punt_put,
    punts_signal,
)
from appliance.network._produce cimport (
    MALFORMED, PRODUCE_KEY, PRODUCE_MAX, PRODUCE_MIN, PUNTED, produce, produce_check,
    produce_forget,
)
from appliance.network._quota cimport quotas_use
from appliance.protocol._frame cimport Piece, read_i16, read_i32, read_piece, skip_tags
from appliance.storage._watch cimport (
    MAIL_CLOSE, MAIL_CONNECTION, MAIL_READ, MAIL_REPLY, MAIL_VIEW, MAIL_WAKE, Inbox, InboxRef, Mail,
    inbox_may_sleep, inbox_put, inbox_take, inbox_wake, inboxes_keep, inboxes_visit,
)


cdef enum:
    EVENTS_MAX = 256
    FEW_EVENTS = 2                 # in a turn: then this thread has time for a neighbour's mail
    SCRATCH_BYTES = 262144
    HEAD_BYTES = 4096              # read behind a large frame, of what is likely another
    SPARE_MAX = 4194304            # larger memory is given back after its frame
    UNRESERVED_MAX = 16384         # a frame of a normal request; ten thousand connections' fit
    SWEEP_NS = 200000000           # how late a timeout of seconds may come
    FEED_NS = 5000000              # how long memory that another processor freed may lie idle
    HEADER_MIN = 8                 # key, version, correlation id
    INBOX_EVENT = 0                # no connection has the id 0
    CLIENT_ID_MAX = 255            # of what a client calls itself, as much is shown
    UNMUTE = -1                    # in the place of a timer's slot: a quota's delay ends


# ---- without the GIL ----

cdef void* _run(void* argument) noexcept nogil:
    cdef Processor* processor = <Processor*>argument
    cdef epoll_event[EVENTS_MAX] events
    cdef vector[InboxRef] kept
    cdef Inbox* inbox = processor.inbox.get()
    cdef int count, timeout_ms, i
    wake_soon()
    inbox.turn.lock()
    inbox.owner = processor
    processor.scratch.resize(SCRATCH_BYTES)
    while not _is_finished(processor):
        timeout_ms = _timeout_ms(processor)
        inbox.turn.unlock()
        count = epoll_wait(processor.epoll_fd, events, EVENTS_MAX, timeout_ms)
        inbox.turn.lock()
        processor.now_ns = monotonic_ns()
        inboxes_keep(&kept if count <= FEW_EVENTS else NULL)
        _take_mail(processor)
        for i in range(count):
            if events[i].data.u64 != INBOX_EVENT:
                _on_event(processor, <int64_t>events[i].data.u64, events[i].events)
        _run_timers(processor)
        if not processor.starved.empty():
            _feed(processor)
        if processor.now_ns >= processor.sweep_ns:
            _sweep(processor)
        _answer(processor)
        inboxes_visit(&kept)
        times_note(&processor.traffic.turns, monotonic_ns() - processor.now_ns)
    inboxes_keep(NULL)
    _close_all(processor)
    inbox.owner = NULL
    inbox.turn.unlock()
    return NULL


cdef void _answer(Processor* processor) noexcept nogil:
    _signal_punts(processor)
    _send_all(processor)
    _signal_punts(processor)


cdef void processor_visit(void* argument) noexcept nogil:
    cdef Processor* processor = <Processor*>argument
    processor.now_ns = monotonic_ns()
    _take_mail(processor)
    _answer(processor)
    if _must_wake(processor):
        inbox_wake(processor.inbox.get())


cdef bint _must_wake(Processor* processor) noexcept nogil:
    """The visit left something that its sleep is too long for."""
    if not processor.to_send.empty() or not processor.starved.empty():
        return True
    if not processor.timers.empty() and processor.timers.front().at_ns < processor.sleeps_until_ns:
        return True
    return not inbox_may_sleep(processor.inbox.get())


cdef void _signal_punts(Processor* processor) noexcept nogil:
    """Once a turn: waking the control plane costs more than what it is woken for."""
    if processor.must_signal:
        processor.must_signal = False
        punts_signal(processor.plane)


cdef bint _is_finished(Processor* processor) noexcept nogil:
    if not processor.must_stop.load():
        return False
    return _is_idle(processor) or monotonic_ns() >= processor.stop_at_ns


cdef bint _is_idle(Processor* processor) noexcept nogil:
    for entry in processor.connections:
        if not entry.second.slots.empty():
            return False
    return True


cdef int _timeout_ms(Processor* processor) noexcept nogil:
    cdef int64_t until = processor.sweep_ns
    if not processor.to_send.empty() or not inbox_may_sleep(processor.inbox.get()):
        return 0
    if not processor.starved.empty():
        until = min(until, processor.now_ns + FEED_NS)
    _drop_answered(processor)
    if not processor.timers.empty():
        until = min(until, processor.timers.front().at_ns)
    processor.sleeps_until_ns = until
    return <int>max(<int64_t>0, (until - monotonic_ns() + 999999) // 1000000)


# Mail

cdef void _take_mail(Processor* processor) noexcept nogil:
    cdef Connection* connection
    cdef size_t i
    inbox_take(processor.inbox.get(), &processor.mails)
    for i in range(processor.mails.size()):
        if processor.mails[i].kind == MAIL_CONNECTION:
            _adopt(processor, &processor.mails[i])
            continue
        if processor.mails[i].kind == MAIL_VIEW:
            _show(processor)
            continue
        connection = _find(processor, processor.mails[i].connection)
        if connection != NULL:
            _on_mail(processor, connection, &processor.mails[i])
    _look_again(processor)


cdef void _on_mail(Processor* processor, Connection* connection, Mail* mail) noexcept nogil:
    cdef Slot* slot = slot_at(connection, mail.slot)
    if mail.kind == MAIL_CLOSE:
        _close(processor, connection)
        return
    if mail.kind == MAIL_READ:
        _list(processor, connection)
        return
    # A wake-up may come late, for a request that was answered meanwhile.
    if slot == NULL or slot.is_ready:
        return
    if mail.kind == MAIL_WAKE and not slot.is_woken:
        slot.is_woken = True
        processor.woken.resize(processor.woken.size() + 1)
        processor.woken.back().connection = mail.connection
        processor.woken.back().slot = mail.slot
    elif mail.kind == MAIL_REPLY:
        slot.is_silent = mail.bytes.empty()
        slot.answer.bytes.swap(mail.bytes)
        slot_ready(connection, slot)
        _list(processor, connection)


cdef void _look_again(Processor* processor) noexcept nogil:
    cdef Connection* connection
    cdef Slot* slot
    cdef bint had_lookups
    cdef size_t i
    for i in range(processor.woken.size()):
        connection = _find(processor, processor.woken[i].connection)
        slot = slot_at(connection, processor.woken[i].slot) if connection != NULL else NULL
        if slot == NULL or slot.is_ready:
            continue
        slot.is_woken = False
        had_lookups = connection.lookups > 0
        if slot.durable.get() != NULL:
            produce_check(connection, slot, False)
        elif slot.fetch.get() != NULL:
            fetch_check(connection, slot, False)
        # Also one that waits on: as it is looked for no more, the connection may be read again.
        if slot.is_ready or had_lookups:
            _list(processor, connection)
    processor.woken.clear()


cdef Connection* _find(Processor* processor, int64_t id) noexcept nogil:
    found = processor.connections.find(id)
    if found == processor.connections.end():
        return NULL
    return (&processor.connections[id])[0]


cdef void _adopt(Processor* processor, Mail* mail) noexcept nogil:
    cdef Connection* connection = new Connection()
    cdef epoll_event event
    connection.id = mail.connection
    connection.fd = mail.fd
    connection.peer.assign(<const char*>mail.bytes.data(), mail.bytes.size())
    connection.plane = processor.plane
    connection.traffic = processor.traffic
    connection.thread = processor.index
    connection.inbox = processor.inbox
    connection.first_slot = 0
    connection.handed_produce = -1
    connection.waiting = 0
    connection.passed = connection.passed_bytes = connection.waiting_partitions = 0
    connection.frame_size = connection.reserved = connection.frame_ns = 0
    connection.sent_bytes = connection.sent_spans = 0
    connection.sent_of_span = connection.held_bytes = connection.stalled_ns = 0
    connection.warm_of_span = connection.lookups = 0
    connection.interest = EPOLLIN
    connection.is_full = connection.is_starved = connection.is_listed = False
    connection.active_ns = connection.since_ns = processor.now_ns
    connection.requests = connection.bytes_in = connection.bytes_out = 0
    connection.quotas.generation = 0
    connection.mute_until_ns = mail.mute_until_ns
    connection.is_muted = False
    connection.session.id = 0
    connection.session.first = 0
    processor.connections[connection.id] = connection
    event.events = EPOLLIN
    event.data.u64 = <uint64_t>connection.id
    if epoll_ctl(processor.epoll_fd, EPOLL_CTL_ADD, connection.fd, &event) != 0:
        _close(processor, connection)
    elif connection.mute_until_ns > 0:
        _mute(processor, connection)
        _set_interest(processor, connection)


cdef void processor_give(Processor* processor, int fd, const string& peer,
                         int64_t mute_until_ns) noexcept nogil:
    cdef Mail mail
    cdef int64_t serial = processor.plane.serial.fetch_add(1) + 1
    mail.kind = MAIL_CONNECTION
    mail.fd = fd
    mail.slot = -1
    mail.mute_until_ns = mute_until_ns
    mail.connection = serial * processor.plane.limits.processors + processor.index
    mail.bytes.assign(<const uint8_t*>peer.data(), <const uint8_t*>peer.data() + peer.size())
    inbox_put(processor.inbox.get(), &mail)


# Reading

cdef void _on_event(Processor* processor, int64_t id, uint32_t events) noexcept nogil:
    cdef Connection* connection = _find(processor, id)
    if connection == NULL:
        return
    if events & (EPOLLERR | EPOLLHUP):
        _close(processor, connection)
        return
    if events & EPOLLOUT:
        _list(processor, connection)
    if events & EPOLLIN:
        _read(processor, connection)


cdef void _read(Processor* processor, Connection* connection) noexcept nogil:
    cdef iovec[2] parts
    cdef size_t used = connection.partial.size(), room = 0
    cdef int64_t got
    cdef int count = 0
    if not connection_has_room(connection):
        _set_interest(processor, connection)
        return
    if used > 0:
        room = _room(connection) - used
        parts[count].iov_base = connection.partial.data() + used
        parts[count].iov_len = room
        count += 1
    # What follows a collected frame may come along, but only once it is known where that one ends.
    if used == 0 or 0 < connection.frame_size <= <int64_t>(used + room):
        parts[count].iov_base = processor.scratch.data()
        # The beginning of a large frame is copied once more, so let it be short.
        parts[count].iov_len = HEAD_BYTES if connection.is_bulky else processor.scratch.size()
        count += 1
    got = readv(connection.fd, parts, count)
    if got <= 0:
        connection.partial.resize(used)
        if got == 0 or errno not in (EAGAIN, EINTR):
            _close(processor, connection)
        return
    if got > UNRESERVED_MAX:
        inboxes_keep(NULL)  # its owner and this thread have enough to do side by side
    connection.active_ns = processor.now_ns
    processor.plane.counters.bytes_in.fetch_add(got)
    connection.bytes_in += got
    if used > 0:
        connection.partial.resize(used + min(got, <int64_t>room))
        got -= min(got, <int64_t>room)
        if not _run_partial(processor, connection):
            return
    _run_frames(processor, connection, processor.scratch.data(), got)


cdef size_t _room(Connection* connection) noexcept nogil:
    """Room for the whole frame, once its length is known. Memory that nothing was written to is not
    real yet, so that one who promises much and sends little holds little."""
    connection.partial.resize(max(<size_t>4, <size_t>connection.frame_size))
    return connection.partial.size()


cdef bint _run_partial(Processor* processor, Connection* connection) noexcept nogil:
    """Runs the collected frame once it is whole; False when the connection is gone."""
    cdef RawBytes frame
    cdef bint is_open
    if connection.frame_size == 0:
        if connection.partial.size() < 4:
            return True
        if not _admit(processor, connection, connection.partial.data()):
            return False
    if <int64_t>connection.partial.size() < connection.frame_size:
        return True
    frame.swap(connection.partial)
    _frame_ends(connection)
    connection.is_bulky = frame.size() > SCRATCH_BYTES
    is_open = _run_frame(processor, connection, frame.data() + 4, frame.size() - 4)
    if frame.capacity() <= SPARE_MAX and frame.capacity() > processor.spare.capacity():
        processor.spare.swap(frame)
    return is_open


cdef bint _admit(Processor* processor, Connection* connection, const uint8_t* data) noexcept nogil:
    """Believes a frame's length, within limits; else closes."""
    cdef int64_t size = load_i32(data)
    if size < HEADER_MIN or size > processor.plane.limits.request_bytes:
        processor.plane.counters.closed_frame.fetch_add(1)
        _tell(connection, CLOSURE_FRAME_SIZE, size, processor.plane.limits.request_bytes)
        _close(processor, connection)
        return False
    connection.frame_size = size + 4
    if connection.mute_until_ns == 0:
        _want_room(processor, connection)
    return True


cdef void _want_room(Processor* processor, Connection* connection) noexcept nogil:
    """Memory is promised to a frame that is being read; one that is held back has no use for it."""
    if connection.frame_size <= UNRESERVED_MAX or connection.reserved > 0:
        return
    if not _reserve(connection):
        _starve(processor, connection)


cdef void _tell(Connection* connection, int kind, int64_t got, int64_t wanted, int key=-1,
                int version=-1) noexcept nogil:
    cdef ClosureFacts facts
    facts.kind = kind
    facts.got = got
    facts.wanted = wanted
    facts.key = key
    facts.version = version
    closure_put(connection.plane, connection.peer, facts)


cdef void _starve(Processor* processor, Connection* connection) noexcept nogil:
    """It is read when others are done: nothing of it is lost, the socket holds it back."""
    if not connection.is_starved:
        connection.is_starved = True
        processor.starved.push_back(connection.id)


cdef bint _reserve(Connection* connection) noexcept nogil:
    """Memory for the frame that has begun. One is always let in, however large."""
    cdef Plane* plane = connection.plane
    cdef int64_t before = plane.queued_bytes.fetch_add(connection.frame_size)
    if before > 0 and before + connection.frame_size > plane.limits.queued_bytes:
        plane.queued_bytes.fetch_add(-connection.frame_size)
        return False
    connection.reserved = connection.frame_size
    return True


cdef void _feed(Processor* processor) noexcept nogil:
    """Lets in those that wait for memory, oldest first, while there is some."""
    cdef Connection* connection
    cdef vector[int64_t] left
    cdef size_t i
    cdef bint is_over = False
    left.swap(processor.starved)
    for i in range(left.size()):
        connection = _find(processor, left[i])
        if connection == NULL or not connection.is_starved:
            continue
        if is_over or not _may_go_on(connection):
            is_over = True
            processor.starved.push_back(left[i])
            continue
        connection.is_starved = False
        if _resume(processor, connection):
            _set_interest(processor, connection)


cdef bint _may_go_on(Connection* connection) noexcept nogil:
    if connection.frame_size > UNRESERVED_MAX and connection.reserved == 0:
        return _reserve(connection)
    return _may_pass_on(connection)


cdef void _frame_ends(Connection* connection) noexcept nogil:
    connection.plane.queued_bytes.fetch_add(-connection.reserved)
    connection.reserved = connection.frame_size = connection.frame_ns = 0
    connection.is_starved = False


cdef void _run_frames(Processor* processor, Connection* connection, uint8_t* data,
                      int64_t size) noexcept nogil:
    """Whole frames are run where they stand; what is left is kept for the next read."""
    cdef int64_t frame
    while size >= 4 and connection_has_room(connection) and not connection.is_starved:
        frame = load_i32(data) + <int64_t>4
        if frame - 4 < HEADER_MIN or frame > size:
            break
        connection.is_bulky = False
        if not _run_frame(processor, connection, data + 4, frame - 4):
            return
        data += frame
        size -= frame
    if size > 0:
        connection.frame_ns = processor.now_ns
        connection.frame_size = 0
        if size >= 4 and not _admit(processor, connection, data):
            return
        if connection.reserved > SCRATCH_BYTES:
            connection.partial.swap(processor.spare)
            connection.partial.reserve(connection.frame_size)
        connection.partial.assign(data, data + size)
    _set_interest(processor, connection)


cdef bint _run_frame(Processor* processor, Connection* connection, uint8_t* data,
                     int64_t size) noexcept nogil:
    """One request; False when the connection is gone."""
    cdef Cursor cursor
    cdef Piece client_id
    cdef int key, version, correlation_id, handled = PUNTED
    cdef int64_t number = slot_new(connection)
    cursor.at = data
    cursor.end = data + size
    cursor.failed = False
    key = read_i16(&cursor)
    version = read_i16(&cursor)
    correlation_id = read_i32(&cursor)
    client_id = read_piece(&cursor, read_i16(&cursor))
    _note_client(connection, client_id)
    slot_at(connection, number).row = traffic_row(key)
    slot_at(connection, number).begun_ns = processor.now_ns
    if processor.plane.quotas.generation.load() > 0:
        quotas_use(&processor.plane.quotas, client_id, &connection.quotas)
    if key == PRODUCE_KEY and PRODUCE_MIN <= version <= PRODUCE_MAX:
        skip_tags(&cursor, version >= 9)
        handled = produce(connection, number, version, correlation_id, &cursor)
    elif key == FETCH_KEY and FETCH_MIN <= version <= FETCH_MAX:
        skip_tags(&cursor, version >= 12)
        handled = fetch(connection, number, version, correlation_id, &cursor)
    elif key == LIST_OFFSETS_KEY and LIST_OFFSETS_MIN <= version <= LIST_OFFSETS_MAX:
        skip_tags(&cursor, version >= 6)
        handled = list_offsets(connection, number, version, correlation_id, &cursor)
    if handled == MALFORMED or cursor.failed and handled == PUNTED:
        processor.plane.counters.closed_malformed.fetch_add(1)
        _tell(connection, CLOSURE_MALFORMED, size, 0, key, version)
        _close(processor, connection)
        return False
    if handled == PUNTED and key != PRODUCE_KEY and size > processor.plane.limits.control_bytes:
        processor.plane.counters.closed_frame.fetch_add(1)
        _tell(connection, CLOSURE_CONTROL_SIZE, size, processor.plane.limits.control_bytes, key,
              version)
        _close(processor, connection)
        return False
    if handled == PUNTED:
        _pass_on(processor, connection, number, data, size)
    elif slot_at(connection, number).deadline_ns > 0 and key == FETCH_KEY:
        _set_timer(processor, connection, number)
    _list(processor, connection)
    return True


cdef void _note_client(Connection* connection, Piece client_id) noexcept nogil:
    cdef size_t size = min(max(client_id.size, <int64_t>0), <int64_t>CLIENT_ID_MAX)
    connection.requests += 1
    if connection.client_id.size() != size or size > 0 and memcmp(
            connection.client_id.data(), client_id.data, size) != 0:
        connection.client_id.assign(<const char*>client_id.data, size)


cdef void _pass_on(Processor* processor, Connection* connection, int64_t number,
                   const uint8_t* data, int64_t size) noexcept nogil:
    slot_at(connection, number).passed_bytes = size
    connection.passed += 1
    connection.passed_bytes += size
    if punt_put(processor.plane, connection.id, number, connection.peer, data, size):
        processor.must_signal = True
    if not _may_pass_on(connection):
        _starve(processor, connection)


cdef bint _may_pass_on(Connection* connection) noexcept nogil:
    """Who sends little does not wait for the memory that others take."""
    return (connection.passed_bytes <= UNRESERVED_MAX
            or connection.plane.queued_bytes.load() <= connection.plane.limits.queued_bytes)


# Timers

cdef bint _is_later(const Timer& one, const Timer& other) noexcept nogil:
    return one.at_ns > other.at_ns


cdef void _set_timer(Processor* processor, Connection* connection, int64_t number) noexcept nogil:
    cdef Timer timer
    timer.at_ns = slot_at(connection, number).deadline_ns
    timer.connection = connection.id
    timer.slot = number
    _push_timer(processor, &timer)


cdef void _push_timer(Processor* processor, const Timer* timer) noexcept nogil:
    processor.timers.push_back(timer[0])
    push_heap(processor.timers.begin(), processor.timers.end(), _is_later)


cdef void _pop_timer(Processor* processor) noexcept nogil:
    pop_heap(processor.timers.begin(), processor.timers.end(), _is_later)
    processor.timers.pop_back()


cdef void _drop_answered(Processor* processor) noexcept nogil:
    """Nobody should be woken for a fetch that was answered long before its time: at a thousand
    records a second that would be every second wake-up."""
    cdef Connection* connection
    cdef Slot* slot
    while not processor.timers.empty():
        connection = _find(processor, processor.timers.front().connection)
        if connection != NULL:
            slot = slot_at(connection, processor.timers.front().slot)
            if processor.timers.front().slot == UNMUTE or (slot != NULL and not slot.is_ready):
                return
        _pop_timer(processor)


cdef void _run_timers(Processor* processor) noexcept nogil:
    """A fetch that was answered meanwhile leaves its timer behind: it finds nothing."""
    cdef Connection* connection
    cdef Slot* slot
    cdef Timer timer
    while not processor.timers.empty() and processor.timers.front().at_ns <= processor.now_ns:
        timer = processor.timers.front()
        _pop_timer(processor)
        connection = _find(processor, timer.connection)
        if connection == NULL:
            continue
        if timer.slot == UNMUTE:
            _unmute(processor, connection)
            continue
        slot = slot_at(connection, timer.slot)
        if slot != NULL and not slot.is_ready and slot.fetch.get() != NULL:
            fetch_check(connection, slot, True)
            _list(processor, connection)


cdef void _mute(Processor* processor, Connection* connection) noexcept nogil:
    cdef Timer timer
    timer.at_ns = connection.mute_until_ns
    timer.connection = connection.id
    timer.slot = UNMUTE
    connection.is_muted = True
    _push_timer(processor, &timer)


cdef void _unmute(Processor* processor, Connection* connection) noexcept nogil:
    """Unless requests that were in flight have used more meanwhile."""
    connection.is_muted = False
    if connection.mute_until_ns > processor.now_ns:
        _mute(processor, connection)
        return
    connection.mute_until_ns = 0
    connection.active_ns = processor.now_ns
    _want_room(processor, connection)
    if _resume(processor, connection):
        _set_interest(processor, connection)


cdef void _sweep(Processor* processor) noexcept nogil:
    """Timeouts of seconds: acks that come too late, idle peers, half frames, peers that take
    nothing."""
    cdef vector[Connection*] late
    cdef Connection* connection
    cdef size_t i
    processor.sweep_ns = processor.now_ns + SWEEP_NS
    for entry in processor.connections:
        connection = entry.second
        if connection.waiting > 0:
            _end_late(processor, connection)
        if _is_hopeless(processor, connection):
            late.push_back(connection)
    for i in range(late.size()):
        _close(processor, late[i])


cdef void _end_late(Processor* processor, Connection* connection) noexcept nogil:
    cdef bint drains = processor.plane.is_draining.load()
    cdef Slot* slot
    cdef size_t i
    for i in range(connection.slots.size()):
        slot = &connection.slots[i]
        if slot.is_ready:
            continue
        if slot.durable.get() != NULL and slot.deadline_ns <= processor.now_ns:
            produce_check(connection, slot, True)
        elif slot.fetch.get() != NULL and drains:
            fetch_check(connection, slot, True)
        if slot.is_ready:
            _list(processor, connection)


cdef bint _is_hopeless(Processor* processor, Connection* connection) noexcept nogil:
    cdef int64_t now = processor.now_ns
    if connection.stalled_ns > 0 and now - connection.stalled_ns > processor.plane.limits.send_ns:
        processor.plane.counters.closed_slow.fetch_add(1)
        _tell(connection, CLOSURE_SEND_TIMEOUT, connection.held_bytes,
              processor.plane.limits.send_ns // 1000000)
        return True
    if connection.stalled_ns > 0 and _holds_too_much(connection):
        return True
    if _is_late_frame(connection, now):
        processor.plane.counters.closed_frame.fetch_add(1)
        _tell(connection, CLOSURE_FRAME_TIMEOUT, <int64_t>connection.partial.size() - 4,
              connection.frame_size - 4)
        return True
    if (connection.slots.empty() and connection.mute_until_ns == 0
            and now - connection.active_ns > processor.plane.limits.idle_ns):
        processor.plane.counters.closed_idle.fetch_add(1)
        return True
    return False


cdef bint _is_late_frame(Connection* connection, int64_t now) noexcept nogil:
    """Bytes that trickle in do not begin the wait anew: they only buy what they take at the least
    rate. A connection that is not being read is not late."""
    cdef double bytes = connection.partial.size()
    if connection.frame_ns == 0 or connection.is_starved or not connection_has_room(connection):
        return False
    return now - connection.frame_ns > connection.plane.limits.frame_ns + <int64_t>(
        bytes * 1e9 / connection.plane.limits.frame_rate)


cdef bint _holds_too_much(Connection* connection) noexcept nogil:
    """Answers that nobody takes, beyond its share while all of them are too many."""
    cdef Plane* plane = connection.plane
    cdef int64_t most = plane.limits.held_bytes
    if plane.held_bytes.load() <= most:
        return False
    if connection.held_bytes <= most // max(<int64_t>1, <int64_t>plane.counters.open.load()):
        return False
    plane.counters.closed_slow.fetch_add(1)
    _tell(connection, CLOSURE_HELD, connection.held_bytes, most)
    return True


# Sending

cdef void _list(Processor* processor, Connection* connection) noexcept nogil:
    if not connection.is_listed:
        connection.is_listed = True
        processor.to_send.push_back(connection.id)


cdef void _send_all(Processor* processor) noexcept nogil:
    cdef vector[int64_t] turn
    cdef Connection* connection
    cdef size_t i
    cdef int result
    turn.swap(processor.to_send)
    for i in range(turn.size()):
        connection = _find(processor, turn[i])
        if connection == NULL:
            continue
        connection.is_listed = False
        result = connection_send(connection)
        if result == SEND_BROKEN or result == SEND_FULL and _holds_too_much(connection):
            _close(processor, connection)
            continue
        if result == SEND_MORE:
            _list(processor, connection)
        connection.is_full = result == SEND_FULL
        if connection.mute_until_ns > 0 and not connection.is_muted:
            _mute(processor, connection)
        if not _resume(processor, connection):
            continue
        _set_interest(processor, connection)


cdef bint _resume(Processor* processor, Connection* connection) noexcept nogil:
    """Frames that stood back while too many requests were in flight; False: connection is gone."""
    cdef RawBytes held
    if connection.partial.size() < 4 or not connection_has_room(connection):
        return True
    if <int64_t>connection.partial.size() < connection.frame_size:
        return True
    cdef int64_t id = connection.id
    held.swap(connection.partial)
    _frame_ends(connection)
    _run_frames(processor, connection, held.data(), held.size())
    return _find(processor, id) != NULL


cdef void _set_interest(Processor* processor, Connection* connection) noexcept nogil:
    cdef epoll_event event
    cdef uint32_t wanted = 0
    if connection_has_room(connection) and not connection.is_starved:
        wanted |= EPOLLIN
    if connection.is_full:
        wanted |= EPOLLOUT
    if wanted == connection.interest:
        return
    if wanted & ~connection.interest & EPOLLIN and connection.frame_ns > 0:
        connection.frame_ns = processor.now_ns  # it could not go on while it was not read
    connection.interest = wanted
    event.events = wanted
    event.data.u64 = <uint64_t>connection.id
    epoll_ctl(processor.epoll_fd, EPOLL_CTL_MOD, connection.fd, &event)


# Showing

cdef bint processor_view(Processor* processor, int64_t deadline_ns,
                         vector[ConnectionFacts]* into) noexcept nogil:
    cdef View* view = &processor.view
    cdef Mail mail
    cdef int64_t mine
    cdef bint is_shown
    mail.kind = MAIL_VIEW
    mail.connection = 0
    mail.slot = -1
    view.guard.lock()
    view.asked += 1
    mine = view.asked
    view.guard.unlock()
    inbox_put(processor.inbox.get(), &mail)
    view.guard.lock()
    while view.answered < mine and wait_until(view.shown, view.guard, deadline_ns):
        pass
    is_shown = view.answered >= mine
    if is_shown:
        into.insert(into.end(), view.rows.begin(), view.rows.end())
    view.guard.unlock()
    return is_shown


cdef void _show(Processor* processor) noexcept nogil:
    cdef View* view = &processor.view
    cdef vector[ConnectionFacts] rows
    cdef size_t i = 0
    rows.resize(processor.connections.size())
    for entry in processor.connections:
        _fill_facts(processor, entry.second, &rows[i])
        i += 1
    view.guard.lock()
    view.rows.swap(rows)
    view.answered = view.asked
    view.shown.notify_all()
    view.guard.unlock()


cdef void _fill_facts(Processor* processor, Connection* connection,
                      ConnectionFacts* facts) noexcept nogil:
    cdef int64_t now = processor.now_ns
    facts.id = connection.id
    facts.peer = connection.peer
    facts.client_id = connection.client_id
    facts.age_ns = now - connection.since_ns
    facts.idle_ns = now - connection.active_ns
    facts.requests = connection.requests
    facts.in_flight = connection.slots.size()
    facts.bytes_in = connection.bytes_in
    facts.bytes_out = connection.bytes_out
    facts.held_bytes = connection.held_bytes
    facts.mute_ns = max(<int64_t>0, connection.mute_until_ns - now)


# Ending

cdef void _close(Processor* processor, Connection* connection) noexcept nogil:
    cdef Slot* slot
    cdef size_t i
    for i in range(connection.slots.size()):
        slot = &connection.slots[i]
        if slot.durable.get() != NULL:
            produce_forget(connection, slot)
        if slot.fetch.get() != NULL:
            fetch_forget(connection, slot)
    processor.plane.queued_bytes.fetch_add(-connection.reserved)
    processor.plane.held_bytes.fetch_add(-connection.held_bytes)
    session_end(connection)
    # Also one that waits for nothing: it may hold records of a share group.
    gone_put(processor.plane, connection.id)
    processor.plane.counters.open.fetch_add(-1)
    processor.peers.guard.lock()
    processor.peers.count[connection.peer] -= 1
    if processor.peers.count[connection.peer] <= 0:
        processor.peers.count.erase(connection.peer)
    processor.peers.guard.unlock()
    processor.connections.erase(connection.id)
    close(connection.fd)
    del connection


cdef void _close_all(Processor* processor) noexcept nogil:
    cdef vector[Connection*] left
    cdef size_t i
    _take_mail(processor)
    for entry in processor.connections:
        left.push_back(entry.second)
    for i in range(left.size()):
        _close(processor, left[i])


cdef int processor_start(Processor* processor) noexcept nogil:
    cdef epoll_event event
    cdef int error
    event.events = EPOLLIN
    event.data.u64 = INBOX_EVENT
    if epoll_ctl(processor.epoll_fd, EPOLL_CTL_ADD, processor.inbox.get().event_fd, &event) != 0:
        return errno
    error = pthread_create(&processor.thread, NULL, _run, processor)
    if error == 0:
        pthread_setname_np(processor.thread, b"processor")
    return error


cdef void processor_stop(Processor* processor, int64_t drain_ns) noexcept nogil:
    processor.stop_at_ns = monotonic_ns() + drain_ns
    processor.must_stop.store(True)
    inbox_wake(processor.inbox.get())
    pthread_join(processor.thread, NULL)


# ---- with the GIL ----
