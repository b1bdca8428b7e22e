"""A delegation token as a fact of a cluster."""

from __future__ import annotations

from collections.abc import Collection

from appliance.access import user_facts
from appliance.access.delegation_token_rows import DelegationToken
from appliance.access.principal import Principal
from appliance.access.user_rows import Credential
from appliance.catalog.facts import Value, bytes_of, number_of, string_of, text_of


def value_of(token: DelegationToken, credentials: Collection[Credential]) -> Value:
    return {
        "owner": str(token.owner),
        "requester": str(token.requester),
        "renewers": [str(each) for each in token.renewers],
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "max_ms": token.max_ms,
        "digest": text_of(token.digest),
        "is_of_user": int(token.is_of_user),
        "credentials": user_facts.credential_values(credentials),
    }


def read(token_id: str, value: Value) -> tuple[DelegationToken, list[Credential]]:
    token = DelegationToken(
        token_id,
        Principal.parse(string_of(value, "owner")),
        Principal.parse(string_of(value, "requester")),
        tuple(Principal.parse(str(each)) for each in value["renewers"]),
        number_of(value, "issued_ms"),
        number_of(value, "expires_ms"),
        number_of(value, "max_ms"),
        bytes_of(value["digest"]),
        bool(number_of(value, "is_of_user")),
    )
    return token, user_facts.credentials_in(token_id, value)
