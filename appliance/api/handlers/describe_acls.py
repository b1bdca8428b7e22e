"""DescribeAcls 1-3: the access rules that match a filter, by resource.

The pattern types LITERAL and PREFIXED select rules of that type with exactly that name, ANY selects
both types, MATCH all rules that apply to the name: its own, those of `*`, those of its prefixes. An
invalid filter (with a type, operation or permission unknown to Kafka) gets INVALID_REQUEST.

Rules from before they were enforced decide nothing until an administrator has confirmed them, and
are not listed here but by `appliance acl list`. Where rules are not enforced they are stored and
listed all the same, where a Kafka without an authorizer answers SECURITY_DISABLED.

Rights: DESCRIBE on the cluster.

Left out: nothing.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter

from appliance.access.acls import Acl, AclFilter, Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.protocol.messages.delete_acls import DeleteAclsRequest
from appliance.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

KEY = 29
VERSIONS = (1, 3)

Resource = DescribeAclsResponse.DescribeAclsResource
Row = DescribeAclsResponse.AclDescription
RESOURCE = attrgetter("resource_type", "resource_name", "pattern_type")


def handle(broker: Broker, request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
    check_cluster(call, Operation.DESCRIBE)
    found = broker.acls.find(filter_of(request))
    resources = [
        Resource(resource_type, name, pattern_type, [_row(each) for each in acls])
        for (resource_type, name, pattern_type), acls in groupby(found, key=RESOURCE)
    ]
    return DescribeAclsResponse(error_message=None, resources=resources)


def filter_of(asked: DescribeAclsRequest | DeleteAclsRequest.DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _row(acl: Acl) -> Row:
    return Row(acl.principal, acl.host, acl.operation, acl.permission_type)
