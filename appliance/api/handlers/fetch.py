"""Fetch 4-18: what is true of all, and a plain answer for a request that reaches Python.

The data plane answers every Fetch of these versions, with sessions, long polls and sendfile. Should
one be handed over, this file answers at once, with what there is, and without a session: the client
then sends whole requests, which is always allowed. The first batch comes whole however large it is;
of later partitions, a batch that does not fit is left for the next fetch. For read_committed the
aborted transactions in the range are listed.

Left out: requests of followers (replica fields are ignored); preferred replicas, because there is
one broker; down-conversion to the record formats before 2, as in Kafka 4.
"""

from __future__ import annotations

from typing import NamedTuple

from appliance._log import Log
from appliance.api.handlers.call import Call
from appliance.api.handlers.lookup import find_log, find_topic, find_topic_of_id
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode
from appliance.protocol.messages.fetch import FetchRequest, FetchResponse
from appliance.record import _batch

KEY = 1
VERSIONS = (4, 18)

FIRST_BY_ID = 13
READ_COMMITTED = 1

Topic = FetchRequest.FetchTopic
Asked = FetchRequest.FetchPartition
Answer = FetchResponse.PartitionData


class Job(NamedTuple):
    asked: Asked
    log: Log | ApplianceError


async def handle(broker: Broker, request: FetchRequest, call: Call) -> FetchResponse:
    if request.session_epoch > 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    topics = [
        (topic, [_job(broker, topic, each, call.version) for each in topic.partitions])
        for topic in request.topics
    ]
    most = min(request.max_bytes, broker.config.network.fetch_max_bytes)
    is_committed = request.isolation_level == READ_COMMITTED
    return await call.on_thread(_read_all, topics, most, is_committed)


def _job(broker: Broker, topic: Topic, asked: Asked, version: int) -> Job:
    try:
        if version >= FIRST_BY_ID:
            found = find_topic_of_id(broker, topic.topic_id)
        else:
            found = find_topic(broker, topic.topic)
        return Job(asked, find_log(found, asked.partition, asked.current_leader_epoch))
    except ApplianceError as error:
        return Job(asked, error)


def _read_all(
    topics: list[tuple[Topic, list[Job]]], most: int, is_committed: bool
) -> FetchResponse:
    answer = FetchResponse()
    taken = 0
    for topic, jobs in topics:
        rows = []
        for job in jobs:
            room = min(job.asked.partition_max_bytes, most - taken)
            rows.append(_read(job, room, taken == 0, is_committed))
            taken += len(rows[-1].records or b"")
        answer.responses.append(
            FetchResponse.FetchableTopicResponse(
                topic=topic.topic, topic_id=topic.topic_id, partitions=rows
            )
        )
    return answer


def _read(job: Job, room: int, is_first: bool, is_committed: bool) -> Answer:
    answer = Answer(partition_index=job.asked.partition, high_watermark=-1, records=b"")
    answer.aborted_transactions = None
    try:
        if isinstance(job.log, ApplianceError):
            raise job.log
        limit = "stable" if is_committed else "visible"
        found = job.log.read(job.asked.fetch_offset, max(1, room), limit)
    except ApplianceError as error:
        answer.error_code = error.kafka_code
        return answer
    answer.records = found if is_first or len(found) <= room else b""
    answer.last_stable_offset = job.log.last_stable_offset
    answer.high_watermark = job.log.high_watermark  # after the other, which is never above it then
    answer.log_start_offset = job.log.log_start_offset
    if is_committed:
        answer.aborted_transactions = _aborted(job.log, job.asked.fetch_offset, answer.records)
    return answer


def _aborted(log: Log, offset: int, found: bytes) -> list[FetchResponse.AbortedTransaction]:
    if not found:
        return []
    end_offset = _batch.headers(found)[-1].last_offset + 1
    return [
        FetchResponse.AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
        for producer_id, first_offset, _ in log.aborted_transactions(offset, end_offset)
    ]
