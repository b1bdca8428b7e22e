"""ListTransactions 0-2: all transactional ids, or those of some states and producers; from version
1 on also by the age of the open transaction, from version 2 on by a pattern.

In a cluster a broker has those of which it is the coordinator, and answers
COORDINATOR_LOAD_IN_PROGRESS while some of them are being read. The response names unknown states,
which match nothing. A pattern uses RE2 and must match the whole name; an invalid one gets
INVALID_REGULAR_EXPRESSION.

Rights: DESCRIBE on the transactional id: others are left out.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Operation, ResourceType
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.groups import topic_pattern
from appliance.protocol import ErrorCode
from appliance.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from appliance.txn.states import PREPARED, State
from appliance.txn.transaction import Transaction

KEY = 66
VERSIONS = (0, 2)

NAMES = {state.value for state in State}
OPEN = PREPARED | {State.ONGOING}


def handle(
    broker: Broker, request: ListTransactionsRequest, call: Call
) -> ListTransactionsResponse:
    known = broker.transactions.table.transactions
    broker.transactions.loading.check_loaded()
    if broker.transactions.table.led.is_reading:
        code = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return ListTransactionsResponse(error_code=code)
    pattern = request.transactional_id_pattern
    names = topic_pattern.matching(pattern, known) if pattern else known
    return ListTransactionsResponse(
        unknown_state_filters=[each for each in request.state_filters if each not in NAMES],
        transaction_states=[
            ListTransactionsResponse.TransactionState(each.id, each.producer.id, each.state.value)
            for each in map(known.__getitem__, names)
            if _is_asked_for(each, request, call.now_ms)
            and call.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, each.id)
        ],
    )


def _is_asked_for(each: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.state_filters and each.state.value not in request.state_filters:
        return False
    if request.producer_id_filters and each.producer.id not in request.producer_id_filters:
        return False
    least_ms = request.duration_filter
    return least_ms < 0 or (each.state in OPEN and now_ms - each.start_ms >= least_ms)
