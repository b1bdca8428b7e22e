"""A Produce request, as it stands in its frame, and whether this thread may answer it.

Left to the control plane: batches for compacted topics that are compressed, so that their keys are
not seen here, or hold a record without a key, which the answer has to name; batches of a
transaction that is not open in their partition yet, for which the transaction coordinator has to be
asked; what others than its mirror send to a topic that a mirror writes, or a mirror to another
topic.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcmp

from appliance.native._bytes cimport Cursor
from appliance.native._codes cimport OK
from appliance.network._connection cimport Produce, ProduceTarget, ProduceTopic
from appliance.network._topic_table cimport Topic, TopicTable, read_topic, topic_log, topics_find
from appliance.protocol._frame cimport (
    Piece, read_bytes, read_count, read_i16, read_i32, read_piece, read_string, read_uvarint,
    skip_tags,
)
from appliance.record._batch cimport (
    ATTRIBUTE_CODEC, ATTRIBUTE_TRANSACTIONAL, BATCH_HEADER_SIZE, BatchHeader, batch_load_header,
)
from appliance.record._batch_check cimport batch_check_keys
from appliance.storage._append cimport log_txn_is_open
from appliance.storage._partition_log cimport PartitionLog


cdef enum:
    FIRST_FLEXIBLE = 9
    FIRST_BY_ID = 13
    MIRROR_SOURCE = 10000          # our own tag of a topic: see api/handlers/produce.py


# ---- without the GIL ----

cdef void produce_parse(TopicTable* known, Produce* request, Cursor* cursor) noexcept nogil:
    cdef bint is_flexible = request.version >= FIRST_FLEXIBLE
    cdef bint is_by_id = request.version >= FIRST_BY_ID
    cdef int64_t topics, partitions
    cdef ProduceTopic* topic
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
        topic.topic = topics_find(known, read_topic(cursor, is_by_id, is_flexible), is_by_id)
        partitions = read_count(cursor, is_flexible)
        while partitions > 0 and not cursor.failed:
            partitions -= 1
            _parse_partition(request, topic, cursor)
        _parse_source(request, topic, cursor)
    skip_tags(cursor, is_flexible)


cdef void _parse_partition(Produce* request, ProduceTopic* topic, Cursor* cursor) noexcept nogil:
    cdef ProduceTarget target
    target.partition = read_i32(cursor)
    target.batch = read_bytes(cursor, request.is_flexible)
    skip_tags(cursor, request.is_flexible)
    target.log = topic_log(topic.topic, target.partition)
    topic.targets.push_back(target)


cdef void _parse_source(Produce* request, ProduceTopic* topic, Cursor* cursor) noexcept nogil:
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


cdef bint _is_for_control(Produce* request, const ProduceTarget* target,
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
