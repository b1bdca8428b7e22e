"""DescribeLogDirs 1-5: the data directory, its space, and the size of each partition in it.

Partitions that do not exist or are not open are omitted, as in Kafka. Usable bytes are the file
system's free space; writes are refused below the low water mark, before it is used up.

Rights: DESCRIBE on the cluster.

Left out: more than one directory, moves between directories (future replicas) and cordoning.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable

from appliance._log import Log
from appliance.access.acls import Operation
from appliance.api.handlers.authorization import may_cluster
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
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
    return await call.on_thread(_measure, str(broker.log_dir.path), _chosen(broker, request))


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


def _measure(path: str, chosen: dict[str, dict[int, Log]]) -> DescribeLogDirsResponse:
    space = shutil.disk_usage(path)
    topics = [TopicRow(name=name, partitions=_rows(logs.items())) for name, logs in chosen.items()]
    answer = Answer(log_dir=path, topics=topics, total_bytes=space.total, usable_bytes=space.free)
    return DescribeLogDirsResponse(results=[answer])


def _rows(logs: Iterable[tuple[int, Log]]) -> list[PartitionRow]:
    return [PartitionRow(partition_index=i, partition_size=log.size) for i, log in logs]
