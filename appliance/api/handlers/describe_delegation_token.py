"""DescribeDelegationToken 1-3: tokens, of some owners or of all, with their HMACs.

An empty list of owners gets no tokens, none at all gets those of everybody, as in Kafka. A named
owner stands for tokens that he owns, asked for or may renew. Who may ask for tokens at all: see
CreateDelegationToken.

Rights: none for tokens that the client owns, asked for or may renew; of others DESCRIBE on the
delegation token, by its id, or DESCRIBE_TOKENS on the user who owns it. What may not be seen is
left out. Whoever sees a token can log in by it.

Left out: nothing.
"""

from __future__ import annotations

from appliance.access.acls import Operation, ResourceType
from appliance.access.delegation_token_rows import DelegationToken
from appliance.access.principal import Principal
from appliance.api.handlers.call import Call
from appliance.api.handlers.delegation_token_requests import check_sender
from appliance.broker.broker import Broker
from appliance.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

KEY = 41
VERSIONS = (1, 3)

Described = DescribeDelegationTokenResponse.DescribedDelegationToken
Renewer = DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer


def handle(
    broker: Broker, request: DescribeDelegationTokenRequest, call: Call
) -> DescribeDelegationTokenResponse:
    check_sender(broker, call)
    owners = None
    if request.owners is not None:
        owners = {Principal(each.principal_type, each.principal_name) for each in request.owners}
    found = [
        each
        for each in broker.delegation_tokens.all()
        if (owners is None or owners & has_part_in(each)) and may_see(call, each)
    ]
    return DescribeDelegationTokenResponse(
        tokens=[_row(each, broker.delegation_tokens.hmac_of(each.id)) for each in found]
    )


def has_part_in(token: DelegationToken) -> set[Principal]:
    return {token.owner, token.requester, *token.renewers}


def may_see(call: Call, token: DelegationToken) -> bool:
    return (
        call.principal in has_part_in(token)
        or call.may(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id)
        or call.may(Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
    )


def _row(token: DelegationToken, hmac: bytes) -> Described:
    return Described(
        token.owner.kind, token.owner.name, token.requester.kind, token.requester.name,
        token.issued_ms, token.expires_ms, token.max_ms, token.id, hmac,
        [Renewer(each.kind, each.name) for each in token.renewers],
    )  # fmt: skip
