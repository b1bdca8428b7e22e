"""Requests about delegation tokens: who may send them, and whose tokens are made and seen."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.access.acls import Acl, Operation, PatternType, PermissionType, ResourceType
from appliance.access.principal import ANONYMOUS, Principal
from appliance.access.user_rows import User
from appliance.config import AccessConfig
from appliance.config.access import STANDARD_AUTHORIZER
from appliance.config.listeners import Listeners
from appliance.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from appliance.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from appliance.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from appliance.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from appliance.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from appliance.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.control import Control
from tests.support.scram_client import ScramClient

ANN, BOB, EVE = (Principal("User", name) for name in ("ann", "bob", "eve"))
NOT_ALLOWED, NO_RIGHT, OWNER_MISMATCH = 64, 65, 63
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY


class Site:
    """A listener that asks for logins, and clients that have passed it."""

    def __init__(self, path: Path) -> None:
        access = AccessConfig(authorizer=STANDARD_AUTHORIZER, failed_delay_ms=0)
        listeners = Listeners.parse("SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0")
        self.control = Control(path, access=access, listeners=listeners)
        self.broker = self.control.broker
        self.control.run(self.broker.users.put(User("ann")))
        self.by_login = self.broker.logins.principal_of
        self.who: Principal | None = ANN
        self.broker.logins.principal_of = self._principal  # type: ignore[method-assign]

    def _principal(self, connection: int) -> Principal:
        return self.by_login(connection) if self.who is None else self.who

    def ask(self, request: Any, version: int, who: Principal | None = ANN) -> Any:
        """None: who logged in at the connection."""
        self.who = who
        return self.control.ask(request, version)

    def create(
        self, who: Principal | None = ANN, owner: Principal | None = None, *renewers: Principal
    ) -> Any:
        kind, name = (owner.kind, owner.name) if owner else (None, None)
        made = [CreateDelegationTokenRequest.CreatableRenewers(it.kind, it.name) for it in renewers]
        return self.ask(CreateDelegationTokenRequest(kind, name, made, -1), 3, who)

    def seen(self, who: Principal, *owners: Principal, of_all: bool = False) -> set[str]:
        rows = [DescribeDelegationTokenRequest.DescribeDelegationTokenOwner(it.kind, it.name)
                for it in owners]  # fmt: skip
        answer = self.ask(DescribeDelegationTokenRequest(None if of_all else rows), 3, who)
        assert answer.error_code == 0
        return {each.token_id for each in answer.tokens}

    def rule(
        self, operation: Operation, kind: ResourceType, name: str,
        permission: PermissionType = ALLOW,
    ) -> None:  # fmt: skip
        acl = Acl(kind, name, PatternType.LITERAL, str(EVE), "*", operation, permission)
        assert self.control.run(self.broker.acls.create([acl])) == [None]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.control.close()


def test_a_token_says_whose_it_is_and_until_when(site: Site) -> None:
    made = site.create(ANN, None, EVE)
    assert made.error_code == 0
    assert made.principal_name == made.token_requester_principal_name == "ann"
    assert made.max_timestamp_ms - made.issue_timestamp_ms == 7 * 24 * 3_600_000
    assert made.expiry_timestamp_ms - made.issue_timestamp_ms == 24 * 3_600_000
    asked = DescribeDelegationTokenRequest(None)
    (shown,) = site.ask(asked, 3).tokens
    assert (shown.token_id, shown.hmac, shown.expiry_timestamp) == (
        made.token_id, made.hmac, made.expiry_timestamp_ms)
    assert [each.principal_name for each in shown.renewers] == ["eve"]
    renewed = site.ask(RenewDelegationTokenRequest(made.hmac, 1000), 2, EVE)
    assert renewed.error_code == 0
    assert renewed.expiry_timestamp_ms < made.expiry_timestamp_ms
    answer = site.ask(RenewDelegationTokenRequest(made.hmac, 1000), 2, BOB)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (OWNER_MISMATCH, -1)
    ended = site.ask(ExpireDelegationTokenRequest(made.hmac, -1), 2, ANN)
    assert (ended.error_code, ended.expiry_timestamp_ms) == (0, -1)
    assert site.ask(asked, 3).tokens == []


def test_tokens_of_somebody_else_want_a_right(site: Site) -> None:
    refused = site.create(EVE, BOB)
    assert (refused.error_code, refused.principal_name, refused.hmac) == (NO_RIGHT, "bob", b"")
    site.rule(Operation.CREATE_TOKENS, ResourceType.USER, "User:bob")
    made = site.create(EVE, BOB)
    assert (made.error_code, made.principal_name) == (0, "bob")
    assert made.token_requester_principal_name == "eve"
    assert site.create(EVE, ANN).error_code == NO_RIGHT
    site.rule(Operation.CREATE_TOKENS, ResourceType.USER, "User:bob", DENY)
    assert site.create(EVE, BOB).error_code == NO_RIGHT
    assert site.create(EVE).error_code == 0  # an own one wants none


def test_who_has_no_part_in_a_token_sees_it_by_a_right_alone(site: Site) -> None:
    ann, bob, mine = (site.create(*who).token_id for who in ((ANN,), (BOB,), (ANN, None, EVE)))
    assert site.seen(EVE, of_all=True) == site.seen(EVE, ANN) == {mine}
    site.rule(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, ann)
    assert site.seen(EVE, of_all=True) == site.seen(EVE, ANN) == {mine, ann}
    site.rule(Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:bob")
    assert site.seen(EVE, of_all=True) == {mine, ann, bob}
    assert site.seen(EVE, BOB) == {bob}
    assert site.seen(EVE, EVE) == {mine}
    assert site.seen(EVE) == set()  # none is asked for


@pytest.mark.parametrize("way", ["anonymous", "plain listener", "token"])
def test_who_did_not_log_in_himself_gets_no_tokens(site: Site, way: str) -> None:
    made = site.create()
    who = ANN
    if way == "anonymous":
        who = ANONYMOUS
    elif way == "plain listener":
        config = site.broker.config
        swapped = Listeners(tuple(reversed(config.listeners.all)))
        site.broker.config = replace(config, listeners=swapped)
    else:
        site.broker.logins.is_by_token = lambda connection: True  # type: ignore[method-assign]
    for request, version in (
        (CreateDelegationTokenRequest(max_lifetime_ms=-1), 3),
        (DescribeDelegationTokenRequest(None), 3),
        (RenewDelegationTokenRequest(made.hmac, -1), 2),
        (ExpireDelegationTokenRequest(made.hmac, -1), 2),
    ):
        assert site.ask(request, version, who).error_code == NOT_ALLOWED
    assert len(site.broker.delegation_tokens.all()) == 1


def test_a_login_by_a_token_is_its_owners_and_is_known_as_one(site: Site) -> None:
    made = site.create()
    password = base64.b64encode(made.hmac).decode()
    client = ScramClient("SCRAM-SHA-512", made.token_id, password, is_token=True)
    assert site.ask(SaslHandshakeRequest("SCRAM-SHA-512"), 1, None).error_code == 0
    first = site.ask(SaslAuthenticateRequest(client.first()), 2, None)
    last = site.ask(SaslAuthenticateRequest(client.final(first.auth_bytes)), 2, None)
    assert last.error_code == 0
    client.check(last.auth_bytes)
    assert 0 < last.session_lifetime_ms <= 24 * 3_600_000
    assert site.by_login(1) == ANN
    assert site.broker.logins.is_by_token(1)
    assert site.create(None).error_code == NOT_ALLOWED
