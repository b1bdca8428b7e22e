"""AlterPartitionReassignments 0-1: every partition stays on the only broker.

A move to this broker succeeds without effect. Any other list of replicas gets
INVALID_REPLICA_ASSIGNMENT, in Kafka's order of checks: it is empty, one of its brokers does not
exist, a broker occurs twice. Cancelling a move (no list) gets NO_REASSIGNMENT_IN_PROGRESS.

Rights: ALTER on the cluster.

Left out: moves between brokers. In a cluster they get POLICY_VIOLATION.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import find_log, find_topic
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

KEY = 45
VERSIONS = (0, 1)

Asked = AlterPartitionReassignmentsRequest.ReassignablePartition
TopicRow = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
PartitionRow = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse


def handle(
    broker: Broker, request: AlterPartitionReassignmentsRequest, call: Call
) -> AlterPartitionReassignmentsResponse:
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            TopicRow(
                topic.name, [_answer(broker, call, topic.name, each) for each in topic.partitions]
            )
            for topic in request.topics
        ],
    )
    try:
        check_cluster(call, Operation.ALTER)
    except Refused as error:
        response.error_code, response.error_message = error.kafka_code, str(error)
    return response


def _answer(broker: Broker, call: Call, topic: str, asked: Asked) -> PartitionRow:
    """Who may not alter the cluster is told so here, too."""
    row = PartitionRow(partition_index=asked.partition_index, error_message=None)
    try:
        check_cluster(call, Operation.ALTER)
        if broker.topics.cluster is not None:
            text = "moving partitions between brokers is not there yet"
            raise Refused(ErrorCode.POLICY_VIOLATION, text)
        find_log(find_topic(broker, topic), asked.partition_index)
        _check(broker.node_id, asked.replicas)
    except ApplianceError as error:
        row.error_code, row.error_message = error.kafka_code, str(error)
    return row


def _check(node_id: int, replicas: list[int] | None) -> None:
    if replicas is None:
        raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "the partition is not being moved")
    fault = ""
    if not replicas:
        fault = "got no replicas"
    elif strangers := sorted(set(replicas) - {node_id}):
        fault = f"got broker {strangers[0]}, which does not exist"
    elif len(replicas) > 1:
        fault = f"got broker {node_id} {len(replicas)} times"
    if fault:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{fault}, wanted [{node_id}]")
