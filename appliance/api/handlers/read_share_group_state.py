"""ReadShareGroupState 0: the leader of share partitions reads what became of their records.

From then on leaders of earlier elections are fenced (FENCED_LEADER_EPOCH). A share partition that
was not initialized gets UNKNOWN_TOPIC_OR_PARTITION.

Rights: CLUSTER_ACTION on the cluster.

Left out: nothing.
"""

from __future__ import annotations

from appliance.api.handlers.call import Call
from appliance.api.handlers.share_state_requests import results_of
from appliance.broker.broker import Broker
from appliance.protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
)
from appliance.share.state_log import SharePartitionKey

KEY = 84
VERSIONS = (0, 0)

Asked = ReadShareGroupStateRequest.PartitionData
Row = ReadShareGroupStateResponse.PartitionResult
Result = ReadShareGroupStateResponse.ReadStateResult


async def handle(
    broker: Broker, request: ReadShareGroupStateRequest, call: Call
) -> ReadShareGroupStateResponse:
    states = broker.share_partitions.state_coordinator

    async def one(key: SharePartitionKey, asked: Asked) -> Row:
        found = await states.read(key, asked.leader_epoch)
        batches = [ReadShareGroupStateResponse.StateBatch(*each) for each in found.batches]
        return Row(
            key.partition, state_epoch=found.state_epoch, start_offset=found.start_offset,
            state_batches=batches,
        )  # fmt: skip

    return ReadShareGroupStateResponse(await results_of(call, request, Result, Row, one))
