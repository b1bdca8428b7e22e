"""EndTxn 0-5: commits or aborts a transaction in all its partitions and groups.

The response follows when readers see the outcome: the decision is on disk, and so is the marker in
every partition. If a marker cannot be written now, the response is sent all the same, because the
decision is final; the next transaction of this id gets CONCURRENT_TRANSACTIONS until the marker is
written.

Version 5 is TV2: the epoch increases, and the response has the new one. A repeated EndTxn gets the
same response. A late one, after another transaction began, is refused: in TV2 always, by its epoch;
in TV1 it cannot be distinguished from a new one.

Rights: WRITE on the transactional id.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_transactional_id
from appliance.api.handlers.call import Call
from appliance.api.handlers.fenced_producer import told
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from appliance.txn.transaction import TV1, TV2, Producer

KEY = 26
VERSIONS = (0, 5)

FIRST_WITH_FENCED = 2
FIRST_OF_TV2 = 5


async def handle(broker: Broker, request: EndTxnRequest, call: Call) -> EndTxnResponse:
    producer = Producer(request.producer_id, request.producer_epoch)
    version = TV2 if call.version >= FIRST_OF_TV2 else TV1
    try:
        check_transactional_id(call, Operation.WRITE, request.transactional_id)
        following = await broker.transactions.end(
            request.transactional_id, producer, request.committed, version
        )
    except ApplianceError as error:
        code = told(error, call.version, FIRST_WITH_FENCED)
        return EndTxnResponse(error_code=code, producer_epoch=-1)
    return EndTxnResponse(producer_id=following.id, producer_epoch=following.epoch)
