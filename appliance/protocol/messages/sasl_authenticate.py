"""SaslAuthenticate: one step of a SASL exchange, from version 1 with a session lifetime."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import Api, Message, Versions, data, field, int16, int64, string

VERSIONS = Versions(0, 2, flexible_from=2)


class SaslAuthenticateRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    auth_bytes: bytes = field(data)


class SaslAuthenticateResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")
    auth_bytes: bytes = field(data)
    session_lifetime_ms: int = field(int64, "1+")


API = Api(36, "SaslAuthenticate", SaslAuthenticateRequest, SaslAuthenticateResponse)
