"""SaslHandshake 0-1: the client chooses how it logs in.

The answer lists the mechanisms of the listener. After version 1 the messages of the mechanism come
as SaslAuthenticate, after version 0 without headers. A mechanism that is not enabled gets
UNSUPPORTED_SASL_MECHANISM; a listener without logins, and a connection that has logged in for good,
ILLEGAL_SASL_STATE. Both end the connection.

Who has to log in again after a time (`connections.max.reauth.ms`) begins it by this request
(KIP-368), with the same mechanism, and in version 1 only.

Left out: GSSAPI.
"""

from __future__ import annotations

from appliance.access.logins import Asker
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

KEY = 17
VERSIONS = (0, 1)


def handle(broker: Broker, request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse:
    answer = SaslHandshakeResponse(mechanisms=broker.logins.mechanisms(call.listener))
    who = Asker(call.connection, call.slot, call.peer, call.listener)
    try:
        broker.logins.begin(who, request.mechanism, is_raw=call.version == 0)
    except ApplianceError as error:
        answer.error_code = error.kafka_code
    return answer
