"""SaslAuthenticate 0-2: one message of the mechanism that SaslHandshake named, and its answer.

A failed login gets SASL_AUTHENTICATION_FAILED, after a delay that grows with the failures, and ends
the connection. The text is the same whatever was wrong; the log has the reason. A request without a
handshake gets ILLEGAL_SASL_STATE. From version 1 on the answer says after how long the client has
to log in again (KIP-368), as the same principal; later than that the connection is closed at its
next request.

After SaslHandshake 0 messages and answers come without headers, and a failed login has no answer.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.logins import Answer, Asker
from appliance.api.handlers.call import Call, Later
from appliance.broker.broker import Broker
from appliance.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)

KEY = 36
VERSIONS = (0, 2)


def handle(broker: Broker, request: SaslAuthenticateRequest, call: Call) -> Later:
    later = Later()
    who = Asker(call.connection, call.slot, call.peer, call.listener)
    broker.logins.step(who, request.auth_bytes, lambda answer: later.give(_response(answer)))
    return later


def _response(answer: Answer) -> SaslAuthenticateResponse:
    if answer.error is not None:
        return SaslAuthenticateResponse(
            error_code=answer.error.kafka_code, error_message=str(answer.error), auth_bytes=b""
        )
    return SaslAuthenticateResponse(
        error_message=None, auth_bytes=answer.data, session_lifetime_ms=answer.lifetime_ms
    )
