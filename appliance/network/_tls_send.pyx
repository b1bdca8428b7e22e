"""The way of answers to a client with TLS, where the kernel does not encrypt.

OpenSSL takes bytes in memory, one record of 16 KiB a call. So what is next, of several answers and
of files, is gathered in a stage of some full records that all connections of the thread share. If
the socket takes no more, OpenSSL holds one record that is encrypted already, and wants the same
bytes again at the next call. They are gathered again from where the last whole record ended:

1. What is ready stays ready, so the next stage has the same bytes, or more behind them.
2. A range of a file is read only if it is the next of the first answer, so that `warm_of_span`
   remembers that it was at hand.
3. Where a file has become shorter in between, `tls_write` refuses, and the connection ends.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from appliance.native._native cimport EAGAIN, EINTR, errno, monotonic_ns, pread, set_errno
from appliance.network._connection cimport (
    SEND_BROKEN, SEND_COLD, SEND_DONE, SEND_FULL, SEND_MORE, TURN_BYTES, Slot, Span,
    answer_advance, answer_end, answer_is_sent, answer_note_fault, answer_span_is_at_hand,
    answer_stands_at_span,
)
from appliance.network._tls cimport tls_write

cdef enum:
    STAGE_BYTES = 65536            # four full records


# ---- without the GIL ----

cdef int tls_send(Connection* connection, RawBytes* stage) noexcept nogil:
    cdef int64_t sent = 0, size
    while True:
        while answer_is_sent(connection):
            if connection.slots.front().closes:
                return SEND_BROKEN
            answer_end(connection)
        if connection.is_over:
            return SEND_BROKEN
        if connection.slots.empty() or not connection.slots.front().is_ready:
            connection.stalled_ns = 0
            return SEND_DONE
        if sent >= TURN_BYTES:
            return SEND_MORE
        stage.resize(STAGE_BYTES)
        size = _gather(connection, stage.data())
        if size == 0:
            connection.stalled_ns = 0
            return SEND_COLD
        if size < 0 or not _write(connection, stage.data(), size, &sent):
            return SEND_BROKEN
        if connection.stalled_ns > 0:
            return SEND_FULL


cdef bint _write(Connection* connection, const uint8_t* data, int64_t size,
                 int64_t* sent) noexcept nogil:
    """False: the connection is broken. `stalled_ns` says whether all of it is gone."""
    cdef int64_t done = 0, got
    while done < size:
        got = tls_write(connection.tls, data + done, size - done)
        if got < 0:
            if errno != EAGAIN:
                return False
            if connection.stalled_ns == 0:
                connection.stalled_ns = monotonic_ns()
            return True
        connection.stalled_ns = 0
        _advance(connection, got)
        done += got
        sent[0] += got
        connection.plane.counters.bytes_out.fetch_add(got)
        connection.bytes_out += got
    return True


cdef void _advance(Connection* connection, int64_t left) noexcept nogil:
    """As `answer_advance`, and over ranges of files."""
    cdef Slot* slot
    cdef Span* span
    cdef int64_t step
    while left > 0:
        slot = &connection.slots.front()
        if not answer_stands_at_span(connection, slot):
            left -= answer_advance(connection, left)
            continue
        span = &slot.answer.spans[connection.sent_spans]
        step = min(left, span.size - connection.sent_of_span)
        connection.sent_of_span += step
        left -= step
        if connection.sent_of_span == span.size:
            connection.sent_spans += 1
            connection.sent_of_span = connection.warm_of_span = 0
            if answer_is_sent(connection):
                answer_end(connection)


cdef int64_t _gather(Connection* connection, uint8_t* into) noexcept nogil:
    """What is next: a count, 0: a range of a file is not at hand yet, -1: it cannot be read."""
    cdef Slot* slot = &connection.slots.front()
    cdef size_t span = connection.sent_spans, i = 1
    cdef int64_t used = _copy(slot, connection.sent_bytes, span, into, 0), got
    if span < slot.answer.spans.size():
        if used == STAGE_BYTES or not answer_span_is_at_hand(connection, slot):
            return used
        got = _read_span(connection, slot, into + used, STAGE_BYTES - used)
        if got <= 0:
            return used if used > 0 else -1
        used += got
        if connection.sent_of_span + got < slot.answer.spans[span].size:
            return used
        used = _copy(slot, slot.answer.spans[span].at, span + 1, into, used)
        if span + 1 < slot.answer.spans.size():
            return used
    while i < connection.slots.size() and used < STAGE_BYTES:
        slot = &connection.slots[i]
        if not slot.is_ready or slot.closes:
            break
        used = _copy(slot, 0, 0, into, used)
        if not slot.answer.spans.empty():
            break
        i += 1
    return used


cdef int64_t _copy(Slot* slot, size_t from_byte, size_t span, uint8_t* into,
                   int64_t used) noexcept nogil:
    """An answer's own bytes up to that span, as far as there is room. The result: `used` then."""
    cdef size_t to_byte = slot.answer.bytes.size()
    cdef int64_t size
    if span < slot.answer.spans.size():
        to_byte = slot.answer.spans[span].at
    size = min(<int64_t>(to_byte - from_byte), STAGE_BYTES - used)
    if size > 0:
        memcpy(into + used, slot.answer.bytes.data() + from_byte, size)
    return used + size


cdef int64_t _read_span(Connection* connection, Slot* slot, uint8_t* into,
                        int64_t room) noexcept nogil:
    cdef Span* span = &slot.answer.spans[connection.sent_spans]
    cdef int64_t got = -1
    set_errno(EINTR)
    while got < 0 and errno == EINTR:
        got = pread(span.file.get().fd, into,
                    min(room, connection.warm_of_span - connection.sent_of_span),
                    span.position + connection.sent_of_span)
    if got <= 0:
        answer_note_fault(connection, slot, 0 if got == 0 else errno)
    return got
