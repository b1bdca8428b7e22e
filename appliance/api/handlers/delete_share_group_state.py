"""DeleteShareGroupState 0: brokers of a cluster delete the state of share partitions.

One that is not there is no error. On all replicas in sync before the response.

Rights: CLUSTER_ACTION on the cluster.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
)
from appliance.share.state_log import SharePartitionKey

KEY = 86
VERSIONS = (0, 0)

Asked = DeleteShareGroupStateRequest.PartitionData
Row = DeleteShareGroupStateResponse.PartitionResult


async def handle(
    broker: Broker, request: DeleteShareGroupStateRequest, call: Call
) -> DeleteShareGroupStateResponse:
    results = []
    for topic in request.topics:
        rows = [
            await _one(
                broker, call, SharePartitionKey(request.group_id, topic.topic_id, each.partition),
                each,
            )
            for each in topic.partitions
        ]  # fmt: skip
        results.append(DeleteShareGroupStateResponse.DeleteStateResult(topic.topic_id, rows))
    return DeleteShareGroupStateResponse(results)


async def _one(broker: Broker, call: Call, key: SharePartitionKey, asked: Asked) -> Row:
    states = broker.share_partitions.state_coordinator
    try:
        check_cluster(call, Operation.CLUSTER_ACTION)
        await states.delete(key)
        return Row(key.partition)
    except ApplianceError as error:
        return Row(key.partition, error.kafka_code, str(error))
