"""LeaveGroup 0-5: members leave a classic group, and the others get their partitions.

From version 3 on a request has several members, each with its own error; a static member may be
named by its instance id alone, as when an administrator removes it.

Rights: READ on the group.

Left out: nothing. The reason in version 5 is not stored.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_group
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.groups.states import GroupRefused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

KEY = 13
VERSIONS = (0, 5)

FIRST_WITH_MANY = 3
OF_ONE_MEMBER = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)  # not of the group

Leaving = LeaveGroupRequest.MemberIdentity
Answer = LeaveGroupResponse.MemberResponse


def handle(broker: Broker, request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    check_group(call, Operation.READ, request.group_id)
    if call.version < FIRST_WITH_MANY:
        broker.groups.classic.leave(request.group_id, request.member_id, None, call.received_ms)
        return LeaveGroupResponse()
    return LeaveGroupResponse(
        members=[_leave(broker, request.group_id, each, call) for each in request.members]
    )


def _leave(broker: Broker, group_id: str, leaving: Leaving, call: Call) -> Answer:
    member_id, instance_id = leaving.member_id, leaving.group_instance_id
    answer = Answer(member_id=member_id, group_instance_id=instance_id)
    try:
        broker.groups.classic.leave(group_id, member_id, instance_id, call.received_ms)
    except GroupRefused as error:
        if error.kafka_code not in OF_ONE_MEMBER:
            raise
        answer.error_code = error.kafka_code
    return answer
