"""UnregisterBroker 0: always refuses. This broker is the whole cluster and cannot leave it.

Its own number gets INVALID_REQUEST, any other BROKER_ID_NOT_REGISTERED.

Rights: ALTER on the cluster.

Left out: removing brokers, because there is one.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.protocol import ErrorCode
from appliance.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

KEY = 64
VERSIONS = (0, 0)


def handle(
    broker: Broker, request: UnregisterBrokerRequest, call: Call
) -> UnregisterBrokerResponse:
    check_cluster(call, Operation.ALTER)
    if request.broker_id == broker.node_id:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"broker {broker.node_id} is the only one: it is the cluster",
        )
    return UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
        error_message=f"got broker {request.broker_id}, there is only {broker.node_id}",
    )
