"""UnregisterBroker: remove a broker from the cluster for good."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import Api, Message, Versions, field, int16, int32, string

VERSIONS = Versions(0, 0, flexible_from=0)


class UnregisterBrokerRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    broker_id: int = field(int32)


class UnregisterBrokerResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+")


API = Api(64, "UnregisterBroker", UnregisterBrokerRequest, UnregisterBrokerResponse)
