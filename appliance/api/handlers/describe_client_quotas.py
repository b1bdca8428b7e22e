"""DescribeClientQuotas 0-1: the quotas of entities that match a filter.

A component selects entities of a type (user, client-id, ip) with a name, with the default, or with
any; strict filters select entities without other types. Without components all match. An unknown
type gets UNSUPPORTED_VERSION; a duplicate type, or ip with another type, gets INVALID_REQUEST.

Rights: DESCRIBE_CONFIGS on the cluster.

Left out: `request_percentage` and `controller_mutation_rate` are shown but have no effect.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.access.client_quotas import Component
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

KEY = 48
VERSIONS = (0, 1)

Entry = DescribeClientQuotasResponse.EntryData
Entity = DescribeClientQuotasResponse.EntityData
Value = DescribeClientQuotasResponse.ValueData


def handle(
    broker: Broker, request: DescribeClientQuotasRequest, call: Call
) -> DescribeClientQuotasResponse:
    check_cluster(call, Operation.DESCRIBE_CONFIGS)
    components = [
        Component(each.entity_type, each.match_type, each.match) for each in request.components
    ]
    try:
        found = broker.quotas.find(components, request.strict)
    except ApplianceError as error:
        return DescribeClientQuotasResponse(
            error_code=error.kafka_code, error_message=str(error), entries=None
        )
    entries = [
        Entry(
            [Entity(kind, name) for kind, name in entity],
            [Value(name, value) for name, value in sorted(values.items())],
        )
        for entity, values in found
    ]
    return DescribeClientQuotasResponse(error_message=None, entries=entries)
