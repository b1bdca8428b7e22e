"""What has a fetch wait, and what wakes it.

A fetch that finds less than min_bytes puts a watch on every partition. A mail tells its processor
when one of them moves, and it is answered after max_wait_ms at the latest (`_timers.pyx`). Where
its records are on the disk alone, it waits for a read that brings them into the page cache; where
nobody knows what its client may read, for whoever decides that (`_fetch_rights.pyx`).
"""

from libc.stdint cimport int32_t, int64_t
from libcpp.vector cimport vector

from appliance.native._histogram cimport ROW_FETCH_WAITED
from appliance.native._native cimport monotonic_ns
from appliance.network._connection cimport (
    Connection, Fetch, FetchTarget, Slot, slot_ready,
)
from appliance.network._fetch_answer cimport fetch_put_answer, fetch_put_nothing
from appliance.network._fetch_read cimport FetchResult, fetch_look
from appliance.network._fetch_rights cimport fetch_end_question, fetch_is_decided
from appliance.network._fetch_session cimport session_renew
from appliance.storage._cold_reads cimport ColdReadRef, Lookup, cold_read_new, cold_read_put
from appliance.storage._partition_waits cimport (
    MAIL_WAKE, WATCH_APPENDED, WATCH_STABLE, WATCH_VISIBLE, Watch, watch_add, watch_remove,
)

cdef enum:
    HEAR_MS = 10                   # a follower waits at first to hear of a watermark
    HEAR_DOUBLED_MAX = 10          # times


# ---- without the GIL ----

cdef bint fetch_has_room(Connection* connection, int64_t more) noexcept nogil:
    return (connection.plane.fetch_partitions.load() + more
            <= connection.plane.limits.fetch_partitions_all)


cdef bint fetch_may_park(Connection* connection, Slot* slot) noexcept nogil:
    """A fetch that waits holds memory for each partition: beyond the limits it is answered with
    what there is. Clients have one at a time."""
    cdef int64_t more = slot.fetch.get().targets.size()
    return (fetch_has_room(connection, more)
            and connection.waiting_partitions + more <= connection.plane.limits.fetch_partitions)


cdef void fetch_answer_parked(Connection* connection) noexcept nogil:
    cdef Slot* slot
    cdef size_t i
    if connection.session.id == 0 or connection.waiting + connection.lookups == 0:
        return
    for i in range(connection.slots.size()):
        slot = &connection.slots[i]
        if slot.fetch.get() != NULL and slot.fetch.get().session_id != 0:
            # Without what would have to be read from the disk first: it is asked for again.
            _check(connection, slot, True, False)


cdef void fetch_park(Connection* connection, Slot* slot, int64_t slot_number,
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
        if fetch.replica >= 0:
            watch.kind = WATCH_APPENDED
        watch.offset = -1  # until it is re-armed, everything wakes it
        watch.is_told = False
        watch.inbox = connection.inbox.get()
        watch.connection = connection.id
        watch.slot = slot_number
        if target.log.get() != NULL:
            watch_add(&target.log.get().watches, watch)
    connection.waiting += 1
    _count_waiting(connection, fetch.watches.size())
    slot.deadline_ns = monotonic_ns() + _patience_ms(connection, fetch, max_wait_ms) * 1000000
    # Only now: what became visible before the watches were there told nobody.
    fetch_check(connection, slot, False)


cdef int64_t _patience_ms(Connection* connection, const Fetch* fetch,
                          int32_t max_wait_ms) noexcept nogil:
    """A follower that has yet to hear that what it has counts waits a moment only: what moves the
    watermark wakes nobody, as each batch would take two more requests. It waits longer, the more
    often there was nothing to tell: where too few are in sync the watermark stands for hours."""
    cdef const FetchTarget* target
    cdef size_t i
    if fetch.replica < 0 or fetch.session_id == 0:
        return max_wait_ms
    for i in range(fetch.targets.size()):
        target = &fetch.targets.at(i)
        if target.log.get() != NULL and target.told_visible < (
                target.log.get().log_end_offset.load()):
            return min(<int64_t>max_wait_ms,
                       <int64_t>HEAR_MS << min(connection.session.unheard, HEAR_DOUBLED_MAX))
    return max_wait_ms


cdef void fetch_forget(Connection* connection, Slot* slot) noexcept nogil:
    cdef Fetch* fetch = slot.fetch.get()
    cdef size_t i
    _end_lookup(connection, fetch)
    fetch_end_question(connection, slot)
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
    cdef vector[FetchResult] results
    cdef vector[Lookup] cold
    cdef int64_t total = 0
    cdef bint has_error = False, is_session = fetch.session_id != 0
    fetch.is_due = fetch.is_due or is_late
    if fetch.cold.get() != NULL and fetch.cold.get().is_done.load():
        _end_lookup(connection, fetch)
    fetch.generation = connection.plane.rights.generation.load()
    if fetch.generation != 0 and not fetch_is_decided(connection, slot, fetch.generation):
        if not may_look_up or connection.plane.is_draining.load():
            _answer_nothing(connection, slot)
        return slot.is_ready
    fetch_look(connection.plane, fetch, &results, &total, &has_error, &cold)
    if may_look_up and not cold.empty() and not _suffices(fetch, total, has_error):
        _look_up(connection, fetch, &cold, total)
        return False
    if total < fetch.min_bytes and not has_error and not fetch.is_due:
        if not connection.plane.is_draining.load():
            slot.row = ROW_FETCH_WAITED
            return False
    if may_look_up and not cold.empty():
        _read_left_out(connection, fetch, &cold)
    fetch_put_answer(connection, slot, fetch, &results, total)
    fetch_forget(connection, slot)
    if has_error and is_session:  # one of its fetches waits at a time, and this one did
        session_renew(connection)
    slot_ready(connection, slot)
    return True


cdef void _answer_nothing(Connection* connection, Slot* slot) noexcept nogil:
    """It cannot wait for what it may read: it will be asked for again."""
    cdef Fetch* fetch = slot.fetch.get()
    fetch_put_nothing(slot, fetch, 0, fetch.session_id)
    fetch_forget(connection, slot)
    slot_ready(connection, slot)


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
