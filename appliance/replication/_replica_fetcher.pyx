"""The Python face of a follower: `Fetcher` fetches partitions from one leader broker.

Elections are told to the logs (`Log.follow`), and which log is fetched from whom is told here. A
log is removed before it is told to lead: what was begun for it is over when `remove` returns.
"""

from collections import namedtuple
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.memory cimport make_shared
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance._log cimport Log
from appliance.native._codes cimport OK, WOULD_WAIT
from appliance.native._native cimport ScopeLock, errno, monotonic_ns
from appliance.native._socket cimport EFD_CLOEXEC, EFD_NONBLOCK, eventfd
from appliance.network._quota cimport Quota, QuotaRef, quota_set_rate
from appliance.network._tls_context cimport TlsContext
from appliance.protocol._error_codes cimport kafka_message
from appliance.replication._fetch_wire cimport TOPIC_ID_SIZE, Named
from appliance.replication._followed_partition cimport Followed, FollowedRef, followed_new
from appliance.replication._follower_thread cimport (
    Follower, FollowerRef, followed_key, follower_new, follower_start, follower_stop,
    follower_wake,
)
from appliance.replication._leader_link cimport (
    LINK_BROKEN, LINK_CLOSED, LINK_LATE, LINK_NO_LOGIN, LINK_OK, LINK_REFUSED, LINK_UNKNOWN_HOST,
    LINK_UNTRUSTED, LoginTalk,
)
from appliance.replication._leader_login cimport (
    LOGIN_BEGIN, LOGIN_DONE, LOGIN_FAILED, LOGIN_SEND, LOGIN_STOP, login_asked, login_reply,
)
from appliance.storage._last_stable_offset cimport log_high_watermark

import os
import threading

from appliance.errors import ApplianceError
from appliance.protocol.errors import ErrorCode

PartitionState = namedtuple(
    "PartitionState",
    "topic_id topic partition offset log_end_offset watermark leader_epoch bytes cuts error "
    "reason retry_ms",
)
UntoldCut = namedtuple("UntoldCut", "topic_id topic partition offset log_end_offset watermark")


# ---- without the GIL ----

cdef void _put(Follower* it, const string& key, const FollowedRef& fresh) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(it.guard)
    entry = it.followed.find(key)
    if entry != it.followed.end():
        fresh.get().is_in_session = it.followed[key].get().is_in_session
        fresh.get().is_moved = True
    it.followed[key] = fresh


cdef bint _remove(Follower* it, const string& key) noexcept nogil:
    cdef Named named
    cdef FollowedRef found
    cdef ScopeLock lock
    lock.hold(it.guard)
    if it.followed.count(key) == 0:
        return False
    found = it.followed[key]
    it.followed.erase(key)
    if found.get().is_in_session:
        named.topic_id, named.partition = found.get().topic_id, found.get().partition
        it.forgotten.push_back(named)
    return True


cdef bint _allow(Follower* it, const string& key, int64_t offset) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(it.guard)
    if it.followed.count(key) == 0:
        return False
    it.followed[key].get().may_cut = offset
    it.followed[key].get().wants_cut = -1
    it.followed[key].get().out_until_ns = 1  # it is asked for again at once
    return True


cdef void _copy(Follower* it, vector[Followed]* into) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(it.guard)
    for entry in it.followed:
        into.push_back(entry.second.get()[0])


# ---- with the GIL ----

cdef class FollowersQuota:
    """How fast this broker fetches what it is to fetch slowly, from all leaders together."""

    cdef QuotaRef quota

    def __cinit__(self):
        self.quota = make_shared[Quota]()

    def set_rate(self, int64_t rate):
        """Bytes a second; 0: as fast as it can be."""
        quota_set_rate(self.quota.get(), rate)


