"""ShareFetch: acquire records for a share group; acknowledgements may ride along."""

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
    records,
    string,
    uuid,
)

VERSIONS = Versions(1, 2, flexible_from=0)


class ShareFetchRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class AcknowledgementBatch(Message):
        first_offset: int = field(int64)
        last_offset: int = field(int64)
        acknowledge_types: list[int] = field(array(int8))

    class FetchPartition(Message):
        partition_index: int = field(int32)
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = field(
            array(lambda: ShareFetchRequest.AcknowledgementBatch)
        )

    class FetchTopic(Message):
        topic_id: UUID = field(uuid)
        partitions: list[ShareFetchRequest.FetchPartition] = field(
            array(lambda: ShareFetchRequest.FetchPartition)
        )

    class ForgottenTopic(Message):
        topic_id: UUID = field(uuid)
        partitions: list[int] = field(array(int32))

    group_id: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+")
    share_session_epoch: int = field(int32)
    max_wait_ms: int = field(int32)
    min_bytes: int = field(int32)
    max_bytes: int = field(int32, default=2**31 - 1)
    max_records: int = field(int32)
    batch_size: int = field(int32)
    share_acquire_mode: int = field(int8, "2+")
    is_renew_ack: bool = field(boolean, "2+")
    topics: list[FetchTopic] = field(array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(array(ForgottenTopic))


class ShareFetchResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class LeaderIdAndEpoch(Message):
        leader_id: int = field(int32)
        leader_epoch: int = field(int32)

    class AcquiredRecords(Message):
        first_offset: int = field(int64)
        last_offset: int = field(int64)
        delivery_count: int = field(int16)

    class PartitionData(Message):
        partition_index: int = field(int32)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)
        acknowledge_error_code: int = field(int16)
        acknowledge_error_message: str | None = field(string, nullable="0+", default=None)
        current_leader: ShareFetchResponse.LeaderIdAndEpoch = field(
            lambda: ShareFetchResponse.LeaderIdAndEpoch
        )
        records: bytes | None = field(records)
        acquired_records: list[ShareFetchResponse.AcquiredRecords] = field(
            array(lambda: ShareFetchResponse.AcquiredRecords)
        )

    class ShareFetchableTopicResponse(Message):
        topic_id: UUID = field(uuid)
        partitions: list[ShareFetchResponse.PartitionData] = field(
            array(lambda: ShareFetchResponse.PartitionData)
        )

    class NodeEndpoint(Message):
        node_id: int = field(int32)
        host: str = field(string)
        port: int = field(int32)
        rack: str | None = field(string, nullable="0+", default=None)

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field(int32)
    responses: list[ShareFetchableTopicResponse] = field(array(ShareFetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint))


API = Api(78, "ShareFetch", ShareFetchRequest, ShareFetchResponse)
