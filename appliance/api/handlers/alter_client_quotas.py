"""AlterClientQuotas 0-1: sets and removes quotas of a user, a client id, both, or an address, or
the default of these (a null name); durably, and in effect at once.

Checked as in Kafka; an invalid entity gets INVALID_REQUEST: an unknown or duplicate type, an empty
name, ip with another type, a quota of another type of entity, a value that is not above 0, too
large, or a fraction for a number of bytes.

The data plane enforces producer_byte_rate and consumer_byte_rate, with `throttle_time_ms` in the
responses of Produce and Fetch; it does not read the connection for that time. The rest of a window
(`quota.window.size.seconds`) can be used at once. connection_creation_rate delays the first request
of a connection. The user is who the client logged in as, or ANONYMOUS.

Rights: ALTER_CONFIGS on the cluster.

Left out: `request_percentage` and `controller_mutation_rate` are stored and shown without effect;
an ip is an address, host names are not resolved. `request_percentage` is a share of the time of
Kafka's request and network threads, most of which Produce and Fetch use. Here their time cannot be
charged to one client: a network thread serves many connections in one turn, and one commit serves
all that wait for it. Charging only the other requests, on the one control thread, would slow down
clients with many requests and not those with much data, which is not the purpose of the quota.
"""

from __future__ import annotations

from collections.abc import Sequence

from appliance.access.acls import Operation
from appliance.access.client_quotas import Alteration
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
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
    faults = await _alter(broker, request, call)
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


async def _alter(
    broker: Broker, request: AlterClientQuotasRequest, call: Call
) -> Sequence[ApplianceError | None]:
    try:
        check_cluster(call, Operation.ALTER_CONFIGS)
    except ApplianceError as error:  # the answer has no place for it but at each entry
        return [error] * len(request.entries)
    alterations = [_alteration(each) for each in request.entries]
    return await broker.quotas.alter(alterations, request.validate_only)


def _alteration(asked: Asked) -> Alteration:
    return Alteration(
        [(each.entity_type, each.entity_name) for each in asked.entity],
        [(each.key, None if each.remove else each.value) for each in asked.ops],
    )
