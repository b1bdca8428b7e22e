"""InitProducerId 0-5: assigns an id and epoch to an idempotent or transactional producer.

Without a transactional id every call gets a new id with epoch 0, whatever id the client had.

With one it gets the id's next epoch. The earlier producer is fenced, and its open transaction is
aborted before the response: no client has to ask again. A client that names its id (version 3) must
be the last producer, or one whose response was lost, or whose transaction was aborted by its
timeout; others are fenced themselves, and so are these after another client has asked. Near the
largest epoch a new producer id replaces the old one. A timeout above `transaction.max.timeout.ms`
is INVALID_TRANSACTION_TIMEOUT.

Rights: WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster, or WRITE on any
topic.

Left out: version 6, two-phase commit, which is not stable in Kafka either.
"""

from __future__ import annotations

from appliance.access.acls import Operation, ResourceType
from appliance.api.handlers.authorization import check_cluster, check_transactional_id
from appliance.api.handlers.call import Call
from appliance.api.handlers.fenced_producer import told
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode
from appliance.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from appliance.txn.transaction import NONE, Producer

KEY = 22
VERSIONS = (0, 5)

FIRST_WITH_FENCED = 4


async def handle(
    broker: Broker, request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse:
    try:
        _check_rights(request.transactional_id, call)
    except ApplianceError as error:
        return _refused(error.kafka_code)
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        return _refused(ErrorCode.INVALID_REQUEST)  # half of what identifies a producer
    if request.transactional_id is None:
        try:
            return InitProducerIdResponse(producer_id=await broker.producer_ids.new())
        except ApplianceError as error:
            return _refused(error.kafka_code)
    own = Producer(request.producer_id, request.producer_epoch)
    try:
        given = await broker.transactions.init_producer(
            request.transactional_id,
            request.transaction_timeout_ms,
            None if own.id == NONE else own,
        )
    except ApplianceError as error:
        return _refused(told(error, call.version, FIRST_WITH_FENCED))
    return InitProducerIdResponse(producer_id=given.id, producer_epoch=given.epoch)


def _check_rights(transactional_id: str | None, call: Call) -> None:
    """Without a transactional id it is enough that there is a topic to write to."""
    if transactional_id is not None:
        check_transactional_id(call, Operation.WRITE, transactional_id)
        return
    asked = call.principal, call.peer, Operation.WRITE, ResourceType.TOPIC
    if not call.authorizer.allows_any(*asked):
        check_cluster(call, Operation.IDEMPOTENT_WRITE)


def _refused(code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=NONE)
