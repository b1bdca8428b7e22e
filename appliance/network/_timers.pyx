"""Timers of a processor: the end of a fetch's max.wait.ms, and of a quota's delay, for which a
connection is muted. Timeouts of seconds are in `_connection_timeouts.pyx`.
"""

from libc.stdint cimport INT64_MAX, int64_t
from libcpp.algorithm cimport make_heap, pop_heap, push_heap

from appliance.network._connection cimport Connection, Slot, slot_at
from appliance.network._fetch_park cimport fetch_check
from appliance.network._processor cimport (
    Processor, Timer, processor_find, processor_list,
)
from appliance.network._request_size cimport request_want_memory


cdef enum:
    UNMUTE = -1                    # in the place of a timer's slot: a quota's delay ends
    TIMERS_LEAST = 1024            # fewer are not worth a look for those that were overtaken


# ---- without the GIL ----

cdef bint _is_later(const Timer& one, const Timer& other) noexcept nogil:
    return one.at_ns > other.at_ns


cdef void _push(Processor* processor, int64_t at_ns, int64_t connection,
                int64_t slot) noexcept nogil:
    cdef Timer timer
    if processor.timers.size() >= processor.timers_most:
        _drop_overtaken(processor)
    timer.at_ns = at_ns
    timer.connection = connection
    timer.slot = slot
    processor.timers.push_back(timer)
    push_heap(processor.timers.begin(), processor.timers.end(), _is_later)


cdef void _pop(Processor* processor) noexcept nogil:
    pop_heap(processor.timers.begin(), processor.timers.end(), _is_later)
    processor.timers.pop_back()


cdef void _drop_overtaken(Processor* processor) noexcept nogil:
    """Behind one that is still to come they would stay until their own time, and a client may ask
    to wait for days. As many as are left may come before the next look."""
    cdef size_t i, kept = 0
    for i in range(processor.timers.size()):
        if _is_awaited(processor, &processor.timers[i]):
            processor.timers[kept] = processor.timers[i]
            kept += 1
    processor.timers.resize(kept)
    make_heap(processor.timers.begin(), processor.timers.end(), _is_later)
    processor.timers_most = max(2 * kept, <size_t>TIMERS_LEAST)


cdef bint _is_awaited(Processor* processor, const Timer* timer) noexcept nogil:
    """Not so the timer of a fetch that was answered before, nor of a connection that is gone."""
    cdef Connection* connection = processor_find(processor, timer.connection)
    cdef Slot* slot
    if connection == NULL or timer.slot == UNMUTE:
        return connection != NULL
    slot = slot_at(connection, timer.slot)
    return slot != NULL and not slot.is_ready


cdef void timer_set(Processor* processor, Connection* connection, int64_t slot) noexcept nogil:
    _push(processor, slot_at(connection, slot).deadline_ns, connection.id, slot)


cdef void timer_mute(Processor* processor, Connection* connection) noexcept nogil:
    connection.is_muted = True
    _push(processor, connection.mute_until_ns, connection.id, UNMUTE)


cdef int64_t timers_next(Processor* processor) noexcept nogil:
    """Nobody should be woken for a fetch that was answered long before its time: at a thousand
    records a second that would be every second wake-up."""
    while not processor.timers.empty():
        if _is_awaited(processor, &processor.timers.front()):
            return processor.timers.front().at_ns
        _pop(processor)
    return INT64_MAX


cdef void timers_run(Processor* processor) noexcept nogil:
    """A fetch that was answered meanwhile leaves its timer behind: it finds nothing."""
    cdef Connection* connection
    cdef Slot* slot
    cdef Timer timer
    while not processor.timers.empty() and processor.timers.front().at_ns <= processor.now_ns:
        timer = processor.timers.front()
        _pop(processor)
        connection = processor_find(processor, timer.connection)
        if connection == NULL:
            continue
        if timer.slot == UNMUTE:
            _unmute(processor, connection)
            continue
        slot = slot_at(connection, timer.slot)
        if slot != NULL and not slot.is_ready and slot.fetch.get() != NULL:
            fetch_check(connection, slot, True)
            processor_list(processor, connection)


cdef void _unmute(Processor* processor, Connection* connection) noexcept nogil:
    """Unless requests that were in flight have used more meanwhile."""
    connection.is_muted = False
    if connection.mute_until_ns > processor.now_ns:
        timer_mute(processor, connection)
        return
    connection.mute_until_ns = 0
    connection.active_ns = processor.now_ns
    if connection.frame_ns > 0:
        # The sweep of this turn comes before the frame is read on, and would find it late.
        connection.frame_ns = processor.now_ns
    request_want_memory(processor, connection)
    processor_list(processor, connection)
