"""Produce v3-13: check, stamp and append every batch, then answer, at once or when it is on disk.

    acks=0   nothing is answered; after an error the connection is closed, as Kafka does
    acks=1   answered after the write
    acks=-1  answered when the committer has made it durable, or with REQUEST_TIMED_OUT

Two passes: the first finds every batch and decides who answers, so that nothing is appended of a
request that is malformed or belongs to the control plane. Left to the control plane: batches for
compacted topics that are compressed, so that their keys are not seen here, or hold a record without
a key, which the answer has to name; batches of a transaction that is not open in their partition
yet, for which the transaction coordinator has to be asked; what others than its mirror send to a
topic that a mirror writes, or a mirror to another topic; what its client is not known to have the
right to, where rights are enforced; and whatever comes behind such a request on its connection
before that is answered, so that records keep their order.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.stdio cimport snprintf
from libc.string cimport memcmp, strlen
from libcpp.memory cimport make_shared
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._bytes cimport Cursor, store_i16, store_i64
from appliance.native._codes cimport (
    BATCH_INVALID, BATCH_TORN, LOG_CLOSED, LOG_FAILED, NOT_LEADER, OK, REPLICAS_TOO_FEW,
    STORAGE_FULL, TIMED_OUT,
)
from appliance.native._native cimport monotonic_ns
from appliance.network._connection cimport (
    Answer, Connection, DurableWait, ErrorPlace, Slot, answer_begin, connection_charge, slot_at,
    slot_ready,
)
from appliance.network._dispatch cimport HANDLED, MALFORMED, PUNTED
from appliance.network._topic_table cimport (
    NOT_LEADER_OR_FOLLOWER, TOPIC_PRODUCES_FAILED, Topic, TopicLeader, TopicRef, put_leader,
    put_topic, read_topic, topic_count, topic_leader, topic_log, topic_refusal, topics_find,
)
from appliance.network._rights cimport (
    RIGHT_WRITE, VERDICT_ALLOWED, rights_id_key, rights_met, rights_of,
)
from appliance.protocol._error_codes cimport kafka_error, kafka_message
from appliance.protocol._frame cimport (
    Piece, put_count, put_i16, put_i32, put_i64, put_string, put_tags, read_bytes,
    read_count, read_i16, read_i32, read_piece, read_string, read_uvarint, skip_tags,
)
from appliance.record._batch cimport (
    ATTRIBUTE_CODEC, ATTRIBUTE_TRANSACTIONAL, BATCH_HEADER_SIZE, BatchHeader, batch_load_header,
)
from appliance.record._batch_check cimport batch_check, batch_check_keys
from appliance.storage._append cimport (
    ORIGIN_UNVERIFIED, AppendOptions, Appended, log_append, log_append_mirrored, log_txn_is_open,
)
from appliance.storage._commit_requests cimport log_committer
from appliance.storage._free_space cimport space_resume_bytes
from appliance.storage._last_stable_offset cimport log_acknowledged_offset
from appliance.storage._partition_log cimport LogRef, PartitionLog
from appliance.storage._partition_waits cimport WATCH_DURABLE, Watch, watch_add, watch_remove
from appliance.storage._replicas cimport ROLE_LEADER
from appliance.storage._storage cimport Storage, storage_now

cdef enum:
    INVALID_TOPIC_EXCEPTION = 17
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    FIRST_FLEXIBLE = 9
    FIRST_WITH_LEADER = 10
    FIRST_BY_ID = 13
    CURRENT_LEADER = 0             # a tag of a partition in the answer
    TEXT_MAX = 160                 # of an error with numbers in it
    MIRROR_SOURCE = 10000          # our own tag of a topic: see api/handlers/produce.py

cdef cppclass Target:
    int32_t partition
    LogRef log
    Piece batch

cdef cppclass TopicTargets:
    TopicRef topic
    vector[Target] targets
    bint is_mirrored               # by who sends this: batches keep their offsets

cdef cppclass Request:
    int version
    bint is_flexible
    int16_t acks
    int32_t timeout_ms
    bint is_for_control
    bint is_in_transaction         # a batch says so
    Piece transactional_id         # null: none
    int32_t throttle_ms
    vector[TopicTargets] topics


# ---- without the GIL ----

cdef int produce(Connection* connection, int64_t slot_number, int version, int correlation_id,
                 Cursor* cursor) noexcept nogil:
    cdef Request request
    cdef Slot* slot
    cdef int64_t size = cursor.end - cursor.at, generation
    request.version = version
    request.throttle_ms = 0
    _parse(connection, &request, cursor)
    if cursor.failed:
        return MALFORMED
    if connection.quotas.produce.get() != NULL:
        request.throttle_ms = connection_charge(connection, connection.quotas.produce.get(), size)
    generation = connection.plane.rights.generation.load()
    if generation != 0 and not _may_write(connection, &request, generation):
        request.is_for_control = True
    if request.is_for_control or _is_behind_handed(connection):
        connection.handed_produce = slot_number
        return PUNTED
    connection.plane.counters.produce_requests.fetch_add(1)
    slot = slot_at(connection, slot_number)
    slot.is_silent = request.acks == 0
    if request.acks == -1:
        slot.durable = make_shared[DurableWait]()
    _append_all(connection, slot, &request, correlation_id)
    if request.acks == -1:
        _wait(connection, slot, slot_number, request.timeout_ms)
    else:
        slot_ready(connection, slot)
    return HANDLED


cdef bint _may_write(Connection* connection, Request* request, int64_t generation) noexcept nogil:
    """What is not known to be allowed is for the control plane, which refuses it or tells us.

    A transaction's batches need the right to its id, too, each time: it may have been withdrawn
    since the transaction began. It is a decision like those of topics, by a name that none has.
    """
    cdef Topic* topic
    cdef size_t i
    for i in range(request.topics.size()):
        topic = request.topics[i].topic.get()
        if rights_met(&connection.rights, topic.serial, RIGHT_WRITE, generation):
            continue
        if topic.name.empty():
            continue  # an id that is unknown, which is all that there is to tell
        if rights_of(&connection.plane.rights, &connection.rights, connection.peer, topic.name,
                     topic.serial, RIGHT_WRITE, generation) != VERDICT_ALLOWED:
            return False
    if request.is_in_transaction or request.transactional_id.size >= 0:
        return _may_write_in_transaction(connection, request, generation)
    return True


cdef bint _may_write_in_transaction(Connection* connection, Request* request,
                                    int64_t generation) noexcept nogil:
    cdef string key
    if request.transactional_id.size < 0:
        return False
    key = rights_id_key(request.transactional_id.data, request.transactional_id.size)
    return rights_of(&connection.plane.rights, &connection.rights, connection.peer, key, 0,
                     RIGHT_WRITE, generation) == VERDICT_ALLOWED


cdef bint _is_behind_handed(Connection* connection) noexcept nogil:
    cdef Slot* slot = slot_at(connection, connection.handed_produce)
    return slot != NULL and not slot.is_ready


cdef void _parse(Connection* connection, Request* request, Cursor* cursor) noexcept nogil:
    cdef bint is_flexible = request.version >= FIRST_FLEXIBLE
    cdef bint is_by_id = request.version >= FIRST_BY_ID
    cdef int64_t topics, partitions
    cdef TopicTargets* topic
    request.is_flexible = is_flexible
    request.is_for_control = False
    request.is_in_transaction = False
    request.transactional_id = read_string(cursor, is_flexible)
    request.acks = read_i16(cursor)
    request.timeout_ms = read_i32(cursor)
    topics = read_count(cursor, is_flexible)
    while topics > 0 and not cursor.failed:
        topics -= 1
        request.topics.resize(request.topics.size() + 1)
        topic = &request.topics.back()
        topic.topic = topics_find(
            &connection.plane.topics, read_topic(cursor, is_by_id, is_flexible), is_by_id)
        partitions = read_count(cursor, is_flexible)
        while partitions > 0 and not cursor.failed:
            partitions -= 1
            _parse_partition(request, topic, cursor)
        _parse_source(request, topic, cursor)
    skip_tags(cursor, is_flexible)


cdef void _parse_partition(Request* request, TopicTargets* topic, Cursor* cursor) noexcept nogil:
    cdef Target target
    target.partition = read_i32(cursor)
    target.batch = read_bytes(cursor, request.is_flexible)
    skip_tags(cursor, request.is_flexible)
    target.log = topic_log(topic.topic, target.partition)
    topic.targets.push_back(target)


cdef void _parse_source(Request* request, TopicTargets* topic, Cursor* cursor) noexcept nogil:
    """The topic's tags, which may say that its mirror sends this; and who answers, then."""
    cdef const Topic* written_to = topic.topic.get()
    cdef Piece source = _source_of(cursor, request.is_flexible)
    cdef size_t i
    topic.is_mirrored = (
        source.size > 0 and <size_t>source.size == written_to.mirror_source.size()
        and memcmp(source.data, written_to.mirror_source.data(), source.size) == 0)
    # A mirror that is not this topic's is told so where both names can be put into words.
    if source.size > 0 and not topic.is_mirrored:
        request.is_for_control = True
    for i in range(topic.targets.size()):
        if _is_for_control(request, &topic.targets[i], topic.is_mirrored):
            request.is_for_control = True


