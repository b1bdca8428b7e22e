"""ShareGroupDescribe 1: state and members of share groups, with the members' assignments.

A group that does not exist, or is no share group, gets GROUP_ID_NOT_FOUND.

Rights: DESCRIBE on the group, and on every topic that its members read.

Left out: version 0, which Kafka itself calls unstable.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_group, may_topic
from appliance.api.handlers.authorized_operations import NOT_ASKED, on_group
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import named_rows
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.groups.consumer_member import ConsumerMember
from appliance.protocol import ErrorCode
from appliance.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

KEY = 77
VERSIONS = (1, 1)

Answer = ShareGroupDescribeResponse.DescribedGroup
MemberAnswer = ShareGroupDescribeResponse.Member
Assignment = ShareGroupDescribeResponse.Assignment
Row = ShareGroupDescribeResponse.TopicPartitions


def handle(
    broker: Broker, request: ShareGroupDescribeRequest, call: Call
) -> ShareGroupDescribeResponse:
    is_asked = request.include_authorized_operations
    answers = [_describe(broker, call, each, is_asked) for each in dict.fromkeys(request.group_ids)]
    return ShareGroupDescribeResponse(groups=answers)


def _describe(broker: Broker, call: Call, group_id: str, wants_operations: bool) -> Answer:
    try:
        check_group(call, Operation.DESCRIBE, group_id)
        group = broker.share_groups.get(group_id)
    except ApplianceError as error:
        return Answer(
            error_code=error.kafka_code, error_message=str(error), group_id=group_id
        )
    members = [_member(broker, each) for each in group.all()]
    named = {row.topic_name for each in members for row in each.assignment.topic_partitions}
    if not all(may_topic(call, Operation.DESCRIBE, each) for each in named):
        return Answer(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="The group reads topics that the client may not describe.",
            group_id=group_id,
        )
    return Answer(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor,
        authorized_operations=on_group(call, group_id) if wants_operations else NOT_ASKED,
        members=members,
    )


def _member(broker: Broker, member: ConsumerMember) -> MemberAnswer:
    said = member.subscription
    return MemberAnswer(
        member_id=member.id,
        rack_id=said.rack_id,
        member_epoch=member.now.epoch,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=list(said.topics),
        assignment=Assignment(named_rows(broker, member.now.assigned, Row)),
    )
