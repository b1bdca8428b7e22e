"""ListTransactions 0-1: all transactional ids, or those of some states and producers; from version
1 on also those whose transaction has been open for so long.

A state that does not exist is named in the answer, and nothing has it.

Left out: the pattern of version 2. It is an RE2 expression; Python's take exponential time for what
RE2 does in linear time, so a client could stop the broker with one.
"""

from __future__ import annotations

from appliance.broker import Broker
from appliance.errors import ApplianceError
from appliance.handlers.call import Call
from appliance.txn.states import PREPARED, State
from appliance.txn.transaction import Transaction
from appliance.wire.list_transactions import ListTransactionsRequest, ListTransactionsResponse

KEY = 66
VERSIONS = (0, 1)

NAMES = {state.value for state in State}
OPEN = PREPARED | {State.ONGOING}


def handle(
    broker: Broker, request: ListTransactionsRequest, call: Call
) -> ListTransactionsResponse:
    try:
        broker.transactions.check_loaded()
    except ApplianceError as error:
        return ListTransactionsResponse(error_code=error.kafka_code)
    return ListTransactionsResponse(
        unknown_state_filters=[each for each in request.state_filters if each not in NAMES],
        transaction_states=[
            ListTransactionsResponse.TransactionState(each.id, each.producer.id, each.state.value)
            for each in broker.transactions.transactions.values()
            if _is_asked_for(each, request, call.now_ms)
        ],
    )


def _is_asked_for(each: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.state_filters and each.state.value not in request.state_filters:
        return False
    if request.producer_id_filters and each.producer.id not in request.producer_id_filters:
        return False
    least_ms = request.duration_filter
    return least_ms < 0 or (each.state in OPEN and now_ms - each.start_ms >= least_ms)
