"""Produce v3-13: check, stamp and append every batch, then answer, at once or when it is on disk.

    acks=0   nothing is answered; after an error the connection is closed, as Kafka does
    acks=1   answered after the write
    acks=-1  answered when the committer has made it durable, or with REQUEST_TIMED_OUT

Two passes: the first finds every batch and decides who answers (`_produce_parse.pyx`), so that
nothing is appended of a request that is malformed or belongs to the control plane. To it also goes
what its client is not known to have the right to, where rights are enforced, and whatever comes
behind a request that it got on the same connection before that is answered, so that records keep
their order.

A request of many batches, or of large ones, is appended in several turns of its thread, since all
other connections of the thread wait for the turn. Its own connection is not read meanwhile.
"""

from libc.stdint cimport int16_t, int64_t, uint8_t
from libc.stdio cimport snprintf
from libc.string cimport strlen
from libcpp.memory cimport make_shared
from libcpp.string cimport string
from libcpp.vector cimport vector

from appliance.native._bytes cimport Cursor, store_i16, store_i64
from appliance.native._codes cimport (
    BATCH_INVALID, BATCH_TORN, LOG_CLOSED, LOG_FAILED, NOT_LEADER, OK, REPLICAS_TOO_FEW,
    STORAGE_FULL, TIMED_OUT,
)
from appliance.native._native cimport RawBytes, monotonic_ns
from appliance.network._connection cimport (
    TURN_BYTES, Answer, Connection, DurableWait, ErrorPlace, Produce, ProduceRef, ProduceTarget,
    ProduceTopic, Slot, answer_begin, connection_charge, slot_at, slot_ready,
)
from appliance.network._dispatch cimport HANDLED, MALFORMED, PUNTED
from appliance.network._processor cimport Processor, processor_spare
from appliance.network._produce_parse cimport produce_parse
from appliance.network._topic_table cimport (
    NOT_LEADER_OR_FOLLOWER, TOPIC_PRODUCES_FAILED, Topic, TopicLeader, put_leader, put_topic,
    topic_count, topic_leader, topic_refusal,
)
from appliance.network._rights cimport (
    RIGHT_WRITE, VERDICT_ALLOWED, rights_id_key, rights_met, rights_of,
)
from appliance.protocol._error_codes cimport kafka_error, kafka_message
from appliance.protocol._frame cimport (
    put_count, put_i16, put_i32, put_i64, put_string, put_tags,
)
from appliance.record._batch cimport BATCH_HEADER_SIZE, BatchHeader
from appliance.record._batch_check cimport batch_check
from appliance.storage._append cimport (
    ORIGIN_UNVERIFIED, AppendOptions, Appended, log_append, log_append_mirrored,
)
from appliance.storage._commit_requests cimport log_committer
from appliance.storage._free_space cimport space_resume_bytes
from appliance.storage._last_stable_offset cimport log_acknowledged_offset
from appliance.storage._partition_log cimport PartitionLog
from appliance.storage._partition_waits cimport WATCH_DURABLE, Watch, watch_add, watch_remove
from appliance.storage._replicas cimport ROLE_LEADER
from appliance.storage._storage cimport Storage, storage_now

cdef enum:
    INVALID_TOPIC_EXCEPTION = 17
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    FIRST_WITH_LEADER = 10
    FIRST_BY_ID = 13
    CURRENT_LEADER = 0             # a tag of a partition in the answer
    TEXT_MAX = 160                 # of an error with numbers in it
    APPEND_BYTES = 4096            # as long as these take, an append takes beside its bytes


# ---- without the GIL ----

cdef int produce(Connection* connection, int64_t slot_number, int version, int correlation_id,
                 Cursor* cursor, RawBytes* frame) noexcept nogil:
    cdef Produce request
    cdef Slot* slot
    cdef int64_t generation
    request.body.data, request.body.size = cursor.at, cursor.end - cursor.at
    request.version = version
    request.throttle_ms = 0
    produce_parse(&connection.plane.topics, &request, cursor)
    if cursor.failed:
        return MALFORMED
    if connection.quotas.produce.get() != NULL:
        request.throttle_ms = connection_charge(connection, connection.quotas.produce.get(),
                                                request.body.size)
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
        request.durable = make_shared[DurableWait]()
    _begin_answer(slot, &request, correlation_id)
    if _append_some(connection, slot, &request):
        _end(connection, slot, slot_number, &request)
    else:
        _keep(connection, slot_number, &request, frame)
    return HANDLED


cdef void _end(Connection* connection, Slot* slot, int64_t slot_number,
               Produce* request) noexcept nogil:
    put_i32(&slot.answer.bytes, request.throttle_ms)
    put_tags(&slot.answer.bytes, request.is_flexible)
    if request.acks == -1:
        _wait(connection, slot, slot_number, request)
    else:
        slot_ready(connection, slot)


