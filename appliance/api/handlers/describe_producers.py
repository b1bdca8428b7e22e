"""DescribeProducers 0: the idempotent and transactional producers that partitions remember.

Rights: READ on the topic.

Left out: nothing.
"""

from __future__ import annotations

from appliance._log import Log
from appliance.access.acls import Operation
from appliance.api.handlers.authorization import allowed_topic
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import find_log
from appliance.api.handlers.repeated_items import distinct_partitions
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from appliance.topics.topic import check_name

KEY = 61
VERSIONS = (0, 0)

Answer = DescribeProducersResponse.PartitionResponse
Row = DescribeProducersResponse.ProducerState


async def handle(
    broker: Broker, request: DescribeProducersRequest, call: Call
) -> DescribeProducersResponse:
    asked = distinct_partitions((each.name, each.partition_indexes) for each in request.topics)
    topics = []
    for name, partitions in asked.items():  # Python 3.10 awaits in no comprehension within another
        answers = [await _partition(broker, call, name, each) for each in partitions]
        topics.append(DescribeProducersResponse.TopicResponse(name, answers))
    return DescribeProducersResponse(topics=topics)


async def _partition(broker: Broker, call: Call, topic: str, partition: int) -> Answer:
    try:
        check_name(topic)
        found = allowed_topic(broker, call, Operation.READ, topic)
        log = find_log(found, partition)
    except ApplianceError as error:
        return Answer(partition, error.kafka_code, str(error))
    return Answer(partition, active_producers=await call.on_thread(_rows, log))


def _rows(log: Log) -> list[Row]:
    return [
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
