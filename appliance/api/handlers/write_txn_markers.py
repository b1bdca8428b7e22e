"""WriteTxnMarkers 1-2: ends a transaction in the named partitions, on disk before the response.

Brokers of a cluster use it; here `kafka-transactions abort` sends it for a hanging transaction. The
log refuses a marker of an old producer epoch (INVALID_PRODUCER_EPOCH) or an old coordinator epoch
(TRANSACTION_COORDINATOR_FENCED).

Rights: ALTER or CLUSTER_ACTION on the cluster.

Left out: the transaction version of version 2, by which a broker of a cluster checks that a
marker's epoch is above that of the records: the marker is handled as in version 1.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster, may_cluster
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import find_log, find_topic
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from appliance.txn.transaction import Partition, Producer

KEY = 27
VERSIONS = (1, 2)

Asked = WriteTxnMarkersRequest.WritableTxnMarker
Response = WriteTxnMarkersResponse


async def handle(broker: Broker, request: WriteTxnMarkersRequest, call: Call) -> Response:
    return Response(markers=[await _marker(broker, call, each) for each in request.markers])


async def _marker(
    broker: Broker, call: Call, asked: Asked
) -> Response.WritableTxnMarkerResult:
    topics = []
    for topic in asked.topics:
        rows = [
            Response.WritableTxnMarkerPartitionResult(
                each, await _write(broker, call, asked, Partition(topic.name, each))
            )
            for each in topic.partition_indexes
        ]
        topics.append(Response.WritableTxnMarkerTopicResult(topic.name, rows))
    return Response.WritableTxnMarkerResult(asked.producer_id, topics)


async def _write(broker: Broker, call: Call, asked: Asked, place: Partition) -> int:
    producer = Producer(asked.producer_id, asked.producer_epoch)
    try:
        if not may_cluster(call, Operation.ALTER):
            check_cluster(call, Operation.CLUSTER_ACTION)
        log = find_log(find_topic(broker, place.topic), place.partition)
        await broker.transactions.mark(
            log, producer, asked.transaction_result, asked.coordinator_epoch
        )
    except ApplianceError as error:
        return error.kafka_code
    return 0
