"""WriteShareGroupState 0-1: the leader of share partitions writes what became of records since its
last write.

On all replicas in sync before the response. A former leader gets FENCED_LEADER_EPOCH, and one that
has read before the group began elsewhere FENCED_STATE_EPOCH. Offsets, states and delivery counts
that cannot be: INVALID_REQUEST, and nothing is written.

Rights: CLUSTER_ACTION on the cluster.

The delivery complete count is counted from the state itself. A count of 0 without states says that
nothing is done from the start offset on: the log was cut, and what was known before counts no more.
What is written below the start offset that is known is done, and stays so.

Left out: nothing.
"""

from __future__ import annotations

from appliance.api.handlers.call import Call
from appliance.api.handlers.share_state_requests import results_of
from appliance.broker.broker import Broker
from appliance.protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)
from appliance.share.state_checks import state_batches
from appliance.share.state_coordinator import State
from appliance.share.state_log import SharePartitionKey

KEY = 85
VERSIONS = (0, 1)

Asked = WriteShareGroupStateRequest.PartitionData
Row = WriteShareGroupStateResponse.PartitionResult
Result = WriteShareGroupStateResponse.WriteStateResult


async def handle(
    broker: Broker, request: WriteShareGroupStateRequest, call: Call
) -> WriteShareGroupStateResponse:
    states = broker.share_partitions.state_coordinator

    async def one(key: SharePartitionKey, asked: Asked) -> Row:
        batches = state_batches(key, asked.state_batches)
        is_anew = asked.delivery_complete_count == 0 and not batches
        change = State(asked.state_epoch, asked.start_offset, batches, is_anew)
        await states.write(key, asked.leader_epoch, change)
        return Row(key.partition)

    return WriteShareGroupStateResponse(await results_of(call, request, Result, Row, one))
