"""WriteTxnMarkers 1-2: ends a transaction in the named partitions, on disk before the response.

The coordinator of a transaction sends it to the leaders of the partitions; `kafka-transactions
abort` does for a hanging transaction. In a cluster a marker counts when all replicas in sync have
it, and in `__consumer_offsets` once the groups there are loaded. The
log refuses a marker of an old producer epoch (INVALID_PRODUCER_EPOCH) or an old coordinator epoch
(TRANSACTION_COORDINATOR_FENCED).

Rights: ALTER or CLUSTER_ACTION on the cluster.

Left out: the transaction version of version 2, by which a broker of a cluster checks that a
marker's epoch is above that of the records: the marker is handled as in version 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

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
from appliance.txn.markers import Marker
from appliance.txn.transaction import Partition, Producer

KEY = 27
VERSIONS = (1, 2)

Asked = WriteTxnMarkersRequest.WritableTxnMarker
Response = WriteTxnMarkersResponse


async def handle(broker: Broker, request: WriteTxnMarkersRequest, call: Call) -> Response:
    found = await asyncio.gather(*[_marker(broker, call, each) for each in request.markers])
    return Response(markers=found)


async def _marker(
    broker: Broker, call: Call, asked: Asked
) -> Response.WritableTxnMarkerResult:
    places = [
        Partition(topic.name, each) for topic in asked.topics for each in topic.partition_indexes
    ]
    codes = await _codes(broker, call, asked, places)
    topics = [
        Response.WritableTxnMarkerTopicResult(topic.name, [
            Response.WritableTxnMarkerPartitionResult(each, codes[Partition(topic.name, each)])
            for each in topic.partition_indexes
        ])
        for topic in asked.topics
    ]  # fmt: skip
    return Response.WritableTxnMarkerResult(asked.producer_id, topics)


async def _codes(
    broker: Broker, call: Call, asked: Asked, places: list[Partition]
) -> Mapping[Partition, int]:
    try:
        if not may_cluster(call, Operation.ALTER):
            check_cluster(call, Operation.CLUSTER_ACTION)
    except ApplianceError as error:
        return dict.fromkeys(places, error.kafka_code)
    if broker.topics.cluster is None:
        return {each: await _write(broker, asked, each) for each in places}
    producer = Producer(asked.producer_id, asked.producer_epoch)
    marker = Marker(producer, asked.transaction_result, asked.coordinator_epoch)
    return await broker.transactions.mark_led(marker, dict.fromkeys(places))


async def _write(broker: Broker, asked: Asked, place: Partition) -> int:
    producer = Producer(asked.producer_id, asked.producer_epoch)
    try:
        log = find_log(find_topic(broker, place.topic), place.partition)
        await broker.transactions.mark(
            log, producer, asked.transaction_result, asked.coordinator_epoch
        )
    except ApplianceError as error:
        return error.kafka_code
    return 0
