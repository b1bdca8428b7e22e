"""Why a broker cannot follow others, told by itself to who looks at the cluster as a whole."""

from __future__ import annotations

import asyncio

import pytest
from kazoo.exceptions import ConnectionLoss

from appliance.cli.moves.registered import Way, registered
from appliance.client.connection import Address
from appliance.cluster.forms import LivingBroker
from appliance.config.listeners import Listeners, Protocols
from appliance.process.exit_codes import Failed
from tests.support.clusters import Clusters, die, expire, run, until
from tests.support.registration import Looker

PLAIN = Way("PLAINTEXT")


def test_others_hear_of_it_as_long_as_the_broker_says_so(clusters: Clusters, look: Looker) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            assert await one.reasons.of_all() == {}
            await two.reasons.tell(["no leader", "x" * 2000])
            assert await one.reasons.of_all() == {2: ["no leader", f"{'x' * 997}..."]}
            where = f"{look.root}/appliance/reasons/2"
            version = look.client.get(where)[1].czxid
            await two.reasons.tell(["no leader", "x" * 2000])
            assert look.client.get(where)[1].czxid == version, "not written again"
            found, _ = await asyncio.to_thread(registered, clusters.ensemble, PLAIN)
            assert [found[each].reasons[:1] for each in (1, 2)] == [(), ("no leader",)]
            await two.reasons.tell([])
            assert await one.reasons.of_all() == {}

    run(work())


def test_they_go_with_the_session_and_are_told_again_in_the_next(clusters: Clusters) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            await two.reasons.tell(["no leader"])
            first = two.life
            await expire(two)
            await until(lambda: two.life > first)
            await two.reasons.tell(["no leader"])
            assert await one.reasons.of_all() == {2: ["no leader"]}
            await die(two)
            await until(lambda: 2 not in one.brokers)
            assert await one.reasons.of_all() == {}

    run(work())


def test_what_may_have_been_told_is_told_again(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> str:
        raise ConnectionLoss

    async def work() -> None:
        async with clusters.started(1) as (one,):
            await one.reasons.tell(["no leader"])
            with monkeypatch.context() as patch:
                patch.setattr(one._session, "create", away)
                await one.reasons.tell(["another"])
            assert await one.reasons.of_all() == {}
            await one.reasons.tell(["no leader"])
            assert await one.reasons.of_all() == {1: ["no leader"]}

    run(work())


def test_what_somebody_else_wrote_there_is_told_and_hides_no_broker(
    clusters: Clusters, look: Looker
) -> None:
    async def work() -> None:
        async with clusters.started(1) as (one,):
            look.client.create(f"{look.root}/appliance/reasons/1", b"[")
            look.client.create(f"{look.root}/appliance/reasons/x", b"[")
            assert await one.reasons.of_all() == {1: ()}
            assert [*one.troubles] == ["/appliance/reasons/1"]
            found, _ = await asyncio.to_thread(registered, clusters.ensemble, PLAIN)
            assert "wanted JSON" in found[1].reasons[0]
            await one.reasons.tell([])
            assert (await one.reasons.of_all(), one.troubles) == ({}, {})

    run(work())


def test_the_listener_is_the_first_of_the_protocol_or_the_one_that_is_named() -> None:
    broker = LivingBroker(
        3, 1,
        Listeners.parse("SASL_SSL://a:1,BROKERS://b:2,OUTSIDE://c:3"),
        Protocols.parse("BROKERS:SASL_SSL,OUTSIDE:PLAINTEXT"),
    )  # fmt: skip
    assert Way("SASL_SSL").to(broker) == Address("a", 1)
    assert Way("SASL_SSL", "BROKERS").to(broker) == Address("b", 2)
    assert PLAIN.to(broker) == Address("c", 3)
    there = r"it has SASL_SSL, BROKERS \(SASL_SSL\), OUTSIDE \(PLAINTEXT\): login and TLS are given"
    with pytest.raises(Failed, match=f"broker 3 has no listener SSL, {there} with --set"):
        Way("SSL").to(broker)
    with pytest.raises(Failed, match=f"no listener BROKERS with PLAINTEXT, {there}"):
        Way("PLAINTEXT", "BROKERS").to(broker)
