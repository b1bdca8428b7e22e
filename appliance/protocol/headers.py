"""The headers of requests and responses.

request    api_key i16 | api_version i16 | correlation_id i32 | client_id nullable string | tags*
response   correlation_id i32 | tags*

Only flexible versions have tags; the client id keeps its int16 size even then. The response of
ApiVersions never has tags, because its reader does not know the broker's versions yet.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from appliance.protocol import API
from appliance.protocol._codec import Malformed, skip_tags
from appliance.protocol.errors import MalformedMessage
from appliance.protocol.messages.api_versions import API as API_VERSIONS
from appliance.protocol.plan import plan_of
from appliance.protocol.types import Message, field, int16, int32, string

RESPONSE = struct.Struct(">i")
# Cached keys and versions; there are some 500, but anybody may send others.
KINDS_MAX = 1024


class RequestHeader(Message):
    api_key: int = field(int16)
    api_version: int = field(int16)
    correlation_id: int = field(int32)
    client_id: str | None = field(string, nullable="0+")


REQUEST = plan_of(RequestHeader, 0, False)


def decode_request(frame: bytes) -> tuple[RequestHeader, bytes]:
    """The header and the body. An unknown key counts as one without tags."""
    try:
        header: RequestHeader
        header, at = REQUEST.decode(frame)
        if is_flexible(header.api_key, header.api_version):
            at = skip_tags(frame, at)
    except (Malformed, UnicodeDecodeError) as why:
        raise MalformedMessage(f"request header in {len(frame)} bytes: {why}") from why
    if header.client_id is None:
        header.client_id = ""
    return header, frame[at:]


def encode_request(header: RequestHeader) -> bytes:
    tags = b"\0" if is_flexible(header.api_key, header.api_version) else b""
    return REQUEST.encode(header) + tags


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    head = RESPONSE.pack(correlation_id)
    return head + b"\0" if has_response_tags(api_key, api_version) else head


def decode_response(
    frame: bytes | bytearray | memoryview, api_key: int, api_version: int
) -> tuple[int, memoryview]:
    """The correlation id and the body."""
    try:
        (correlation_id,) = RESPONSE.unpack_from(frame)
        at = RESPONSE.size
        if has_response_tags(api_key, api_version):
            at = skip_tags(frame, at)
    except (struct.error, Malformed) as why:
        raise MalformedMessage(f"response header in {len(frame)} bytes: {why}") from why
    return correlation_id, memoryview(frame)[at:]


@lru_cache(maxsize=KINDS_MAX)
def is_flexible(api_key: int, api_version: int) -> bool:
    api = API.get(api_key)
    return api is not None and api.request.VERSIONS.is_flexible(api_version)


@lru_cache(maxsize=KINDS_MAX)
def has_response_tags(api_key: int, api_version: int) -> bool:
    return api_key != API_VERSIONS.key and is_flexible(api_key, api_version)
