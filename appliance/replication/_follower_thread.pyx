"""One thread for each leader: asks, appends, has it synced, and asks on.

    connect ─► ask ─► receive ─► take ─► settle ─► ask …
                 ▲        │
                 └ woken ─┘    names what is new, while the first request is at the leader still

A request says of a partition what is on disk here, and that is all that it says. So an answer is
settled before the next request: one commit for all that it brought. The leader keeps a session of
the partitions; only those that moved are named. It answers a request that waits there as soon as
the next one comes, so two are on their way at most. The second answer may be about an end that the
first has moved: each partition knows which request named it where it is, and takes no older answer.

A frame is appended from where it was received to; nothing is copied in between.
"""

from cython.operator cimport dereference
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libcpp.string cimport string

from appliance.native._bytes cimport Cursor, load_i32, store_i32
from appliance.native._codes cimport OK, TIMED_OUT
from appliance.native._native cimport (
    ScopeLock, close, monotonic_ns, mutant, own, pthread_create, pthread_setname_np, pthread_t,
    wait_until,
)
from appliance.native._socket cimport eventfd_write
from appliance.native._wake_soon cimport wake_soon
from appliance.replication._fetch_wire cimport (
    FRAME_HEAD_BYTES, TOPIC_ID_SIZE, Answered, AnswerHead, AnsweredTopic, fetch_end_topic,
    fetch_put_request, fetch_read_head, fetch_read_partition, fetch_read_topic,
)
from appliance.replication._followed_partition cimport (
    Followed, followed_is_maintained, followed_is_to_be_named, followed_name, followed_take,
)
from appliance.replication._leader_link cimport (
    LINK_CLOSED, LINK_MALFORMED, LINK_NO_LOGIN, LINK_OK, LINK_REFUSED, LINK_UNTRUSTED, LINK_WOKEN,
    link_calm, link_close, link_open, link_receive, link_send, link_sleep,
)
from appliance.replication._leader_login cimport login_stop
from appliance.storage._commit_requests cimport committer_await
from appliance.storage._last_stable_offset cimport log_high_watermark
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._retention cimport log_advance_start

cdef extern from "pthread.h" nogil:
    int pthread_detach(pthread_t thread)

cdef enum:
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    IN_FLIGHT_MAX = 2
    NUMBER_MASK = 0x7FFFFFFF       # of a request's number: what its answer repeats
    SETTLE_NS = 500000000          # a disk that takes longer holds back its own partitions alone
    SETTLE_STEP_NS = 50000000      # between two looks at must_stop
    BEHIND_NS = 10000000           # between two looks at a disk that was not waited for
    BACKOFF_FIRST_NS = 20000000
    # A handshake costs the leader some milliseconds, and it counts wrong passwords.
    REFUSED_FIRST_NS = 1000000000
    REFUSED_MAX_NS = 10000000000


# ---- without the GIL ----

cdef string followed_key(const uint8_t* topic_id, int32_t partition) noexcept nogil:
    cdef uint8_t[4] number
    cdef string key
    store_i32(number, partition)
    key.assign(<const char*>topic_id, TOPIC_ID_SIZE)
    key.append(<const char*>number, sizeof(number))
    return key


# Its life

cdef FollowerRef follower_new(int event_fd) noexcept nogil:
    cdef FollowerRef follower = own[Follower](new Follower(), _free)
    follower.get().link.event_fd = event_fd
    follower.get().link.fd = -1
    follower.get().link.wake_at_ns = INT64_MAX
    return follower


cdef void _free(Follower* it) noexcept nogil:
    link_close(&it.link)
    close(it.link.event_fd)
    del it


cdef int follower_start(const FollowerRef& follower) noexcept nogil:
    cdef FollowerRef* its_own = new FollowerRef(follower)
    cdef pthread_t thread
    cdef int error = pthread_create(&thread, NULL, _run, its_own)
    if error != 0:
        del its_own
        return error
    pthread_setname_np(thread, b"replica-fetch")
    pthread_detach(thread)
    return 0


cdef void follower_wake(Follower* follower) noexcept nogil:
    follower.has_news.store(True)
    eventfd_write(follower.link.event_fd, 1)


