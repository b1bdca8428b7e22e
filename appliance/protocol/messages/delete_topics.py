"""DeleteTopics: topics to remove, by name, or by id from version 6."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    field,
    int16,
    int32,
    string,
    uuid,
)

VERSIONS = Versions(1, 6, flexible_from=4)


class DeleteTopicsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class DeleteTopicState(Message):
        name: str | None = field(string, "6+", nullable="6+", default=None)
        topic_id: UUID = field(uuid, "6+")

    topics: list[DeleteTopicState] = field(array(DeleteTopicState), "6+")
    topic_names: list[str] = field(array(string), "0-5")
    timeout_ms: int = field(int32)


class DeleteTopicsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class DeletableTopicResult(Message):
        name: str | None = field(string, nullable="6+")
        topic_id: UUID = field(uuid, "6+")
        error_code: int = field(int16)
        error_message: str | None = field(string, "5+", nullable="5+", default=None)

    throttle_time_ms: int = field(int32)
    responses: list[DeletableTopicResult] = field(array(DeletableTopicResult))


API = Api(20, "DeleteTopics", DeleteTopicsRequest, DeleteTopicsResponse)
