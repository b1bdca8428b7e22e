"""The table in which the data plane finds a topic by name or by id."""

from cython.operator cimport dereference
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.memory cimport make_shared
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map

from appliance.native._codes cimport LOG_FAILED
from appliance.native._native cimport ScopeLock
from appliance.protocol._error_codes cimport kafka_error
from appliance.protocol._frame cimport put_i32, put_tags, put_uvarint

cdef enum:
    LEADER_SIZE = 9                # i32 node, i32 epoch, tags


# ---- without the GIL ----

cdef void topics_put(TopicTable* table, const TopicRef& topic) noexcept nogil:
    cdef Topic* before
    cdef ScopeLock lock
    lock.hold(table.guard)
    if table.by_name.count(topic.get().name):
        before = table.by_name[topic.get().name].get()
        if before.id == topic.get().id:
            topic.get().counts = before.counts
    table.serials += 1
    topic.get().serial = table.serials
    _remove_locked(table, topic.get().name)
    table.by_name[topic.get().name] = topic
    table.by_id[topic.get().id] = topic


cdef void topics_remove(TopicTable* table, const string& name) noexcept nogil:
    cdef ScopeLock lock
    lock.hold(table.guard)
    _remove_locked(table, name)


cdef void _remove_locked(TopicTable* table, const string& name) noexcept nogil:
    if table.by_name.count(name):
        table.by_id.erase(table.by_name[name].get().id)
        table.by_name.erase(name)


cdef TopicRef topics_find(TopicTable* table, Piece key, bint is_id) noexcept nogil:
    cdef unordered_map[string, TopicRef]* topics = &table.by_id if is_id else &table.by_name
    cdef string text
    cdef TopicRef unknown
    cdef ScopeLock lock
    if key.size > 0:
        text.assign(<const char*>key.data, key.size)
    lock.hold(table.guard)
    entry = topics.find(text)
    if entry != topics.end():
        return dereference(entry).second
    lock.release()
    unknown = make_shared[Topic]()
    if is_id:
        unknown.get().id = text
    else:
        unknown.get().name = text
        unknown.get().id.assign(TOPIC_ID_SIZE, <char>0)
    return unknown


cdef TopicRef topic_now(TopicTable* table, const TopicRef& before) noexcept nogil:
    """One that was not known carries only the name or the id that the client gave."""
    cdef bint is_by_id = before.get().name.empty()
    cdef string* key = &before.get().id if is_by_id else &before.get().name
    cdef string nobodys
    cdef Piece piece
    cdef TopicRef fresh
    nobodys.assign(TOPIC_ID_SIZE, <char>0)
    piece.data = <const uint8_t*>key.data()
    piece.size = key.size()
    fresh = topics_find(table, piece, is_by_id)
    if fresh.get().id != before.get().id and before.get().id != nobodys:
        # gone, or another one by that name
        fresh = make_shared[Topic]()
        fresh.get().name = before.get().name
        fresh.get().id = before.get().id
    return fresh


cdef void topic_count(const TopicRef& topic, int thread, int what, int64_t more) noexcept nogil:
    if topic.get().counts.get() != NULL:
        topic.get().counts.get().add(thread, what, more)


cdef int64_t topics_counted(TopicTable* table, const string& name, int what) noexcept nogil:
    cdef TopicRef named_topic
    table.guard.lock()
    if table.by_name.count(name):
        named_topic = table.by_name[name]
    table.guard.unlock()
    return -1 if named_topic.get() == NULL else named_topic.get().counts.get().sum(what)


cdef LogRef topic_log(const TopicRef& topic, int32_t partition) noexcept nogil:
    cdef LogRef none
    if partition < 0 or <size_t>partition >= topic.get().logs.size():
        return none
    return topic.get().logs[partition]


cdef int16_t topic_refusal(const TopicRef& topic, int32_t partition, bint is_by_id) noexcept nogil:
    # One that is in the table has logs, if only places for them.
    if is_by_id and topic.get().logs.empty():
        return UNKNOWN_TOPIC_ID
    if 0 <= partition < <int64_t>topic.get().logs.size():
        return NOT_LEADER_OR_FOLLOWER if _leader(topic, partition).epoch >= 0 else (
            kafka_error(LOG_FAILED))
    return UNKNOWN_TOPIC_OR_PARTITION


cdef TopicLeader _leader(const TopicRef& topic, int32_t partition) noexcept nogil:
    cdef TopicLeader nobody
    if 0 <= partition < <int64_t>topic.get().leaders.size():
        return topic.get().leaders[partition]
    nobody.node = nobody.epoch = -1
    return nobody


cdef TopicLeader topic_leader(const TopicRef& topic, int32_t partition,
                              const LogRef& log) noexcept nogil:
    cdef TopicLeader leader
    if log.get() == NULL:
        return _leader(topic, partition)
    leader.node = <int32_t>log.get().replicas.leader.load()
    leader.epoch = <int32_t>log.get().replicas.epoch.load()
    return leader


cdef void put_leader(vector[uint8_t]* out, uint32_t tag, TopicLeader leader) noexcept nogil:
    # Not beside its callers: what they write often is inlined there as long as it is little.
    put_uvarint(out, tag)
    put_uvarint(out, LEADER_SIZE)
    put_i32(out, leader.node)
    put_i32(out, leader.epoch)
    put_tags(out, True)
