"""Logins of connections: what follows what, how often may be tried, and what a client is told."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from appliance.access.audit import Asking, AuditTrail
from appliance.access.login_attempts import BURSTS, LoginAttempts
from appliance.access.logins import OTHER, REFUSED, Answer, Asker, ListenerLogins, Logins
from appliance.access.principal import ANONYMOUS, Principal
from appliance.access.sasl import Exchange, LoginFailed, Proven, Work
from appliance.config import AccessConfig
from appliance.config.access import MECHANISMS
from appliance.errors import Refused
from appliance.protocol import ErrorCode

ANN, EVE = Principal("User", "ann"), Principal("User", "eve")
NOW_MS = 1_700_000_000_000


@dataclass
class Plane:
    logged_in: dict[int, tuple[str, int]] = field(default_factory=dict)
    ended: list[tuple[int, int]] = field(default_factory=list)
    raw: list[int] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)

    def log_in(self, connection: int, principal: str, expires_ns: int = 0) -> None:
        self.logged_in[connection] = (principal, expires_ns)

    def close_after(self, connection: int, slot: int) -> None:
        self.ended.append((connection, slot))

    def expect_raw(self, connection: int) -> None:
        self.raw.append(connection)

    def close(self, connection: int) -> None:
        self.closed.append(connection)


@dataclass
class Audit:
    seen: list[Asking] = field(default_factory=list)
    missed: list[tuple[Asking, bool]] = field(default_factory=list)

    def logged_in(self, asking: Asking) -> None:
        self.seen.append(asking)

    def failed(self, asking: Asking, *, is_refused: bool = False) -> None:
        self.missed.append((asking, is_refused))


class Spoken:
    """A mechanism of one message, NAME:PASSWORD or NAME:PASSWORD:SECONDS."""

    def __init__(self, work: Callable[[], None] | None = None) -> None:
        self.claimed = ""
        self.proven: Proven | None = None
        self._work = work

    def step(self, data: bytes) -> bytes | Work:
        self.claimed, password, *rest = data.decode().split(":")

        def check() -> bytes:
            if self._work is not None:
                self._work()
            if password != "right":
                raise LoginFailed("the password is wrong, and this is for the log")
            self.proven = Proven(self.claimed, NOW_MS + int(rest[0]) * 1000 if rest else None)
            return b"welcome"

        return check() if self._work is None else check


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**given: Any) -> None:
        asyncio.run(test(**given))

    return run


class Site:
    """Logins of one listener that asks, and one that does not."""

    def __init__(self, work: Callable[[], None] | None = None, **access: Any) -> None:
        self.now = [0.0]
        config = replace(AccessConfig(failed_delay_ms=1), **access)

        def make() -> Exchange:
            return Spoken(work)

        mechanisms = dict.fromkeys(("SPOKEN", "OTHER", *MECHANISMS), make)
        listeners = [ListenerLogins("A", True, config, mechanisms),
                     ListenerLogins("B", False, config, {})]
        self.attempts = LoginAttempts(lambda: self.now[0])
        self.audit = Audit()
        audit = cast(AuditTrail, self.audit)
        self.logins = Logins(listeners, config, self.attempts, audit, lambda: NOW_MS)
        self.plane = Plane()
        self.logins.connect(self.plane)

    def begin(self, connection: int = 1, mechanism: str = "SPOKEN", is_raw: bool = False) -> None:
        self.logins.begin(self.asker(connection), mechanism, is_raw=is_raw)

    def asker(self, connection: int = 1, peer: str = "10.0.0.1", listener: int = 0) -> Asker:
        return Asker(connection, 7, peer, listener)

    async def step(self, text: str, connection: int = 1, peer: str = "10.0.0.1") -> Answer:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.logins.step(self.asker(connection, peer), text.encode(), answered.set_result)
        return await asyncio.wait_for(answered, 10)

    async def log_in(self, text: str, connection: int = 1, peer: str = "10.0.0.1") -> Answer:
        self.begin(connection)
        return await self.step(text, connection, peer)


def code_of(answer: Answer) -> int:
    return 0 if answer.error is None else int(answer.error.kafka_code)


@on_loop
async def test_a_login_is_of_its_connection() -> None:
    site = Site()
    assert await site.log_in("ann:right") == Answer(b"welcome")
    assert site.logins.principal_of(1) == ANN
    assert site.logins.principal_of(2) == ANONYMOUS
    assert site.plane.logged_in == {1: ("User:ann", 0)}
    site.logins.gone(1)
    assert site.logins.principal_of(1) == ANONYMOUS
    assert site.plane.ended == []


@on_loop
async def test_a_refusal_says_the_same_whatever_is_wrong() -> None:
    site = Site()
    answers = [await site.log_in(text, i)
               for i, text in enumerate(("ann:wrong", "nobody:x", "ann:right:-5"))]
    assert {str(each.error) for each in answers} == {REFUSED}
    assert {code_of(each) for each in answers} == {ErrorCode.SASL_AUTHENTICATION_FAILED}
    assert {each.data for each in answers} == {b""}
    assert site.plane.ended == [(0, 7), (1, 7), (2, 7)]
    assert site.plane.logged_in == {}
    assert site.logins.principal_of(0) == ANONYMOUS


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (lambda site: site.begin(mechanism="GSSAPI"), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (lambda site: site.logins.begin(site.asker(listener=1), "SPOKEN", is_raw=False),
         ErrorCode.ILLEGAL_SASL_STATE),
        (lambda site: [site.begin(), site.begin()], ErrorCode.ILLEGAL_SASL_STATE),
    ],
    ids=["a mechanism that is not there", "a listener without logins", "a second handshake"],
)  # fmt: skip
@on_loop
async def test_a_handshake_out_of_place_ends_the_connection(
    asked: Callable[[Site], object], code: int
) -> None:
    site = Site()
    with pytest.raises(Refused) as refused:
        asked(site)
    assert refused.value.kafka_code == code
    assert site.plane.ended == [(1, 7)]


@on_loop
async def test_a_message_without_a_handshake_ends_the_connection() -> None:
    site = Site()
    assert code_of(await site.step("ann:right")) == ErrorCode.ILLEGAL_SASL_STATE
    await site.log_in("ann:right", 2)
    assert code_of(await site.step("ann:right", 2)) == ErrorCode.ILLEGAL_SASL_STATE
    assert site.plane.ended == [(1, 7), (2, 7)]


@on_loop
async def test_a_login_for_good_cannot_be_made_anew() -> None:
    site = Site()
    await site.log_in("ann:right")
    with pytest.raises(Refused):
        site.begin()


@on_loop
async def test_who_has_to_log_in_again_stays_the_same() -> None:
    site = Site(reauth_ms_max=5000)
    before = time.monotonic_ns()
    assert (await site.log_in("ann:right")).lifetime_ms == 5000
    principal, end_ns = site.plane.logged_in[1]
    assert principal == "User:ann"
    assert before < end_ns - 5_000_000_000 < time.monotonic_ns()
    assert (await site.log_in("ann:right")).lifetime_ms == 5000
    assert site.plane.logged_in[1][1] > end_ns
    with pytest.raises(Refused):
        site.begin(mechanism="OTHER")
    site.plane.ended.clear()
    answer = await site.log_in("eve:right")
    assert str(answer.error) == REFUSED
    assert site.plane.ended == [(1, 7)]
    assert site.logins.principal_of(1) == ANN
    assert site.plane.logged_in[1][0] == "User:ann"


@on_loop
async def test_the_end_is_the_sooner_of_two() -> None:
    site = Site(reauth_ms_max=5000)
    assert (await site.log_in("ann:right:3", 1)).lifetime_ms == 3000
    assert (await site.log_in("ann:right:9", 2)).lifetime_ms == 5000
    site = Site()
    assert (await site.log_in("ann:right:3", 1)).lifetime_ms == 3000


@on_loop
async def test_messages_without_headers_are_announced() -> None:
    site = Site()
    site.begin(is_raw=True)
    assert site.plane.raw == [1]
    assert (await site.step("ann:right")).data == b"welcome"


@on_loop
async def test_too_many_failures_are_refused_before_anything_is_looked_at() -> None:
    site = Site()
    for i in range(BURSTS["pair"][0]):
        await site.log_in("ann:wrong", i)
    looked: list[str] = []
    assert code_of(await refused_early(site, looked, 90)) == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert looked == []
    assert (await site.log_in("ann:right", 91, peer="10.0.0.2")).error is None
    site.now[0] += BURSTS["pair"][1] + 1
    assert (await site.log_in("ann:right", 92)).error is None


async def refused_early(site: Site, looked: list[str], connection: int) -> Answer:
    """The right password, of a mechanism that knows the name before its last message."""
    site.begin(connection)
    login = site.logins._logins[connection]
    assert login.exchange is not None
    login.exchange.claimed = "ann"

    def step(data: bytes) -> bytes:
        looked.append("looked")
        return b""

    login.exchange.step = step  # type: ignore[method-assign]
    return await site.step("ann:right", connection)


@on_loop
async def test_guesses_from_elsewhere_do_not_keep_out_who_was_here_before() -> None:
    site = Site(work=lambda: None)
    await site.log_in("ann:right", 1)
    for i in range(BURSTS["name"][0] + 5):
        await site.log_in("ann:wrong", 100 + i, peer=f"10.1.{i}.1")
    refused = await site.log_in("ann:right", 2, peer="10.9.9.9")
    assert refused.error is not None
    assert (await site.log_in("ann:right", 3)).error is None
    await site.logins.close()


@on_loop
async def test_guesses_beside_a_program_do_not_keep_it_out() -> None:
    """Of the same address, as of another program on the machine."""
    site = Site()
    await site.log_in("ann:right", 1)
    for i in range(BURSTS["pair"][0] + 5):
        await site.log_in("ann:wrong", 100 + i)
    looked: list[str] = []
    assert (await refused_early(site, looked, 2)).error is None
    assert looked == ["looked"]


@on_loop
async def test_guesses_there_are_bounded_too_and_a_right_login_does_not_make_room() -> None:
    site = Site()
    await site.log_in("ann:right", 1)
    for i in range(BURSTS["place"][0]):
        await site.log_in("ann:wrong", 100 + i)
        if i % 10 == 0:
            assert (await site.log_in("ann:right", 200 + i)).error is None
    looked: list[str] = []
    assert (await refused_early(site, looked, 90)).error is not None
    assert looked == []
    site.now[0] += BURSTS["place"][1] + 0.1
    assert (await site.log_in("ann:right", 92)).error is None


@on_loop
async def test_many_guesses_at_once_are_no_way_around() -> None:
    looked: list[None] = []
    site = Site(work=lambda: looked.append(None), login_threads=1)
    for i in range(50):
        site.begin(i)
    answers = await asyncio.gather(*(site.step("ann:wrong", i) for i in range(50)))
    assert {code_of(each) for each in answers} == {ErrorCode.SASL_AUTHENTICATION_FAILED}
    assert len(looked) <= BURSTS["pair"][0] + 1
    await site.logins.close()


@on_loop
async def test_more_logins_than_may_wait_are_refused_and_count_for_nothing() -> None:
    go_on = threading.Event()
    site = Site(work=lambda: go_on.wait(10) and None, logins_max=2, login_threads=1)
    for i in range(3):
        site.begin(i)
    waiting = [asyncio.ensure_future(site.step(f"u{i}:right", i)) for i in range(2)]
    await asyncio.sleep(0)
    assert code_of(await site.step("u2:right", 2)) == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert site.attempts.failures("10.0.0.1", "u2", None) == 0
    go_on.set()
    assert [code_of(each) for each in await asyncio.gather(*waiting)] == [0, 0]
    await site.logins.close()


@on_loop
async def test_each_failure_takes_longer_to_be_told() -> None:
    site = Site(failed_delay_ms=10)
    begin = time.monotonic()
    await site.log_in("ann:wrong", 1)
    first = time.monotonic()
    await site.log_in("ann:wrong", 2)
    await site.log_in("ann:wrong", 3)
    last = time.monotonic()
    assert first - begin >= 0.010
    assert last - first >= 0.020 + 0.040


@on_loop
async def test_who_waits_for_a_refusal_is_told_at_a_stop() -> None:
    site = Site(failed_delay_ms=1000)
    for _ in range(5):
        site.attempts.count("10.0.0.1", "ann", None)  # so it takes half a minute
    site.begin()
    waiting = asyncio.ensure_future(site.step("ann:wrong"))
    await asyncio.sleep(0)
    begin = time.monotonic()
    site.logins.stop()
    assert code_of(await waiting) == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert time.monotonic() - begin < 20


@on_loop
async def test_a_connection_that_is_gone_is_not_logged_in() -> None:
    site = Site(work=lambda: None)
    site.begin()
    waiting = asyncio.ensure_future(site.step("ann:right"))
    await asyncio.sleep(0)
    site.logins.gone(1)
    await waiting
    assert site.plane.logged_in == {}
    assert site.logins.principal_of(1) == ANONYMOUS
    await site.logins.close()


@pytest.mark.parametrize(
    ("withdrawn", "closed"),
    [(None, {1, 2, 3, 4}), ({1}, {1, 3}), ({2}, {2, 3}), ({1, 2}, {1, 2, 3})],
)
@on_loop
async def test_what_was_withdrawn_ends_the_connections_that_rest_on_it(
    withdrawn: set[int] | None, closed: set[int]
) -> None:
    """Of that user alone; a token of OAUTHBEARER is no credential of ours."""
    site = Site()
    for connection, mechanism in enumerate(
        ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"), 1
    ):
        site.begin(connection, mechanism)
        await site.step("ann:right", connection)
        site.begin(connection + 10, mechanism)
        await site.step("eve:right", connection + 10)
    site.logins.withdraw("ann", withdrawn)
    assert set(site.plane.closed) == closed


@on_loop
async def test_a_login_that_is_under_way_with_what_was_withdrawn_ends_too() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert may_end.wait(10)

    site = Site(wait)
    site.begin(1, "PLAIN")
    answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    site.logins.step(site.asker(1), b"ann:right", answered.set_result)
    assert await asyncio.to_thread(begun.wait, 10)
    site.logins.withdraw("ann", {1})
    assert site.plane.closed == [1]
    may_end.set()
    await asyncio.wait_for(answered, 10)


@on_loop
async def test_logins_and_failed_ones_are_in_the_audit_trail_and_counted() -> None:
    site = Site()
    await site.log_in("ann:right")
    await site.log_in("ann:wrong", 2)
    assert site.audit.seen == [Asking("ann", "10.0.0.1", "kafka", "SPOKEN")]
    assert site.audit.missed == [(Asking("ann", "10.0.0.1", "kafka", "SPOKEN"), False)]
    counts = site.logins.counts
    assert counts.succeeded == counts.failed == Counter({("A", "SPOKEN"): 1})


@on_loop
async def test_renewals_and_mechanisms_that_are_not_offered_are_counted_apart() -> None:
    site = Site(reauth_ms_max=60_000)
    await site.log_in("ann:right")
    await site.log_in("ann:right")
    await site.log_in("eve:right")
    with pytest.raises(Refused):
        site.begin(2, "MADE-UP")
    counts = site.logins.counts
    assert counts.succeeded == counts.renewed == Counter({("A", "SPOKEN"): 1})
    assert counts.not_renewed == Counter({("A", "SPOKEN"): 1})
    assert counts.failed == Counter({("A", OTHER): 1})


# A bound for all

@on_loop
async def test_beyond_a_rate_of_failures_those_who_were_not_here_before_are_refused() -> None:
    site = Site(lambda: None)
    site.logins.limit_failures(3, 0)
    assert code_of(await site.log_in("ann:right", 1, "10.0.0.1")) == 0
    for i in range(2, 5):
        await site.log_in(f"name{i}:wrong", i, f"10.0.1.{i}")
    refused = await site.log_in("bob:right", 6, "10.0.2.1")
    assert str(refused.error) == REFUSED
    assert site.audit.missed[-1] == (Asking("bob", "10.0.2.1", "kafka", "SPOKEN"), True)
    assert code_of(await site.log_in("ann:right", 7, "10.0.0.1")) == 0
    site.now[0] += 0.4  # one of them is forgotten
    assert code_of(await site.log_in("bob:right", 8, "10.0.2.1")) == 0


@on_loop
async def test_the_bound_of_all_listeners_holds_beside_that_of_one() -> None:
    site = Site(lambda: None)
    site.logins.limit_failures(1)
    site.logins.limit_failures(9, 0)
    await site.log_in("ann:wrong")
    assert code_of(await site.log_in("bob:right", 2, "10.0.2.1")) != 0
    site.logins.limit_failures(0)
    assert code_of(await site.log_in("bob:right", 3, "10.0.2.1")) == 0
