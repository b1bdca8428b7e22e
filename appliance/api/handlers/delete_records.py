"""DeleteRecords 0-2: moves the start of a partition up to an offset; -1 is the high watermark.

Readers lose the records below at once; disk space is freed by whole segments. An offset below the
start changes nothing and returns the start. A ListOffsets that the same connection sends after it,
without waiting for the response, returns the new start.

The response waits, within the timeout, until the start is at all replicas in sync, so that the
next leader does not show the records again: REQUEST_TIMED_OUT says that one may.

If the offset is above the durable end, written records are made durable first, within the timeout:
a client with an acknowledgement of acks=1 may delete them. A new leader that does not know its high
watermark yet answers LEADER_NOT_AVAILABLE where that decides, and one that is deposed meanwhile
NOT_LEADER_OR_FOLLOWER.

Rights: DELETE on the topic.

Left out: topics that are only compacted, whose records represent a state (POLICY_VIOLATION, as in
Kafka).
"""

from __future__ import annotations

import time
from typing import NamedTuple

from appliance._log import Log
from appliance.access.acls import Operation
from appliance.api.handlers.authorization import allowed_topic
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import find_log
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from appliance.topics.deleted_everywhere import await_start
from appliance.topics.known_end import check_led, end_unknown, knows_end

KEY = 21
VERSIONS = (0, 2)

HIGH_WATERMARK = -1

Asked = DeleteRecordsRequest.DeleteRecordsPartition
Answer = DeleteRecordsResponse.DeleteRecordsPartitionResult


class Deletion(NamedTuple):
    answer: Answer
    log: Log | None  # None: it was refused
    offset: int  # what is before it is deleted here


async def handle(
    broker: Broker, request: DeleteRecordsRequest, call: Call
) -> DeleteRecordsResponse:
    deletions: list[tuple[str, list[Deletion]]] = []
    async with call.turn():
        for topic in request.topics:  # Python 3.10 awaits in no comprehension within another
            own = [
                await _partition(broker, topic.name, asked, request.timeout_ms, call)
                for asked in topic.partitions
            ]
            deletions.append((topic.name, own))
    answers = []
    for name, own in deletions:
        told = [await _everywhere(each, request.timeout_ms, call) for each in own]
        answers.append(DeleteRecordsResponse.DeleteRecordsTopicResult(name=name, partitions=told))
    return DeleteRecordsResponse(topics=answers)


async def _partition(
    broker: Broker, topic: str, asked: Asked, timeout_ms: int, call: Call
) -> Deletion:
    answer = Answer(partition_index=asked.partition_index, low_watermark=-1)
    try:
        log = find_log(
            allowed_topic(broker, call, Operation.DELETE, topic), asked.partition_index
        )
        _check_policy(broker, topic)
        offset = await call.on_thread(_delete, log, asked.offset, call.seconds_left(timeout_ms))
        return Deletion(answer, log, offset)
    except ApplianceError as error:
        answer.error_code = error.kafka_code
    return Deletion(answer, None, -1)


async def _everywhere(deletion: Deletion, timeout_ms: int, call: Call) -> Answer:
    answer, log, offset = deletion
    if log is None:
        return answer
    try:
        until_s = time.monotonic() + call.seconds_left(timeout_ms)
        await await_start(log, offset, until_s)
        answer.low_watermark = log.log_start_offset
    except ApplianceError as error:
        answer.error_code = error.kafka_code
    return answer


def _check_policy(broker: Broker, topic: str) -> None:
    if broker.topics[topic].is_internal:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is internal")
    policy = broker.configs.of_topic(topic, "cleanup.policy")
    if "delete" not in policy.split(","):
        raise Refused(ErrorCode.POLICY_VIOLATION, f"{topic} has cleanup.policy {policy}")


def _delete(log: Log, offset: int, seconds: float) -> int:
    """Up to which offset."""
    is_within = HIGH_WATERMARK < offset <= log.high_watermark
    if not is_within and not knows_end(log):
        raise end_unknown(log, ErrorCode.LEADER_NOT_AVAILABLE)  # which clients try again for
    if not is_within and log.high_watermark < log.log_end_offset:
        _make_durable(log, seconds)
    target = _target(log, offset)
    log.delete_before(target)
    check_led(log)
    return target


def _make_durable(log: Log, seconds: float) -> None:
    log.flush(seconds)


def _target(log: Log, offset: int) -> int:
    high_watermark = log.high_watermark
    target = high_watermark if offset == HIGH_WATERMARK else offset
    if not 0 <= target <= high_watermark:
        check_led(log)  # who leads now may have more
        raise Refused(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{log.name}: got offset {offset}, wanted at most {high_watermark}, or -1 for that",
        )
    return target
