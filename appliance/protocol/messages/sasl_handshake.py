"""SaslHandshake: choose a SASL mechanism. Version 0 is followed by bare SASL frames."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import Api, Message, Versions, array, field, int16, string

VERSIONS = Versions(0, 1)


class SaslHandshakeRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    mechanism: str = field(string)


class SaslHandshakeResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    error_code: int = field(int16)
    mechanisms: list[str] = field(array(string))


API = Api(17, "SaslHandshake", SaslHandshakeRequest, SaslHandshakeResponse)
