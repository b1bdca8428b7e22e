"""ShareAcknowledge: accept, release, reject or renew records that were acquired."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from appliance.protocol.types import (
    Api,
    Message,
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


class ShareAcknowledgeRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class AcknowledgementBatch(Message):
        first_offset: int = field(int64)
        last_offset: int = field(int64)
        acknowledge_types: list[int] = field(array(int8))

    class AcknowledgePartition(Message):
        partition_index: int = field(int32)
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = field(
            array(lambda: ShareAcknowledgeRequest.AcknowledgementBatch)
        )

    class AcknowledgeTopic(Message):
        topic_id: UUID = field(uuid)
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = field(
            array(lambda: ShareAcknowledgeRequest.AcknowledgePartition)
        )

    group_id: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+")
    share_session_epoch: int = field(int32)
    is_renew_ack: bool = field(boolean, "2+")
    topics: list[AcknowledgeTopic] = field(array(AcknowledgeTopic))


class ShareAcknowledgeResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class LeaderIdAndEpoch(Message):
        leader_id: int = field(int32)
        leader_epoch: int = field(int32)

    class PartitionData(Message):
        partition_index: int = field(int32)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)
        current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = field(
            lambda: ShareAcknowledgeResponse.LeaderIdAndEpoch
        )

    class ShareAcknowledgeTopicResponse(Message):
        topic_id: UUID = field(uuid)
        partitions: list[ShareAcknowledgeResponse.PartitionData] = field(
            array(lambda: ShareAcknowledgeResponse.PartitionData)
        )

    class NodeEndpoint(Message):
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
