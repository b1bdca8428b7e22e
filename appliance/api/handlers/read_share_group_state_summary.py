"""ReadShareGroupStateSummary 0-1: where a share group is in its partitions, for who describes it.

A start offset of -1 means that its first fetch decides.

Rights: CLUSTER_ACTION on the cluster.

Left out: the leader epoch of who asks, which is not looked at.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
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
    results = []
    for topic in request.topics:
        rows = [
            await _one(
                broker, call, SharePartitionKey(request.group_id, topic.topic_id, each.partition),
                each,
            )
            for each in topic.partitions
        ]  # fmt: skip
        results.append(Result(topic.topic_id, rows))
    return ReadShareGroupStateSummaryResponse(results)


async def _one(broker: Broker, call: Call, key: SharePartitionKey, asked: Asked) -> Row:
    states = broker.share_partitions.state_coordinator
    try:
        check_cluster(call, Operation.CLUSTER_ACTION)
        found = states.summary(key)
        return Row(
            key.partition, state_epoch=found.state_epoch, leader_epoch=found.leader_epoch,
            start_offset=found.start_offset, delivery_complete_count=found.delivery_complete_count,
        )  # fmt: skip
    except ApplianceError as error:
        return Row(key.partition, error.kafka_code, str(error))