cdef bint follower_stop(Follower* follower, int64_t until_ns) noexcept nogil:
    cdef ScopeLock lock
    follower.link.must_stop.store(True)
    login_stop(&follower.link.talk)
    follower_wake(follower)
    lock.hold(follower.guard)
    while not follower.is_ended:
        if not wait_until(follower.ended, follower.guard, until_ns):
            return follower.is_ended
    return True


cdef void* _run(void* argument) noexcept nogil:
    cdef FollowerRef* its_own = <FollowerRef*>argument
    cdef Follower* it = its_own.get()
    wake_soon()
    while not it.link.must_stop.load():
        _turn(it)
    _hang_up(it, LINK_OK, 0)
    it.guard.lock()
    it.is_ended = True
    it.ended.notify_all()
    it.guard.unlock()
    del its_own
    return NULL


cdef void _turn(Follower* it) noexcept nogil:
    cdef int64_t in_flight
    cdef bint is_news
    if it.link.fd >= 0 and _login_is_over(it):
        _hang_up(it, LINK_OK, 0)
    if it.link.fd < 0:
        _connect(it)
        return
    in_flight = it.asked - it.answered
    is_news = it.has_news.exchange(False)
    if in_flight == 0 or is_news and in_flight < IN_FLIGHT_MAX and it.session_id != 0:
        _ask(it, in_flight > 0)
    elif is_news:
        it.has_news.store(True)
    if it.link.fd < 0:
        return
    if it.asked == it.answered:  # there is nothing to ask for
        link_sleep(&it.link, min(it.link.wake_at_ns, monotonic_ns() + it.link.patience_ns))
        link_calm(&it.link)
        return
    _hear(it)


# The connection

cdef void _connect(Follower* it) noexcept nogil:
    cdef int64_t until_ns = it.retry_at_ns
    cdef int result = LINK_OK
    link_calm(&it.link)
    if _has_nothing(it):
        until_ns = INT64_MAX
    if it.link.must_stop.load():
        return
    if until_ns > monotonic_ns():
        link_sleep(&it.link, until_ns)
        return
    it.connects.fetch_add(1)
    while True:
        result = link_open(&it.link)
        if result != LINK_WOKEN or it.link.must_stop.load():
            break
        link_calm(&it.link)
    if result != LINK_OK:
        _hang_up(it, result, it.link.error)
        return
    it.session_id, it.request.session_epoch = 0, 0
    it.asked = it.answered
    it.is_connected.store(True)


cdef bint _login_is_over(const Follower* it) noexcept nogil:
    """The leader would end the connection, as it does with whoever stays longer."""
    return it.link.good_until_ns != 0 and monotonic_ns() >= it.link.good_until_ns


cdef bint _has_nothing(Follower* it) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(it.guard)
    return it.followed.empty()


cdef void _hang_up(Follower* it, int result, int error) noexcept nogil:
    """It is tried again after a while, longer the more often in a row; but a leader that only let
    go of its session is asked for a new one at once."""
    cdef bint is_session = result == LINK_REFUSED and (
        error == FETCH_SESSION_ID_NOT_FOUND or error == INVALID_FETCH_SESSION_EPOCH)
    cdef Followed* each
    cdef ScopeLock lock
    link_close(&it.link)
    if result == LINK_UNTRUSTED or result == LINK_NO_LOGIN:
        it.backoff_ns = min(max(2 * it.backoff_ns, <int64_t>REFUSED_FIRST_NS),
                            <int64_t>REFUSED_MAX_NS)
    elif not is_session or it.backoff_ns != 0:
        it.backoff_ns = min(max(2 * it.backoff_ns, <int64_t>BACKOFF_FIRST_NS), it.backoff_max_ns)
    it.retry_at_ns = monotonic_ns() + it.backoff_ns
    lock.hold(it.guard)
    it.link_result, it.link_error, it.link_words = result, error, it.link.words
    it.is_connected.store(False)  # with its reason
    it.forgotten.clear()
    for entry in it.followed:
        each = entry.second.get()
        each.is_in_session = False
        each.valid_from = INT64_MAX


# Asking

