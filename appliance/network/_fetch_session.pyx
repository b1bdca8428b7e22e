"""Fetch sessions. Each connection has at most one, and it ends with the connection.

Kafka keeps sessions in a cache of the broker, where a reconnected client could find its own again;
clients begin a new one after a disconnect all the same, so nothing is gained by that.

A change costs what it names, not what the session holds: a request may name thousands.
"""

from libc.stdint cimport int32_t, int64_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._bytes cimport store_i32
from appliance.network._connection cimport Connection, FetchSession, FetchTarget
from appliance.network._topic_table cimport TopicRef, topic_log, topic_now

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
            session_end(connection)
        return SESSION_NONE
    if epoch == EPOCH_NEW:
        return SESSION_FULL
    if id == 0 or id != session.id:
        return -FETCH_SESSION_ID_NOT_FOUND
    if epoch != session.epoch:
        return -INVALID_FETCH_SESSION_EPOCH
    session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
    return SESSION_INCREMENTAL


cdef void session_end(Connection* connection) noexcept nogil:
    cdef FetchSession* session = &connection.session
    _count(connection, -<int64_t>session.targets.size())
    session.id = 0
    session.targets.clear()
    session.targets.shrink_to_fit()
    session.places.clear()
    session.places.rehash(0)


cdef void _count(Connection* connection, int64_t more) noexcept nogil:
    connection.plane.fetch_partitions.fetch_add(more)


cdef void session_begin(Connection* connection, const vector[FetchTarget]* targets,
                        bint is_by_id) noexcept nogil:
    cdef FetchSession* session = &connection.session
    cdef vector[Forgotten] none
    session_end(connection)
    session.id = <int32_t>(connection.plane.serial.fetch_add(1) & 0x3FFFFFFF) + 1
    session.epoch = 1
    session.first = 0
    session.unheard = 0
    session.targets.reserve(targets.size())
    session_change(connection, targets, &none, is_by_id)


cdef void session_change(Connection* connection, const vector[FetchTarget]* targets,
                         const vector[Forgotten]* forgotten, bint is_by_id) noexcept nogil:
    cdef FetchSession* session = &connection.session
    cdef int64_t before = session.targets.size()
    cdef string key
    cdef size_t i
    for i in range(forgotten.size()):
        key.assign(<const char*>forgotten.at(i).key.data, max(<int64_t>0, forgotten.at(i).key.size))
        _add_number(&key, forgotten.at(i).partition)
        _forget(session, key, is_by_id)
    for i in range(targets.size()):
        _put(session, &targets.at(i), _key_of(&targets.at(i), is_by_id))
    _count(connection, <int64_t>session.targets.size() - before)


cdef void _add_number(string* key, int32_t partition) noexcept nogil:
    cdef char[4] number
    store_i32(<unsigned char*>number, partition)
    key.append(number, 4)


cdef string _key_of(const FetchTarget* target, bint is_by_id) noexcept nogil:
    cdef string key = target.topic.get().id if is_by_id else target.topic.get().name
    _add_number(&key, target.partition)
    return key


cdef void _forget(FetchSession* session, const string& key, bint is_by_id) noexcept nogil:
    """The last one takes its place."""
    cdef size_t at, last = session.targets.size() - 1
    if session.places.count(key) == 0:
        return
    at = session.places[key]
    session.places.erase(key)
    if at != last:
        session.targets[at] = session.targets[last]
        session.places[_key_of(&session.targets[at], is_by_id)] = at
    session.targets.pop_back()


cdef void _put(FetchSession* session, const FetchTarget* target, const string& key) noexcept nogil:
    cdef FetchTarget* known
    if session.places.count(key) == 0:
        session.places[key] = session.targets.size()
        session.targets.push_back(target[0])
        return
    known = &session.targets[session.places[key]]
    known.offset = target.offset
    known.log_start_offset = target.log_start_offset
    known.max_bytes = target.max_bytes
    known.leader_epoch = target.leader_epoch
    known.last_epoch = target.last_epoch
    known.is_named = True
    known.told_start = -1  # the answer to what was asked before may have been of no use
    if known.topic.get() != target.topic.get():
        known.decided_at = 0  # what was an unknown id may have a name now
    known.topic = target.topic
    known.log = target.log


cdef void session_renew(Connection* connection) noexcept nogil:
    """A client may keep a session for months, and so would the session keep the descriptors of what
    is closed. It names its partitions once: nobody else would ever look for the log that is in the
    place of a closed one, or of one that could not be served before."""
    cdef vector[FetchTarget]* targets = &connection.session.targets
    cdef size_t i
    for i in range(targets.size()):
        if targets.at(i).log.get() == NULL or targets.at(i).log.get().is_closed.load():
            _renew_all(connection)
            return


cdef void _renew_all(Connection* connection) noexcept nogil:
    """A topic as it was knows all logs that it had then."""
    cdef vector[FetchTarget]* targets = &connection.session.targets
    cdef TopicRef before, fresh
    cdef size_t i
    for i in range(targets.size()):
        if targets.at(i).topic.get() != before.get() or before.get() == NULL:
            before = targets.at(i).topic
            fresh = topic_now(&connection.plane.topics, before)
        targets.at(i).topic = fresh
        targets.at(i).decided_at = 0
        targets.at(i).log = topic_log(fresh, targets.at(i).partition)