cdef class Fetcher:
    """What this broker fetches from one leader, on a thread of its own. Its connection is encrypted
    with `tls`; what is sent for a `login` is said by another thread."""

    cdef FollowerRef follower
    cdef object login
    cdef bint is_running
    cdef readonly int leader_node
    cdef readonly str host
    cdef readonly int port

    def __cinit__(self, int leader_node, str host not None, int port, int32_t own_node,
                  int64_t own_life, config not None, TlsContext tls=None, login=None,
                  FollowersQuota quota=None):
        cdef int event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
        cdef Follower* it
        if event_fd < 0:
            raise OSError(errno, "a fetcher cannot be set up")
        self.leader_node, self.host, self.port = leader_node, host, port
        self.follower = follower_new(event_fd)
        it = self.follower.get()
        it.leader = leader_node
        it.node = own_node
        it.life.store(own_life)
        it.wait_ms = config.fetch_wait_max_ms
        it.max_bytes = config.fetch_response_max_bytes
        it.partition_bytes = config.fetch_max_bytes
        it.backoff_max_ns = config.fetch_backoff_ms * <int64_t>1000000
        it.link.patience_ns = config.socket_timeout_ms * <int64_t>1000000
        it.link.host = host.encode()
        it.link.port = str(port).encode()
        it.quota = (FollowersQuota() if quota is None else quota).quota
        if tls is not None:
            it.link.security = tls.listener
        self.login = login
        it.link.logs_in = login is not None

    def __dealloc__(self):
        if self.is_running:  # it ends by itself; nobody waits for it
            follower_stop(self.follower.get(), 0)

    def start(self):
        cdef int error
        if self.is_running or self.follower.get().link.must_stop.load():
            raise ValueError("a fetcher starts once")
        error = follower_start(self.follower)
        if error != 0:
            raise OSError(error, "the thread of a fetcher cannot be started")
        self.is_running = True
        if self.login is not None:
            threading.Thread(target=self._log_in, name="replica-login", daemon=True).start()

    def stop(self, int64_t wait_ms=100):
        """Nothing is asked for any more, and the connection is closed: whether that is so within
        the time. A disk that hangs may hold the thread longer."""
        cdef bint is_over
        if not self.is_running:
            return True
        with nogil:
            is_over = follower_stop(self.follower.get(), monotonic_ns() + wait_ms * 1000000)
        self.is_running = not is_over
        return bool(is_over)

    def _log_in(self):
        """Until it stops: says what the follower's thread sends to log in."""
        cdef LoginTalk* talk = &self.follower.get().link.talk
        cdef vector[uint8_t] data
        cdef int question, reply
        cdef int64_t lasts_ms
        steps = None
        while True:
            with nogil:
                question = login_asked(talk, &data)
            if question == LOGIN_STOP:
                return
            answer = (<const char*>data.data())[:data.size()]
            if question == LOGIN_BEGIN:
                steps, answer = self.login.steps(), None
            reply, lasts_ms, text = _next_step(steps, answer)
            data.assign(<const uint8_t*><const char*>text,
                        <const uint8_t*><const char*>text + len(text))
            with nogil:
                login_reply(talk, reply, &data, lasts_ms)

    def add(self, bytes topic_id not None, str topic not None, int32_t partition, Log log not None,
            int32_t unclean_epoch=-1):
        """It follows the leader, or soon will: `Log.follow`. Again for one that is there: what was
        wrong with it is forgotten, and it is asked for at once. `unclean_epoch`: of the last
        unclean election; what is older is not cut before `allow_cut`."""
        cdef string c_id = topic_id, c_topic = topic.encode(), key
        cdef FollowedRef fresh
        if len(topic_id) != TOPIC_ID_SIZE:
            raise ValueError(f"got a topic id of {len(topic_id)} bytes, wanted {TOPIC_ID_SIZE}")
        with nogil:
            key = followed_key(<const uint8_t*>c_id.data(), partition)
            fresh = followed_new(c_id, c_topic, partition, log.log, log.committer)
            fresh.get().unclean_epoch = unclean_epoch
            _put(self.follower.get(), key, fresh)
            follower_wake(self.follower.get())

    def remove(self, bytes topic_id not None, int32_t partition):
        """Whether it was there. Nothing of it is appended or cut any more when this returns."""
        cdef string c_id = topic_id, key
        cdef bint was_there
        with nogil:
            key = followed_key(<const uint8_t*>c_id.data(), partition)
            was_there = _remove(self.follower.get(), key)
            follower_wake(self.follower.get())
        return bool(was_there)

    @property
    def life(self):
        """The broker's, which its fetches carry."""
        return self.follower.get().life.load()

    @life.setter
    def life(self, int64_t life):
        self.follower.get().life.store(life)
        follower_wake(self.follower.get())

    def states(self):
        """Each partition. `error`: Kafka's error of the leader, or the negative code of the log
        here, in words in `reason`; 0: all is well."""
        cdef vector[Followed] found
        cdef size_t i
        with nogil:
            _copy(self.follower.get(), &found)
        return [_state(&found[i]) for i in range(found.size())]

    def untold_cuts(self):
        """What is to be cut and may have counted: it stays until `allow_cut`."""
        cdef vector[Followed] found
        cdef const Followed* each
        cdef size_t i
        with nogil:
            _copy(self.follower.get(), &found)
        cuts = []
        for i in range(found.size()):
            each = &found[i]
            if each.wants_cut >= 0:
                cuts.append(UntoldCut(
                    each.topic_id, each.topic.decode(), each.partition, each.wants_cut,
                    each.log.get().log_end_offset.load(), log_high_watermark(each.log.get())))
        return cuts

    def allow_cut(self, bytes topic_id not None, int32_t partition, int64_t offset):
        """It was told. Whether the partition is there."""
        cdef string c_id = topic_id, key
        cdef bint was_there
        with nogil:
            key = followed_key(<const uint8_t*>c_id.data(), partition)
            was_there = _allow(self.follower.get(), key, offset)
            follower_wake(self.follower.get())
        return bool(was_there)

    @property
    def is_connected(self):
        return self.follower.get().is_connected.load()

    @property
    def failure(self):
        """Why the last connection ended, or there is none; "" where nothing was wrong."""
        cdef Follower* it = self.follower.get()
        cdef int result, error
        cdef string words
        with nogil:
            it.guard.lock()
            result, error, words = it.link_result, it.link_error, it.link_words
            it.guard.unlock()
        return _words(result, error, (<bytes>words).decode(errors="replace"))

    def counters(self):
        cdef Follower* it = self.follower.get()
        return {
            "connects": it.connects.load(),
            "requests": it.requests.load(),
            "bytes_in": it.bytes_in.load(),
        }


