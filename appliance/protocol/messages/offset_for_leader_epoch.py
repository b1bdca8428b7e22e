"""OffsetForLeaderEpoch: where a leader epoch ended, so that a reader sees a truncation."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    field,
    int16,
    int32,
    int64,
    string,
)

VERSIONS = Versions(2, 4, flexible_from=4)


class OffsetForLeaderEpochRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class OffsetForLeaderPartition(Message):
        partition: int = field(int32)
        current_leader_epoch: int = field(int32, default=-1)
        leader_epoch: int = field(int32)

    class OffsetForLeaderTopic(Message):
        topic: str = field(string)
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = field(
            array(lambda: OffsetForLeaderEpochRequest.OffsetForLeaderPartition)
        )

    replica_id: int = field(int32, "3+", default=-2)
    topics: list[OffsetForLeaderTopic] = field(array(OffsetForLeaderTopic))


class OffsetForLeaderEpochResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class EpochEndOffset(Message):
        error_code: int = field(int16)
        partition: int = field(int32)
        leader_epoch: int = field(int32, default=-1)
        end_offset: int = field(int64, default=-1)

    class OffsetForLeaderTopicResult(Message):
        topic: str = field(string)
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = field(
            array(lambda: OffsetForLeaderEpochResponse.EpochEndOffset)
        )

    throttle_time_ms: int = field(int32)
    topics: list[OffsetForLeaderTopicResult] = field(array(OffsetForLeaderTopicResult))


API = Api(23, "OffsetForLeaderEpoch", OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse)
