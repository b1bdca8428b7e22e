"""ListPartitionReassignments 0: an empty list, because there is one broker.

Rights: DESCRIBE on the cluster.

Left out: nothing that one broker could have.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

KEY = 46
VERSIONS = (0, 0)


def handle(
    broker: Broker, request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse:
    check_cluster(call, Operation.DESCRIBE)
    return ListPartitionReassignmentsResponse(error_message=None)