cdef void _ask(Follower* it, bint only_news) noexcept nogil:
    """Sends a request, unless there is nothing to ask for."""
    cdef FetchRequest* request = &it.request
    cdef int result
    cdef bint is_worth_it
    it.guard.lock()
    is_worth_it = _collect(it) or not it.forgotten.empty()
    if only_news and request.named.empty() and it.forgotten.empty():
        is_worth_it = False
    if is_worth_it:
        request.forgotten.clear()
        request.forgotten.swap(it.forgotten)
        it.asked += 1
    it.guard.unlock()
    if not is_worth_it:
        return
    request.correlation_id = <int32_t>(it.asked & NUMBER_MASK)
    request.node, request.life = it.node, it.life.load()
    # What begins a session does not wait: until it is there, nothing can be named beside it.
    request.wait_ms = it.wait_ms if it.session_id != 0 else 0
    request.max_bytes, request.partition_bytes = it.max_bytes, it.partition_bytes
    request.session_id = it.session_id
    fetch_put_request(&it.out, request)
    if it.session_id != 0:
        request.session_epoch = 1 if request.session_epoch == 0x7FFFFFFF else (
            request.session_epoch + 1)
    it.requests.fetch_add(1)
    result = link_send(&it.link, &it.out)
    if result != LINK_OK:
        _hang_up(it, result, it.link.error)


cdef bint _collect(Follower* it) noexcept nogil:
    """Whether the leader has, or is about to get, a partition to answer about. guard is held."""
    cdef Followed* each
    cdef Named named
    cdef int64_t now = monotonic_ns()
    cdef bint is_full = it.session_id == 0, may_name, has_one = False
    it.request.named.clear()
    it.link.wake_at_ns = INT64_MAX
    for entry in it.followed:
        each = entry.second.get()
        if is_full:
            each.is_in_session = False
            each.valid_from = INT64_MAX
        elif each.is_in_session and not followed_is_to_be_named(each):
            has_one = True
            continue
        may_name = each.out_until_ns <= now and followed_name(
            each, it.leader, it.backoff_max_ns, it.quota.get(), &named)
        if may_name:
            it.request.named.push_back(named)
            each.is_in_session = True
            each.valid_from = it.asked + 1
            has_one = True
            continue
        if each.is_in_session:
            named.topic_id, named.partition = each.topic_id, each.partition
            it.forgotten.push_back(named)
            each.is_in_session = False
            each.valid_from = INT64_MAX
        it.link.wake_at_ns = min(it.link.wake_at_ns, max(each.out_until_ns, now + BEHIND_NS))
    return has_one


# Hearing

cdef void _hear(Follower* it) noexcept nogil:
    cdef uint8_t[FRAME_HEAD_BYTES] head
    cdef int64_t size
    cdef int result
    if it.asked - it.answered == IN_FLIGHT_MAX or it.session_id == 0:
        it.link.wake_at_ns = INT64_MAX  # nothing more could be asked for
    result = _read(it, head, FRAME_HEAD_BYTES, True)
    if result == LINK_WOKEN:
        return
    if result == LINK_OK:
        size = load_i32(head) - 4
        if size < 0 or load_i32(head + 4) != <int32_t>((it.answered + 1) & NUMBER_MASK):
            result = LINK_MALFORMED
    if result == LINK_OK:
        if <size_t>size > it.frame.size():
            it.frame.clear()
            it.frame.resize(size)
        result = _read(it, it.frame.data(), size, False)
    if result == LINK_OK:
        it.answered += 1
        it.bytes_in.fetch_add(size)
        result = _take(it, size)
    if result != LINK_OK:
        _hang_up(it, result, it.link.error)
        return
    if it.session_id == 0 and it.settling.empty():
        # There is no room for a session: it asks again and again, for all.
        link_sleep(&it.link, monotonic_ns() + BEHIND_NS)
    _settle(it)


cdef int _read(Follower* it, uint8_t* into, int64_t size, bint may_wake) noexcept nogil:
    """LINK_WOKEN: nothing was read."""
    cdef int64_t at = 0, got
    while at < size:
        got = link_receive(&it.link, into + at, size - at)
        if got > 0:
            at += got
        elif got != LINK_WOKEN:
            return <int>got
        else:
            link_calm(&it.link)
            it.link.wake_at_ns = INT64_MAX
            it.has_news.store(True)
            if it.link.must_stop.load():
                return LINK_CLOSED
            if may_wake and at == 0:
                return LINK_WOKEN
    return LINK_OK


