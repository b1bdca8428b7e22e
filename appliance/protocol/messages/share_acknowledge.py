"""ShareAcknowledge: accept, release, reject or renew records that were acquired."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from appliance.protocol.types import (
    Api,
    Versions,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)

VERSIONS = Versions(1, 2, flexible_from=0)


@dataclass(slots=True)
class ShareAcknowledgeRequest:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class AcknowledgementBatch:
        first_offset: int = field(int64)
        last_offset: int = field(int64)
        acknowledge_types: list[int] = field(array(int8))

    @dataclass(slots=True)
    class AcknowledgePartition:
        partition_index: int = field(int32)
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = field(
            array(lambda: ShareAcknowledgeRequest.AcknowledgementBatch)
        )

    @dataclass(slots=True)
    class AcknowledgeTopic:
        topic_id: UUID = field(uuid)
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = field(
            array(lambda: ShareAcknowledgeRequest.AcknowledgePartition)
        )

    group_id: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+")
    share_session_epoch: int = field(int32)
    is_renew_ack: bool = field(boolean, "2+")
    topics: list[AcknowledgeTopic] = field(array(AcknowledgeTopic))


@dataclass(slots=True)
class ShareAcknowledgeResponse:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class LeaderIdAndEpoch:
        leader_id: int = field(int32)
        leader_epoch: int = field(int32)

    @dataclass(slots=True)
    class PartitionData:
        partition_index: int = field(int32)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)
        current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = field(
            lambda: ShareAcknowledgeResponse.LeaderIdAndEpoch
        )

    @dataclass(slots=True)
    class ShareAcknowledgeTopicResponse:
        topic_id: UUID = field(uuid)
        partitions: list[ShareAcknowledgeResponse.PartitionData] = field(
            array(lambda: ShareAcknowledgeResponse.PartitionData)
        )

    @dataclass(slots=True)
    class NodeEndpoint:
        node_id: int = field(int32)
        host: str = field(string)
        port: int = field(int32)
        rack: str | None = field(string, nullable="0+", default=None)

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field(int32, "2+")
    responses: list[ShareAcknowledgeTopicResponse] = field(array(ShareAcknowledgeTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint))


API = Api(79, "ShareAcknowledge", ShareAcknowledgeRequest, ShareAcknowledgeResponse)
