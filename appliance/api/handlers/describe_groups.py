"""DescribeGroups 0-6: state and members of classic groups.

A group that does not exist, or is of the newer protocol, is Dead without an error, from version 6
on GROUP_ID_NOT_FOUND. Subscriptions and assignments of members are listed only while the group is
Stable.

Rights: DESCRIBE on the group.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_group
from appliance.api.handlers.authorized_operations import on_group
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused
from appliance.groups.group import Group
from appliance.groups.member import Member
from appliance.groups.states import State
from appliance.protocol import ErrorCode
from appliance.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

KEY = 15
VERSIONS = (0, 6)

FIRST_WITH_NOT_FOUND = 6

Answer = DescribeGroupsResponse.DescribedGroup
MemberAnswer = DescribeGroupsResponse.DescribedGroupMember


def handle(broker: Broker, request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    answers = [_describe(broker, each, call) for each in dict.fromkeys(request.groups)]
    for each in answers if request.include_authorized_operations else ():
        if not each.error_code:
            each.authorized_operations = on_group(call, each.group_id)
    return DescribeGroupsResponse(groups=answers)


def _describe(broker: Broker, group_id: str, call: Call) -> Answer:
    try:
        check_group(call, Operation.DESCRIBE, group_id)
        group = broker.groups.table.get(group_id)
        if not isinstance(group, Group):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
    except ApplianceError as error:
        if error.kafka_code != ErrorCode.GROUP_ID_NOT_FOUND:
            return Answer(error_code=error.kafka_code, group_id=group_id)
        dead = Answer(group_id=group_id, group_state=State.DEAD.value)
        if call.version >= FIRST_WITH_NOT_FOUND:
            dead.error_code, dead.error_message = error.kafka_code, str(error)
        return dead
    return Answer(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if group.state is State.STABLE else "",
        members=[_member(group, each) for each in group.members],
    )


def _member(group: Group, member: Member) -> MemberAnswer:
    answer = MemberAnswer(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
    )
    if group.state is State.STABLE:
        answer.member_metadata = member.metadata(group.protocol_name)
        answer.member_assignment = member.assignment
    return answer
