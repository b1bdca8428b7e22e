"""CreateTopics: new topics, with configs and a reply that says what they came to."""

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
    string,
    uuid,
)

VERSIONS = Versions(2, 7, flexible_from=5)


class CreateTopicsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class CreatableReplicaAssignment(Message):
        partition_index: int = field(int32)
        broker_ids: list[int] = field(array(int32))

    class CreatableTopicConfig(Message):
        name: str = field(string)
        value: str | None = field(string, nullable="0+")

    class CreatableTopic(Message):
        name: str = field(string)
        num_partitions: int = field(int32)
        replication_factor: int = field(int16)
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = field(
            array(lambda: CreateTopicsRequest.CreatableReplicaAssignment)
        )
        configs: list[CreateTopicsRequest.CreatableTopicConfig] = field(
            array(lambda: CreateTopicsRequest.CreatableTopicConfig)
        )

    topics: list[CreatableTopic] = field(array(CreatableTopic))
    timeout_ms: int = field(int32, default=60000)
    validate_only: bool = field(boolean)


class CreateTopicsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class CreatableTopicConfigs(Message):
        name: str = field(string, "5+")
        value: str | None = field(string, "5+", nullable="5+")
        read_only: bool = field(boolean, "5+")
        config_source: int = field(int8, "5+", default=-1)
        is_sensitive: bool = field(boolean, "5+")

    class CreatableTopicResult(Message):
        name: str = field(string)
        topic_id: UUID = field(uuid, "7+")
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+")
        topic_config_error_code: int = field(int16, "5+", tag=0)
        num_partitions: int = field(int32, "5+", default=-1)
        replication_factor: int = field(int16, "5+", default=-1)
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = field(
            array(lambda: CreateTopicsResponse.CreatableTopicConfigs), "5+", nullable="5+"
        )

    throttle_time_ms: int = field(int32)
    topics: list[CreatableTopicResult] = field(array(CreatableTopicResult))


API = Api(19, "CreateTopics", CreateTopicsRequest, CreateTopicsResponse)
