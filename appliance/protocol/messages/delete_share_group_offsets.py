"""DeleteShareGroupOffsets: forget the start offsets of an empty share group."""

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

VERSIONS = Versions(0, 0, flexible_from=0)


class DeleteShareGroupOffsetsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class DeleteShareGroupOffsetsRequestTopic(Message):
        topic_name: str = field(string)

    group_id: str = field(string)
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(
        array(DeleteShareGroupOffsetsRequestTopic)
    )


class DeleteShareGroupOffsetsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class DeleteShareGroupOffsetsResponseTopic(Message):
        topic_name: str = field(string)
        topic_id: UUID = field(uuid)
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(
        array(DeleteShareGroupOffsetsResponseTopic)
    )


API = Api(
    92, "DeleteShareGroupOffsets", DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
)
