"""CreateAcls 1-3: adds access rules, durably. An existing rule is a success.

Each rule is checked as in Kafka: a resource with a name (the cluster's is `kafka-cluster`), a
literal or prefixed pattern, an operation, DENY or ALLOW, a principal of the form TYPE:NAME. Invalid
rules get INVALID_REQUEST, the others are created.

A rule that waits for confirmation (see DescribeAcls) is confirmed by whoever creates it again.
While rules are not enforced the first one logs a warning.

Rights: ALTER on the cluster.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Acl, Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse

KEY = 30
VERSIONS = (1, 3)

Row = CreateAclsResponse.AclCreationResult


async def handle(broker: Broker, request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
    try:
        check_cluster(call, Operation.ALTER)
    except ApplianceError as error:  # the answer has no place for it but at each rule
        return CreateAclsResponse(results=[_row(error) for _ in request.creations])
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
    return CreateAclsResponse(results=[_row(error) for error in await broker.acls.create(acls)])


def _row(error: ApplianceError | None) -> Row:
    if error is None:
        return Row(error_message=None)
    return Row(error_code=error.kafka_code, error_message=str(error))
