"""The login of a follower: some requests for each connection, and none for what is fetched."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from appliance.native._bytes cimport load_i32
from appliance.native._native cimport ScopeLock, monotonic_ns, wait_until
from appliance.replication._leader_link cimport (
    LINK_CLOSED, LINK_LATE, LINK_MALFORMED, LINK_NO_LOGIN, LINK_OK, link_receive_all, link_send,
)

cdef enum:
    SIZE_BYTES = 4
    ANSWER_BYTES_MAX = 65536       # an answer of a login has some hundred bytes


# ---- without the GIL ----

cdef int leader_log_in(LeaderLink* link) noexcept nogil:
    cdef vector[uint8_t] frame
    cdef int64_t lasts_ms = 0
    cdef int reply = _ask_python(link, LOGIN_BEGIN, &frame, &lasts_ms), result
    while reply == LOGIN_SEND:
        result = _ask_leader(link, &frame)
        if result != LINK_OK:
            return result
        reply = _ask_python(link, LOGIN_ANSWER, &frame, &lasts_ms)
    if reply == LOGIN_FAILED:
        link.words.assign(<const char*>frame.data(), frame.size())
        return LINK_NO_LOGIN
    if reply != LOGIN_DONE:
        return LINK_CLOSED if link.must_stop.load() else LINK_LATE
    if lasts_ms > 0:
        link.good_until_ns = monotonic_ns() + lasts_ms * 1000000
    return LINK_OK


cdef int _ask_python(LeaderLink* link, int question, vector[uint8_t]* frame,
                     int64_t* lasts_ms) noexcept nogil:
    """LOGIN_NONE: there is no reply in time, or the follower is to stop."""
    cdef LoginTalk* talk = &link.talk
    cdef int64_t until_ns = monotonic_ns() + link.patience_ns
    cdef ScopeLock lock
    lock.hold(talk.guard)
    talk.bytes.swap(frame[0])
    talk.question, talk.reply = question, LOGIN_NONE
    talk.asked.notify_all()
    while talk.reply == LOGIN_NONE and not link.must_stop.load():
        if not wait_until(talk.replied, talk.guard, until_ns):
            break
    talk.question = LOGIN_NOTHING  # a reply that comes later is to nothing
    frame.swap(talk.bytes)
    lasts_ms[0] = talk.lasts_ms
    return talk.reply


cdef int _ask_leader(LeaderLink* link, vector[uint8_t]* frame) noexcept nogil:
    """What comes back takes the place of what was sent."""
    cdef uint8_t[SIZE_BYTES] head
    cdef int64_t size
    cdef int result = link_send(link, frame)
    if result == LINK_OK:
        result = link_receive_all(link, head, SIZE_BYTES)
    if result != LINK_OK:
        return result
    size = load_i32(head)
    if size < 0 or size > ANSWER_BYTES_MAX:
        return LINK_MALFORMED
    frame.resize(size)
    return link_receive_all(link, frame.data(), size)


cdef int login_asked(LoginTalk* talk, vector[uint8_t]* bytes) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(talk.guard)
    while (talk.question == LOGIN_NOTHING or talk.reply != LOGIN_NONE) and not talk.is_over:
        talk.asked.wait(talk.guard)
    bytes[0] = talk.bytes
    return LOGIN_STOP if talk.is_over else talk.question


cdef void login_reply(LoginTalk* talk, int reply, vector[uint8_t]* bytes,
                      int64_t lasts_ms) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(talk.guard)
    if talk.question != LOGIN_NOTHING:
        talk.reply, talk.lasts_ms = reply, lasts_ms
        talk.bytes.swap(bytes[0])
        talk.replied.notify_all()


cdef void login_stop(LoginTalk* talk) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(talk.guard)
    talk.is_over = True
    talk.asked.notify_all()
    talk.replied.notify_all()
