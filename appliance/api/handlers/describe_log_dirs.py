"""DescribeLogDirs 1-5: the directories of records, their space, and the size of each partition.

Partitions that do not exist or are not open are omitted, as in Kafka. Usable bytes are the file
system's free space; writes are refused below the low water mark, before it is used up. A directory
that is not open has KAFKA_STORAGE_ERROR, and no partitions.

Rights: DESCRIBE on the cluster.

A partition that moves is in both directories, in the one that it moves to as a future one: with the
bytes that are copied, and the offsets that it is behind.

Left out: cordoning.
"""

from __future__ import annotations

from collections.abc import Iterable

from appliance._log import Log
from appliance.access.acls import Operation
from appliance.api.handlers.authorization import may_cluster
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.data_dir.record_dir import RecordDir
from appliance.protocol import ErrorCode
from appliance.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

KEY = 35
VERSIONS = (1, 5)

Answer = DescribeLogDirsResponse.DescribeLogDirsResult
TopicRow = DescribeLogDirsResponse.DescribeLogDirsTopic
PartitionRow = DescribeLogDirsResponse.DescribeLogDirsPartition


async def handle(
    broker: Broker, request: DescribeLogDirsRequest, call: Call
) -> DescribeLogDirsResponse:
    if not may_cluster(call, Operation.DESCRIBE):  # before version 3 without the error
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await call.on_thread(_measure, broker, _chosen(broker, request))


def _chosen(broker: Broker, request: DescribeLogDirsRequest) -> dict[str, dict[int, Log]]:
    if request.topics is None:
        return {
            each.name: {log.partition: log for log in each.open_logs}
            for each in broker.topics.values()
        }
    chosen: dict[str, dict[int, Log]] = {}
    for asked in request.topics:
        topic = broker.topics.get(asked.topic)
        logs = {log.partition: log for log in topic.open_logs} if topic else {}
        found = {i: logs[i] for i in asked.partitions if i in logs}
        if found:
            chosen.setdefault(asked.topic, {}).update(found)
    return chosen


def _measure(broker: Broker, chosen: dict[str, dict[int, Log]]) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(
        results=[_directory(broker, each, chosen) for each in broker.log_dir.directories]
    )


def _directory(
    broker: Broker, directory: RecordDir, chosen: dict[str, dict[int, Log]]
) -> Answer:
    path = str(directory.path)
    if not directory.is_open:
        return Answer(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    space = directory.room()
    topics = [
        TopicRow(name=name, partitions=rows)
        for name, logs in chosen.items()
        if (rows := [*_rows(path, logs.items()), *_future_rows(broker, directory, logs.items())])
    ]
    return Answer(
        log_dir=path,
        topics=topics,
        total_bytes=space.total_bytes,
        usable_bytes=space.free_bytes,
    )


def _rows(path: str, logs: Iterable[tuple[int, Log]]) -> list[PartitionRow]:
    return [
        PartitionRow(partition_index=i, partition_size=log.size)
        for i, log in logs
        if log.directory == f"{path}/{log.name}"
    ]


def _future_rows(
    broker: Broker, directory: RecordDir, logs: Iterable[tuple[int, Log]]
) -> list[PartitionRow]:
    moving = broker.moves.under_way
    return [
        PartitionRow(
            partition_index=i,
            partition_size=0 if (copy := move.copy) is None else copy.copied_bytes,
            offset_lag=max(0, log.log_end_offset - move.copied_to(log)),
            is_future_key=True,
        )
        for i, log in logs
        if (move := moving.get((log.topic, i))) is not None and move.target is directory
    ]
