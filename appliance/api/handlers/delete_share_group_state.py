"""DeleteShareGroupState 0: brokers of a cluster delete the state of share partitions.

One that is not there is no error. On all replicas in sync before the response.

Rights: CLUSTER_ACTION on the cluster.

Left out: nothing.
"""

from __future__ import annotations

from appliance.api.handlers.call import Call
from appliance.api.handlers.share_state_requests import results_of
from appliance.broker.broker import Broker
from appliance.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
)
from appliance.share.state_log import SharePartitionKey

KEY = 86
VERSIONS = (0, 0)

Asked = DeleteShareGroupStateRequest.PartitionData
Row = DeleteShareGroupStateResponse.PartitionResult
Result = DeleteShareGroupStateResponse.DeleteStateResult


async def handle(
    broker: Broker, request: DeleteShareGroupStateRequest, call: Call
) -> DeleteShareGroupStateResponse:
    states = broker.share_partitions.state_coordinator

    async def one(key: SharePartitionKey, asked: Asked) -> Row:
        await states.delete(key)
        return Row(key.partition)

    return DeleteShareGroupStateResponse(await results_of(call, request, Result, Row, one))
