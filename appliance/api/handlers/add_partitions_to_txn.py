"""AddPartitionsToTxn 0-5: adds partitions that a transaction will write to.

On disk before the response. All or none: if one partition does not exist, the others get
OPERATION_NOT_ATTEMPTED. From version 4 on a request has several transactions, and may only verify
that partitions were added; one that was not gets TRANSACTION_ABORTABLE. Brokers of a cluster use
these versions; clients stop at 3, and clients with TV2 do not send it.

Rights: WRITE on the transactional id and on the topic; from version 4 on CLUSTER_ACTION on the
cluster.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster, check_topic, check_transactional_id
from appliance.api.handlers.call import Call
from appliance.api.handlers.fenced_producer import told
from appliance.api.handlers.partition_lookup import check_partition, find_topic
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode
from appliance.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from appliance.topics.topic import check_writer
from appliance.txn.transaction import Partition, Producer

KEY = 24
VERSIONS = (0, 5)

FIRST_WITH_FENCED = 2
FIRST_WITH_MANY = 4
NO_MIRROR = ""

Asked = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
Errors = dict[Partition, int]
Response = AddPartitionsToTxnResponse


async def handle(broker: Broker, request: AddPartitionsToTxnRequest, call: Call) -> Response:
    if call.version >= FIRST_WITH_MANY:
        check_cluster(call, Operation.CLUSTER_ACTION)
        return Response(
            results_by_transaction=[
                Response.AddPartitionsToTxnResult(
                    each.transactional_id, await _one(broker, each, call)
                )
                for each in request.transactions
            ]
        )
    only = Asked(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return Response(results_by_topic_v3_and_below=await _one(broker, only, call))


async def _one(
    broker: Broker, asked: Asked, call: Call
) -> list[Response.AddPartitionsToTxnTopicResult]:
    errors = _unknown(broker, asked, call)
    if any(errors.values()):
        errors = {
            place: code or ErrorCode.OPERATION_NOT_ATTEMPTED for place, code in errors.items()
        }
    else:
        errors |= await _add(broker, asked, list(errors), call.version)
    return [
        Response.AddPartitionsToTxnTopicResult(
            topic.name,
            [
                Response.AddPartitionsToTxnPartitionResult(
                    each, errors[Partition(topic.name, each)]
                )
                for each in topic.partitions
            ],
        )
        for topic in asked.topics
    ]


def _unknown(broker: Broker, asked: Asked, call: Call) -> Errors:
    """Every partition that was named, with the error of those that are not there, or not for this
    client to write to. Brokers have their right to the cluster."""
    is_client = call.version < FIRST_WITH_MANY
    errors: Errors = {}
    for topic in asked.topics:
        for each in topic.partitions:
            errors[Partition(topic.name, each)] = 0
            try:
                if is_client:
                    check_transactional_id(call, Operation.WRITE, asked.transactional_id)
                    check_topic(call, Operation.WRITE, topic.name)
                found = find_topic(broker, topic.name)
                check_partition(found, each)
                check_writer(found, NO_MIRROR)
            except ApplianceError as error:
                errors[Partition(topic.name, each)] = error.kafka_code
    return errors


async def _add(broker: Broker, asked: Asked, places: list[Partition], version: int) -> Errors:
    producer = Producer(asked.producer_id, asked.producer_epoch)
    transactions = broker.transactions
    try:
        if not asked.verify_only:
            await transactions.add(asked.transactional_id, producer, places)
            return {}
        refused = await transactions.verify(asked.transactional_id, producer, places)
        return {place: _verified(each) for place, each in refused.items()}
    except ApplianceError as error:
        return dict.fromkeys(places, told(error, version, FIRST_WITH_FENCED))


def _verified(error: ApplianceError) -> int:
    """As Kafka has it, in all versions that verify."""
    if error.kafka_code == ErrorCode.INVALID_TXN_STATE:
        return int(ErrorCode.TRANSACTION_ABORTABLE)
    return error.kafka_code
