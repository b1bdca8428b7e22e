"""SyncGroup 0-5: the leader of a generation distributes the assignment, each member gets its own
part.

Members wait for the leader. An assignment is on disk before any member gets it, so a restarted
broker has the generation of its members.

Rights: READ on the group.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_group
from appliance.api.handlers.call import Call, Later
from appliance.broker.broker import Broker
from appliance.groups.member import Sync, Synced
from appliance.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

KEY = 14
VERSIONS = (0, 5)


def handle(broker: Broker, request: SyncGroupRequest, call: Call) -> Later:
    check_group(call, Operation.READ, request.group_id)
    later = Later()

    def answer(synced: Synced) -> None:
        later.give(
            SyncGroupResponse(
                error_code=synced.error,
                protocol_type=synced.protocol_type,
                protocol_name=synced.protocol_name,
                assignment=synced.assignment,
            )
        )

    asked = Sync(
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        request.protocol_type,
        request.protocol_name,
        {each.member_id: each.assignment for each in request.assignments},
    )
    broker.groups.classic.sync(request.group_id, asked, call.received_ms, answer)
    return later
