"""DescribeQuorum 0-2: the quorum of the metadata in Kafka's terms: one voter, which is the leader.

The metadata is in a database, not in a log, so all its offsets are 0 and there is no lag.

Rights: DESCRIBE on the cluster.

Left out: partitions other than `__cluster_metadata` 0 (UNKNOWN_TOPIC_OR_PARTITION); observers.
"""

from __future__ import annotations

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.protocol import ErrorCode
from appliance.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)

KEY = 55
VERSIONS = (0, 2)

METADATA = ("__cluster_metadata", 0)
LEADER_EPOCH = 1  # the first; there never was another election

PartitionRow = DescribeQuorumResponse.PartitionData


def handle(broker: Broker, request: DescribeQuorumRequest, call: Call) -> DescribeQuorumResponse:
    check_cluster(call, Operation.DESCRIBE)
    listeners = [
        DescribeQuorumResponse.Listener(name=it.name, host=told.host, port=told.port)
        for it, told in zip(broker.config.listeners, broker.told, strict=True)
    ]
    topics = [
        DescribeQuorumResponse.TopicData(
            topic_name=topic.topic_name,
            partitions=[
                _partition(broker, topic.topic_name, each.partition_index, call.now_ms)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    node = DescribeQuorumResponse.Node(node_id=broker.node_id, listeners=listeners)
    return DescribeQuorumResponse(error_message=None, topics=topics, nodes=[node])


def _partition(broker: Broker, topic: str, partition: int, now_ms: int) -> PartitionRow:
    if (topic, partition) != METADATA:
        return PartitionRow(
            partition_index=partition,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=f"{topic}-{partition} is not kept by a quorum",
        )
    voter = DescribeQuorumResponse.ReplicaState(
        replica_id=broker.node_id, last_fetch_timestamp=now_ms, last_caught_up_timestamp=now_ms
    )
    return PartitionRow(
        partition_index=partition,
        error_message=None,
        leader_id=broker.node_id,
        leader_epoch=LEADER_EPOCH,
        current_voters=[voter],
    )
