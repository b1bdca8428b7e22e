"""ShareGroupDescribe 1: state and members of share groups, with the members' assignments.

A group that does not exist, or is no share group, gets GROUP_ID_NOT_FOUND.

Left out: version 0, which Kafka itself calls unstable.
"""

from __future__ import annotations

from appliance.api.handlers.call import Call
from appliance.api.handlers.operations import ON_GROUP
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.groups.consumer_member import ConsumerMember, Places
from appliance.groups.consumer_records import rows
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
    answers = [_describe(broker, each) for each in dict.fromkeys(request.group_ids)]
    for each in answers if request.include_authorized_operations else ():
        if not each.error_code:
            each.authorized_operations = ON_GROUP
    return ShareGroupDescribeResponse(groups=answers)


def _describe(broker: Broker, group_id: str) -> Answer:
    try:
        group = broker.share_groups.get(group_id)
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
        members=[_member(broker, each) for each in group.all()],
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
        assignment=_assignment(broker, member.now.assigned),
    )


def _assignment(broker: Broker, places: Places) -> Assignment:
    """Without topics that are no more: they have no name."""
    found = rows(places, lambda topic_id, partitions: Row(topic_id, "", partitions))
    for row in found:
        row.topic_name = broker.topics.name_of(row.topic_id) or ""
    return Assignment([row for row in found if row.topic_name])
