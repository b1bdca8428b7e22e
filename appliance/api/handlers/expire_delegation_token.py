"""ExpireDelegationToken 1-2: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, see CreateDelegationToken.

Rights: none, since there are no tokens.

Left out: delegation tokens.
"""

from __future__ import annotations

from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.protocol import ErrorCode
from appliance.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

KEY = 40
VERSIONS = (1, 2)

NO_TIME = -1


def handle(
    broker: Broker, request: ExpireDelegationTokenRequest, call: Call
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIME
    )
