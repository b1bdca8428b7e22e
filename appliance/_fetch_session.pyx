"""Fetch sessions. Each connection has at most one, and it ends with the connection.

Kafka keeps sessions in a cache of the broker, where a reconnected client could find its own again;
clients begin a new one after a disconnect all the same, so nothing is gained by that.
"""

from libc.stdint cimport int32_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance._connection cimport Connection, FetchSession, FetchTarget
from appliance._frame cimport Piece

cdef enum:
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FIRST_WITH_SESSIONS = 7
    EPOCH_NONE = -1
    EPOCH_NEW = 0
    EPOCH_MAX = 2147483647


# ---- without the GIL ----

cdef int session_use(Connection* connection, int version, int32_t id,
                     int32_t epoch) noexcept nogil:
    cdef FetchSession* session = &connection.session
    if version < FIRST_WITH_SESSIONS:
        return SESSION_NONE
    if epoch == EPOCH_NONE:
        if id == session.id:
            _end(session)
        return SESSION_NONE
    if epoch == EPOCH_NEW:
        return SESSION_FULL
    if id == 0 or id != session.id:
        return -FETCH_SESSION_ID_NOT_FOUND
    if epoch != session.epoch:
        return -INVALID_FETCH_SESSION_EPOCH
    session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
    return SESSION_INCREMENTAL


cdef void _end(FetchSession* session) noexcept nogil:
    session.id = 0
    session.targets.clear()
    session.targets.shrink_to_fit()


cdef void session_begin(Connection* connection, vector[FetchTarget]* targets) noexcept nogil:
    cdef FetchSession* session = &connection.session
    session.id = <int32_t>(connection.plane.serial.fetch_add(1) & 0x3FFFFFFF) + 1
    session.epoch = 1
    session.first = 0
    session.targets.swap(targets[0])


cdef void session_change(Connection* connection, const vector[FetchTarget]* targets,
                         const vector[Forgotten]* forgotten, bint is_by_id) noexcept nogil:
    cdef vector[FetchTarget]* known = &connection.session.targets
    cdef size_t i, at
    for i in range(forgotten.size()):
        at = _find(known, &forgotten.at(i).key, forgotten.at(i).partition, is_by_id)
        if at < known.size():
            known.erase(known.begin() + at)
    for i in range(targets.size()):
        at = _find_target(known, &targets.at(i))
        if at == known.size():
            known.push_back(targets.at(i))
        else:
            known.at(at).offset = targets.at(i).offset
            known.at(at).max_bytes = targets.at(i).max_bytes
            known.at(at).leader_epoch = targets.at(i).leader_epoch
            known.at(at).topic = targets.at(i).topic
            known.at(at).log = targets.at(i).log


cdef size_t _find(const vector[FetchTarget]* known, const Piece* key, int32_t partition,
                  bint is_by_id) noexcept nogil:
    cdef string text
    cdef size_t i
    if key.size > 0:
        text.assign(<const char*>key.data, key.size)
    for i in range(known.size()):
        if known.at(i).partition == partition:
            if (known.at(i).topic.get().id if is_by_id else known.at(i).topic.get().name) == text:
                return i
    return known.size()


cdef size_t _find_target(const vector[FetchTarget]* known,
                         const FetchTarget* target) noexcept nogil:
    cdef size_t i
    for i in range(known.size()):
        if (known.at(i).partition == target.partition
                and known.at(i).topic.get().name == target.topic.get().name
                and known.at(i).topic.get().id == target.topic.get().id):
            return i
    return known.size()


# ---- with the GIL ----
