"""AddOffsetsToTxn 0-4: adds a group whose offsets a transaction will commit.

It adds the group's partition of `__consumer_offsets`, on disk before the response. Clients with TV2
do not send it: their TxnOffsetCommit adds the group.

Rights: WRITE on the transactional id, READ on the group.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_group, check_transactional_id
from appliance.api.handlers.call import Call
from appliance.api.handlers.fenced_producer import told
from appliance.api.handlers.partition_lookup import check_group_id
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from appliance.topics.topic import OFFSETS
from appliance.txn.transaction import Partition, Producer

KEY = 25
VERSIONS = (0, 4)

FIRST_WITH_FENCED = 2


async def handle(
    broker: Broker, request: AddOffsetsToTxnRequest, call: Call
) -> AddOffsetsToTxnResponse:
    try:
        check_transactional_id(call, Operation.WRITE, request.transactional_id)
        check_group(call, Operation.READ, request.group_id)
        check_group_id(request.group_id)
        place = Partition(OFFSETS, await broker.groups.table.topic.partition_of(request.group_id))
        producer = Producer(request.producer_id, request.producer_epoch)
        await broker.transactions.add(request.transactional_id, producer, [place])
    except ApplianceError as error:
        return AddOffsetsToTxnResponse(error_code=told(error, call.version, FIRST_WITH_FENCED))
    return AddOffsetsToTxnResponse()
