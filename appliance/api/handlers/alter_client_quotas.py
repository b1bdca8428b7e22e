"""AlterClientQuotas 0-1: sets and removes quotas of a user, a client id, both, or an address, or of
all that have none of their own (a null name); durably, and in force at once.

Checked as in Kafka; whatever is wrong is INVALID_REQUEST for that entity: a type that is unknown or
there twice, an empty name, ip beside another type, a quota of another kind of entity, a value that
is not above 0, too large, or a fraction where a number of bytes is wanted.

producer_byte_rate and consumer_byte_rate are held by the data plane, with `throttle_time_ms` in the
answers to Produce and Fetch; the connection is then not read for that time. The rest of a window
(`quota.window.size.seconds`) can be used at once. connection_creation_rate delays the first request
of a connection. There are no logins, so the user of every client is ANONYMOUS.

Left out: `request_percentage` and `controller_mutation_rate` are kept and shown but have no effect;
an ip is an address, host names are not looked up. `request_percentage` is a share of the time of
Kafka's request and network threads, in which Produce and Fetch are the most. Here those two never
reach a thread that could be charged for one client: a network thread serves many connections in one
turn, and one commit is for all who wait for it. Charging only the rest, on the one control thread,
would hold back who asks much and leave alone who sends much, which is not what was set.
"""

from __future__ import annotations

from appliance.access.client_quotas import Alteration
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)

KEY = 49
VERSIONS = (0, 1)

Asked = AlterClientQuotasRequest.EntryData
Entry = AlterClientQuotasResponse.EntryData
Entity = AlterClientQuotasResponse.EntityData


async def handle(
    broker: Broker, request: AlterClientQuotasRequest, call: Call
) -> AlterClientQuotasResponse:
    faults = await broker.quotas.alter(
        [_alteration(each) for each in request.entries], request.validate_only
    )
    return AlterClientQuotasResponse(
        entries=[
            Entry(
                error_code=fault.kafka_code if fault else 0,
                error_message=str(fault) if fault else None,
                entity=[Entity(part.entity_type, part.entity_name) for part in each.entity],
            )
            for each, fault in zip(request.entries, faults, strict=True)
        ]
    )


def _alteration(asked: Asked) -> Alteration:
    return Alteration(
        [(each.entity_type, each.entity_name) for each in asked.entity],
        [(each.key, None if each.remove else each.value) for each in asked.ops],
    )