cdef _next_step(steps, answer):
    """What is to be done, for how long that is good, and the bytes of it."""
    try:
        return LOGIN_SEND, 0, bytes(steps.send(answer))
    except StopIteration as over:
        return LOGIN_DONE, over.value, b""
    except ApplianceError as error:
        return LOGIN_FAILED, 0, str(error).encode()
    except Exception as error:
        return LOGIN_FAILED, 0, repr(error).encode()


cdef _state(const Followed* it):
    cdef int64_t now = monotonic_ns()
    error, reason = it.error, ""
    if it.error != 0:
        reason = _name(it.error)
    elif it.code != OK:
        error, reason = it.code, kafka_message(it.code).decode()
        if it.code == WOULD_WAIT:
            reason = "the log is to be cut, and is being compacted"
            if it.wants_cut >= 0:
                reason = "the log is to be cut, of what may have counted: the ledger is asked"
    return PartitionState(
        it.topic_id, it.topic.decode(), it.partition, it.offset,
        it.log.get().log_end_offset.load(), it.watermark, it.leader_epoch, it.bytes, it.cuts,
        error, reason,
        max((it.out_until_ns - now) // 1000000, 0) if it.out_until_ns else 0)


cdef str _name(int error):
    try:
        return ErrorCode(error).name
    except ValueError:
        return f"error {error}"


cdef str _words(int result, int error, str words):
    if result == LINK_OK:
        return ""
    if result == LINK_UNKNOWN_HOST:
        return "the leader's host name is unknown"
    if result == LINK_BROKEN:
        return os.strerror(error)
    if result == LINK_LATE:
        return "the leader did not answer in time"
    if result == LINK_CLOSED:
        return "the leader closed the connection"
    if result == LINK_UNTRUSTED:
        return f"TLS with the leader came to nothing: {words or 'it ended the connection'}"
    if result == LINK_NO_LOGIN:
        return f"the login at the leader failed: {words}"
    if result == LINK_REFUSED:
        return _name(error)
    return "what came is no answer to a Fetch"