cdef Piece _source_of(Cursor* cursor, bint is_flexible) noexcept nogil:
    cdef Piece source, value
    cdef Cursor text
    cdef int64_t left = read_uvarint(cursor) if is_flexible else 0
    cdef int64_t tag
    source.data = NULL
    source.size = -1
    while left > 0 and not cursor.failed:
        tag = read_uvarint(cursor)
        value = read_piece(cursor, read_uvarint(cursor))
        if tag == MIRROR_SOURCE and not cursor.failed:
            text.at, text.end, text.failed = value.data, value.data + value.size, False
            source = read_string(&text, True)
            cursor.failed = text.failed or text.at != text.end
        left -= 1
    return source


cdef bint _is_for_control(Request* request, const Target* target,
                          bint is_mirrored) noexcept nogil:
    """What is no batch at all is not: it is refused when appended."""
    cdef PartitionLog* log = target.log.get()
    cdef BatchHeader header
    if log == NULL or target.batch.size < BATCH_HEADER_SIZE:
        return False
    if is_mirrored or log.is_mirror.load():
        return not (is_mirrored and log.is_mirror.load())
    batch_load_header(target.batch.data, &header)
    if header.attributes & ATTRIBUTE_TRANSACTIONAL:
        request.is_in_transaction = True
        if not log_txn_is_open(log, header.producer_id, header.producer_epoch):
            return True
    return log.is_compacted.load() and not _has_keys(&target.batch, &header)


