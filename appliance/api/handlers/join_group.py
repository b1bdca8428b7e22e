"""JoinGroup 0-9: a member joins a classic group, and waits until its generation begins.

The response follows when every member has joined, or their time is over. From version 4 on a new
member without an instance id first gets its id (MEMBER_ID_REQUIRED). A returning static member gets
its assignment without a rebalance; from version 9 on such a leader is asked to skip assigning. The
broker never reads the metadata of a protocol to join: Connect and Streams have their own.

Rights: READ on the group.

Left out: nothing. The reason in version 8 is not stored.
"""

from __future__ import annotations

import uuid

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_group
from appliance.api.handlers.call import Call, Later
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.groups.member import Join, Joined
from appliance.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

KEY = 11
VERSIONS = (0, 9)

FIRST_WITH_REBALANCE_TIMEOUT = 1
FIRST_WITH_ID_REQUIRED = 4
FIRST_WITH_NULL_PROTOCOL = 7
FIRST_WITH_SKIPPED_ASSIGNMENT = 9


def handle(broker: Broker, request: JoinGroupRequest, call: Call) -> Later:
    later = Later()

    def answer(joined: Joined) -> None:
        later.give(_answer(joined, call.version))

    try:
        check_group(call, Operation.READ, request.group_id)
        asked = _asked(request, call)
        broker.groups.classic.join(request.group_id, asked, call.received_ms, answer)
    except ApplianceError as error:
        answer(Joined(error.kafka_code, request.member_id))
    return later


def _asked(request: JoinGroupRequest, call: Call) -> Join:
    client_id = call.client_id
    has_timeout = call.version >= FIRST_WITH_REBALANCE_TIMEOUT
    return Join(
        member_id=request.member_id,
        new_member_id="" if request.member_id else _new_member_id(request, client_id),
        instance_id=request.group_instance_id,
        client_id=client_id,
        client_host=f"/{call.peer}",  # as Java writes an address without a name
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms if has_timeout else request.session_timeout_ms
        ),
        protocol_type=request.protocol_type,
        protocols=[(each.name, each.metadata) for each in request.protocols],
        needs_member_id=call.version >= FIRST_WITH_ID_REQUIRED,
        may_skip_assignment=call.version >= FIRST_WITH_SKIPPED_ASSIGNMENT,
    )


def _new_member_id(request: JoinGroupRequest, client_id: str) -> str:
    return f"{request.group_instance_id or client_id}-{uuid.uuid4()}"


def _answer(joined: Joined, version: int) -> JoinGroupResponse:
    may_be_null = version >= FIRST_WITH_NULL_PROTOCOL
    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol_name if may_be_null else joined.protocol_name or "",
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                metadata=each.metadata,
            )
            for each in joined.members
        ],
    )
