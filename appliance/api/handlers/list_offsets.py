"""ListOffsets 1-11: the start and end of a partition, and the first record of a time.

    -1  latest: the last stable offset for read_committed, else the high watermark
    -2  earliest, and -4 earliest on local disk, which is the same here
    -3  the record with the largest timestamp
    -5  latest in tiered storage, and -6 earliest to be uploaded: none, offset -1 and no error
    else the first record with that timestamp or a later one; none is offset -1 and no error

A request for the newest records, or by time, makes written records durable at once, as a waiting
Fetch does: a client with an acknowledgement of acks=1 gets its record here, after one flush.

Only a search by time returns a timestamp. The special values have minimum versions (-3 needs
version 7, -4 8, -5 9, -6 11): below it they get UNSUPPORTED_VERSION.

Of a partition that has replicas the newest is the high watermark, whatever the leader has beyond
it: that flush is of its own disk alone. A new leader knows it only when its followers have told
what they have: OFFSET_NOT_AVAILABLE until then, before version 5 LEADER_NOT_AVAILABLE. A broker
that does not lead answers NOT_LEADER_OR_FOLLOWER.

The data plane answers -1 and -2 itself in simple cases (`_list_offsets.pyx`), by the same rules.

Rights: DESCRIBE on the topic.

Left out: requests of followers; they are answered like consumers, and our followers send none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from appliance._log import Log
from appliance.access.acls import Operation
from appliance.access.topic_decisions import DESCRIBE
from appliance.api.handlers.authorization import allowed_topic
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import NO_EPOCH, find_log, leader_epoch_at
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from appliance.storage._log_description import SegmentInfo
from appliance.topics.known_end import end_unknown, knows_end

KEY = 2
VERSIONS = (1, 11)

LATEST, EARLIEST, LARGEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    LARGEST: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING: 11,
}
READ_COMMITTED = 1
AT_THE_START = (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING)
# A disk that takes longer for one flush is in trouble: then what is visible by now is told.
COMMIT_WAIT_MS = 1000
NONE = -1  # no such offset, no timestamp to tell
FIRST_WITH_NOT_AVAILABLE = 5
AT_THE_END = (LATEST, LARGEST)
NOT_AVAILABLE, OLDER = ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.LEADER_NOT_AVAILABLE
LONG_MAX = (1 << 63) - 1

Asked = ListOffsetsRequest.ListOffsetsPartition
Answer = ListOffsetsResponse.ListOffsetsPartitionResponse
Job = tuple[Asked, Log | ApplianceError]


class OffsetAndTimestamp(NamedTuple):
    offset: int
    timestamp: int = NONE


async def handle(broker: Broker, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    if call.authorizer.is_enforced:
        for topic in request.topics:  # so that the data plane answers the next one by itself
            broker.decisions.tell(call.principal, call.peer, DESCRIBE, topic.name)
    up_to = "stable" if request.isolation_level == READ_COMMITTED else "visible"
    times = Counter(
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    )
    twice = {each for each, count in times.items() if count > 1}
    async with call.turn():  # after what its connection wanted deleted before
        topics = [
            (topic.name, [_job(broker, topic.name, each, call, twice) for each in topic.partitions])
            for topic in request.topics
        ]
    return await call.on_thread(_answer, topics, up_to, call)


def _job(broker: Broker, topic: str, asked: Asked, call: Call, twice: set[tuple[str, int]]) -> Job:
    try:
        if (topic, asked.partition_index) in twice:
            raise Refused(
                ErrorCode.INVALID_REQUEST, f"{topic}-{asked.partition_index} is named twice"
            )
        if asked.timestamp < 0 and call.version < SINCE.get(asked.timestamp, call.version + 1):
            raise Refused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"timestamp {asked.timestamp} means nothing in version {call.version}",
            )
        found = allowed_topic(broker, call, Operation.DESCRIBE, topic)
        return asked, find_log(found, asked.partition_index, asked.current_leader_epoch)
    except ApplianceError as error:
        return asked, error


def _commit(jobs: list[Job], call: Call) -> None:
    """All are asked before one is waited for: one commit covers them. What other replicas have yet
    to get is waited for by nobody."""
    behind = [
        log
        for asked, log in jobs
        if isinstance(log, Log)
        and asked.timestamp not in AT_THE_START
        and log.high_watermark < log.log_end_offset
        and log.durable_offset < log.log_end_offset
    ]
    for log in behind:
        log.ask_commit()
    for log in behind:
        # what stays behind is not visible, which is the answer; health tells why
        with suppress(ApplianceError):
            log.flush(call.seconds_left(COMMIT_WAIT_MS))


def _answer(
    topics: list[tuple[str, list[Job]]], up_to: str, call: Call
) -> ListOffsetsResponse:
    _commit([job for _, jobs in topics for job in jobs], call)
    version = call.version
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=name,
                partitions=[_partition(asked, log, up_to, version) for asked, log in jobs],
            )
            for name, jobs in topics
        ]
    )


def _partition(asked: Asked, log: Log | ApplianceError, up_to: str, version: int) -> Answer:
    answer = Answer(partition_index=asked.partition_index)
    try:
        if isinstance(log, ApplianceError):
            raise log
        is_known = asked.timestamp in AT_THE_START or knows_end(log)  # first
        found = _special(log, asked.timestamp, up_to) or _by_time(log, asked.timestamp, up_to)
        if not is_known and (asked.timestamp in AT_THE_END or found.offset < 0):
            raise end_unknown(log, NOT_AVAILABLE if version >= FIRST_WITH_NOT_AVAILABLE else OLDER)
    except ApplianceError as error:
        answer.error_code = error.kafka_code
        return answer
    answer.offset, answer.timestamp = found
    answer.leader_epoch = NO_EPOCH if found.offset < 0 else leader_epoch_at(log, found.offset)
    return answer


def _special(log: Log, timestamp: int, up_to: str) -> OffsetAndTimestamp | None:
    latest = log.last_stable_offset if up_to == "stable" else log.high_watermark
    answers: dict[int, Callable[[], OffsetAndTimestamp]] = {
        LATEST: lambda: OffsetAndTimestamp(latest),
        EARLIEST: lambda: OffsetAndTimestamp(log.log_start_offset),
        EARLIEST_LOCAL: lambda: OffsetAndTimestamp(log.log_start_offset),
        LARGEST: lambda: _largest(log, up_to),
        LATEST_TIERED: lambda: OffsetAndTimestamp(NONE),
        EARLIEST_PENDING: lambda: OffsetAndTimestamp(NONE),
    }
    return answers[timestamp]() if timestamp in answers else None


def _by_time(log: Log, timestamp: int, up_to: str) -> OffsetAndTimestamp:
    found = log.offset_for_timestamp(timestamp, up_to)
    return OffsetAndTimestamp(NONE) if found is None else OffsetAndTimestamp(*found)


def _largest(log: Log, up_to: str) -> OffsetAndTimestamp:
    """The segments know their largest timestamps, but the newest records may not be visible yet:
    then it is the latest time at which a search by time still finds something."""
    too_late = max((_largest_of(each) for each in log.segments()), default=0)
    found = log.offset_for_timestamp(too_late, up_to) or log.offset_for_timestamp(0, up_to)
    if found is None:
        return OffsetAndTimestamp(NONE)
    while found[1] + 1 < too_late:
        middle = (found[1] + too_late) // 2
        later = log.offset_for_timestamp(middle, up_to)
        if later is None:
            too_late = middle
        else:
            found = later
    return OffsetAndTimestamp(*found)


def _largest_of(segment: SegmentInfo) -> int:
    return LONG_MAX if segment.largest_timestamp is None else segment.largest_timestamp
