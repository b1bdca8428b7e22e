"""The loop of a processor thread: wait, take the mail, read, run what is due, send.

A turn: wait for sockets and mail; take the mail (new connections, wake-ups, replies of the control
plane); read from each readable connection once; run what is due; send what became ready; append
another part of a large Produce. Answers of all requests that one read brought leave in one call.

A fetch or a produce that waits is woken by a mail of its watch (`storage/_partition_waits.pyx`), or
by the end of a read from the disk, and is looked at again: once, however many of its partitions
moved.
"""

from cython.operator cimport dereference
from libc.stdint cimport int64_t, uint32_t
from libcpp.vector cimport vector

from appliance.native._histogram cimport times_note
from appliance.native._native cimport (
    errno, monotonic_ns, pthread_create, pthread_join, pthread_setname_np,
)
from appliance.native._socket cimport (
    EPOLL_CTL_ADD, EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, epoll_ctl, epoll_event, epoll_wait,
)
from appliance.native._wake_soon cimport wake_soon
from appliance.network._connection cimport (
    SEND_BROKEN, SEND_FULL, SEND_MORE, Connection, Slot, connection_send, connection_set_interest,
    slot_at, slot_ready,
)
from appliance.network._connection_life cimport connection_close, connection_take
from appliance.network._connection_list cimport view_show
from appliance.network._connection_timeouts cimport timeouts_sweep
from appliance.network._control_plane_inbox cimport punts_signal
from appliance.network._fetch_park cimport fetch_check
from appliance.network._fetch_rights cimport fetch_end_question
from appliance.network._frames cimport (
    SCRATCH_BYTES, frames_are_held, frames_feed, frames_read, frames_resume,
)
from appliance.network._gate cimport gate_end_after, gate_log_in, gate_unbar
from appliance.network._produce cimport produce_check, produce_go_on
from appliance.network._response_memory cimport responses_take_too_much
from appliance.network._timers cimport timer_mute, timers_next, timers_run
from appliance.network._tls_handshake cimport handshake_go_on
from appliance.network._tls_send cimport tls_send
from appliance.storage._partition_waits cimport (
    MAIL_CLOSE, MAIL_CONNECTION, MAIL_DECIDED, MAIL_LAST, MAIL_LOGIN, MAIL_RAW, MAIL_READ,
    MAIL_REPLY, MAIL_RULES, MAIL_VIEW, MAIL_WAKE, Inbox, InboxRef, Mail, inbox_may_sleep,
    inbox_take, inbox_wake, inboxes_keep, inboxes_visit,
)


