"""Writes the answer of a fetch.

Small ranges are copied into the answer, so that it leaves in one call; large ones are sent from the
page cache by sendfile. A session's answer names only partitions with something new: data, an error,
a moved watermark.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._bytes cimport load_i64
from appliance.native._codes cimport BATCH_TORN
from appliance.native._files cimport disk_may_wait, read_whole
from appliance.network._connection cimport (
    Answer, Connection, Fetch, FetchTarget, Slot, Span, answer_begin, connection_charge,
)
from appliance.network._fetch cimport FETCH_BY_ID, FETCH_FLEXIBLE
from appliance.network._fetch_read cimport FetchResult
from appliance.network._fetch_replica cimport fetch_charge_follower, fetch_put_tags
from appliance.network._topic_table cimport (
    TOPIC_BYTES_OUT, TOPIC_FETCHES_FAILED, put_topic, topic_count,
)
from appliance.protocol._frame cimport (
    put_count, put_i16, put_i32, put_i64, put_room, put_tags,
)
from appliance.storage._index cimport AbortedTxn
from appliance.storage._read cimport Slice, log_aborted, log_note_fault

# ---- without the GIL ----

cdef void _put_head(Answer* answer, Fetch* fetch, int16_t error, int32_t session_id) noexcept nogil:
    answer_begin(answer, fetch.correlation_id, fetch.version >= FETCH_FLEXIBLE)
    put_i32(&answer.bytes, fetch.throttle_ms)
    if fetch.version >= 7:
        put_i16(&answer.bytes, error)
        put_i32(&answer.bytes, session_id)


cdef void fetch_put_nothing(Slot* slot, Fetch* fetch, int16_t error,
                            int32_t session_id) noexcept nogil:
    cdef bint is_flexible = fetch.version >= FETCH_FLEXIBLE
    _put_head(&slot.answer, fetch, error, session_id)
    put_count(&slot.answer.bytes, 0, is_flexible)
    put_tags(&slot.answer.bytes, is_flexible)


cdef void fetch_put_answer(Connection* connection, Slot* slot, Fetch* fetch,
                           vector[FetchResult]* results, int64_t total) noexcept nogil:
    cdef bint is_flexible = fetch.version >= FETCH_FLEXIBLE
    cdef size_t i, end, runs = 0
    _keep_news(fetch, results)
    if fetch.replica >= 0:
        connection.session.unheard = 0 if results.size() > 0 else connection.session.unheard + 1
    for i in range(results.size()):
        runs += i == 0 or not _share_topic(fetch, results, i - 1, i)
    if total > 0 and connection.quotas.fetch.get() != NULL and fetch.replica < 0:
        fetch.throttle_ms = connection_charge(connection, connection.quotas.fetch.get(), total)
    _put_head(&slot.answer, fetch, 0, fetch.session_id)
    put_count(&slot.answer.bytes, runs, is_flexible)
    i = 0
    while i < results.size():
        end = i + 1
        while end < results.size() and _share_topic(fetch, results, i, end):
            end += 1
        put_topic(&slot.answer.bytes, fetch.targets.at(results.at(i).target).topic.get(),
                  fetch.version >= FETCH_BY_ID, is_flexible)
        put_count(&slot.answer.bytes, end - i, is_flexible)
        while i < end:
            _put_partition(connection, slot, fetch, &results.at(i))
            i += 1
        put_tags(&slot.answer.bytes, is_flexible)
    put_tags(&slot.answer.bytes, is_flexible)
    if total > 0:
        connection.plane.counters.fetched_bytes.fetch_add(total)
        connection.session.first += 1


cdef void _keep_news(Fetch* fetch, vector[FetchResult]* results) noexcept nogil:
    """Of a session's partitions, those that have something new; in their order."""
    cdef size_t i, kept = 0
    for i in range(results.size()):
        if not _is_news(fetch, &results.at(i)):
            continue
        if kept < i:
            results[0][kept] = results.at(i)
        kept += 1
    if kept < results.size():
        results.resize(kept)


cdef bint _share_topic(Fetch* fetch, vector[FetchResult]* results, size_t one,
                       size_t other) noexcept nogil:
    cdef FetchTarget* a = &fetch.targets.at(results.at(one).target)
    cdef FetchTarget* b = &fetch.targets.at(results.at(other).target)
    return (a.topic.get() == b.topic.get() or a.topic.get().id == b.topic.get().id
            and a.topic.get().name == b.topic.get().name)


cdef bint _is_news(Fetch* fetch, FetchResult* result) noexcept nogil:
    cdef FetchTarget* target = &fetch.targets.at(result.target)
    cdef bint is_news = (result.slice.size > 0 or result.error != 0 or target.told_error != 0
                         or result.visible != target.told_visible
                         or result.start != target.told_start or result.diverges
                         or result.preferred >= 0)
    target.told_visible = result.visible
    target.told_start = result.start
    target.told_error = result.error
    return is_news or not fetch.is_incremental


cdef void _put_partition(Connection* connection, Slot* slot, Fetch* fetch,
                         FetchResult* result) noexcept nogil:
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
        put_i32(out, result.preferred)
    put_count(out, result.slice.size, fetch.version >= FETCH_FLEXIBLE)
    if result.slice.size > 0:
        _put_records(connection, &slot.answer, target, result)
        if fetch.replica < 0:
            topic_count(target.topic, connection.thread, TOPIC_BYTES_OUT, result.slice.size)
        else:
            fetch_charge_follower(connection.plane, fetch.replica, target, result.slice.size)
    elif result.error != 0:
        topic_count(target.topic, connection.thread, TOPIC_FETCHES_FAILED, 1)
    if (result.error != 0 or result.diverges) and fetch.version >= FETCH_FLEXIBLE:
        fetch_put_tags(out, target, result.error, result.diverges)
    else:
        put_tags(out, fetch.version >= FETCH_FLEXIBLE)


cdef void _put_aborted(vector[uint8_t]* out, Fetch* fetch, FetchTarget* target,
                       FetchResult* result) noexcept nogil:
    cdef bint is_flexible = fetch.version >= FETCH_FLEXIBLE
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
                       FetchResult* result) noexcept nogil:
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
