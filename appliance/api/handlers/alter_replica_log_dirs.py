"""AlterReplicaLogDirs 1-2: moves partitions to another directory of `log.dirs`.

The answer comes when the move is noted; DescribeLogDirs tells how far it is. Records are taken
meanwhile. Asking for the directory in which a partition is already cancels its move, as in Kafka.
A path that is none of them gets LOG_DIR_NOT_FOUND, one that is offline or has no room
KAFKA_STORAGE_ERROR. It is this broker's replica that moves, also one that follows; of a partition
that is on other brokers alone there is none: REPLICA_NOT_AVAILABLE.

Rights: ALTER on the cluster.

Left out: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import check_partition, find_topic
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from appliance.topics.topic import Topic

KEY = 34
VERSIONS = (1, 2)

TopicRow = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
PartitionRow = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult


async def handle(
    broker: Broker, request: AlterReplicaLogDirsRequest, call: Call
) -> AlterReplicaLogDirsResponse:
    rows = [
        TopicRow(topic.name, await _answers(broker, call, each.path, topic.name, topic.partitions))
        for each in request.dirs
        for topic in each.topics
    ]
    return AlterReplicaLogDirsResponse(results=rows)


async def _answers(
    broker: Broker, call: Call, path: str, topic: str, partitions: Iterable[int]
) -> list[PartitionRow]:
    return [await _answer(broker, call, path, topic, each) for each in partitions]


async def _answer(
    broker: Broker, call: Call, path: str, topic: str, partition: int
) -> PartitionRow:
    row = PartitionRow(partition_index=partition)
    try:
        check_cluster(call, Operation.ALTER)
        broker.log_dir.named(path)
        _check_here(find_topic(broker, topic), partition)
        await broker.moves.ask(topic, partition, path)
    except ApplianceError as error:
        row.error_code = error.kafka_code
    return row


def _check_here(topic: Topic, partition: int) -> None:
    check_partition(topic, partition)
    if topic.here is not None and partition not in topic.here:
        raise Refused(
            ErrorCode.REPLICA_NOT_AVAILABLE, f"{topic.name}-{partition} is on other brokers"
        )
    topic.log(partition)
