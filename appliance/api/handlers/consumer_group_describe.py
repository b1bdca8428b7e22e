"""ConsumerGroupDescribe 0-1: members of groups of the newer protocol, with their present and target
assignments.

A group that does not exist, or is of the classic protocol, gets GROUP_ID_NOT_FOUND; then tools use
DescribeGroups.

Rights: DESCRIBE on the group, and on every topic that its members read.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_group, may_topic
from appliance.api.handlers.authorized_operations import NOT_ASKED, on_group
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import named_rows
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused
from appliance.groups.consumer_group import ConsumerGroup
from appliance.groups.consumer_member import ConsumerMember
from appliance.groups.handover import NOWHERE
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
    is_asked = request.include_authorized_operations
    answers = [_describe(broker, call, each, is_asked) for each in dict.fromkeys(request.group_ids)]
    return ConsumerGroupDescribeResponse(groups=answers)


def _describe(broker: Broker, call: Call, group_id: str, wants_operations: bool) -> Answer:
    try:
        check_group(call, Operation.DESCRIBE, group_id)
        group = broker.groups.table.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise Refused(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group."
            )
    except ApplianceError as error:
        return Answer(
            error_code=error.kafka_code, error_message=str(error), group_id=group_id
        )
    members = [_member(broker, group, each) for each in group.members.values()]
    named = {
        row.topic_name
        for each in members
        for assignment in (each.assignment, each.target_assignment)
        for row in assignment.topic_partitions
    }
    if not all(may_topic(call, Operation.DESCRIBE, each) for each in named):
        return _unnamed(group_id)
    return Answer(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor,
        authorized_operations=on_group(call, group_id) if wants_operations else NOT_ASKED,
        members=members,
    )


def _unnamed(group_id: str) -> Answer:
    return Answer(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The group reads topics that the client may not describe.",
        group_id=group_id,
    )


def _member(broker: Broker, group: ConsumerGroup, member: ConsumerMember) -> MemberAnswer:
    said, target = member.subscription, group.targets.get(member.id, NOWHERE)
    return MemberAnswer(
        member_id=member.id,
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        member_epoch=member.now.epoch,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=list(said.topics),
        subscribed_topic_regex=said.pattern,
        assignment=Assignment(named_rows(broker, member.now.assigned, Row)),
        target_assignment=Assignment(named_rows(broker, target, Row)),
        member_type=CONSUMER_MEMBER if said.classic is None else CLASSIC_MEMBER,
    )
