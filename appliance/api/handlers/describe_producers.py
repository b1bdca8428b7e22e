"""DescribeProducers 0: the idempotent and transactional producers that partitions remember.

Left out: nothing.
"""

from __future__ import annotations

from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import find_log, find_topic
from appliance.api.handlers.repeated_items import distinct_partitions
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)

KEY = 61
VERSIONS = (0, 0)

Answer = DescribeProducersResponse.PartitionResponse
Row = DescribeProducersResponse.ProducerState


async def handle(
    broker: Broker, request: DescribeProducersRequest, call: Call
) -> DescribeProducersResponse:
    asked = distinct_partitions((each.name, each.partition_indexes) for each in request.topics)
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.TopicResponse(
                name,
                [await call.on_thread(_partition, broker, name, each) for each in partitions],
            )
            for name, partitions in asked.items()
        ]
    )


def _partition(broker: Broker, topic: str, partition: int) -> Answer:
    try:
        log = find_log(find_topic(broker, topic), partition)
    except ApplianceError as error:
        return Answer(partition, error.kafka_code, str(error))
    rows = [
        Row(
            producer_id=each.producer_id,
            producer_epoch=each.epoch,
            last_sequence=each.last_sequence,
            last_timestamp=each.last_timestamp,
            coordinator_epoch=each.coordinator_epoch,
            current_txn_start_offset=each.txn_first_offset,
        )
        for each in sorted(log.producers())
    ]
    return Answer(partition, active_producers=rows)
