"""How this broker logs in at another of its cluster: the frames that it sends, and what it makes of
the answers. Who has the connection sends them: a follower's thread, or `broker/peers.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Any

from appliance.config import ReplicationConfig
from appliance.errors import ApplianceError
from appliance.process import secret_file
from appliance.protocol import Api, ErrorCode, MalformedMessage, codec, headers, sasl_client
from appliance.protocol.messages.sasl_authenticate import API as SASL_AUTHENTICATE
from appliance.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from appliance.protocol.messages.sasl_handshake import API as SASL_HANDSHAKE
from appliance.protocol.messages.sasl_handshake import SaslHandshakeRequest

SIZE = struct.Struct(">i")
HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 2
STEPS_MAX = 4  # the longest exchange, that of SCRAM, has two
RENEWED_AT = 0.85  # of the time for which a login holds
CLIENT_ID = "replica"

Steps = Generator[bytes, bytes, int]  # of frames with their length, and without it


class InterBrokerLoginFailed(ApplianceError):
    """The text says why, and never has the password."""


class InterBrokerLogin:
    """The password is read for each login: a new one needs no restart."""

    def __init__(self, config: ReplicationConfig) -> None:
        self._config = config

    def steps(self) -> Steps:
        """For how many milliseconds the login is good; 0: for good."""
        config = self._config
        password = secret_file.read("inter.broker.password.file", config.password_file)
        try:
            yield from self._choose()
            return (yield from self._exchange(password))
        except (sasl_client.ExchangeFailed, MalformedMessage) as error:
            raise self._failure(str(error).replace(password, "(the password)")) from None

    def _choose(self) -> Generator[bytes, bytes, None]:
        request = SaslHandshakeRequest(self._config.mechanism)
        answer = yield from ask(SASL_HANDSHAKE, HANDSHAKE_VERSION, request)
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(answer.mechanisms) or "none"
            raise self._failure(f"it offers {offered}")
        if answer.error_code:
            raise self._failure(name_of(answer.error_code))

    def _exchange(self, password: str) -> Steps:
        exchange = sasl_client.exchange_of(self._config.mechanism, self._config.user, password)
        message: bytes | None = exchange.first()
        for _ in range(STEPS_MAX):
            request = SaslAuthenticateRequest(message or b"")
            answer = yield from ask(SASL_AUTHENTICATE, AUTHENTICATE_VERSION, request)
            if answer.error_code:
                raise self._failure(answer.error_message or name_of(answer.error_code))
            message = exchange.answer(bytes(answer.auth_bytes))
            if message is None:
                return int(answer.session_lifetime_ms * RENEWED_AT)
        raise self._failure(f"the exchange has no end after {STEPS_MAX} steps")

    def _failure(self, why: str) -> InterBrokerLoginFailed:
        return InterBrokerLoginFailed(
            f"user {self._config.user!r} by {self._config.mechanism}: {why}"
        )


def ask(api: Api, version: int, request: Any) -> Generator[bytes, bytes, Any]:
    header = headers.RequestHeader(api.key, version, 0, CLIENT_ID)
    frame = headers.encode_request(header) + codec.encode(request, version)
    answer = yield SIZE.pack(len(frame)) + frame
    _, body = headers.decode_response(answer, api.key, version)
    return codec.decode(api.response, body, version)


def name_of(code: int) -> str:
    return ErrorCode(code).name if code in list(ErrorCode) else f"error {code}"
