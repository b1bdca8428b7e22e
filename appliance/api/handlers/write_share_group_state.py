"""WriteShareGroupState 0-1: the leader of share partitions writes what became of records since its
last write.

On all replicas in sync before the response. A former leader gets FENCED_LEADER_EPOCH, and one that
has read before the group began elsewhere FENCED_STATE_EPOCH. Offsets, states and delivery counts
that cannot be: INVALID_REQUEST, and nothing is written.

Rights: CLUSTER_ACTION on the cluster.

Left out: the delivery complete count, which is counted from the state itself.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
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


async def handle(
    broker: Broker, request: WriteShareGroupStateRequest, call: Call
) -> WriteShareGroupStateResponse:
    results = []
    for topic in request.topics:
        rows = [
            await _one(
                broker, call, SharePartitionKey(request.group_id, topic.topic_id, each.partition),
                each,
            )
            for each in topic.partitions
        ]  # fmt: skip
        results.append(WriteShareGroupStateResponse.WriteStateResult(topic.topic_id, rows))
    return WriteShareGroupStateResponse(results)


async def _one(broker: Broker, call: Call, key: SharePartitionKey, asked: Asked) -> Row:
    states = broker.share_partitions.state_coordinator
    try:
        check_cluster(call, Operation.CLUSTER_ACTION)
        batches = state_batches(key, asked.state_batches)
        change = State(asked.state_epoch, asked.start_offset, batches)
        await states.write(key, asked.leader_epoch, change)
        return Row(key.partition)
    except ApplianceError as error:
        return Row(key.partition, error.kafka_code, str(error))
