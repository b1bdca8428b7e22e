"""ReadShareGroupState 0: the leader of share partitions reads what became of their records.

From then on leaders of earlier elections are fenced (FENCED_LEADER_EPOCH). A share partition that
was not initialized gets UNKNOWN_TOPIC_OR_PARTITION.

Rights: CLUSTER_ACTION on the cluster.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
)
from appliance.share.state_log import SharePartitionKey

KEY = 84
VERSIONS = (0, 0)

Asked = ReadShareGroupStateRequest.PartitionData
Row = ReadShareGroupStateResponse.PartitionResult


async def handle(
    broker: Broker, request: ReadShareGroupStateRequest, call: Call
) -> ReadShareGroupStateResponse:
    results = []
    for topic in request.topics:
        rows = [
            await _one(
                broker, call, SharePartitionKey(request.group_id, topic.topic_id, each.partition),
                each,
            )
            for each in topic.partitions
        ]  # fmt: skip
        results.append(ReadShareGroupStateResponse.ReadStateResult(topic.topic_id, rows))
    return ReadShareGroupStateResponse(results)


async def _one(broker: Broker, call: Call, key: SharePartitionKey, asked: Asked) -> Row:
    states = broker.share_partitions.state_coordinator
    try:
        check_cluster(call, Operation.CLUSTER_ACTION)
        found = await states.read(key, asked.leader_epoch)
        batches = [ReadShareGroupStateResponse.StateBatch(*each) for each in found.batches]
        return Row(
            key.partition, state_epoch=found.state_epoch, start_offset=found.start_offset,
            state_batches=batches,
        )  # fmt: skip
    except ApplianceError as error:
        return Row(key.partition, error.kafka_code, str(error))
