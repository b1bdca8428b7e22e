"""ReadShareGroupStateSummary 0-1: where a share group is in its partitions, for who describes it.

A start offset of -1 means that its first fetch decides.

Rights: CLUSTER_ACTION on the cluster.

Left out: the leader epoch of who asks, which is not looked at.
"""

from __future__ import annotations

from appliance.api.handlers.call import Call
from appliance.api.handlers.share_state_requests import results_of
from appliance.broker.broker import Broker
from appliance.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from appliance.share.state_log import SharePartitionKey

KEY = 87
VERSIONS = (0, 1)

Asked = ReadShareGroupStateSummaryRequest.PartitionData
Row = ReadShareGroupStateSummaryResponse.PartitionResult
Result = ReadShareGroupStateSummaryResponse.ReadStateSummaryResult


async def handle(
    broker: Broker, request: ReadShareGroupStateSummaryRequest, call: Call
) -> ReadShareGroupStateSummaryResponse:
    states = broker.share_partitions.state_coordinator

    async def one(key: SharePartitionKey, asked: Asked) -> Row:
        found = states.summary(key)
        return Row(
            key.partition, state_epoch=found.state_epoch, leader_epoch=found.leader_epoch,
            start_offset=found.start_offset, delivery_complete_count=found.delivery_complete_count,
        )  # fmt: skip

    return ReadShareGroupStateSummaryResponse(await results_of(call, request, Result, Row, one))
