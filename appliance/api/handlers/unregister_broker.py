"""UnregisterBroker 0: always refuses, for there is nothing to do: a broker is registered as long as
it runs, and no longer.

One that lives gets INVALID_REQUEST, any other number BROKER_ID_NOT_REGISTERED.

Rights: ALTER on the cluster.

Left out: nothing. What a broker has is moved off it by AlterPartitionReassignments.
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
    asked = request.broker_id
    living = [each.node_id for each in broker.members.nodes(call.listener)]
    if asked not in living:
        text = f"got broker {asked}, there is {', '.join(map(str, living))}"
        return UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=text
        )
    text = f"broker {asked} is the only one: it is the cluster"
    if broker.topics.cluster is not None:
        text = f"broker {asked} lives: stop it, and it is registered no more"
    return UnregisterBrokerResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=text)
