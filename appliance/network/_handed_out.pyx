"""Makes named tuples of what the data plane hands out: ends of connections, questions,
certificates, connections as they are shown, and counts of listeners.
"""

from collections import namedtuple

from libc.stdint cimport int64_t

from appliance.network._control_plane_inbox cimport (
    CLOSURE_CONNECTION_RATE, CLOSURE_CONNECTIONS, CLOSURE_CONNECTIONS_PER_IP, CLOSURE_CONTROL_SIZE,
    CLOSURE_FRAME_SIZE, CLOSURE_FRAME_TIMEOUT, CLOSURE_HANDSHAKE, CLOSURE_HANDSHAKE_TIMEOUT,
    CLOSURE_HANDSHAKES, CLOSURE_HANDSHAKES_PER_IP, CLOSURE_HELD, CLOSURE_LOGIN_KEY,
    CLOSURE_LOGIN_OTHER, CLOSURE_LOGIN_OVER, CLOSURE_LOGIN_SIZE, CLOSURE_LOGIN_TIMEOUT,
    CLOSURE_MALFORMED, CLOSURE_NOT_TLS, CLOSURE_SEND_TIMEOUT,
)

Arrival = namedtuple("Arrival", "connection listener peer subject not_before_s")

Closure = namedtuple("Closure", "peer kind got wanted key version")

ConnectionFacts = namedtuple(
    "ConnectionFacts",
    "id peer client_id principal age_ms idle_ms requests in_flight bytes_in bytes_out held_bytes "
    "mute_ms",
)

# `waits_for`: why new connections wait at present, one of `THROTTLES`, or "".
ListenerCounts = namedtuple(
    "ListenerCounts", "connections accepted throttled waits_for handshakes handshakes_failed"
)

Question = namedtuple("Question", "connection slot principal host topics")

CLOSURE_NAMES = {
    CLOSURE_FRAME_SIZE: "frame size", CLOSURE_CONTROL_SIZE: "control size",
    CLOSURE_FRAME_TIMEOUT: "frame timeout", CLOSURE_MALFORMED: "malformed",
    CLOSURE_SEND_TIMEOUT: "send timeout", CLOSURE_HELD: "held",
    CLOSURE_CONNECTIONS: "connections", CLOSURE_CONNECTIONS_PER_IP: "connections per ip",
    CLOSURE_CONNECTION_RATE: "connection rate", CLOSURE_HANDSHAKE: "handshake",
    CLOSURE_HANDSHAKE_TIMEOUT: "handshake timeout", CLOSURE_HANDSHAKES: "handshakes",
    CLOSURE_HANDSHAKES_PER_IP: "handshakes per ip", CLOSURE_NOT_TLS: "not tls",
    CLOSURE_LOGIN_KEY: "login key", CLOSURE_LOGIN_SIZE: "login size",
    CLOSURE_LOGIN_TIMEOUT: "login timeout", CLOSURE_LOGIN_OVER: "login over",
    CLOSURE_LOGIN_OTHER: "login other",
}

THROTTLES = ("connections", "rate", "address")  # by the numbers of `Throttle`


# ---- with the GIL ----

cdef list handed_arrivals(const vector[CArrival]* arrivals):
    cdef size_t i
    return [
        Arrival(arrivals.at(i).connection, arrivals.at(i).listener, arrivals.at(i).peer.decode(),
                <bytes>arrivals.at(i).subject, arrivals.at(i).not_before_s)
        for i in range(arrivals.size())
    ]


cdef list handed_closures(const vector[CClosure]* closures):
    cdef size_t i
    return [
        Closure(closures.at(i).peer.decode(), CLOSURE_NAMES[closures.at(i).kind],
                closures.at(i).got, closures.at(i).wanted, closures.at(i).key,
                closures.at(i).version)
        for i in range(closures.size())
    ]


cdef list handed_questions(const vector[CQuestion]* questions):
    """Names as clients sent them: what is no UTF-8 comes back as it was by `decide`."""
    cdef const CQuestion* question
    cdef size_t i, j
    found = []
    for i in range(questions.size()):
        question = &questions.at(i)
        topics = [question.topics[j].decode("utf-8", "surrogateescape")
                  for j in range(question.topics.size())]
        found.append(Question(question.connection, question.slot, question.principal.decode(),
                              question.host.decode(), topics))
    return found


cdef list handed_facts(const vector[CConnectionFacts]* facts):
    cdef size_t i
    return [_facts(&facts.at(i)) for i in range(facts.size())]


cdef _facts(const CConnectionFacts* facts):
    return ConnectionFacts(
        facts.id, facts.peer.decode(), facts.client_id.decode("utf-8", "replace"),
        facts.principal.decode(), facts.age_ns // 1000000, facts.idle_ns // 1000000,
        facts.requests, facts.in_flight, facts.bytes_in, facts.bytes_out, facts.held_bytes,
        facts.mute_ns // 1000000,
    )


cdef handed_listener(ListenerState* listener):
    cdef int64_t shut_by = listener.shut_by.load()
    cdef size_t i
    throttled = {THROTTLES[i]: listener.connections.throttled[i].load()
                 for i in range(len(THROTTLES))}
    return ListenerCounts(
        listener.connections.open.load(), listener.connections.accepted.load(), throttled,
        THROTTLES[shut_by - 1] if shut_by else "", listener.handshakes_done.load(),
        listener.handshakes_failed.load(),
    )