cdef bint _has_keys(const Piece* batch, const BatchHeader* header) noexcept nogil:
    """False also where it cannot be seen."""
    if header.attributes & ATTRIBUTE_CODEC:
        return False
    return header.size != batch.size or batch_check_keys(batch.data, header) == OK


cdef void _append_all(Connection* connection, Slot* slot, Request* request,
                      int correlation_id) noexcept nogil:
    cdef Answer* answer = &slot.answer
    cdef TopicTargets* topic
    cdef size_t i, j
    answer_begin(answer, correlation_id, request.is_flexible)
    put_count(&answer.bytes, request.topics.size(), request.is_flexible)
    for i in range(request.topics.size()):
        topic = &request.topics[i]
        put_topic(&answer.bytes, topic.topic.get(), request.version >= FIRST_BY_ID,
                  request.is_flexible)
        put_count(&answer.bytes, topic.targets.size(), request.is_flexible)
        for j in range(topic.targets.size()):
            _append_one(connection, slot, request, topic, &topic.targets[j])
        put_tags(&answer.bytes, request.is_flexible)
    put_i32(&answer.bytes, request.throttle_ms)
    put_tags(&answer.bytes, request.is_flexible)


cdef const char* _text_of(int code, Storage* storage, char* room) noexcept nogil:
    """Why it was refused; on a full disk with the numbers, written into `room`."""
    cdef int64_t free_bytes, wanted
    if code != STORAGE_FULL:
        return kafka_message(code)
    free_bytes, wanted = storage.free_bytes.load(), space_resume_bytes(storage)
    if free_bytes >= wanted:  # a quota, or its inodes
        return kafka_message(code)
    snprintf(room, TEXT_MAX,
             b"the disk is full: %lld MiB free, %lld MiB wanted (storage.low.water.bytes); writes "
             b"resume when space is freed", <long long>(free_bytes >> 20),
             <long long>(wanted >> 20))
    return room


