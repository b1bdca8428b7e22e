"""Delegation tokens: whose they are, how long they are good, and what is kept of them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.access import delegation_tokens
from appliance.access.delegation_token_rows import DelegationToken, DelegationTokenRows
from appliance.access.delegation_tokens import DelegationTokens, key_of
from appliance.access.kept_per_address import Kept
from appliance.access.principal import Principal
from appliance.access.scram_keys import fits
from appliance.access.user_rows import User, UserRows
from appliance.access.users import UserTable
from appliance.catalog.catalog import NAME, Catalog
from appliance.catalog.facts import Facts
from appliance.config import DelegationTokensConfig, KeptConfig, SettingInvalid
from appliance.errors import ApplianceError
from appliance.process.detached_tasks import Changes
from appliance.protocol import ErrorCode

ANN, BOB, EVE = (Principal("User", name) for name in ("ann", "bob", "eve"))
SHA_256, SHA_512 = 1, 2
HOUR, DAY = 3_600_000, 24 * 3_600_000


class Site:
    """Tokens of a catalog. Ann is in the table of users, and others are not."""

    def __init__(self, path: Path, **config: Any) -> None:
        self.now = 1_700_000_000_000
        self.loop = asyncio.new_event_loop()
        self.path, self.config = path, DelegationTokensConfig(**config)
        self._open()
        self.run(self.users.put(User("ann")))

    def _open(self, entities_max: int = 1000) -> None:
        self.catalog = Catalog.open(self.path / NAME)
        kept = Kept.of_entities(KeptConfig(entities_max=entities_max))
        self.users = UserTable(UserRows(self.catalog), Facts(Changes()), kept)
        self.tokens = DelegationTokens(
            DelegationTokenRows(self.catalog), self.users, kept, self.config, lambda: self.now
        )

    def run(self, job: Any) -> Any:
        return self.loop.run_until_complete(job)

    def again(self, entities_max: int = 1000, **config: Any) -> None:
        self.run(self.tokens.settled())
        self.catalog.close()
        self.config = replace(self.config, **config)
        self._open(entities_max)

    def make(
        self, owner: Principal = ANN, *renewers: Principal, lifetime_ms: int = -1
    ) -> DelegationToken:
        found: DelegationToken = self.run(
            self.tokens.create(owner, ANN, renewers, lifetime_ms))
        return found

    def sweep(self) -> int:
        async def sweep() -> int:
            count = self.tokens.sweep()
            await self.tokens.settled()
            return count

        return int(self.run(sweep()))

    def ids(self) -> set[str]:
        return {each.id for each in self.tokens.all()}

    def lets_in(self, token: DelegationToken, secret: bytes | None = None) -> Principal | None:
        """Who a client is that logs in by it."""
        secret = self.tokens.hmac_of(token.id) if secret is None else secret
        password = base64.b64encode(secret).decode()
        found = [self.tokens.to_log_in(token.id, each) for each in (SHA_256, SHA_512)]
        fit = [fits(each.credential, password) for each in found]
        assert fit[0] == fit[1]
        return Principal("User", found[0].proven.name) if fit[0] else None


@pytest.fixture
def site(tmp_path: Path) -> Any:
    made = Site(tmp_path)
    yield made
    made.run(made.tokens.settled())
    made.catalog.close()
    made.loop.close()


def refusal(job: Callable[[], object]) -> int:
    with pytest.raises(ApplianceError) as error:
        job()
    return error.value.kafka_code


def test_a_token_lets_its_owner_in_until_its_end(site: Site) -> None:
    token = site.make(BOB)
    assert (token.issued_ms, token.expires_ms, token.max_ms) == (
        site.now, site.now + DAY, site.now + 7 * DAY)
    assert site.lets_in(token) == BOB
    proven = site.tokens.to_log_in(token.id, SHA_512).proven
    assert (proven.expires_ms, proven.is_by_token) == (token.expires_ms, True)
    assert site.lets_in(token, b"x" * 64) is None
    site.now = token.expires_ms
    assert site.lets_in(token) is None


def test_the_secret_is_kafkas_hmac_of_the_id_and_is_not_kept(site: Site) -> None:
    token = site.make()
    (key,) = site.catalog.rows("SELECT secret FROM delegation_token_key")[0]
    secret = hmac.new(key, token.id.encode(), hashlib.sha512).digest()
    assert site.tokens.hmac_of(token.id) == secret
    tables = ("delegation_tokens", "delegation_token_credentials")
    kept = repr([site.catalog.rows(f"SELECT * FROM {each}") for each in tables])
    assert repr(secret)[2:-1] not in kept
    assert base64.b64encode(secret).decode() not in kept


def test_a_token_that_does_not_exist_looks_like_one_that_does(site: Site) -> None:
    token = site.make()
    strange = [site.tokens.to_log_in("no such token", SHA_256).credential for _ in range(2)]
    assert strange[0] == strange[1]
    real = site.tokens.to_log_in(token.id, SHA_256).credential
    assert (len(strange[0].salt), strange[0].iterations) == (len(real.salt), real.iterations)


def test_a_client_may_want_less_and_not_more(site: Site) -> None:
    token = site.make(lifetime_ms=HOUR)
    assert (token.expires_ms, token.max_ms) == (site.now + HOUR, site.now + HOUR)
    assert site.make(lifetime_ms=2**63 - 1).max_ms == site.now + 7 * DAY
    assert site.make(lifetime_ms=0).max_ms == site.now + 7 * DAY


def test_owner_and_renewers_renew_it_and_nobody_else(site: Site) -> None:
    token = site.make(BOB, EVE)
    secret = site.tokens.hmac_of(token.id)

    def renew(who: Principal, period_ms: int = -1, of: bytes = secret) -> int:
        return int(site.run(site.tokens.renew(who, of, period_ms)))

    site.now += 12 * HOUR
    assert renew(BOB) == renew(EVE) == site.now + DAY
    assert renew(EVE, HOUR) == site.now + HOUR
    assert renew(BOB, 5 * DAY) == site.now + DAY
    # who asked for it is not its owner
    assert refusal(lambda: renew(ANN)) == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert refusal(lambda: renew(BOB, of=b"x" * 64)) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    for _ in range(13):
        site.now += 12 * HOUR
        last = token.max_ms if site.now + DAY > token.max_ms else site.now + DAY
        if site.now < token.max_ms:
            assert renew(BOB) == last
    site.now = token.max_ms
    assert refusal(lambda: renew(BOB)) == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert site.sweep() == 1
    assert refusal(lambda: renew(BOB)) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_it_is_ended_at_once_or_later(site: Site) -> None:
    now, later = site.make(BOB), site.make(BOB)

    def expire(token: DelegationToken, period_ms: int, who: Principal = BOB) -> int:
        secret = site.tokens.hmac_of(token.id)
        return int(site.run(site.tokens.expire(who, secret, period_ms)))

    assert refusal(lambda: expire(now, -1, EVE)) == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert site.lets_in(now) == BOB
    assert expire(now, -1) == -1
    assert site.lets_in(now) is None
    assert expire(later, HOUR) == site.now + HOUR
    assert expire(later, 30 * DAY) == later.max_ms
    assert expire(later, HOUR) == site.now + HOUR
    site.again()
    assert site.ids() == {later.id}
    assert site.tokens.all()[0].expires_ms == site.now + HOUR


def test_tokens_outlive_a_restart(site: Site) -> None:
    tokens = [site.make(BOB, EVE, ANN), site.make(ANN, lifetime_ms=HOUR)]
    secrets = [site.tokens.hmac_of(each.id) for each in tokens]
    site.again()
    assert sorted(site.tokens.all(), key=str) == sorted(tokens, key=str)
    assert [site.tokens.hmac_of(each.id) for each in tokens] == secrets
    assert [site.lets_in(each) for each in tokens] == [BOB, ANN]


def test_what_is_over_is_removed_with_all_that_was_kept_of_it(site: Site) -> None:
    short, long = site.make(lifetime_ms=HOUR), site.make()
    site.now += HOUR
    assert site.sweep() == 1
    assert site.ids() == {long.id}
    rows = site.catalog.rows("SELECT DISTINCT token FROM delegation_token_credentials")
    assert rows == [(long.id,)]
    assert site.sweep() == 0
    assert short.id not in repr(site.catalog.rows("SELECT id FROM delegation_tokens"))


def test_tokens_of_a_user_go_with_him(site: Site) -> None:
    ann, bob = site.make(ANN), site.make(BOB)

    async def remove() -> None:
        await site.users.change(lambda: site.users.remove("ann", site.now))
        assert site.tokens.to_log_in(ann.id, SHA_256).proven.expires_ms == 0  # at once
        await site.tokens.settled()

    site.run(remove())
    assert site.ids() == {bob.id}
    site.run(site.users.put(User("ann")))
    assert site.lets_in(ann) is None
    site.again()
    assert site.ids() == {bob.id}


def test_with_another_key_tokens_from_before_are_void(site: Site, tmp_path: Path) -> None:
    old = site.make()
    file = tmp_path / "key"
    file.write_text("a key of sixteen and more\n")
    site.again(secret_key_file=file)
    assert site.lets_in(old) is None
    assert site.sweep() == 1
    new = site.make()
    expected = hmac.new(b"a key of sixteen and more", new.id.encode(), hashlib.sha512).digest()
    assert site.tokens.hmac_of(new.id) == expected
    site.again()
    assert site.lets_in(new) == ANN


@pytest.mark.parametrize("text", [None, "", "too short"])
def test_a_key_file_that_is_none_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "key").write_text(text)
    with pytest.raises(SettingInvalid, match=r"delegation\.token\.secret\.key\.file"):
        key_of(tmp_path / "key")


def test_what_clients_name_is_bounded(site: Site) -> None:
    group, long = Principal("Group", "g"), Principal("User", "x" * 2000)
    assert refusal(lambda: site.make(group)) == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert refusal(lambda: site.make(ANN, group)) == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert refusal(lambda: site.make(ANN, long)) == ErrorCode.INVALID_REQUEST
    assert refusal(lambda: site.make(ANN, Principal("User", ""))) == ErrorCode.INVALID_REQUEST
    many = [Principal("User", str(i)) for i in range(delegation_tokens.RENEWERS_MAX + 1)]
    assert refusal(lambda: site.make(ANN, *many)) == ErrorCode.INVALID_REQUEST
    site.again(entities_max=2)
    site.make()
    site.make()
    assert refusal(site.make) == ErrorCode.POLICY_VIOLATION
    assert len(site.ids()) == 2
    site.now += 7 * DAY
    assert site.sweep() == 2
    assert len({site.make().id, site.make().id}) == 2  # there is room again
