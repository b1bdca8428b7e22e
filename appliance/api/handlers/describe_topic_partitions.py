"""DescribeTopicPartitions 0: topics with their partitions, in pages.

Topics are sorted by name: the requested ones, or all. A page ends at the client's or our limit of
partitions, and its cursor has the first partition of the next page.

Rights: DESCRIBE on the topic; of all topics the response has those that may be described.

Left out: the last known eligible replicas, which is empty: out of the ISR and of the eligible
replicas nobody is elected but on a person's word.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import may_topic
from appliance.api.handlers.authorized_operations import on_topic
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import find_topic
from appliance.broker.broker import Broker
from appliance.broker.members import NOBODY
from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode
from appliance.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from appliance.topics.topic import Topic

KEY = 75
VERSIONS = (0, 0)

# Kafka's max.request.partition.size.limit: a page of about 100 KB, made in a few milliseconds.
PAGE_PARTITIONS_MAX = 2000

Request = DescribeTopicPartitionsRequest
Response = DescribeTopicPartitionsResponse
TopicRow = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
PartitionRow = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


def handle(broker: Broker, request: Request, call: Call) -> Response:
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        return _refuse_all(request, ErrorCode.INVALID_REQUEST)
    asked = {each.name for each in request.topics}
    names = sorted(each for each in asked or broker.topics if _may_see(call, each))
    answer = Response()
    room = max(1, min(request.response_partition_limit, PAGE_PARTITIONS_MAX))
    for name in names:
        if cursor is not None and name < cursor.topic_name:
            continue
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if room == 0:
            answer.next_cursor = Response.Cursor(topic_name=name, partition_index=first)
            break
        row = _describe(broker, call, name, first, room)
        answer.topics.append(row)
        room -= len(row.partitions)
        end = first + len(row.partitions)
        if name in broker.topics and end < len(broker.topics[name].logs):
            answer.next_cursor = Response.Cursor(topic_name=name, partition_index=end)
            break
    hidden = sorted(each for each in asked if not _may_see(call, each))
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    answer.topics += [TopicRow(error_code=code, name=each) for each in hidden]
    return answer


def _may_see(call: Call, name: str) -> bool:
    return may_topic(call, Operation.DESCRIBE, name)


def _refuse_all(request: Request, code: ErrorCode) -> Response:
    """There is no place for an error but at each topic."""
    return Response(topics=[TopicRow(error_code=code, name=each.name) for each in request.topics])


def _describe(broker: Broker, call: Call, name: str, first: int, room: int) -> TopicRow:
    try:
        topic = find_topic(broker, name)
    except ApplianceError as error:
        return TopicRow(error_code=error.kafka_code, name=name)
    chosen = range(len(topic.logs))[first : first + room]
    return TopicRow(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_partition(broker, topic, each) for each in chosen],
        topic_authorized_operations=on_topic(call, topic.name),
    )


def _partition(broker: Broker, topic: Topic, index: int) -> PartitionRow:
    found = broker.members.placement(topic, index)
    has_leader = found.leader != NOBODY
    return PartitionRow(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=found.leader,
        leader_epoch=found.leader_epoch,
        replica_nodes=[*found.replicas],
        isr_nodes=[*found.isr],
        eligible_leader_replicas=[*found.eligible],
        last_known_elr=[],
        offline_replicas=[*found.offline],
    )