cdef void _append_one(Connection* connection, Slot* slot, Request* request,
                      const TopicTargets* topic, Target* target) noexcept nogil:
    cdef Appended appended
    cdef PartitionLog* log = target.log.get()
    cdef const char* text = b""
    cdef char room[TEXT_MAX]
    cdef int16_t error = 0
    cdef int code
    if request.acks < -1 or request.acks > 1:
        error = INVALID_REQUIRED_ACKS
        text = b"acks must be -1, 0 or 1"
    elif log == NULL:
        error = topic_refusal(topic.topic, target.partition, request.version >= FIRST_BY_ID)
    elif topic.topic.get().is_internal:
        error = INVALID_TOPIC_EXCEPTION
        text = b"the topic is internal: only the broker writes to it"
    else:
        if request.acks == -1 and log.replicas.lacks_in_sync.load():
            code = REPLICAS_TOO_FEW
        elif topic.is_mirrored:
            code = _append_mirrored(connection, request, target, &appended)
        else:
            code = _append(connection, request, target, &appended)
        error = kafka_error(code)
        text = _text_of(code, log.storage.get(), room)
    if error != 0:
        topic_count(topic.topic, connection.thread, TOPIC_PRODUCES_FAILED, 1)
        appended.base_offset = appended.append_time = -1
        slot.closes = request.acks == 0
    elif slot.durable.get() != NULL:
        _note_wait(connection, slot, target, &appended)
    _put_result(&slot.answer, request, topic, target, error, text, &appended)


cdef int _append(Connection* connection, Request* request, Target* target,
                 Appended* appended) noexcept nogil:
    cdef BatchHeader header
    cdef AppendOptions options
    cdef int code
    if target.batch.size < BATCH_HEADER_SIZE:
        return BATCH_INVALID
    code = batch_check(target.batch.data, target.batch.size, &header)
    if code != OK:
        return code
    options.origin = ORIGIN_UNVERIFIED
    options.leader_epoch = -1
    options.is_awaited = request.acks == -1
    storage_now(target.log.get().storage.get(), &options.earliest_ms, &options.latest_ms)
    code = log_append(log_committer(target.log.get()), target.log, <uint8_t*>target.batch.data,
                      &header, &options, appended)
    if code == OK:
        connection.plane.counters.produced_bytes.fetch_add(target.batch.size)
    return code


cdef int _append_mirrored(Connection* connection, Request* request, Target* target,
                          Appended* appended) noexcept nogil:
    """Batches stay where they are in their source; there may be many."""
    cdef int code
    if target.batch.size <= 0:
        return BATCH_TORN
    code = log_append_mirrored(log_committer(target.log.get()), target.log,
                               <uint8_t*>target.batch.data, target.batch.size,
                               request.acks == -1, appended)
    if code == OK:
        connection.plane.counters.produced_bytes.fetch_add(target.batch.size)
    return code


cdef void _note_wait(Connection* connection, Slot* slot, Target* target,
                     const Appended* appended) noexcept nogil:
    """The two fields that a failure would change stand 2 and 4 bytes behind what is there now."""
    cdef ErrorPlace place
    cdef Watch watch
    place.error_at = slot.answer.bytes.size() + 4
    place.offset_at = place.error_at + 2
    place.election = appended.election
    watch.kind = WATCH_DURABLE
    watch.offset = appended.last_offset + 1
    watch.is_told = watch.is_listed = False
    watch.inbox = connection.inbox.get()
    watch.connection = connection.id
    watch.slot = -1
    slot.durable.get().places.push_back(place)
    slot.durable.get().logs.push_back(target.log)
    slot.durable.get().watches.push_back(watch)


