"""OffsetDelete 0: forgets what a group committed for some partitions, on disk before the answer.

A topic that the group's members read is refused with GROUP_SUBSCRIBED_TO_TOPIC. Where members do
not tell what they read, because theirs is not the protocol of consumers, the group must be empty.

Left out: nothing.
"""

from __future__ import annotations

from appliance.api.handlers.call import Call, Later
from appliance.api.handlers.lookup import check_partition, find_topic
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.groups.coordinator import ConsumersGroup
from appliance.groups.records import Partition
from appliance.groups.states import GroupRefused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

KEY = 47
VERSIONS = (0, 0)

Answer = OffsetDeleteResponse.OffsetDeleteResponsePartition


def handle(broker: Broker, request: OffsetDeleteRequest, call: Call) -> Later:
    read = _read(broker.groups.of_consumers(broker.groups.get(request.group_id)))
    places: list[Partition] = []
    good: list[Answer] = []  # answered as the deletion is
    response = OffsetDeleteResponse()
    for topic in request.topics:
        answers = []
        for each in topic.partitions:
            answer = Answer(partition_index=each.partition_index)
            answer.error_code = _error(broker, topic.name, each.partition_index, read)
            if not answer.error_code:
                places.append(Partition(topic.name, each.partition_index))
                good.append(answer)
            answers.append(answer)
        response.topics.append(
            OffsetDeleteResponse.OffsetDeleteResponseTopic(name=topic.name, partitions=answers)
        )
    later = Later()

    def done(error: ApplianceError | None) -> None:
        for each in good:
            each.error_code = error.kafka_code if error else 0
        later.give(response)

    if places:
        broker.groups.delete_offsets(request.group_id, places, done)
    else:
        later.give(response)
    return later


def _read(group: ConsumersGroup) -> frozenset[str]:
    """The topics that its members read."""
    topics = group.subscribed() if group.members else frozenset()
    if topics is None:
        raise GroupRefused(
            ErrorCode.NON_EMPTY_GROUP,
            f"group {group.id} has {len(group.members)} members, and what they read is not known",
        )
    return topics


def _error(broker: Broker, topic: str, partition: int, read: frozenset[str]) -> int:
    try:
        check_partition(find_topic(broker, topic), partition)
    except ApplianceError as error:
        return error.kafka_code
    return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if topic in read else 0
