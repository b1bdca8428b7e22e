"""ConsumerGroupDescribe 0-1: members of groups of the newer protocol, with their present and target
assignments.

A group that does not exist, or is of the classic protocol, gets GROUP_ID_NOT_FOUND; then tools use
DescribeGroups.

Left out: nothing.
"""

from __future__ import annotations

from appliance.api.handlers.call import Call, Refused
from appliance.api.handlers.operations import ON_GROUP
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.groups.consumer_group import ConsumerGroup
from appliance.groups.consumer_member import NOWHERE, ConsumerMember, Places
from appliance.groups.consumer_records import rows
from appliance.protocol import ErrorCode
from appliance.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)

KEY = 69
VERSIONS = (0, 1)

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1

Answer = ConsumerGroupDescribeResponse.DescribedGroup
MemberAnswer = ConsumerGroupDescribeResponse.Member
Assignment = ConsumerGroupDescribeResponse.Assignment
Row = ConsumerGroupDescribeResponse.TopicPartitions


def handle(
    broker: Broker, request: ConsumerGroupDescribeRequest, call: Call
) -> ConsumerGroupDescribeResponse:
    answers = [_describe(broker, each) for each in dict.fromkeys(request.group_ids)]
    for each in answers if request.include_authorized_operations else ():
        if not each.error_code:
            each.authorized_operations = ON_GROUP
    return ConsumerGroupDescribeResponse(groups=answers)


def _describe(broker: Broker, group_id: str) -> Answer:
    try:
        group = broker.groups.table.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise Refused(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group."
            )
    except ApplianceError as error:
        return Answer(
            error_code=error.kafka_code, error_message=str(error), group_id=group_id
        )
    return Answer(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor,
        members=[_member(broker, group, each) for each in group.members.values()],
    )


def _member(broker: Broker, group: ConsumerGroup, member: ConsumerMember) -> MemberAnswer:
    said = member.subscription
    return MemberAnswer(
        member_id=member.id,
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        member_epoch=member.now.epoch,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=list(said.topics),
        subscribed_topic_regex=said.pattern,
        assignment=_assignment(broker, member.now.assigned),
        target_assignment=_assignment(broker, group.targets.get(member.id, NOWHERE)),
        member_type=CONSUMER_MEMBER if said.classic is None else CLASSIC_MEMBER,
    )


def _assignment(broker: Broker, places: Places) -> Assignment:
    """Without topics that are no more: they have no name."""
    found = []
    for row in rows(places, lambda topic_id, partitions: Row(topic_id, "", partitions)):
        name = broker.topics.name_of(row.topic_id)
        if name is not None:
            row.topic_name = name
            found.append(row)
    return Assignment(found)