cdef enum:
    EVENTS_MAX = 256
    FEW_EVENTS = 2                 # in a turn: then this thread has time for a neighbour's mail
    FEED_NS = 5000000              # how long memory that another processor freed may lie idle
    INBOX_EVENT = 0                # no connection has the id 0


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
        if not processor.timers.empty():
            timers_run(processor)
        if not processor.starved.empty():
            frames_feed(processor)
        if processor.now_ns >= processor.sweep_ns:
            timeouts_sweep(processor)
            processor.timers_kept.store(processor.timers.size())
        _answer(processor)
        inboxes_visit(&kept)
        if not processor.producing.empty():
            _produce_on(processor)
        times_note(&processor.traffic.turns, monotonic_ns() - processor.now_ns)
    inboxes_keep(NULL)
    _take_mail(processor)
    while not processor.connections.empty():
        connection_close(processor, dereference(processor.connections.begin()).second)
    inbox.owner = NULL
    inbox.turn.unlock()
    return NULL


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
    if not processor.to_send.empty() or not processor.producing.empty():
        return 0
    if not inbox_may_sleep(processor.inbox.get()):
        return 0
    if not processor.starved.empty():
        until = min(until, processor.now_ns + FEED_NS)
    if not processor.timers.empty():
        until = min(until, timers_next(processor))
    processor.sleeps_until_ns = until
    return <int>max(<int64_t>0, (until - monotonic_ns() + 999999) // 1000000)


cdef void _on_event(Processor* processor, int64_t id, uint32_t events) noexcept nogil:
    cdef Connection* connection = processor_find(processor, id)
    if connection == NULL:
        return
    if events & (EPOLLERR | EPOLLHUP):
        _hung_up(processor, connection, events)
        return
    if connection.tls != NULL and not handshake_go_on(processor, connection, &events):
        return
    if events & EPOLLOUT:
        processor_list(processor, connection)
    if events & EPOLLIN:
        frames_read(processor, connection)


cdef void _hung_up(Processor* processor, Connection* connection, uint32_t events) noexcept nogil:
    """What came before a reset is there to be read: the alert that says why."""
    cdef int64_t id = connection.id
    if connection.tls != NULL and not connection.tls.is_open and events & EPOLLIN:
        handshake_go_on(processor, connection, &events)
        connection = processor_find(processor, id)
    if connection != NULL:
        connection_close(processor, connection)


# Mail

cdef void _take_mail(Processor* processor) noexcept nogil:
    cdef Connection* connection
    cdef size_t i
    inbox_take(processor.inbox.get(), &processor.mails)
    for i in range(processor.mails.size()):
        if processor.mails[i].kind == MAIL_CONNECTION:
            connection_take(processor, &processor.mails[i])
            continue
        if processor.mails[i].kind == MAIL_RULES:
            _wake_fetches(processor)
            continue
        if processor.mails[i].kind == MAIL_VIEW:
            view_show(&processor.view, &processor.connections, processor.now_ns)
            continue
        connection = processor_find(processor, processor.mails[i].connection)
        if connection != NULL:
            _on_mail(processor, connection, &processor.mails[i])
    _look_again(processor)


cdef void _on_mail(Processor* processor, Connection* connection, Mail* mail) noexcept nogil:
    cdef Slot* slot = slot_at(connection, mail.slot)
    if mail.kind == MAIL_CLOSE:
        connection_close(processor, connection)
        return
    if mail.kind == MAIL_READ:
        processor_list(processor, connection)
        return
    if mail.kind == MAIL_LOGIN:
        gate_log_in(processor, connection, mail)
        return
    if mail.kind == MAIL_RAW:
        connection.is_raw = True
        return
    # A wake-up may come late, for a request that was answered meanwhile.
    if slot == NULL or slot.is_ready:
        return
    if mail.kind == MAIL_WAKE:
        _wake(processor, mail.connection, mail.slot, slot)
    elif mail.kind == MAIL_DECIDED and slot.fetch.get() != NULL:
        fetch_end_question(connection, slot)
        _wake(processor, mail.connection, mail.slot, slot)
        processor_list(processor, connection)  # it may be read again
    elif mail.kind == MAIL_LAST:
        gate_end_after(connection, slot)
    elif mail.kind == MAIL_REPLY:
        gate_unbar(connection, slot)
        slot.is_silent = mail.bytes.empty()
        slot.answer.bytes.swap(mail.bytes)
        slot_ready(connection, slot)
        processor_list(processor, connection)


cdef void _wake(Processor* processor, int64_t connection, int64_t number,
                Slot* slot) noexcept nogil:
    if slot.is_woken:
        return
    slot.is_woken = True
    processor.woken.resize(processor.woken.size() + 1)
    processor.woken.back().connection = connection
    processor.woken.back().slot = number


cdef void _wake_fetches(Processor* processor) noexcept nogil:
    """What they may read is known no more."""
    cdef Connection* connection
    cdef size_t i
    for entry in processor.connections:
        connection = entry.second
        if connection.waiting + connection.lookups == 0:
            continue
        for i in range(connection.slots.size()):
            if connection.slots[i].fetch.get() != NULL and not connection.slots[i].is_ready:
                _wake(processor, connection.id, connection.first_slot + <int64_t>i,
                      &connection.slots[i])


cdef void _look_again(Processor* processor) noexcept nogil:
    cdef Connection* connection
    cdef Slot* slot
    cdef bint had_lookups
    cdef size_t i
    for i in range(processor.woken.size()):
        connection = processor_find(processor, processor.woken[i].connection)
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
            processor_list(processor, connection)
    processor.woken.clear()


cdef void _produce_on(Processor* processor) noexcept nogil:
    """One part of one of them, however many there are: others wait for it."""
    cdef int64_t id = processor.producing.front()
    cdef Connection* connection = processor_find(processor, id)
    processor.producing.erase(processor.producing.begin())
    inboxes_keep(NULL)  # whom this part wakes does not wait for the end of the next turn
    if connection == NULL:
        return
    if not produce_go_on(processor, connection):
        processor.producing.push_back(id)
        return
    connection.active_ns = monotonic_ns()
    if connection.frame_ns > 0:
        connection.frame_ns = connection.active_ns  # as in `_unmute`
    processor_list(processor, connection)  # it is read again


# Visits

cdef void processor_visit(void* argument) noexcept nogil:
    cdef Processor* processor = <Processor*>argument
    processor.now_ns = monotonic_ns()
    _take_mail(processor)
    _answer(processor, True)
    if _must_wake(processor):
        inbox_wake(processor.inbox.get())


cdef bint _must_wake(Processor* processor) noexcept nogil:
    """The visit left something that its sleep is too long for."""
    if not processor.to_send.empty() or not processor.starved.empty():
        return True
    if processor.must_stop.load():
        return True
    if not processor.producing.empty():
        return True
    if not processor.timers.empty() and processor.timers.front().at_ns < processor.sleeps_until_ns:
        return True
    return not inbox_may_sleep(processor.inbox.get())


# Sending

cdef void _answer(Processor* processor, bint is_visit=False) noexcept nogil:
    _signal_punts(processor)
    _send_all(processor, is_visit)
    _signal_punts(processor)


cdef void _signal_punts(Processor* processor) noexcept nogil:
    """Once a turn: waking the control plane costs more than what it is woken for."""
    if processor.must_signal:
        processor.must_signal = False
        punts_signal(processor.plane)


cdef void _send_all(Processor* processor, bint is_visit) noexcept nogil:
    cdef vector[int64_t] turn
    cdef Connection* connection
    cdef size_t i
    cdef int result
    turn.swap(processor.to_send)
    for i in range(turn.size()):
        connection = processor_find(processor, turn[i])
        if connection == NULL:
            continue
        connection.is_listed = False
        if connection.tls == NULL or connection.tls.is_kernel:
            result = connection_send(connection)
        else:
            result = tls_send(connection, &processor.stage)
        if result == SEND_BROKEN or result == SEND_FULL and responses_take_too_much(connection):
            connection_close(processor, connection)
            continue
        if result == SEND_MORE:
            processor_list(processor, connection)
        connection.is_full = result == SEND_FULL
        if connection.mute_until_ns > 0 and not connection.is_muted:
            timer_mute(processor, connection)
        if is_visit and frames_are_held(connection):
            # They may take long, and who visits has work of its own: the event loop, or a commit.
            if connection.frame_ns > 0:
                connection.frame_ns = processor.now_ns  # as in `_unmute`
            processor_list(processor, connection)
            continue
        if frames_resume(processor, connection):
            connection_set_interest(connection, processor.epoll_fd, processor.now_ns)


# Starting and stopping

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
