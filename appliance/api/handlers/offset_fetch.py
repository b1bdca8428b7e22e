"""OffsetFetch 1-10: the committed offsets of groups; many groups per request from version 8 on.

No topics (null) means all committed offsets of the group. A partition without a commit has offset
-1 and no error; so has a group that does not exist. With `require_stable` an offset that an open
transaction may change gets UNSTABLE_OFFSET_COMMIT, and clients retry. Version 10 names topics by
their ids and omits offsets of deleted topics. A request of a member of a group of the newer
protocol (version 9) must have its id and epoch.

Rights: DESCRIBE on the group and on the topic; of all topics the response has those that may be
described.

Left out: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_group, may_topic
from appliance.api.handlers.call import Call
from appliance.api.handlers.repeated_items import distinct, distinct_partitions
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.groups.consumer_group import ConsumerGroup
from appliance.groups.coordinator import Coordinator
from appliance.groups.group_table import of_consumers
from appliance.groups.records import Partition
from appliance.groups.streams.group import StreamsGroup
from appliance.protocol import NO_UUID, ErrorCode
from appliance.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

KEY = 9
VERSIONS = (1, 10)

FIRST_WITH_ERROR = 2  # of the whole answer; before, each partition has it
FIRST_WITH_GROUPS = 8
FIRST_BY_ID = 10
NONE = -1  # nothing committed: no offset, no epoch

Group = OffsetFetchRequest.OffsetFetchRequestGroup
GroupAnswer = OffsetFetchResponse.OffsetFetchResponseGroup
TopicAnswer = OffsetFetchResponse.OffsetFetchResponseTopics
Answer = OffsetFetchResponse.OffsetFetchResponsePartitions
OldTopicAnswer = OffsetFetchResponse.OffsetFetchResponseTopic
OldAnswer = OffsetFetchResponse.OffsetFetchResponsePartition


class Topic(NamedTuple):
    """What is asked of one."""

    name: str | None  # None: there is no topic with this id
    topic_id: UUID
    partitions: Sequence[int]


def handle(broker: Broker, request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    if call.version < FIRST_WITH_GROUPS:
        return _old(broker.groups, request, call)
    asked = distinct(request.groups, lambda each: each.group_id)
    return OffsetFetchResponse(
        groups=[_group(broker, call, each, request.require_stable) for each in asked]
    )


def _group(broker: Broker, call: Call, asked: Group, is_stable: bool) -> GroupAnswer:
    answer = GroupAnswer(group_id=asked.group_id)
    try:
        check_group(call, Operation.DESCRIBE, asked.group_id)
        group = broker.groups.table.find(asked.group_id)
        if group is not None:
            consumers = of_consumers(group)
            if isinstance(consumers, (ConsumerGroup, StreamsGroup)):
                consumers.check_fetch(asked.member_id, asked.member_epoch)
    except ApplianceError as error:
        answer.error_code = error.kafka_code
        return answer
    answer.topics = [
        TopicAnswer(
            name=each.name or "",
            topic_id=each.topic_id,
            partitions=[
                _partition(broker.groups, call, asked.group_id, each.name, index, is_stable)
                for index in each.partitions
            ],
        )
        for each in _topics(broker, asked, call)
    ]
    return answer


def _topics(broker: Broker, asked: Group, call: Call) -> Iterable[Topic]:
    is_by_id = call.version >= FIRST_BY_ID
    if asked.topics is None:
        for name, partitions in _all(broker.groups, call, asked.group_id).items():
            facts = broker.group_places.topic_facts(name)
            if facts or not is_by_id:
                yield Topic(name, facts.id if facts else NO_UUID, partitions)
        return
    wanted = distinct_partitions(
        ((each.topic_id if is_by_id else NO_UUID, each.name), each.partition_indexes)
        for each in asked.topics
    )
    for (topic_id, name), partitions in wanted.items():
        yield Topic(broker.topics.name_of(topic_id) if is_by_id else name, topic_id, partitions)


def _all(groups: Coordinator, call: Call, group_id: str) -> dict[str, list[int]]:
    """Of topics that the client may see."""
    found: dict[str, list[int]] = {}
    for place in groups.offsets.of_group(group_id):
        found.setdefault(place.topic, []).append(place.partition)
    return {
        topic: partitions
        for topic, partitions in found.items()
        if may_topic(call, Operation.DESCRIBE, topic)
    }


def _partition(
    groups: Coordinator,
    call: Call,
    group_id: str,
    topic: str | None,
    index: int,
    is_stable: bool,
) -> Answer:
    answer = Answer(index, NONE, NONE, "")
    if topic is None:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        return answer
    if not may_topic(call, Operation.DESCRIBE, topic):
        answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return answer
    place = Partition(topic, index)
    if is_stable and groups.offsets.is_unstable(group_id, place):
        answer.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
        return answer
    found = groups.offsets.of_group(group_id).get(place)
    if found is not None:
        answer.committed_offset = found.value.offset
        answer.committed_leader_epoch = found.value.leader_epoch
        answer.metadata = found.value.metadata
    return answer


# Before version 8: one group, and nested structs of other names


def _old(groups: Coordinator, request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    error_code, is_stable = 0, request.require_stable
    try:
        check_group(call, Operation.DESCRIBE, request.group_id)
        groups.availability.check(request.group_id)
    except ApplianceError as error:
        error_code = error.kafka_code
    rows = [(each.name, each.partition_indexes) for each in request.topics or ()]
    asked = distinct_partitions(rows)
    if request.topics is None and not error_code:
        asked = _all(groups, call, request.group_id)
    topics = [
        OldTopicAnswer(
            name=name,
            partitions=[
                _old_partition(
                    Answer(each, NONE, NONE, "", error_code)
                    if error_code
                    else _partition(groups, call, request.group_id, name, each, is_stable)
                )
                for each in indexes
            ],
        )
        for name, indexes in asked.items()
    ]
    if error_code and call.version >= FIRST_WITH_ERROR:
        return OffsetFetchResponse(error_code=error_code)
    return OffsetFetchResponse(topics=topics)


def _old_partition(answer: Answer) -> OldAnswer:
    return OldAnswer(
        answer.partition_index,
        answer.committed_offset,
        answer.committed_leader_epoch,
        answer.metadata,
        answer.error_code,
    )
