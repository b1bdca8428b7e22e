"""InitializeShareGroupState 0: brokers of a cluster make the state of share partitions, or set
where they begin.

One that is there stays as it is unless a start offset is given; then what was in flight is
forgotten. A state epoch below the present one gets FENCED_STATE_EPOCH, and one or a start offset
that cannot be INVALID_REQUEST. On all replicas in sync before the response.

Rights: CLUSTER_ACTION on the cluster.

Left out: nothing.
"""

from __future__ import annotations

from appliance.api.handlers.call import Call
from appliance.api.handlers.share_state_requests import results_of
from appliance.broker.broker import Broker
from appliance.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from appliance.share.state_log import SharePartitionKey

KEY = 83
VERSIONS = (0, 0)

Asked = InitializeShareGroupStateRequest.PartitionData
Row = InitializeShareGroupStateResponse.PartitionResult
Result = InitializeShareGroupStateResponse.InitializeStateResult


async def handle(
    broker: Broker, request: InitializeShareGroupStateRequest, call: Call
) -> InitializeShareGroupStateResponse:
    states = broker.share_partitions.state_coordinator

    async def one(key: SharePartitionKey, asked: Asked) -> Row:
        await states.initialize(key, asked.state_epoch, asked.start_offset)
        return Row(key.partition)

    return InitializeShareGroupStateResponse(await results_of(call, request, Result, Row, one))
