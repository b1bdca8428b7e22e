"""Logs a connection in: the requests around the exchange of `sasl_client.py`, and the errors in
words."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, Protocol

from appliance.client.errors import BrokerUnavailable, ConfigInvalid, LoginFailed
from appliance.protocol import Api, ErrorCode, VersionUnsupported, sasl_client
from appliance.protocol.messages.sasl_authenticate import API as SASL_AUTHENTICATE
from appliance.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from appliance.protocol.messages.sasl_handshake import API as SASL_HANDSHAKE
from appliance.protocol.messages.sasl_handshake import SaslHandshakeRequest
from appliance.protocol.sasl_client import OAUTHBEARER

if TYPE_CHECKING:
    from appliance.client.config import ClientConfig
    from appliance.client.connection import Address

NEVER = float("inf")
STEPS_MAX = 4  # the longest exchange, that of SCRAM, has two
HANDSHAKE_VERSION_MIN = 1  # after version 0 the exchange has no frames of Kafka's
# A session is renewed after this part of its time: early enough for a slow broker, and not by all
# connections of a process at once.
RENEWED_FROM, RENEWED_TO = 0.80, 0.92


class Connection(Protocol):
    """What a login needs of one. The load test has its own."""

    address: Address
    config: ClientConfig

    def version(self, api: Api) -> int: ...

    def ask(self, api: Api, request: Any, timeout_ms: float) -> Any: ...


def log_in(connection: Connection) -> float:
    """Returns the time (of time.monotonic) at which to log in again on the same connection."""
    config = connection.config
    secret = secret_for(connection)
    try:
        choose_mechanism(connection)
        last = exchanged(connection, secret)
    except (LoginFailed, sasl_client.ExchangeFailed) as error:
        who = (
            "a token" if config.sasl_mechanism == OAUTHBEARER else f"user {config.sasl_username!r}"
        )
        why = str(error)
        if secret in why:  # a word that is taken out could be guessed
            why = "the answer has the letters of the secret in it, and is not shown"
        raise LoginFailed(
            f"broker {connection.address}: login of {who} by {config.sasl_mechanism} failed: {why}"
        ) from None
    if last.session_lifetime_ms <= 0:
        return NEVER
    part = random.uniform(RENEWED_FROM, RENEWED_TO)
    return time.monotonic() + last.session_lifetime_ms / 1000 * part


def secret_for(connection: Connection) -> str:
    """The password or the token, as it is now."""
    config = connection.config
    if config.sasl_mechanism != OAUTHBEARER:
        return config.password()
    try:
        token = config.token()
    except ConfigInvalid:
        raise
    except Exception as error:  # of the user's function, whose server may be away for a moment
        raise BrokerUnavailable(
            f"broker {connection.address}: sasl_oauthbearer_token raised {type(error).__name__}"
        ) from error
    if not isinstance(token, str) or not token:
        got = "an empty text" if token == "" else type(token).__name__
        raise ConfigInvalid(f"sasl_oauthbearer_token: returned {got}, wanted a token")
    return token


def choose_mechanism(connection: Connection) -> None:
    mechanism = connection.config.sasl_mechanism
    try:
        version = connection.version(SASL_HANDSHAKE)
    except VersionUnsupported:
        raise LoginFailed("this broker has no logins") from None
    if version < HANDSHAKE_VERSION_MIN:
        raise LoginFailed(f"SaslHandshake {version}, wanted at least {HANDSHAKE_VERSION_MIN}")
    answer = ask(connection, SASL_HANDSHAKE, SaslHandshakeRequest(mechanism))
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(answer.mechanisms) or "none"
        raise LoginFailed(f"sasl_mechanism: this listener offers {offered}")
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise LoginFailed("security_protocol: this listener takes no logins")
    check(answer.error_code, "SaslHandshake")


def exchanged(connection: Connection, secret: str) -> SaslAuthenticateResponse:
    """The last answer of the exchange."""
    config = connection.config
    exchange = sasl_client.exchange_of(config.sasl_mechanism, config.sasl_username, secret)
    message: bytes | None = exchange.first()
    for _ in range(STEPS_MAX):
        request = SaslAuthenticateRequest(message or b"")
        answer: SaslAuthenticateResponse = ask(connection, SASL_AUTHENTICATE, request)
        check(answer.error_code, answer.error_message or "SaslAuthenticate")
        message = exchange.answer(bytes(answer.auth_bytes))
        if message is None:
            return answer
    raise LoginFailed(f"the exchange has no end after {STEPS_MAX} steps")


def ask(connection: Connection, api: Api, request: Any) -> Any:
    return connection.ask(api, request, connection.config.connect_timeout_ms)


def check(code: int, text: str) -> None:
    if code:
        name = ErrorCode(code).name if code in list(ErrorCode) else f"error {code}"
        raise LoginFailed(f"{text} ({name})")
