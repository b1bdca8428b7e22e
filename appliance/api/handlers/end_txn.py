"""EndTxn 0-5: commits or aborts, in every partition and group of the transaction.

Answered when readers see the outcome: the decision is on disk, and so is the marker in every
partition. If a marker cannot be written now, it is answered all the same, since the decision
stands; the next transaction of this id is then told CONCURRENT_TRANSACTIONS until the marker is
there.

Version 5 is TV2: the epoch moves, and the answer has the new one. An EndTxn that comes twice is
answered twice. One that comes late, when another transaction has begun, is refused: in TV2 by its
epoch, whatever it says; in TV1 nothing tells it from a new one.

Left out: nothing.
"""

from __future__ import annotations

from appliance.api.handlers.call import Call
from appliance.api.handlers.fencing import told
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
        following = await broker.transactions.end(
            request.transactional_id, producer, request.committed, version
        )
    except ApplianceError as error:
        code = told(error, call.version, FIRST_WITH_FENCED)
        return EndTxnResponse(error_code=code, producer_epoch=-1)
    return EndTxnResponse(producer_id=following.id, producer_epoch=following.epoch)
