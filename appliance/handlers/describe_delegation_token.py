"""DescribeDelegationToken 1-3: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as of CreateDelegationToken.

Left out: delegation tokens.
"""

from __future__ import annotations

from appliance.broker import Broker
from appliance.handlers.call import Call
from appliance.wire import ErrorCode
from appliance.wire.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

KEY = 41
VERSIONS = (1, 3)


def handle(
    broker: Broker, request: DescribeDelegationTokenRequest, call: Call
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    )
