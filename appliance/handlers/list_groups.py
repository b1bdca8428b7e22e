"""ListGroups 0-5: all groups, or those of some states (version 4) and types (version 5).

States and types are compared without regard to case. One that does not exist has no groups.

Left out: types other than classic, which do not exist yet.
"""

from __future__ import annotations

from appliance.broker import Broker
from appliance.groups.states import State
from appliance.handlers.call import Call
from appliance.wire.list_groups import ListGroupsRequest, ListGroupsResponse

KEY = 16
VERSIONS = (0, 5)

CLASSIC = "classic"


def handle(broker: Broker, request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    broker.groups.check_loaded()
    states = {each.lower() for each in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    if types and CLASSIC not in types:
        return ListGroupsResponse()
    return ListGroupsResponse(
        groups=[
            ListGroupsResponse.ListedGroup(
                group_id=each.id,
                protocol_type=each.protocol_type or "",
                group_state=each.state.value,
                group_type=CLASSIC,
            )
            for each in broker.groups.groups.values()
            if each.state is not State.DEAD and (not states or each.state.value.lower() in states)
        ]
    )
