"""ListPartitionReassignments 0: the partitions that are under way to other brokers.

A null list of topics means all. A broker that is none of a cluster has none. Who was to be added
and is not wanted any more, because a move was cancelled or another took its place, is told as one
that is removed.

Rights: DESCRIBE on the cluster.

Left out: nothing.
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
from appliance.topics.topics import Moving

KEY = 46
VERSIONS = (0, 0)

TopicRow = ListPartitionReassignmentsResponse.OngoingTopicReassignment
PartitionRow = ListPartitionReassignmentsResponse.OngoingPartitionReassignment


def handle(
    broker: Broker, request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse:
    check_cluster(call, Operation.DESCRIBE)
    cluster = broker.topics.cluster
    moving = {} if cluster is None else cluster.moving()
    if request.topics is None:
        asked = {name: {*found} for name, found in moving.items()}
    else:
        asked = {each.name: {*each.partition_indexes} for each in request.topics}
    rows = [
        TopicRow(name, [_row(each, found[each]) for each in sorted(asked[name] & {*found})])
        for name, found in sorted(moving.items())
        if asked.get(name, set()) & {*found}
    ]
    return ListPartitionReassignmentsResponse(error_message=None, topics=rows)


def _row(partition: int, found: Moving) -> PartitionRow:
    adding = [each for each in found.adding if each not in found.removing]
    return PartitionRow(partition, [*found.replicas], adding, [*found.removing])