cdef int _take(Follower* it, int64_t size) noexcept nogil:
    cdef Cursor cursor
    cdef AnswerHead head
    cdef AnsweredTopic topic
    cdef Answered answer
    cursor.at = it.frame.data()
    cursor.end = cursor.at + size
    cursor.failed = False
    head = fetch_read_head(&cursor)
    if not cursor.failed and head.error != 0:
        it.link.error = head.error
        return LINK_REFUSED
    if it.session_id == 0 or head.session_id == 0:
        it.request.session_epoch = head.session_id != 0
    it.session_id = head.session_id
    while head.topics > 0 and not cursor.failed:
        head.topics -= 1
        topic = fetch_read_topic(&cursor)
        while topic.partitions > 0 and not cursor.failed:
            topic.partitions -= 1
            fetch_read_partition(&cursor, &answer)
            if not cursor.failed:
                _take_partition(it, topic.id.data, &answer)
        fetch_end_topic(&cursor)
    if cursor.failed:
        return LINK_MALFORMED
    it.backoff_ns = 0
    return LINK_OK


cdef void _take_partition(Follower* it, const uint8_t* topic_id,
                          const Answered* answer) noexcept nogil:
    """guard is held meanwhile, so that whoever removes it knows that this is over."""
    cdef FollowedRef found
    cdef Followed* each
    cdef ScopeLock lock
    lock.hold(it.guard)
    entry = it.followed.find(followed_key(topic_id, answer.partition))
    if entry == it.followed.end():
        return
    found = dereference(entry).second
    each = found.get()
    if it.answered < each.valid_from:
        return
    followed_take(each, answer, it.backoff_max_ns, it.quota.get())
    if each.is_moved:
        it.settling.push_back(found)
    if each.leader_start > each.log.get().log_start_offset.load():
        it.shortening.push_back(found)
    if each.is_moved or each.out_until_ns != 0:
        it.has_news.store(True)


# Settling

cdef void _settle(Follower* it) noexcept nogil:
    """All is on its way to the disk already: the first wait is for the commit of all."""
    cdef int64_t until_ns = monotonic_ns() + SETTLE_NS
    cdef size_t i
    for i in range(0 if mutant(b"follower_counts_unsynced") else it.settling.size()):
        _await(it, it.settling[i].get(), until_ns)
    it.settling.clear()
    _shorten(it)


cdef void _shorten(Follower* it) noexcept nogil:
    """The leader tells its start once. What cannot be deleted now is after the next answer: whoever
    had it deleted waits for that."""
    cdef vector[FollowedRef] later
    cdef Followed* each
    cdef PartitionLog* log
    cdef size_t i
    for i in range(it.shortening.size()):
        each = it.shortening[i].get()
        log = each.log.get()
        if each.leader_start <= log.log_start_offset.load() or not _is_followed(it, each):
            continue
        if each.leader_start <= log_high_watermark(log) and not followed_is_maintained(each):
            if log_advance_start(log, each.leader_start) == OK:
                continue
        if not _has(&later, each):
            later.push_back(it.shortening[i])
    it.shortening.swap(later)


cdef bint _is_followed(Follower* it, Followed* each) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(it.guard)
    entry = it.followed.find(followed_key(<const uint8_t*>each.topic_id.data(), each.partition))
    return entry != it.followed.end() and dereference(entry).second.get() == each


cdef bint _has(const vector[FollowedRef]* all_of_them, const Followed* each) noexcept nogil:
    cdef size_t i
    for i in range(all_of_them.size()):
        if all_of_them.at(i).get() == each:
            return True
    return False


cdef void _await(Follower* it, Followed* each, int64_t until_ns) noexcept nogil:
    cdef int64_t last = each.log.get().log_end_offset.load() - 1
    cdef int64_t now
    cdef int code = TIMED_OUT
    while code == TIMED_OUT and not it.link.must_stop.load():
        now = monotonic_ns()
        if now >= until_ns:
            return
        code = committer_await(each.committer.get(), each.log, last,
                               min(until_ns, now + SETTLE_STEP_NS))
