"""DescribeShareGroupOffsets 0-1: the start offsets of share groups, and their lag (version 1).

All records before the start offset are processed; later ones may be in part. The lag counts the
unprocessed records from there to the end of the partition. Both are -1, without an error, if the
group has no state there or has not read yet. Without topics, all topics with a state of the group
are returned.

Rights: DESCRIBE on the group and on the topic; of all topics the response has those that may be
described.

Left out: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_group, may_topic
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import check_group_id, find_log
from appliance.api.handlers.repeated_items import distinct, distinct_partitions
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol import NO_UUID, ErrorCode
from appliance.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from appliance.topics.topic import Topic

KEY = 90
VERSIONS = (0, 1)

NONE = -1

Asked = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
Answer = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition
TopicAnswer = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic
GroupAnswer = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup


def handle(
    broker: Broker, request: DescribeShareGroupOffsetsRequest, call: Call
) -> DescribeShareGroupOffsetsResponse:
    asked = distinct(request.groups, lambda each: each.group_id)
    groups = [_group(broker, call, each) for each in asked]
    return DescribeShareGroupOffsetsResponse(groups=groups)


def _group(broker: Broker, call: Call, asked: Asked) -> GroupAnswer:
    answer = GroupAnswer(group_id=asked.group_id)
    try:
        check_group(call, Operation.DESCRIBE, asked.group_id)
        check_group_id(asked.group_id)
        broker.share_groups.check(asked.group_id)
        answer.topics = [
            TopicAnswer(
                topic_name=name,
                topic_id=topic.id if topic else NO_UUID,
                partitions=[
                    _partition(broker, asked.group_id, topic, each) for each in partitions
                ],
            )
            if may_topic(call, Operation.DESCRIBE, name)
            else _hidden(name, partitions)
            for name, topic, partitions in _topics(broker, asked)
            if asked.topics is not None or may_topic(call, Operation.DESCRIBE, name)
        ]
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


def _partition(broker: Broker, group_id: str, topic: Topic | None, partition: int) -> Answer:
    answer = Answer(partition_index=partition, start_offset=NONE)
    if topic is None:
        return answer
    states = broker.share_partitions.states
    start_offset = states.start_offset(group_id, topic.id, partition)
    if start_offset is None or start_offset == NONE:
        return answer
    answer.start_offset = start_offset
    try:
        log = find_log(topic, partition)
    except ApplianceError as error:
        answer.error_code, answer.error_message = error.kafka_code, str(error)
        return answer
    answer.leader_epoch = log.leader_epoch
    done = states.delivery_complete_count(group_id, topic.id, partition)
    if done != NONE:
        answer.lag = max(0, log.high_watermark - start_offset - done)
    return answer
