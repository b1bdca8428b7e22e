"""AlterReplicaLogDirs 1-2: all partitions are in the only data directory.

A move to it succeeds without effect. Another path gets LOG_DIR_NOT_FOUND.

Rights: ALTER on the cluster.

Left out: moves between directories.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import find_log, find_topic
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)

KEY = 34
VERSIONS = (1, 2)

TopicRow = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
PartitionRow = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult


def handle(
    broker: Broker, request: AlterReplicaLogDirsRequest, call: Call
) -> AlterReplicaLogDirsResponse:
    rows = [
        TopicRow(
            topic.name,
            [_answer(broker, call, each.path, topic.name, i) for i in topic.partitions],
        )
        for each in request.dirs
        for topic in each.topics
    ]
    return AlterReplicaLogDirsResponse(results=rows)


def _answer(
    broker: Broker, call: Call, path: str, topic: str, partition: int
) -> PartitionRow:
    row = PartitionRow(partition_index=partition)
    try:
        check_cluster(call, Operation.ALTER)
        if path != str(broker.config.data_dir):
            raise Refused(ErrorCode.LOG_DIR_NOT_FOUND, f"{path!r} is no data directory")
        find_log(find_topic(broker, topic), partition)
    except ApplianceError as error:
        row.error_code = error.kafka_code
    return row
