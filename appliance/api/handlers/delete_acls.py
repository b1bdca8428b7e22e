"""DeleteAcls 1-3: removes the access rules that match filters, durably, and lists them.

The filters are those of DescribeAcls. An invalid filter gets INVALID_REQUEST; the others are
applied.

Rules that wait for confirmation are not matched; see DescribeAcls.

Rights: ALTER on the cluster.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Acl, Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.api.handlers.describe_acls import filter_of
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse

KEY = 31
VERSIONS = (1, 3)

Result = DeleteAclsResponse.DeleteAclsFilterResult
Row = DeleteAclsResponse.DeleteAclsMatchingAcl


async def handle(broker: Broker, request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse:
    try:
        check_cluster(call, Operation.ALTER)
    except ApplianceError as error:  # the answer has no place for it but at each filter
        return DeleteAclsResponse(filter_results=[_result(error) for _ in request.filters])
    found = await broker.acls.delete([filter_of(each) for each in request.filters])
    return DeleteAclsResponse(filter_results=[_result(each) for each in found])


def _result(found: list[Acl] | ApplianceError) -> Result:
    if isinstance(found, ApplianceError):
        return Result(error_code=found.kafka_code, error_message=str(found))
    return Result(error_message=None, matching_acls=[_row(each) for each in found])


def _row(acl: Acl) -> Row:
    return Row(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