cdef void _put_result(Answer* answer, Request* request, const TopicTargets* topic, Target* target,
                      int16_t error, const char* text, const Appended* appended) noexcept nogil:
    cdef int64_t start = target.log.get().log_start_offset.load() if error == 0 else -1
    put_i32(&answer.bytes, target.partition)
    put_i16(&answer.bytes, error)
    put_i64(&answer.bytes, appended.base_offset)
    put_i64(&answer.bytes, appended.append_time)
    if request.version >= 5:
        put_i64(&answer.bytes, start)
    if request.version >= 8:
        put_count(&answer.bytes, 0, request.is_flexible)  # errors of single records
        put_string(&answer.bytes, text, strlen(text) if text[0] else -1, request.is_flexible)
    if (error == NOT_LEADER_OR_FOLLOWER and request.version >= FIRST_WITH_LEADER
            and not _is_ending(target.log.get())):
        _put_leader(answer, topic_leader(topic.topic, target.partition, target.log))
    else:
        put_tags(&answer.bytes, request.is_flexible)


cdef bint _is_ending(PartitionLog* log) noexcept nogil:
    """Its successor is not known yet. Who is told the former leader again does not ask for another:
    librdkafka takes that for news, and asks nobody for up to a second."""
    return log != NULL and log.replicas.is_ending.load()


cdef void _put_leader(Answer* answer, TopicLeader leader) noexcept nogil:
    answer.bytes.push_back(leader.epoch >= 0)  # how many tags
    if leader.epoch >= 0:
        put_leader(&answer.bytes, CURRENT_LEADER, leader)


# Waiting

cdef void _wait(Connection* connection, Slot* slot, int64_t slot_number,
                int32_t timeout_ms) noexcept nogil:
    cdef DurableWait* wait = slot.durable.get()
    cdef size_t i
    for i in range(wait.watches.size()):
        wait.watches[i].slot = slot_number
        watch_add(&wait.logs[i].get().watches, &wait.watches[i])
    connection.waiting += 1
    slot.deadline_ns = monotonic_ns() + max(<int64_t>timeout_ms, <int64_t>0) * 1000000
    # Only now: what became durable before the watches were there told nobody.
    produce_check(connection, slot, False)


cdef bint produce_check(Connection* connection, Slot* slot, bint is_late) noexcept nogil:
    cdef DurableWait* wait = slot.durable.get()
    cdef PartitionLog* log
    cdef size_t i
    for i in range(wait.watches.size()):
        log = wait.logs[i].get()
        if log_acknowledged_offset(log) < wait.watches[i].offset and not is_late:
            if (log.failed.load() == OK and not log.is_closed.load()
                    and _leads_still(log, &wait.places[i])):
                return False
    for i in range(wait.watches.size()):
        log = wait.logs[i].get()
        if (log_acknowledged_offset(log) >= wait.watches[i].offset
                and _leads_still(log, &wait.places[i])):
            continue
        store_i16(slot.answer.bytes.data() + wait.places[i].error_at,
                  _why_not_durable(log, &wait.places[i]))
        store_i64(slot.answer.bytes.data() + wait.places[i].offset_at, -1)
    produce_forget(connection, slot)
    slot_ready(connection, slot)
    return True


cdef bint _leads_still(PartitionLog* log, const ErrorPlace* place) noexcept nogil:
    """In the epoch of the append: a later leader may have other records at these offsets."""
    return log.replicas.epoch.load() == place.election and log.role.load() <= ROLE_LEADER


cdef int16_t _why_not_durable(PartitionLog* log, const ErrorPlace* place) noexcept nogil:
    if log.failed.load() != OK:
        return kafka_error(LOG_FAILED)
    if log.is_closed.load():
        return kafka_error(LOG_CLOSED)
    if not _leads_still(log, place):
        return kafka_error(NOT_LEADER)
    if log.replicas.lacks_in_sync.load():
        return NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return kafka_error(TIMED_OUT)


cdef void produce_forget(Connection* connection, Slot* slot) noexcept nogil:
    cdef DurableWait* wait = slot.durable.get()
    cdef size_t i
    for i in range(wait.watches.size()):
        watch_remove(&wait.logs[i].get().watches, &wait.watches[i])
    slot.durable.reset()
    connection.waiting -= 1
