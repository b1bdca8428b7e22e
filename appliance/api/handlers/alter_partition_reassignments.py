"""AlterPartitionReassignments 0-1: partitions move to other brokers of the cluster, or stay.

A list of brokers becomes the partition's replicas, the preferred leader first; no list cancels a
move (NO_REASSIGNMENT_IN_PROGRESS without one). One that is under way is replaced. The answer comes
when the cluster has the word; ListPartitionReassignments tells what is under way. Checks are in
Kafka's order: the list is empty, one of its brokers does not live (one that has the partition
already may be dead), a broker occurs twice: INVALID_REPLICA_ASSIGNMENT. From version 1 on another
number of replicas than before can be forbidden: INVALID_REPLICATION_FACTOR.

On a broker that is none of a cluster a move to itself succeeds without effect.

Rights: ALTER on the cluster.

Left out: nothing.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

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
from appliance.topics.topics import Cluster

KEY = 45
VERSIONS = (0, 1)

Answer = AlterPartitionReassignmentsResponse
Asked = AlterPartitionReassignmentsRequest.ReassignablePartition
AskedTopic = AlterPartitionReassignmentsRequest.ReassignableTopic
TopicRow = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
PartitionRow = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse
Wanted = Mapping[int, Sequence[int] | None]


def handle(
    broker: Broker, request: AlterPartitionReassignmentsRequest, call: Call
) -> Answer | Coroutine[Any, Any, Answer]:
    try:
        check_cluster(call, Operation.ALTER)
    except Refused as error:
        return _refused(request, error)
    cluster = broker.topics.cluster
    if cluster is not None:
        return _reassign(broker, cluster, request)
    rows = [
        TopicRow(topic.name, [_answer(broker, topic.name, each) for each in topic.partitions])
        for topic in request.topics
    ]
    return _answered(request, rows)


def _answered(request: AlterPartitionReassignmentsRequest, rows: list[TopicRow]) -> Answer:
    return Answer(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=rows,
    )


def _refused(request: AlterPartitionReassignmentsRequest, error: Refused) -> Answer:
    """Who may not alter the cluster is told so at each partition, too."""
    code, text = error.kafka_code, str(error)
    rows = [
        TopicRow(topic.name, [PartitionRow(each.partition_index, code, text)
                              for each in topic.partitions])
        for topic in request.topics
    ]  # fmt: skip
    answer = _answered(request, rows)
    answer.error_code, answer.error_message = code, text
    return answer


# In a cluster


async def _reassign(
    broker: Broker, cluster: Cluster, request: AlterPartitionReassignmentsRequest
) -> Answer:
    may_change = request.allow_replication_factor_change
    rows = [
        TopicRow(topic.name, await _of_topic(broker, cluster, topic, may_change))
        for topic in request.topics
    ]
    return _answered(request, rows)


async def _of_topic(
    broker: Broker, cluster: Cluster, asked: AskedTopic, may_change_factor: bool
) -> list[PartitionRow]:
    """All at once; where that is refused each by itself, so that one mistake is one partition's."""
    wanted: dict[int, Sequence[int] | None] = {}
    faults: dict[int, ApplianceError] = {}
    for each in asked.partitions:
        try:
            if not may_change_factor:
                _check_factor(broker, asked.name, each)
            wanted[each.partition_index] = each.replicas
        except ApplianceError as error:
            faults[each.partition_index] = error
    faults |= await _faults(cluster, asked.name, wanted)
    return [_row(each.partition_index, faults.get(each.partition_index))
            for each in asked.partitions]  # fmt: skip


async def _faults(cluster: Cluster, topic: str, wanted: Wanted) -> dict[int, ApplianceError]:
    fault = await _fault(cluster, topic, wanted) if wanted else None
    if fault is None:
        return {}
    if len(wanted) == 1 or fault.kafka_code == ErrorCode.REQUEST_TIMED_OUT:
        return dict.fromkeys(wanted, fault)
    each = {number: await _fault(cluster, topic, {number: replicas})
            for number, replicas in wanted.items()}  # fmt: skip
    return {number: found for number, found in each.items() if found is not None}


async def _fault(cluster: Cluster, topic: str, wanted: Wanted) -> ApplianceError | None:
    try:
        await cluster.reassign(topic, wanted)
    except ApplianceError as error:
        return error
    return None


def _check_factor(broker: Broker, topic: str, asked: Asked) -> None:
    if asked.replicas is None:
        return
    cluster = broker.topics.cluster
    found = find_topic(broker, topic)
    if cluster is None or not 0 <= asked.partition_index < len(found.logs):
        return  # what it is told says more
    moving = cluster.moving().get(topic, {}).get(asked.partition_index)
    now = broker.members.placement(found, asked.partition_index).replicas
    before = [each for each in now if moving is None or each not in moving.adding]
    if before and len(asked.replicas) not in (0, len(before)):
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{topic}-{asked.partition_index}: got {len(asked.replicas)} replicas, it has "
            f"{len(before)}, and the request forbids another number",
        )


# Without one


def _answer(broker: Broker, topic: str, asked: Asked) -> PartitionRow:
    try:
        find_log(find_topic(broker, topic), asked.partition_index)
        _check(broker.node_id, asked.replicas)
    except ApplianceError as error:
        return _row(asked.partition_index, error)
    return _row(asked.partition_index, None)


def _row(partition: int, error: ApplianceError | None) -> PartitionRow:
    if error is None:
        return PartitionRow(partition_index=partition, error_message=None)
    return PartitionRow(partition, error.kafka_code, str(error))


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
