"""ListGroups 0-5: all groups, or those of some states (version 4) and types (version 5).

States and types are compared without case. An unknown one has no groups.

Rights: DESCRIBE on the cluster; without it the response has the groups that may be described.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import may_cluster, may_group
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.groups.group import Group
from appliance.groups.group_table import AnyGroup
from appliance.groups.streams.group import StreamsGroup
from appliance.protocol import ErrorCode
from appliance.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from appliance.share.group import ShareGroup

KEY = 16
VERSIONS = (0, 5)

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"


def handle(broker: Broker, request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    broker.groups.availability.check_loaded()
    states = {each.lower() for each in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    rows = [_row(each) for each in broker.groups.table.groups.values() if not each.is_dead]
    sees_all = may_cluster(call, Operation.DESCRIBE)
    # As in Kafka: those that are known, and that more are being read. Clients ask again until then:
    # of what cannot be opened, maybe for long, health tells.
    is_whole = not broker.groups.loading.is_loading
    return ListGroupsResponse(
        error_code=ErrorCode.NONE if is_whole else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        groups=[
            each
            for each in rows
            if (not states or each.group_state.lower() in states)
            and (not types or each.group_type in types)
            and (sees_all or may_group(call, Operation.DESCRIBE, each.group_id))
        ],
    )


def _row(group: AnyGroup) -> ListGroupsResponse.ListedGroup:
    row = ListGroupsResponse.ListedGroup(group.id, CONSUMER, group.state.value, CONSUMER)
    if isinstance(group, Group):
        row.protocol_type, row.group_type = group.protocol_type or "", CLASSIC
    elif isinstance(group, ShareGroup):
        row.protocol_type = row.group_type = SHARE
    elif isinstance(group, StreamsGroup):
        row.protocol_type = row.group_type = STREAMS
    return row
