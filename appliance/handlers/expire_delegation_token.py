"""ExpireDelegationToken 1-2: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as of CreateDelegationToken.

Left out: delegation tokens.
"""

from __future__ import annotations

from appliance.broker import Broker
from appliance.handlers.call import Call
from appliance.wire import ErrorCode
from appliance.wire.expire_delegation_token import (
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