# What takes several turns

cdef void _keep(Connection* connection, int64_t slot_number, Produce* request,
                RawBytes* frame) noexcept nogil:
    """Until all is appended, nothing else of this connection is looked at."""
    cdef Produce* kept
    connection.produce = make_shared[Produce](request[0])
    kept = connection.produce.get()
    kept.slot = slot_number
    if frame != NULL:
        kept.frame.swap(frame[0])
    else:
        kept.frame.assign(request.body.data, request.body.data + request.body.size)
        _move_batches(kept)
    connection.plane.queued_bytes.fetch_add(kept.frame.size())


cdef void _move_batches(Produce* kept) noexcept nogil:
    """To the copy of the body, which the next read of this thread overwrites."""
    cdef vector[ProduceTarget]* targets
    cdef size_t i, j
    for i in range(kept.topics.size()):
        targets = &kept.topics[i].targets
        for j in range(targets.size()):
            if targets.at(j).batch.data != NULL:
                targets.at(j).batch.data = (
                    kept.frame.data() + (targets.at(j).batch.data - kept.body.data))


cdef bint produce_go_on(Processor* processor, Connection* connection) noexcept nogil:
    cdef ProduceRef kept = connection.produce
    cdef Produce* request = kept.get()
    cdef Slot* slot = slot_at(connection, request.slot)
    if not _append_some(connection, slot, request):
        return False
    connection.produce.reset()
    _end(connection, slot, request.slot, request)
    connection.plane.queued_bytes.fetch_add(-<int64_t>request.frame.size())
    processor_spare(processor, &request.frame)
    return True


cdef void produce_finish(Processor* processor, Connection* connection) noexcept nogil:
    """What came whole is appended whole, also when its client is gone."""
    while not produce_go_on(processor, connection):
        pass


cdef bint _may_write(Connection* connection, Produce* request, int64_t generation) noexcept nogil:
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


cdef bint _may_write_in_transaction(Connection* connection, Produce* request,
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


cdef void _begin_answer(Slot* slot, Produce* request, int correlation_id) noexcept nogil:
    request.topic = request.target = 0
    answer_begin(&slot.answer, correlation_id, request.is_flexible)
    put_count(&slot.answer.bytes, request.topics.size(), request.is_flexible)


cdef bint _append_some(Connection* connection, Slot* slot, Produce* request) noexcept nogil:
    """Goes on where it ended; True when all is appended, False when the turn is over."""
    cdef Answer* answer = &slot.answer
    cdef ProduceTopic* topic
    cdef int64_t appended = 0
    while request.topic < request.topics.size():
        if appended >= TURN_BYTES:
            return False
        topic = &request.topics[request.topic]
        if request.target == 0:
            put_topic(&answer.bytes, topic.topic.get(), request.version >= FIRST_BY_ID,
                      request.is_flexible)
            put_count(&answer.bytes, topic.targets.size(), request.is_flexible)
        if request.target < topic.targets.size():
            appended += APPEND_BYTES + topic.targets[request.target].batch.size
            _append_one(connection, slot, request, topic, &topic.targets[request.target])
            request.target += 1
        if request.target == topic.targets.size():
            put_tags(&answer.bytes, request.is_flexible)
            request.topic += 1
            request.target = 0
    return True


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


cdef void _append_one(Connection* connection, Slot* slot, Produce* request,
                      const ProduceTopic* topic, ProduceTarget* target) noexcept nogil:
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
    elif request.acks == -1:
        _note_wait(connection, slot, request.durable.get(), target, &appended)
    _put_result(&slot.answer, request, topic, target, error, text, &appended)


cdef int _append(Connection* connection, Produce* request, ProduceTarget* target,
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


cdef int _append_mirrored(Connection* connection, Produce* request, ProduceTarget* target,
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


cdef void _note_wait(Connection* connection, Slot* slot, DurableWait* wait,
                     ProduceTarget* target, const Appended* appended) noexcept nogil:
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
    wait.places.push_back(place)
    wait.logs.push_back(target.log)
    wait.watches.push_back(watch)


cdef void _put_result(Answer* answer, Produce* request, const ProduceTopic* topic,
                      ProduceTarget* target, int16_t error, const char* text,
                      const Appended* appended) noexcept nogil:
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
                Produce* request) noexcept nogil:
    cdef DurableWait* wait = request.durable.get()
    cdef size_t i
    slot.durable.swap(request.durable)
    for i in range(wait.watches.size()):
        wait.watches[i].slot = slot_number
        watch_add(&wait.logs[i].get().watches, &wait.watches[i])
    connection.waiting += 1
    slot.deadline_ns = monotonic_ns() + max(<int64_t>request.timeout_ms, <int64_t>0) * 1000000
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
