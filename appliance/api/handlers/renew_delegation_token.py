"""RenewDelegationToken 1-2: a token, named by its HMAC, is good for longer; durable before the
answer.

By `delegation.token.expiry.time.ms` or what the client wants less, and not beyond its greatest age.
A token that is over cannot be renewed (DELEGATION_TOKEN_EXPIRED, or DELEGATION_TOKEN_NOT_FOUND once
it was removed). Who may ask for tokens at all: see CreateDelegationToken.

Rights: none of rules; the client is the owner or a renewer (DELEGATION_TOKEN_OWNER_MISMATCH).

Left out: nothing.
"""

from __future__ import annotations

from appliance.api.handlers.call import Call
from appliance.api.handlers.delegation_token_requests import NO_TIME, check_sender
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

KEY = 39
VERSIONS = (1, 2)


async def handle(
    broker: Broker, request: RenewDelegationTokenRequest, call: Call
) -> RenewDelegationTokenResponse:
    tokens = broker.delegation_tokens
    try:
        check_sender(broker, call)
        end = await tokens.renew(call.principal, request.hmac, request.renew_period_ms)
    except ApplianceError as error:
        return RenewDelegationTokenResponse(
            error_code=error.kafka_code, expiry_timestamp_ms=NO_TIME
        )
    return RenewDelegationTokenResponse(expiry_timestamp_ms=end)
