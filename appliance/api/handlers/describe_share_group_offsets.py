"""DescribeShareGroupOffsets 0-1: the start offsets of share groups, and their lag (version 1).

All records before the start offset are processed; later ones may be in part. The lag counts the
unprocessed records from there to the end of the partition. Both are -1, without an error, if the
group has no state there or has not read yet. Without topics, all topics with a state of the group
are returned. In a cluster the lag is -1 while the leader, another broker, does not tell the end, or
is this one and new, and does not know it.

Rights: DESCRIBE on the group and on the topic; of all topics the response has those that may be
described.

Left out: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_group, may_topic
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import (
    check_group_id,
    check_partition,
    find_log,
)
from appliance.api.handlers.repeated_items import distinct, distinct_partitions
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.groups.records import Partition
from appliance.protocol import NO_UUID, ErrorCode
from appliance.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from appliance.topics.known_end import is_watermark_stale
from appliance.topics.topic import Topic

KEY = 90
VERSIONS = (0, 1)

NONE = -1

Asked = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
Answer = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition
TopicAnswer = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic
GroupAnswer = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup


async def handle(
    broker: Broker, request: DescribeShareGroupOffsetsRequest, call: Call
) -> DescribeShareGroupOffsetsResponse:
    asked = distinct(request.groups, lambda each: each.group_id)
    groups = [await _group(broker, call, each) for each in asked]
    return DescribeShareGroupOffsetsResponse(groups=groups)


async def _group(broker: Broker, call: Call, asked: Asked) -> GroupAnswer:
    answer = GroupAnswer(group_id=asked.group_id)
    try:
        check_group(call, Operation.DESCRIBE, asked.group_id)
        check_group_id(asked.group_id)
        broker.share_groups.check(asked.group_id)
        wanted = [*_topics(broker, asked)]
        await _ask_leaders(broker, wanted)
        for name, topic, partitions in wanted:
            if may_topic(call, Operation.DESCRIBE, name):
                rows = [await _partition(broker, asked.group_id, topic, each)
                        for each in partitions]  # fmt: skip
                answer.topics.append(TopicAnswer(name, topic.id if topic else NO_UUID, rows))
            elif asked.topics is not None:
                answer.topics.append(_hidden(name, partitions))
    except ApplianceError as error:
        answer.error_code, answer.error_message = error.kafka_code, str(error)
    return answer


def _hidden(name: str, partitions: Sequence[int]) -> TopicAnswer:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    text = "The client may not describe the topic."
    rows = [Answer(each, NONE, error_code=code, error_message=text) for each in partitions]
    return TopicAnswer(topic_name=name, topic_id=NO_UUID, partitions=rows)


def _topics(
    broker: Broker, asked: Asked
) -> Iterable[tuple[str, Topic | None, Sequence[int]]]:
    if asked.topics is not None:
        wanted = distinct_partitions((each.topic_name, each.partitions) for each in asked.topics)
        for name, partitions in wanted.items():
            yield name, broker.topics.get(name), partitions
        return
    group = broker.share_groups.find(asked.group_id)
    of_topic: dict[str, list[int]] = {}
    for topic_id, partition in sorted(group.shared.initialized) if group else ():
        known = broker.topics.name_of(topic_id)
        if known is not None:
            of_topic.setdefault(known, []).append(partition)
    for name, partitions in of_topic.items():
        yield name, broker.topics.get(name), partitions


async def _partition(broker: Broker, group_id: str, topic: Topic | None, partition: int) -> Answer:
    answer = Answer(partition_index=partition, start_offset=NONE)
    if topic is None:
        return answer
    states = broker.share_partitions.states
    try:
        found = await states.progress(group_id, topic.id, partition)
        if found is None or found.start_offset == NONE:
            return answer
        answer.start_offset = found.start_offset
        epoch, end = _epoch_and_end(broker, topic, partition)
    except ApplianceError as error:
        answer.error_code, answer.error_message = error.kafka_code, str(error)
        return answer
    answer.leader_epoch = epoch
    if end is not None:
        answer.lag = max(0, end - found.start_offset - found.delivery_complete_count)
    return answer


async def _ask_leaders(
    broker: Broker, wanted: Iterable[tuple[str, Topic | None, Sequence[int]]]
) -> None:
    """Of what other brokers have alone: all at once, and unless they told lately."""
    elsewhere = broker.lag.elsewhere
    if elsewhere is not None:
        places = [Partition(name, each) for name, _, numbers in wanted for each in numbers]
        await elsewhere.ask([each for each in places if elsewhere.is_there(each)])


def _epoch_and_end(broker: Broker, topic: Topic, partition: int) -> tuple[int, int | None]:
    """None: another broker leads it, and does not tell; or nobody has told this one yet."""
    check_partition(topic, partition)
    elsewhere, place = broker.lag.elsewhere, Partition(topic.name, partition)
    if elsewhere is None:
        log = find_log(topic, partition)
        return log.leader_epoch, log.high_watermark
    epoch = broker.members.placement(topic, partition).leader_epoch
    if elsewhere.is_there(place):
        ends = elsewhere.ends(place)
        return epoch, None if ends is None else ends.end
    log = topic.log(partition)
    return epoch, None if is_watermark_stale(log) else log.high_watermark
