"""CreateAcls 1-3: adds access rules, durably. An existing rule is a success.

Each rule is checked as in Kafka: a resource with a name (the cluster's is `kafka-cluster`), a
literal or prefixed pattern, an operation, DENY or ALLOW, a principal of the form TYPE:NAME. Invalid
rules get INVALID_REQUEST, the others are created.

Left out: enforcement; see DescribeAcls. The first rule logs a warning.
"""

from __future__ import annotations

from appliance.access.acls import Acl
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse

KEY = 30
VERSIONS = (1, 3)

Row = CreateAclsResponse.AclCreationResult


async def handle(broker: Broker, request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
    acls = [
        Acl(
            each.resource_type,
            each.resource_name,
            each.resource_pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in request.creations
    ]
    return CreateAclsResponse(
        results=[
            Row(error_code=error.kafka_code, error_message=str(error))
            if error
            else Row(error_message=None)
            for error in await broker.acls.create(acls)
        ]
    )
