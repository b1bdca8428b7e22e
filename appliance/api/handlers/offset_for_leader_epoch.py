"""OffsetForLeaderEpoch 2-4: the end of a leader epoch, by which a client notices a truncated log.

The response has the largest epoch not above the requested one, and its end offset: the log end for
the current epoch. An unknown later epoch gets -1 and -1 where this broker alone has the partition.
Where others have it, too, epochs never go back: a later one is of a leader that this broker has not
heard of. It gets UNKNOWN_LEADER_EPOCH, and the client asks again; told -1 it would take all that it
has read for lost.

Rights: DESCRIBE on the topic, or CLUSTER_ACTION on the cluster.

Left out: requests of followers, whom Fetch tells where their logs part. One that asks is answered
like a client.
"""

from __future__ import annotations

from appliance._log import Log
from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_topic, may_cluster
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import find_log, find_topic
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

KEY = 23
VERSIONS = (2, 4)

Asked = OffsetForLeaderEpochRequest.OffsetForLeaderPartition
Answer = OffsetForLeaderEpochResponse.EpochEndOffset


def handle(
    broker: Broker, request: OffsetForLeaderEpochRequest, call: Call
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _partition(broker, call, topic.topic, each) for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _partition(broker: Broker, call: Call, topic: str, asked: Asked) -> Answer:
    answer = Answer(partition=asked.partition)
    try:
        if not may_cluster(call, Operation.CLUSTER_ACTION):
            check_topic(call, Operation.DESCRIBE, topic)
        found = find_topic(broker, topic)
        log = find_log(found, asked.partition, asked.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = _end(log, asked.leader_epoch)
    except ApplianceError as error:
        answer.error_code = error.kafka_code
    return answer


def _end(log: Log, leader_epoch: int) -> tuple[int, int]:
    if leader_epoch == log.leader_epoch:
        return leader_epoch, log.log_end_offset  # also of a log that is still empty
    if leader_epoch > log.leader_epoch and log.role == "leader":
        raise Refused(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"{log.name}: the client has read records of leader epoch {leader_epoch}, ours is "
            f"{log.leader_epoch}",
        )
    if leader_epoch < 0 or leader_epoch > log.leader_epoch:
        return -1, -1
    found, end_offset = log.end_offset_for_epoch(leader_epoch)
    # older than all that is left: it ended, at the latest, where the log begins
    return (leader_epoch, log.log_start_offset) if found < 0 else (found, end_offset)
