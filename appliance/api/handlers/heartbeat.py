"""Heartbeat 0-4: keeps a member in a classic group; the response may ask it to join again.

A heartbeat with the response REBALANCE_IN_PROGRESS keeps the member, too.

Rights: READ on the group.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_group
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

KEY = 12
VERSIONS = (0, 4)


def handle(broker: Broker, request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
    check_group(call, Operation.READ, request.group_id)
    broker.groups.classic.heartbeat(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        call.received_ms,
    )
    return HeartbeatResponse()
