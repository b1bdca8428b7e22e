"""TxnOffsetCommit: offsets of a group that count once the transaction commits."""

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

VERSIONS = Versions(0, 5, flexible_from=3)


class TxnOffsetCommitRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class TxnOffsetCommitRequestPartition(Message):
        partition_index: int = field(int32)
        committed_offset: int = field(int64)
        committed_leader_epoch: int = field(int32, "2+", default=-1)
        committed_metadata: str | None = field(string, nullable="0+")

    class TxnOffsetCommitRequestTopic(Message):
        name: str = field(string)
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = field(
            array(lambda: TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition)
        )

    transactional_id: str = field(string)
    group_id: str = field(string)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    generation_id: int = field(int32, "3+", default=-1)
    member_id: str = field(string, "3+")
    group_instance_id: str | None = field(string, "3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field(array(TxnOffsetCommitRequestTopic))


class TxnOffsetCommitResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class TxnOffsetCommitResponsePartition(Message):
        partition_index: int = field(int32)
        error_code: int = field(int16)

    class TxnOffsetCommitResponseTopic(Message):
        name: str = field(string)
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = field(
            array(lambda: TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition)
        )

    throttle_time_ms: int = field(int32)
    topics: list[TxnOffsetCommitResponseTopic] = field(array(TxnOffsetCommitResponseTopic))


API = Api(28, "TxnOffsetCommit", TxnOffsetCommitRequest, TxnOffsetCommitResponse)
