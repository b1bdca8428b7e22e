"""DeleteGroups 0-2: deletes groups without members, with their offsets.

On disk before the response; the name can be used again at once.

Rights: DELETE on the group.

Left out: nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_group
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.process.detached_tasks import let_go, outcome
from appliance.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

KEY = 42
VERSIONS = (0, 2)


def handle(
    broker: Broker, request: DeleteGroupsRequest, call: Call
) -> Coroutine[Any, Any, DeleteGroupsResponse]:
    """All are begun at once: the connection's next request finds none of them."""
    begun = {each: _begin(broker, call, each) for each in dict.fromkeys(request.groups_names)}
    return _answer(begun)


def _begin(
    broker: Broker, call: Call, group_id: str
) -> asyncio.Task[None] | ApplianceError:
    try:
        check_group(call, Operation.DELETE, group_id)
        is_shared = broker.share_groups.find(group_id) is not None
        deletion = (broker.share_groups if is_shared else broker.groups.table).delete(group_id)
        let_go(deletion)  # it goes on when the client is gone
        return deletion
    except ApplianceError as error:
        return error


async def _answer(
    begun: Mapping[str, asyncio.Task[None] | ApplianceError]
) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponse.DeletableGroupResult(
                group_id=group_id, error_code=await _error_code(deletion)
            )
            for group_id, deletion in begun.items()
        ]
    )


async def _error_code(deletion: asyncio.Task[None] | ApplianceError) -> int:
    if isinstance(deletion, ApplianceError):
        return deletion.kafka_code
    try:
        await outcome(deletion)
    except ApplianceError as error:
        return error.kafka_code
    return 0
