"""Produce 0-13: the requests that the data plane passes to Python, and the rules of all.

The data plane answers most Produce requests itself. It passes on compressed batches for compacted
topics, because it does not see their keys, and batches with a record without a key there:
compaction could never remove it, so the whole batch gets INVALID_RECORD with the record's number.
It also passes on batches of a transaction that is not open in their partition yet: the transaction
coordinator checks that the partition was added, or adds it from version 12 on, TV2. And it passes
on writes of others than its mirror to a mirror's topic. Later requests of the same connection
follow, and are appended in order.

A partition that was not added gets TRANSACTION_ABORTABLE, before version 11 INVALID_TXN_STATE; a
fenced producer gets INVALID_PRODUCER_EPOCH.

acks=0 gets no response; an error closes the connection instead, as in Kafka. acks=1 gets its
response after the write, acks=-1 when the records are on disk, or REQUEST_TIMED_OUT.

Of a partition that has replicas, acks=-1 waits until all that are in sync have it on disk. With
fewer of them than min.insync.replicas it gets NOT_ENOUGH_REPLICAS, or, when they became fewer after
the write, NOT_ENOUGH_REPLICAS_AFTER_APPEND at the end of its time. A broker that does not lead, or
ceases to while a request waits, answers NOT_LEADER_OR_FOLLOWER, from version 10 on with the leader.

A repeated batch of an idempotent producer gets the offset that it has, if it is one of that
producer's last five in the partition, with the same first and last sequence, and without a later
end marker. Any other batch that does not follow the last one, newer or older, gets
OUT_OF_ORDER_SEQUENCE_NUMBER, never DUPLICATE_SEQUENCE_NUMBER, which clients count as delivered.

Only the broker writes internal topics: INVALID_TOPIC_EXCEPTION.

Only a mirror writes a topic with the config `mirror.source`, and repeats that config in a tagged
field of our own (tag 10000 of a topic, from version 9 on); others get POLICY_VIOLATION. A mirror's
batches keep their offsets: each begins at the log's end, or exists already and is skipped;
otherwise OFFSET_OUT_OF_RANGE. A partition may have many of them. They may lack records, be empty,
and have no producer.

Versions 0 to 2 are listed but close the connection, as in Kafka: old releases of librdkafka turn
compression off if version 0 is not listed.

Rights: WRITE on the topic; with a batch of a transaction WRITE on the transactional id, too, at
each request: it may have been withdrawn since the transaction began. The data plane passes on
whatever it does not know to be allowed, and is told what was decided here.

Left out: the record formats before 2 (UNSUPPORTED_FOR_MESSAGE_FORMAT), which only clients of 2017
and before write.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import islice

from appliance._log import Log
from appliance.access.acls import Operation
from appliance.access.topic_decisions import WRITE
from appliance.api.handlers.authorization import (
    TRANSACTIONAL_ID,
    allowed_topic,
    allowed_topic_of_id,
    refusal,
)
from appliance.api.handlers.call import Call, ConnectionDropped
from appliance.api.handlers.partition_lookup import find_log
from appliance.broker.broker import Broker
from appliance.data_dir.log_writes import Batch, LogWrites, Written
from appliance.errors import (
    ApplianceError,
    BatchInvalid,
    Refused,
    ReplicasTooFew,
    TimedOut,
)
from appliance.protocol import ErrorCode
from appliance.protocol.messages.produce import ProduceRequest, ProduceResponse
from appliance.record import _batch, _batch_check
from appliance.topics.topic import check_own, check_writer
from appliance.txn.states import TransactionRefused
from appliance.txn.transaction import Partition, Producer

KEY = 0
VERSIONS = (0, 13)

NO_ACK, LEADER_ACK, ALL_ACKS = 0, 1, -1
FIRST_BY_ID = 13
FIRST_WITH_ZSTD = 7
FIRST_WITH_ABORTABLE = 11
FIRST_OF_TV2 = 12
ZSTD = 4  # in the low bits of a batch's attributes, whose last byte stands at position 22
ATTRIBUTES_AT, CODEC_BITS = 22, 7

# What passes, in codes that producers do not know from a Produce; all know the one they are told.
LATER = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # of the coordinator, which the partition's leader has asked
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
}

# A batch may hold a record a byte: an answer names no more of them than a person would read.
RECORD_ERRORS_MAX = 100

TopicGiven = ProduceRequest.TopicProduceData
Given = ProduceRequest.PartitionProduceData
Answer = ProduceResponse.PartitionProduceResponse
RecordError = ProduceResponse.BatchIndexAndErrorMessage


@dataclass
class Job:
    """One partition: its batch, where it goes, or why not, and what became of it."""

    given: Given
    log: Log | ApplianceError
    answer: Answer
    written: Written | None = None
    origin: str = "unverified"  # until the transaction coordinator was asked
    is_mirrored: bool = False

    @property
    def batch(self) -> bytes:
        return self.given.records or b""

    def take(self, written: Written) -> None:
        assert isinstance(self.log, Log)
        self.written = written
        self.answer.base_offset = written.base_offset
        self.answer.log_append_time_ms = written.append_time
        self.answer.log_start_offset = self.log.log_start_offset

    def refuse(self, error: ApplianceError) -> None:
        self.answer.error_code, self.answer.error_message = error.kafka_code, str(error)
        self.answer.base_offset = self.answer.log_append_time_ms = -1
        self.answer.log_start_offset = -1


async def handle(broker: Broker, request: ProduceRequest, call: Call) -> ProduceResponse | None:
    _tell_rights(broker, request, call)
    topics = [
        (topic, [_job(broker, request.acks, topic, each, call) for each in topic.partition_data])
        for topic in request.topic_data
    ]
    jobs = [job for _, own in topics for job in own]
    _check_transaction(request.transactional_id, jobs, call)
    async with call.turn(), AsyncExitStack() as held:
        await _verify(broker, request.transactional_id or "", jobs, call.version, held)
        await _append_all(broker.log_writes, jobs, request.acks == ALL_ACKS, call)
    if request.acks == ALL_ACKS:
        await _await_all(broker.log_writes, jobs, request.timeout_ms, call)
    failed = [job.answer for job in jobs if job.answer.error_code]
    if request.acks == NO_ACK and failed:
        raise ConnectionDropped(
            f"acks=0 and error {failed[0].error_code}: {failed[0].error_message}"
        )
    return None if request.acks == NO_ACK else _answer(topics)


def _tell_rights(broker: Broker, request: ProduceRequest, call: Call) -> None:
    """The data plane answers the next one by itself if all that it needs is allowed."""
    if not call.authorizer.is_enforced:
        return
    by_id = call.version >= FIRST_BY_ID
    for topic in request.topic_data:
        name = broker.topics.name_of(topic.topic_id) if by_id else topic.name
        if name is not None:
            broker.decisions.tell(call.principal, call.peer, WRITE, name)
    if request.transactional_id is not None:
        broker.decisions.tell_id(call.principal, call.peer, request.transactional_id)


def _answer(topics: list[tuple[TopicGiven, list[Job]]]) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[job.answer for job in jobs],
            )
            for topic, jobs in topics
        ]
    )


def _job(broker: Broker, acks: int, topic: TopicGiven, given: Given, call: Call) -> Job:
    job = Job(given, BatchInvalid(), Answer(index=given.index, base_offset=-1))
    try:
        if acks not in (NO_ACK, LEADER_ACK, ALL_ACKS):
            raise Refused(ErrorCode.INVALID_REQUIRED_ACKS, f"got acks {acks}, wanted -1, 0 or 1")
        if call.version >= FIRST_BY_ID:
            found = allowed_topic_of_id(broker, call, Operation.WRITE, topic.topic_id)
        else:
            found = allowed_topic(broker, call, Operation.WRITE, topic.name)
        check_own(found.name)
        check_writer(found, topic.mirror_source)
        log, job.is_mirrored = find_log(found, given.index), bool(found.mirror_source)
        if acks == ALL_ACKS and log.lacks_in_sync:
            raise ReplicasTooFew(f"{log.name}: too few replicas are in sync")
        job.log = log
    except ApplianceError as error:
        job.log = error
    return job


def _check_transaction(name: str | None, jobs: list[Job], call: Call) -> None:
    """One batch of a transaction, and its right is wanted for all: otherwise nothing is written."""
    if not call.authorizer.is_enforced:
        return
    if not any(_writer(job.batch) for job in jobs):
        return
    if name is not None and call.may(Operation.WRITE, TRANSACTIONAL_ID, name):
        return
    for job in jobs:
        job.log = refusal(call, Operation.WRITE, TRANSACTIONAL_ID, name or "")


async def _verify(
    broker: Broker, name: str, jobs: list[Job], version: int, held: AsyncExitStack
) -> None:
    """Nothing may be written to a partition that its transaction does not know of: no marker would
    come, and readers would wait for it for good. `held` keeps it so until all is appended."""
    writers = {}
    for job in jobs:
        if not isinstance(job.log, Log) or job.is_mirrored:
            continue
        if producer := _writer(job.batch):
            writers[Partition(job.log.topic, job.log.partition)] = producer
    if not writers:
        return
    transactions = broker.transactions
    try:
        may_add = version >= FIRST_OF_TV2
        refused = await held.enter_async_context(transactions.writing(name, writers, may_add))
    except TransactionRefused as error:
        refused = dict.fromkeys(writers, error)
    for job in jobs:
        if isinstance(job.log, Log):
            place = Partition(job.log.topic, job.log.partition)
            if place in refused:
                job.log = _refusal(refused[place], version)
            elif place in writers:
                job.origin = "client"


def _writer(batch: bytes) -> Producer | None:
    """Of a batch in a transaction. What is no batch is refused when it is appended."""
    try:
        info = _batch.headers(batch)[0]
    except (ApplianceError, IndexError):
        return None
    return Producer(info.producer_id, info.producer_epoch) if info.is_transactional else None


def _refusal(error: TransactionRefused, version: int) -> ApplianceError:
    """In words that a producer of this version knows."""
    code = ErrorCode(error.kafka_code)
    if code is ErrorCode.INVALID_TXN_STATE and version >= FIRST_WITH_ABORTABLE:
        code = ErrorCode.TRANSACTION_ABORTABLE
    elif code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code in LATER:
        code = ErrorCode.NOT_ENOUGH_REPLICAS
    return Refused(code, str(error))


async def _append_all(writes: LogWrites, jobs: list[Job], is_awaited: bool, call: Call) -> None:
    """What is decompressed, or has many batches, needs a thread of its own."""
    together, alone = [], []
    for job in jobs:
        if isinstance(job.log, ApplianceError):
            job.refuse(job.log)
        elif call.version < FIRST_WITH_ZSTD and _is_zstd(job.batch):
            job.refuse(_zstd_refusal(call.version))
        elif job.is_mirrored or job.log.is_compacted:
            alone.append(job)
        else:
            batch = Batch(job.log, job.batch, origin=job.origin, is_awaited=is_awaited)
            together.append((job, batch))
    if alone:
        await call.on_thread(_append_alone, alone, is_awaited)
    outcomes = await writes.append([each for _, each in together])
    for (job, _), written in zip(together, outcomes, strict=True):
        if written.error is None:
            job.take(written)
        else:
            job.refuse(written.error)


def _append_alone(jobs: list[Job], is_awaited: bool) -> None:
    for job in jobs:
        assert isinstance(job.log, Log)
        election = job.log.election
        try:
            if job.is_mirrored:
                appended = job.log.append_mirrored(job.batch)
            else:
                appended = job.log.append(job.batch, origin=job.origin)
        except ApplianceError as error:
            job.refuse(error)
            if isinstance(error, BatchInvalid):
                job.answer.record_errors = _without_key(job.batch)
        else:
            job.take(Written(None, *appended[:3], election))
            if is_awaited:
                job.log.ask_commit()


async def _await_all(writes: LogWrites, jobs: list[Job], timeout_ms: int, call: Call) -> None:
    """After everything is written: one commit covers all."""
    for job in jobs:
        if job.written is None:
            continue
        assert isinstance(job.log, Log)
        try:
            await writes.durable(job.log, job.written, call.seconds_left(timeout_ms))
        except TimedOut as error:
            if job.log.lacks_in_sync:
                job.refuse(Refused(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, str(error)))
            else:
                job.refuse(error)
        except ApplianceError as error:
            job.refuse(error)


def _zstd_refusal(version: int) -> ApplianceError:
    return Refused(
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        f"zstd begins with version {FIRST_WITH_ZSTD}, this is {version}",
    )


def _is_zstd(batch: bytes) -> bool:
    return len(batch) > ATTRIBUTES_AT and batch[ATTRIBUTES_AT] & CODEC_BITS == ZSTD


def _without_key(batch: bytes) -> list[RecordError]:
    """The records that a compacted topic cannot take; none where the batch itself is wrong."""
    try:
        _batch_check.check(batch, deep=True)
    except ApplianceError:
        return []
    lost = (i for i, record in enumerate(_batch.records(batch)) if record.key is None)
    return [
        RecordError(batch_index=i, batch_index_error_message="a compacted topic needs a key")
        for i in islice(lost, RECORD_ERRORS_MAX)
    ]
