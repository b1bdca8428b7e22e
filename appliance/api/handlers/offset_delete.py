"""OffsetDelete 0: deletes committed offsets of a group for some partitions, on disk before the
response.

A topic that the group's members read gets GROUP_SUBSCRIBED_TO_TOPIC. If the members' subscriptions
are unknown, because theirs is not the protocol of consumers, the group must be empty.

Rights: DELETE on the group, READ on the topic.

Left out: nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import allowed_topic, check_group
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import check_partition
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.groups.group_table import ConsumersGroup, of_consumers
from appliance.groups.records import Partition
from appliance.groups.states import GroupRefused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

KEY = 47
VERSIONS = (0, 0)

Answer = OffsetDeleteResponse.OffsetDeleteResponsePartition


def handle(
    broker: Broker, request: OffsetDeleteRequest, call: Call
) -> OffsetDeleteResponse | Coroutine[Any, Any, OffsetDeleteResponse]:
    check_group(call, Operation.DELETE, request.group_id)
    read = _read(of_consumers(broker.groups.table.get(request.group_id)))
    places: list[Partition] = []
    good: list[Answer] = []  # answered as the deletion is
    response = OffsetDeleteResponse()
    for topic in request.topics:
        answers = []
        for each in topic.partitions:
            answer = Answer(partition_index=each.partition_index)
            answer.error_code = _error(broker, call, topic.name, each.partition_index, read)
            if not answer.error_code:
                places.append(Partition(topic.name, each.partition_index))
                good.append(answer)
            answers.append(answer)
        response.topics.append(
            OffsetDeleteResponse.OffsetDeleteResponseTopic(name=topic.name, partitions=answers)
        )
    if not places:
        return response
    # begun at once, so that it comes before what the connection commits next
    return _answer(response, good, broker.groups.commits.delete(request.group_id, places))


async def _answer(
    response: OffsetDeleteResponse, good: Iterable[Answer], deletion: Awaitable[None]
) -> OffsetDeleteResponse:
    try:
        await deletion
    except ApplianceError as error:
        for each in good:
            each.error_code = error.kafka_code
    return response


def _read(group: ConsumersGroup) -> frozenset[str]:
    """The topics that its members read."""
    topics = group.subscribed() if group.members else frozenset()
    if topics is None:
        raise GroupRefused(
            ErrorCode.NON_EMPTY_GROUP,
            f"group {group.id} has {len(group.members)} members, and what they read is not known",
        )
    return topics


def _error(
    broker: Broker, call: Call, topic: str, partition: int, read: frozenset[str]
) -> int:
    try:
        check_partition(allowed_topic(broker, call, Operation.READ, topic), partition)
    except ApplianceError as error:
        return error.kafka_code
    return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if topic in read else 0
