"""Slots in request order, and the way of answers to the socket.

A slot is made when its request is parsed and leaves when its answer is sent: answers wait for those
of earlier requests, not the other way round. An answer's length field is written when it is ready.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from posix.types cimport off_t

from appliance.native._bytes cimport store_i32
from appliance.native._codes cimport BATCH_TORN
from appliance.native._files cimport failure_note, is_cached, is_media_error
from appliance.native._histogram cimport times_note
from appliance.native._native cimport EAGAIN, EINTR, errno, monotonic_ns
from appliance.native._socket cimport (
    EPOLL_CTL_MOD, EPOLLIN, EPOLLOUT, MSG_MORE, MSG_NOSIGNAL, epoll_ctl, epoll_event, iovec, msghdr,
    sendfile, sendmsg,
)
from appliance.network._quota cimport Quota, quota_charge
from appliance.network._tls cimport tls_interest
from appliance.protocol._frame cimport put_i32, put_room, put_tags
from appliance.storage._cold_reads cimport (
    AHEAD_BYTES, COLD_BYTES, ColdReadRef, cold_read_new, cold_read_put,
)
from appliance.storage._partition_waits cimport MAIL_READ, InboxRef
from appliance.storage._read cimport log_note_fault

cdef enum:
    PARTS_MAX = 64                 # answers that leave in one sendmsg
    HELD_MAX = 4194304             # answers in memory beyond which no request is read
    ANSWER_BYTES = 256             # most answers of one partition are shorter, and grow no more


# ---- without the GIL ----

cdef Slot* slot_at(Connection* connection, int64_t number) noexcept nogil:
    cdef int64_t index = number - connection.first_slot
    if index < 0 or index >= <int64_t>connection.slots.size():
        return NULL
    return &connection.slots[index]


cdef int64_t slot_new(Connection* connection) noexcept nogil:
    connection.slots.resize(connection.slots.size() + 1)
    return connection.first_slot + <int64_t>connection.slots.size() - 1


cdef void slot_ready(Connection* connection, Slot* slot) noexcept nogil:
    cdef int64_t size = slot.answer.bytes.size() - 4
    cdef size_t i
    slot.is_ready = True
    slot.deadline_ns = 0
    if slot.is_silent or slot.closes:
        slot.answer.bytes.clear()
        return
    for i in range(slot.answer.spans.size()):
        size += slot.answer.spans[i].size
    store_i32(slot.answer.bytes.data(), <int32_t>size)
    slot.held_bytes = slot.answer.bytes.capacity()
    connection.held_bytes += slot.held_bytes
    connection.plane.held_bytes.fetch_add(slot.held_bytes)


cdef void answer_begin(Answer* answer, int32_t correlation_id, bint is_flexible) noexcept nogil:
    answer.bytes.clear()
    answer.spans.clear()
    answer.bytes.reserve(ANSWER_BYTES)
    put_room(&answer.bytes, 4)
    put_i32(&answer.bytes, correlation_id)
    put_tags(&answer.bytes, is_flexible)


cdef bint connection_has_room(Connection* connection) noexcept nogil:
    return (connection.slots.size() < <size_t>connection.plane.limits.requests_per_connection
            and connection.passed < connection.plane.limits.passed_per_connection
            and connection.held_bytes < HELD_MAX and connection.lookups == 0
            and connection.mute_until_ns == 0 and connection.barred == 0
            and connection.produce.get() == NULL and not connection.is_arriving)


cdef void connection_set_interest(Connection* connection, int epoll_fd,
                                  int64_t now_ns) noexcept nogil:
    cdef epoll_event event
    cdef uint32_t wanted = 0
    if connection_has_room(connection) and not connection.is_starved:
        wanted |= EPOLLIN
    if connection.is_full:
        wanted |= EPOLLOUT
    if connection.tls != NULL:
        wanted = tls_interest(connection.tls, wanted)
    if wanted == connection.interest:
        return
    if wanted & ~connection.interest & EPOLLIN and connection.frame_ns > 0:
        connection.frame_ns = now_ns  # it could not go on while it was not read
    connection.interest = wanted
    event.events = wanted
    event.data.u64 = <uint64_t>connection.id
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, connection.fd, &event)


cdef int32_t connection_charge(Connection* connection, Quota* quota, int64_t amount) noexcept nogil:
    return connection_mute(connection, quota_charge(quota, amount, monotonic_ns(),
                                                    connection.plane.quotas.window_ns))


cdef int32_t connection_mute(Connection* connection, int64_t delay_ns) noexcept nogil:
    if delay_ns == 0:
        return 0
    connection.plane.counters.throttled_requests.fetch_add(1)
    connection.mute_until_ns = max(connection.mute_until_ns, monotonic_ns() + delay_ns)
    return <int32_t>((delay_ns + 999999) // 1000000)


cdef int connection_send(Connection* connection) noexcept nogil:
    cdef int64_t sent = 0, got
    cdef Slot* slot
    while True:
        while answer_is_sent(connection):
            if connection.slots.front().closes:
                return SEND_BROKEN
            answer_end(connection)
            connection.sent_of_span = 0
        if connection.is_over:
            return SEND_BROKEN
        if connection.slots.empty() or not connection.slots.front().is_ready:
            connection.stalled_ns = 0
            return SEND_DONE
        if sent >= TURN_BYTES:
            return SEND_MORE
        slot = &connection.slots.front()
        if answer_stands_at_span(connection, slot):
            if not answer_span_is_at_hand(connection, slot):
                connection.stalled_ns = 0
                return SEND_COLD
            got = _send_span(connection, slot)
        else:
            got = _send_bytes(connection)
        if got < 0:
            if errno == EINTR:
                continue
            if errno != EAGAIN:
                answer_note_fault(connection, slot, errno)
                return SEND_BROKEN
            if connection.stalled_ns == 0:
                connection.stalled_ns = monotonic_ns()
            return SEND_FULL
        if got == 0:
            answer_note_fault(connection, slot, 0)
            return SEND_BROKEN  # the file is shorter than it was: the answer cannot be finished
        connection.stalled_ns = 0
        sent += got
        connection.plane.counters.bytes_out.fetch_add(got)
        connection.bytes_out += got


cdef void answer_end(Connection* connection) noexcept nogil:
    cdef Slot* slot = &connection.slots.front()
    times_note(&connection.traffic.requests[slot.row], monotonic_ns() - slot.begun_ns)
    connection.held_bytes -= slot.held_bytes
    connection.plane.held_bytes.fetch_add(-slot.held_bytes)
    connection.is_over = connection.is_over or slot.is_last
    connection.passed -= slot.passed_bytes > 0
    connection.passed_bytes -= slot.passed_bytes
    connection.slots.pop_front()
    connection.first_slot += 1
    connection.sent_bytes = connection.sent_spans = 0


cdef bint answer_is_sent(Connection* connection) noexcept nogil:
    cdef Slot* slot
    if connection.slots.empty():
        return False
    slot = &connection.slots.front()
    return (slot.is_ready and connection.sent_bytes == slot.answer.bytes.size()
            and connection.sent_spans == slot.answer.spans.size())


cdef bint answer_stands_at_span(Connection* connection, Slot* slot) noexcept nogil:
    return (connection.sent_spans < slot.answer.spans.size()
            and slot.answer.spans[connection.sent_spans].at == connection.sent_bytes)


cdef bint answer_span_is_at_hand(Connection* connection, Slot* slot) noexcept nogil:
    """Whether the next bytes of a file can be sent without waiting for the disk; else they are
    being read. What was read for it is sent even if memory was so short that it is gone again."""
    cdef Span* span = &slot.answer.spans[connection.sent_spans]
    cdef int64_t position = span.position + connection.sent_of_span
    cdef int64_t size = min(span.size - connection.sent_of_span, <int64_t>COLD_BYTES)
    cdef InboxRef nobody
    if connection.sent_of_span < connection.warm_of_span:
        return True
    if connection.cold.get() != NULL:
        if not connection.cold.get().is_done.load():
            return False
        connection.cold.reset()
    elif not is_cached(span.file.get().fd, position, size):
        connection.cold = _read_begun(connection, connection.inbox, span, position, size)
        return False
    elif not is_cached(span.file.get().fd, position + size + AHEAD_BYTES - 1, 1):
        # A reader of old records goes on. If only misses began what is behind them, every other
        # megabyte would wait for the disk. Not less at once than a miss begins: a disk that turns
        # would seek twice as often.
        connection.ahead = _read_begun(connection, nobody, span, position + size, COLD_BYTES)
    connection.warm_of_span = connection.sent_of_span + size
    return True


cdef ColdReadRef _read_begun(Connection* connection, const InboxRef& inbox, Span* span,
                             int64_t position, int64_t size) noexcept nogil:
    cdef ColdReadRef read = cold_read_new(inbox, MAIL_READ, connection.id, -1)
    read.get().file = span.file
    read.get().position = position
    read.get().size = size
    cold_read_put(&connection.plane.cold, read)
    return read


cdef int64_t _send_span(Connection* connection, Slot* slot) noexcept nogil:
    cdef Span* span = &slot.answer.spans[connection.sent_spans]
    cdef off_t position = span.position + connection.sent_of_span
    cdef int64_t got = sendfile(connection.fd, span.file.get().fd, &position,
                                connection.warm_of_span - connection.sent_of_span)
    if got > 0:
        connection.sent_of_span += got
        if connection.sent_of_span == span.size:
            connection.sent_spans += 1
            connection.sent_of_span = connection.warm_of_span = 0
    return got


cdef void answer_note_fault(Connection* connection, Slot* slot, int error) noexcept nogil:
    """Where it was the file, and not the client, that ended the answer."""
    cdef Span* span
    if not answer_stands_at_span(connection, slot) or error != 0 and not is_media_error(error):
        return
    span = &slot.answer.spans[connection.sent_spans]
    log_note_fault(span.log.get(), span.segment_base, span.segment_base,
                   BATCH_TORN if error == 0 else failure_note(b"sendfile", b"", error))


cdef int64_t _send_bytes(Connection* connection) noexcept nogil:
    """All bytes up to the next span: those of several answers go in one call."""
    cdef iovec[PARTS_MAX] parts
    cdef msghdr message
    cdef Slot* slot
    cdef size_t i = 0, from_byte = connection.sent_bytes, to_byte
    cdef int64_t got, left
    cdef bint more = False
    message.msg_name = message.msg_control = NULL
    message.msg_namelen = message.msg_controllen = 0
    message.msg_flags = 0
    message.msg_iovlen = 0
    while i < connection.slots.size() and message.msg_iovlen < PARTS_MAX and not more:
        slot = &connection.slots[i]
        if not slot.is_ready or slot.closes:
            break
        to_byte = slot.answer.bytes.size()
        if slot.answer.spans.size() > (connection.sent_spans if i == 0 else 0):
            to_byte = slot.answer.spans[connection.sent_spans if i == 0 else 0].at
            more = True
        if to_byte > from_byte:
            parts[message.msg_iovlen].iov_base = slot.answer.bytes.data() + from_byte
            parts[message.msg_iovlen].iov_len = to_byte - from_byte
            message.msg_iovlen += 1
        from_byte = 0
        i += 1
        if slot.is_last:
            break
    message.msg_iov = parts
    got = sendmsg(connection.fd, &message, MSG_NOSIGNAL | (MSG_MORE if more else 0))
    left = got
    while left > 0:
        left -= answer_advance(connection, left)
    return got


cdef int64_t answer_advance(Connection* connection, int64_t sent) noexcept nogil:
    """Takes `sent` bytes as gone from the first answer; whole answers leave the queue."""
    cdef Slot* slot = &connection.slots.front()
    cdef size_t to_byte = slot.answer.bytes.size()
    cdef int64_t step
    if connection.sent_spans < slot.answer.spans.size():
        to_byte = slot.answer.spans[connection.sent_spans].at
    step = min(sent, <int64_t>(to_byte - connection.sent_bytes))
    connection.sent_bytes += step
    if answer_is_sent(connection):
        answer_end(connection)
    return step
