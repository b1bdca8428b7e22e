"""CreateDelegationToken 1-3: a login that the client may hand on, with an end; durable before the
answer.

The token is good for `delegation.token.expiry.time.ms`, can be renewed by its owner and by the
named renewers, and is over after `delegation.token.max.lifetime.ms` or what the client wants less.
Clients log in with it by SCRAM: the id is the name, the HMAC in base64 the password, and
`tokenauth=true`. On a listener without logins, for who is anonymous, and for who logged in by a
token itself: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED. Owner and renewers are of type User
(INVALID_PRINCIPAL_TYPE); there are at most 100 renewers.

Rights: CREATE_TOKENS on the user, where the owner is somebody else; none for an own token.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Operation, ResourceType
from appliance.access.delegation_tokens import check
from appliance.access.principal import Principal
from appliance.api.handlers.call import Call
from appliance.api.handlers.delegation_token_requests import NO_TIME, check_sender
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError, Refused
from appliance.protocol import ErrorCode
from appliance.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

KEY = 38
VERSIONS = (1, 3)


async def handle(
    broker: Broker, request: CreateDelegationTokenRequest, call: Call
) -> CreateDelegationTokenResponse:
    requester = owner = call.principal
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    answer = CreateDelegationTokenResponse(
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )
    try:
        check_sender(broker, call)
        check_owner(call, owner)
        renewers = [Principal(it.principal_type, it.principal_name) for it in request.renewers]
        check(owner, renewers)
        made = await broker.delegation_tokens.create(
            owner, requester, renewers, request.max_lifetime_ms
        )
    except ApplianceError as error:  # the answer says for whom, also then
        answer.error_code = error.kafka_code
        return answer
    answer.issue_timestamp_ms = made.issued_ms
    answer.expiry_timestamp_ms = made.expires_ms
    answer.max_timestamp_ms = made.max_ms
    answer.token_id, answer.hmac = made.id, broker.delegation_tokens.hmac_of(made.id)
    return answer


def check_owner(call: Call, owner: Principal) -> None:
    if owner != call.principal and not call.may(
        Operation.CREATE_TOKENS, ResourceType.USER, str(owner)
    ):
        raise Refused(
            ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
            f"{call.principal} may not make tokens of {owner}",
        )
