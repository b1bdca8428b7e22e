"""DescribeDelegationToken 1-3: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, see CreateDelegationToken.

Rights: none, since there are no tokens.

Left out: delegation tokens.
"""

from __future__ import annotations

from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.protocol import ErrorCode
from appliance.protocol.messages.describe_delegation_token import (
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
