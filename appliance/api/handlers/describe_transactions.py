"""DescribeTransactions 0: state, producer and partitions of transactional ids.

An unknown or expired id gets TRANSACTIONAL_ID_NOT_FOUND.

Rights: DESCRIBE on the transactional id; topics that may not be described are left out.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_transactional_id, may_topic
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

KEY = 65
VERSIONS = (0, 0)

Answer = DescribeTransactionsResponse.TransactionState


def handle(
    broker: Broker, request: DescribeTransactionsRequest, call: Call
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            _describe(broker, call, each) for each in dict.fromkeys(request.transactional_ids)
        ]
    )


def _describe(broker: Broker, call: Call, name: str) -> Answer:
    try:
        check_transactional_id(call, Operation.DESCRIBE, name)
        found = broker.transactions.find(name)
    except ApplianceError as error:
        return Answer(error_code=error.kafka_code, transactional_id=name)
    topics: dict[str, list[int]] = {}
    for each in sorted(found.partitions):
        topics.setdefault(each.topic, []).append(each.partition)
    return Answer(
        transactional_id=name,
        transaction_state=found.state.value,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer.id,
        producer_epoch=found.producer.epoch,
        topics=[
            DescribeTransactionsResponse.TopicData(topic, partitions)
            for topic, partitions in topics.items()
            if may_topic(call, Operation.DESCRIBE, topic)
        ],
    )
