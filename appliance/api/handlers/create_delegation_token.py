"""CreateDelegationToken 1-3: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, Kafka's answer to clients
without a login: a token represents an authenticated user, and there is none.

Rights: none, since there are no tokens.

Left out: delegation tokens. They may follow after logins.
"""

from __future__ import annotations

from appliance.access.client_quotas import ANONYMOUS
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.protocol import ErrorCode
from appliance.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

KEY = 38
VERSIONS = (1, 3)

NO_TIME = -1
USER = "User"


def handle(
    broker: Broker, request: CreateDelegationTokenRequest, call: Call
) -> CreateDelegationTokenResponse:
    is_for_another = bool(request.owner_principal_name)
    return CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type=(request.owner_principal_type or "") if is_for_another else USER,
        principal_name=(request.owner_principal_name or "") if is_for_another else ANONYMOUS,
        token_requester_principal_type=USER,
        token_requester_principal_name=ANONYMOUS,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )
