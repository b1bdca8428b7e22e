"""ExpireDelegationToken 1-2: a token, named by its HMAC, ends at another time, or now (a period
below 0); durable before the answer.

Nobody logs in by it from then on; who has is not cut off before the end that the token had at the
login. Errors: see RenewDelegationToken.

Rights: none of rules; the client is the owner or a renewer (DELEGATION_TOKEN_OWNER_MISMATCH).

Left out: nothing.
"""

from __future__ import annotations

from appliance.api.handlers.call import Call
from appliance.api.handlers.delegation_token_requests import NO_TIME, check_sender
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

KEY = 40
VERSIONS = (1, 2)


async def handle(
    broker: Broker, request: ExpireDelegationTokenRequest, call: Call
) -> ExpireDelegationTokenResponse:
    tokens = broker.delegation_tokens
    try:
        check_sender(broker, call)
        end = await tokens.expire(call.principal, request.hmac, request.expiry_time_period_ms)
    except ApplianceError as error:
        return ExpireDelegationTokenResponse(
            error_code=error.kafka_code, expiry_timestamp_ms=NO_TIME
        )
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=end)
