"""The controller: elections, fail-over, deletions and requests, with several brokers in a real
ZooKeeper."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from appliance.broker import health_of_replicas
from appliance.cluster import paths
from appliance.cluster.cluster import Cluster, TopicDefaults
from appliance.cluster.controller import FAILS_S, Rebalance
from appliance.cluster.forms import NOBODY, PartitionState, state_node
from appliance.cluster.term import Deposed
from appliance.errors import Refused
from appliance.protocol.errors import ErrorCode
from tests.support.clusters import (
    LONG_MS,
    Clusters,
    die,
    expire,
    run,
    until,
    without_controller,
)
from tests.support.registration import Looker

pytestmark = pytest.mark.first
KEY = ("t", 0)


def test_topics_are_made_extended_configured_and_deleted_by_any_broker(
    clusters: Clusters, look: Looker
) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            made = await two.create_topic("t", [[2, 1]], {"min.insync.replicas": "2"})
            assert await two.settled("t", 20)
            assert two.leads(KEY)
            assert two.topics["t"] == made
            assert await one.settled("t", 20)
            assert (one.min_insync("t"), one.min_insync("t", 1)) == (2, 1)
            with pytest.raises(Refused, match="topic t is in the cluster") as exists:
                await one.create_topic("t", [[1]])
            assert exists.value.kafka_code == ErrorCode.TOPIC_ALREADY_EXISTS
            await one.add_partitions("t", lambda topic: [[1, 2], [2]])
            await until(lambda: ("t", 2) in two.states)
            assert (await one.settled("t", 20), len(two.topics["t"].partitions)) == (True, 3)
            assert two.states["t", 0].leader_epoch == 0, "the old ones are as they were"
            changed = await one.set_configs("t", {"min.insync.replicas": "1"}, 0)
            assert changed is not None
            await until(lambda: two.min_insync("t", 3) == 1)
            assert await two.set_configs("t", {}, 0) is None, "by a version that is over"
            await until(lambda: look.names("/appliance/requests") == [])
            await two.delete_topic("t")
            assert await two.gone("t", 20)
            assert await one.gone("t", 20)
            assert (one.states, one.configs) == ({}, {})
            assert look.names("/brokers/topics") == look.names("/config/topics") == []
            assert look.names("/admin/delete_topics") == look.names("/appliance/topics") == []
            with pytest.raises(Refused, match="topic t is not in the cluster"):
                await two.delete_topic("t")
            again = await two.create_topic("t", [[1]])
            assert again.topic_id != made.topic_id
            assert await two.settled("t", 20)
            for name, words in (("..", "wanted 1 to 249"), ("ä", "wanted 1 to 249")):
                with pytest.raises(Refused, match=words):
                    await one.create_topic(name, [[1]])
            large = {f"{each:05}": "x" * 29_992 for each in range(10)}
            with pytest.raises(Refused, match="configs are 300054 bytes in ZooKeeper"):
                await one.create_topic("u", [[1]], large)
            with pytest.raises(Refused, match=r"50001 partitions are .* wanted at most 700000"):
                await one.create_topic("u", [[100, 101, 102]] * 50_001)
            with pytest.raises(Refused, match="wanted each broker once"):
                await one.create_topic("u", [[1, 1]])

    run(work())


def test_a_dead_leader_is_replaced_and_comes_back_as_another(clusters: Clusters) -> None:
    async def work() -> None:
        async with clusters.started(1, 2, 3) as (one, _, three):
            await one.create_topic("t", [[3, 2, 1], [1, 2, 3]])
            assert await one.settled("t", 20)
            first = one.states[KEY]
            await die(three)
            await until(lambda: one.states[KEY].leader == 2)
            after = one.states[KEY]
            assert (after.leader_epoch, after.isr, after.eligible) == (1, (2, 1), ())
            assert one.states["t", 1] == replace(first, leader=1, isr=(1, 2, 3)), "not its own"
            again = clusters.make(3)
            await again.start()
            assert again.states[KEY] == after

    run(work())


def test_a_leader_that_came_back_at_once_leads_another_epoch(clusters: Clusters) -> None:
    """Nobody has noticed that it was away, and its log may be shorter now."""

    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            await one.create_topic("t", [[2, 1], [2]])
            assert await one.settled("t", 20)
            await two.renew()
            await until(lambda: one.states["t", 1].leader_epoch == 1)
            assert two.life == one.states["t", 1].leader_life == 2
            assert one.states["t", 1].leader == 2
            await until(lambda: two.leads(KEY))
            assert (one.states[KEY].leader_epoch, one.states[KEY].isr) == (1, (2, 1))

    run(work())


def test_who_has_all_that_counts_is_chosen_and_nobody_else(clusters: Clusters) -> None:
    async def work() -> None:
        async with clusters.started(1, 2, 3) as (one, two, three):
            await one.create_topic("t", [[3, 2, 1]], {"min.insync.replicas": "2"})
            assert await three.settled("t", 20)
            shrunk = await three.write_isr(KEY, 0, [3, 2])
            assert shrunk.state is not None
            assert (shrunk.is_written, shrunk.state.eligible) == (True, ())
            alone = await three.write_isr(KEY, 1, [3])
            assert alone.state is not None
            assert (alone.state.isr, alone.state.eligible) == ((3,), (2,))
            await three.close()
            await until(lambda: one.states[KEY].leader == 2)
            assert (one.states[KEY].isr, one.states[KEY].eligible) == ((2,), (3,))
            await two.close()
            await until(lambda: one.states[KEY].leader == NOBODY)
            assert (one.states[KEY].isr, one.states[KEY].eligible) == ((2,), (3,))
            codes = await one.elect([KEY, ("none", 0)], unclean=True)
            assert codes == {KEY: ErrorCode.NONE, ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            await until(lambda: one.leads(KEY))
            assert (one.states[KEY].isr, one.states[KEY].eligible) == ((1,), ())
            assert await one.elect([KEY], unclean=True) == {KEY: ErrorCode.ELECTION_NOT_NEEDED}

    run(work())


def test_a_setting_of_the_topic_lets_anybody_lead(clusters: Clusters) -> None:
    """Also when it comes later than the need."""

    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            await one.create_topic("t", [[2, 1]])
            assert await two.settled("t", 20)
            alone = await two.write_isr(KEY, 0, [2])
            assert alone.is_written
            await die(two)
            await until(lambda: one.states[KEY].leader == NOBODY)
            await one.set_configs("t", {"unclean.leader.election.enable": "true"}, 0)
            await until(lambda: one.leads(KEY))
            state = one.states[KEY]
            assert (state.isr, state.unclean) == ((1,), state.leader_epoch)

    run(work())


def test_topics_that_say_nothing_have_what_is_set_for_all(clusters: Clusters) -> None:
    async def work() -> None:
        own = {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"}
        async with clusters.started(1, 2) as (one, two):
            await one.create_topic("t", [[2, 1]])
            await one.create_topic("own", [[2, 1]], own)
            for each in ("t", "own"):
                assert await two.settled(each, 20)
                assert (await two.write_isr((each, 0), 0, [2])).is_written
            await die(two)
            await until(lambda: {each.leader for each in one.states.values()} == {NOBODY})
            one.defaults_are(TopicDefaults(min_insync=2, is_unclean=True))
            assert [one.min_insync(each, 3) for each in ("t", "own")] == [2, 1]
            await until(lambda: one.leads(KEY))
            assert one.states["own", 0].leader == NOBODY

    run(work())


def test_preferred_leaders_come_back_by_themselves(clusters: Clusters) -> None:
    """Not for one in ten that others lead, and not while it is being moved."""

    async def work() -> None:
        rebalance = Rebalance(interval_s=0.5, percentage=50)
        async with clusters.started(1, 2, rebalance=rebalance) as (one, two):
            await one.create_topic("t", [[2, 1], [2, 1], [2, 1], [2]])
            assert await one.settled("t", 20)
            await die(two)
            await until(lambda: [one.states["t", each].leader for each in range(3)] == [1, 1, 1])
            again = clusters.make(2)
            await again.start()
            await until(lambda: again.leads(("t", 3)))
            both = [one.write_isr(("t", each), one.states["t", each].version, [1, 2],
                                  {2: again.life}) for each in (0, 1)]  # fmt: skip
            # In one change: were one of them led again first, others would lead half, and no more.
            assert all(each.is_written for each in await asyncio.gather(*both))
            await until(lambda: again.leads(KEY) and again.leads(("t", 1)))
            state = one.states["t", 2]
            joined = await one.write_isr(("t", 2), state.version, [1, 2], {2: again.life})
            assert joined.is_written
            await asyncio.sleep(1.2)
            assert one.leads(("t", 2)), "one of four is fewer than half"

    run(work())


def test_a_controller_that_was_killed_replaces_its_own_node(clusters: Clusters) -> None:
    async def work() -> None:
        async with clusters.started(1, session_ms=LONG_MS) as (one,):
            await die(one)
            again = clusters.make(1)
            began = time.monotonic()
            await again.start()
            await until(lambda: again.is_controller)
            assert time.monotonic() - began < LONG_MS / 2000
            assert (again.controller_epoch, again.life) == (2, 2)

    run(work())


@pytest.mark.parametrize("how", [die, expire])
def test_another_controller_goes_on(how: object, clusters: Clusters, look: Looker) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            await two.create_topic("t", [[1, 2]])
            assert await two.settled("t", 20)
            await how(one)  # type: ignore[operator]
            await until(lambda: two.states[KEY].leader_life != 1 or two.states[KEY].leader == 2)
            await until(lambda: two.controller_epoch == 2)
            assert json.loads(look.data("/controller") or "")["brokerid"] == two.controller_id
            assert look.data("/controller_epoch") == "2"
            await two.create_topic("u", [[2]])
            assert await two.settled("u", 20)
            assert two.states["u", 0].controller_epoch == 2

    run(work())


def test_another_controller_elects_before_it_reads_everything(
    clusters: Clusters, look: Looker
) -> None:
    """Clients wait for elections. What it knows is old for one partition: that one is read again,
    and nothing of it is overwritten."""

    async def work() -> None:
        async with clusters.started(1, 2, 3) as (one, two, three):
            await one.create_topic("t", [[1, 2, 3], [1, 2, 3]])
            assert await three.settled("t", 20)
            assert await two.settled("t", 20)
            foreign = replace(two.states["t", 1], isr=(1, 3))
            look.client.set("/".join((look.root, "brokers/topics/t/partitions/1/state")),
                            state_node(foreign))  # fmt: skip
            may_read = asyncio.Event()
            for each in (two, three):
                hold_reading(each, may_read)
            await die(one)
            await until(lambda: three.states[KEY].leader == two.states[KEY].leader == 2)
            await until(lambda: three.states["t", 1].leader == two.states["t", 1].leader == 3)
            assert two.states["t", 1].isr == (3,)
            may_read.set()
            await two.create_topic("u", [[2]])
            assert await three.settled("u", 20)

    run(work())


def hold_reading(cluster: Cluster, may_read: asyncio.Event) -> None:
    read = cluster._view._read_all

    async def held() -> None:
        await may_read.wait()
        await read()

    cluster._view._read_all = held  # type: ignore[method-assign]


def test_a_deposed_controller_writes_nothing(clusters: Clusters, look: Looker) -> None:
    """It was paused while another was elected, and does not know."""

    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            await one.create_topic("t", [[1, 2]])
            assert await two.settled("t", 20)
            term, before = one._controller.term, look.data("/brokers/topics/t/partitions/0/state")
            assert term is not None
            await without_controller(one)
            look.client.delete(f"{look.root}/controller")
            await until(lambda: len(look.names("/appliance/changes")) == 3)
            notices = look.names("/appliance/changes")
            state = one.states[KEY]
            with pytest.raises(Deposed):
                await term.write({KEY: replace(state, leader=2)}, one._view.table.topic_id)
            with pytest.raises(Deposed):
                await term.create({("t", 1): state}, one._view.table.topic_id)
            with pytest.raises(Deposed):
                await term.tell([], {}, False, set())
            with pytest.raises(Deposed):
                await term.remove_notices([0])
            assert look.data("/brokers/topics/t/partitions/0/state") == before
            assert look.names("/appliance/changes") == notices
            assert look.names("/brokers/topics/t/partitions") == ["0"]

    run(work())


def test_a_deposed_controller_stands_again_when_it_hears_of_it(clusters: Clusters) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            term = one._controller.term
            assert term is not None
            one._controller.term = replace(term, epoch_version=term.epoch_version - 1)
            await two.create_topic("t", [[1, 2]])
            assert await two.settled("t", 20)
            assert one.states[KEY].controller_epoch == 1

    run(work())


def test_topics_made_and_deleted_without_a_controller_wait_for_the_next(
    clusters: Clusters, look: Looker
) -> None:
    async def work() -> None:
        async with clusters.started(1) as (one,):
            await one.create_topic("gone", [[1]] * 3)
            await one.create_topic("half", [[1]] * 3)
            assert await one.settled("half", 20)
            await without_controller(one)
            look.client.delete(f"{look.root}/controller")
            await one.create_topic("new", [[1]])
            await one.delete_topic("gone")
            await one.delete_topic("half")
            await one.delete_topic("half")  # asked twice
            for number in (2, 0):  # a controller died in the middle
                path = f"{look.root}/brokers/topics/half/partitions/{number}"
                look.client.delete(path, recursive=True)
            assert not await one.settled("new", 0.1)
            two = clusters.make(2)
            await two.start()
            assert await one.settled("new", 20)
            assert await one.gone("half", 20)
            assert await one.gone("gone", 20)
            assert look.names("/brokers/topics") == ["new"]
            assert look.names("/admin/delete_topics") == []
            await two.close()
    run(work())


def test_a_request_to_delete_is_for_the_topic_that_it_names(
    clusters: Clusters, look: Looker
) -> None:
    async def work() -> None:
        async with clusters.started(1) as (one,):
            await one.create_topic("t", [[1]])
            assert await one.settled("t", 20)
            request = b'{"version":1,"topic_id":"AAECAwQFBgcICQoLDA0ODw"}'
            look.client.create(f"{look.root}/admin/delete_topics/t", request)
            await until(lambda: look.names("/admin/delete_topics") == [])
            assert look.names("/brokers/topics") == ["t"]
            assert one.leads(KEY)
            look.client.create(f"{look.root}/admin/delete_topics/t", b"")  # by Kafka's own tools
            assert await one.gone("t", 20)

    run(work())


def test_a_controlled_stop_moves_leaders_first(clusters: Clusters, look: Looker) -> None:
    async def work() -> None:
        async with clusters.started(1, 2, 3) as (one, two, three):
            await one.create_topic("t", [[2, 3, 1], [2], [1, 2, 3]])
            assert await two.settled("t", 20)
            assert await two.leave(20)
            await until(lambda: three.leads(KEY))
            await until(lambda: two.states[KEY].isr == (3, 1))
            assert two.leads(("t", 1)), "there is no other"
            await until(lambda: one.leaving == three.leaving == {2})
            await one.close()  # another controller knows it, too
            await until(lambda: three.states["t", 2].leader == 3)
            assert three.states["t", 2].isr == (3,)
            await two.close()
            await until(lambda: three.states["t", 1].leader == NOBODY)
            again = clusters.make(2)
            await again.start()
            await until(lambda: again.leads(("t", 1)))
            assert not three.leaving

    run(work())


def test_who_asks_for_a_leader_that_stops_is_told_the_next_one(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any broker, also at the one that stops. Where there will be no other it is told at once.
    """
    monkeypatch.setattr("appliance.cluster.cluster.HANDED_OVER_S", 20.0)

    async def work() -> None:
        async with clusters.started(1, 2, 3) as (one, two, three):
            await one.create_topic("t", [[1, 2], [2, 3, 1]])
            await one.create_topic("sole", [[2]])
            await one.create_topic("others", [[1, 2]])
            for each in ("t", "sole", "others"):
                for broker in (one, two, three):
                    assert await broker.settled(each, 20)
            await two.handed_over(None)
            await two.tell_of_stop()
            assert two.leads(("t", 1)), "it leads as before"
            told = [each._view for each in (one, two, three)]
            await until(lambda: all(each.stopping_now == {2} for each in told))
            await asyncio.wait_for(one.handed_over(["sole", "others", "none"]), 10)
            asking = [asyncio.create_task(each.handed_over(topics))
                      for each in (one, two, three) for topics in (["t"], None)]  # fmt: skip
            await asyncio.sleep(0.1)
            assert not any(each.done() for each in asking)
            assert await two.leave(20)
            for each, broker in zip(asking, (one, one, two, two, three, three), strict=True):
                await each
                assert broker.states["t", 1].leader == 3
            await two.close()
            await until(lambda: all(not each.stopping_now for each in (told[0], told[2])))

    run(work())


def test_who_asks_for_a_leader_does_not_wait_for_long(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever stops may fail to leave."""
    monkeypatch.setattr("appliance.cluster.cluster.HANDED_OVER_S", 0.05)

    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            await one.create_topic("t", [[2, 1]])
            assert await two.settled("t", 20)
            await two.tell_of_stop()
            await asyncio.wait_for(two.handed_over(None), 10)
            assert two.leads(KEY)

    run(work())


def test_preferred_leaders_lead_again_when_asked(clusters: Clusters) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            await one.create_topic("t", [[2, 1], [1, 2]])
            assert await one.settled("t", 20)
            await two.close()
            await until(lambda: one.leads(KEY))
            again = clusters.make(2)
            await again.start()
            wanted = {KEY: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                      ("t", 1): ErrorCode.ELECTION_NOT_NEEDED}  # fmt: skip
            assert await again.elect([*wanted]) == wanted, "it is not in the ISR yet"
            state = one.states[KEY]
            joined = await one.write_isr(KEY, state.version, [1, 2], {2: again.life})
            assert joined.is_written
            assert await again.elect([KEY]) == {KEY: ErrorCode.NONE}
            await until(lambda: again.leads(KEY))
            await without_controller(one)
            codes = await again.elect([KEY], timeout_s=0.1)
            assert codes == {KEY: ErrorCode.NOT_CONTROLLER}

    run(work())


def test_missed_notices_are_made_up_for(clusters: Clusters, look: Looker) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            reads = two._view._read_notices

            async def deaf() -> None:
                pass

            two._view._read_notices = deaf  # type: ignore[method-assign]
            for name in ("a", "b", "c"):
                await one.create_topic(name, [[1]])
                assert await one.settled(name, 20)
            for each in look.names("/appliance/changes")[:-1]:
                look.client.delete(f"{look.root}/appliance/changes/{each}")
            two._view._read_notices = reads  # type: ignore[method-assign]
            assert not two.topics
            two._view.look()
            await until(lambda: [*two.topics] == ["a", "b", "c"])
            assert two.states == one.states

    run(work())


def test_a_topic_made_again_while_it_is_read_is_read_again(clusters: Clusters) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            await one.create_topic("t", [[1]])
            assert await two.settled("t", 20)
            reading = two._view.reading
            states, read = reading.states, []

            async def slow(keys: object) -> object:
                if not read:
                    await one.delete_topic("t")
                    assert await one.gone("t", 20)
                    await one.create_topic("t", [[2], [2]])
                    assert await one.settled("t", 20)
                read.append(await states(keys))  # type: ignore[arg-type]
                return read[-1]

            reading.states = slow  # type: ignore[assignment,method-assign]
            news = await reading.topic("t")
            assert news is not None
            assert (news.topic, len(news.states)) == (one.topics["t"], 2)
            assert len(read) == 2

    run(work())


def test_old_notices_are_removed_but_for_the_newest(
    clusters: Clusters, look: Looker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appliance.cluster.controller.NOTICES_MAX", 3)

    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            await one.create_topic("t", [[1]])
            assert await two.settled("t", 20)
            for version in range(20):
                assert await one.set_configs("t", {"a": str(version)}, version)
                await until(lambda version=version: two.configs["t"].version == version + 1)
            one._controller.wake()
            await until(lambda: len(look.names("/appliance/changes")) == 3)
            assert look.names("/appliance/changes")[-1] == "c0000000021"

    run(work())


def test_foreign_nodes_are_passed_over_and_told(clusters: Clusters, look: Looker) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            await one.create_topic("t", [[1, 2]])
            assert await two.settled("t", 20)
            foreign = {
                "/brokers/topics/old": b'{"version":1,"partitions":{"0":[1]}}',
                "/brokers/topics/newer": b'{"version":9}',
                "/brokers/topics/no topic": b"",
                "/brokers/ids/7": b"host:1",
                "/brokers/ids/word": b"",
                "/appliance/requests/r0000000000": b"nothing",
                "/appliance/requests/word": b"",
                "/admin/delete_topics/newer": b'{"version":3}',
                "/admin/delete_topics/none": b"",
            }
            for path, data in foreign.items():
                look.client.create(look.root + path, data)
            spoilt = look.client.create(
                f"{look.root}/appliance/changes/c", b"[", sequence=True
            )
            look.client.create(f"{look.root}/appliance/changes/word", b"")
            request = look.client.create(
                f"{look.root}/appliance/requests/r", b'{"version":1,"what":"x"}', sequence=True
            )
            await two.create_topic("u", [[2]])
            assert await one.settled("u", 20)
            assert await two.settled("u", 20)
            notice, asked = spoilt.removeprefix(look.root), request.removeprefix(look.root)
            wanted = {
                "/brokers/topics/old", "/brokers/topics/newer", "/brokers/topics/no topic",
                "/brokers/ids/7", "/appliance/requests/r0000000000", "/admin/delete_topics/newer",
                notice, asked,
            }  # fmt: skip
            await until(lambda: {*one.troubles} | {*two.troubles} == wanted)
            await until(lambda: "/brokers/topics/newer" in one.troubles)
            await until(lambda: "/brokers/ids/7" in two.troubles)
            assert "version 9, and this appliance knows up to 3" in one.troubles[
                "/brokers/topics/newer"]
            assert look.names("/brokers/topics") == ["newer", "no topic", "old", "t", "u"]
            assert [*one.brokers] == [1, 2]
            assert look.client.exists(request), "who wrote it may be newer"
            for path in ("/brokers/ids/7", "/brokers/topics/old"):
                look.client.delete(look.root + path)
            await until(lambda: "/brokers/ids/7" not in two.troubles)
            two._view.look_at_everything()
            await until(lambda: "/brokers/topics/old" not in two.troubles)

    run(work())


def test_a_thousand_elections_are_one_notice(clusters: Clusters, look: Looker) -> None:
    elected_within(clusters, look, 150)


@pytest.mark.release("the gate has it with 150")
def test_a_thousand_elections_are_one_notice_within_a_second(
    clusters: Clusters, look: Looker
) -> None:
    assert elected_within(clusters, look, 1000) < 1


def elected_within(clusters: Clusters, look: Looker, partitions: int) -> float:
    """Seconds from the end of the leader's session until another broker knows all of them."""
    took: list[float] = []

    async def work() -> None:
        async with clusters.started(2, 1, 3) as (_, one, three):
            await one.create_topic("t", [[1, 2, 3]] * partitions)
            assert await three.settled("t", 20)
            before = look.names("/appliance/changes")
            await one.close()
            began = time.monotonic()
            await until(lambda: all(each.leader == 2 for each in three.states.values()))
            took.append(time.monotonic() - began)
            assert len(look.names("/appliance/changes")) == len(before) + 1

    run(work())
    return took[0]


def test_a_state_that_others_made_is_taken_as_it_is(clusters: Clusters, look: Looker) -> None:
    """As of a controller that died between a topic's states and its notice."""

    async def work() -> None:
        async with clusters.started(1) as (one,):
            await without_controller(one)
            look.client.delete(f"{look.root}/controller")
            await one.create_topic("t", [[1], [1], [1]])
            state = one.states.get(KEY)
            assert state is None
            path = f"{look.root}/brokers/topics/t/partitions"
            look.client.delete(f"{look.root}/appliance/topics", recursive=True)
            look.client.create(f"{look.root}/appliance/topics", b"")
            made = PartitionState(1, one.life, 4, (1,), (), 1)
            look.client.create(f"{path}/0/state", state_node(made), makepath=True)
            look.client.create(f"{path}/1", b"")
            two = clusters.make(2)
            await two.start()
            assert await one.settled("t", 20)
            assert [one.states["t", each].leader_epoch for each in range(3)] == [4, 0, 0]
            assert len(look.names("/appliance/topics")) == 1
            await two.close()

    run(work())


@pytest.mark.parametrize("how", [die, Cluster.renew], ids=["killed", "began anew"])
def test_a_controller_whose_rounds_fail_is_told_of(
    how: Callable[[Cluster], Awaitable[None]],
    clusters: Clusters, look: Looker, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """And so are partitions for which it elects nobody."""
    monkeypatch.setattr("appliance.cluster.controller.FAILS_S", 0.5)

    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            await one.create_topic("t", [[2, 1]])
            assert await one.settled("t", 20)
            state = f"{look.root}{paths.state(*KEY)}"
            may_read = make_acl("world", "anyone", read=True, admin=True)
            look.client.set_acls(state, [may_read])
            assert (one.controller_fault, unled(one)) == ("", [])
            life = two.life
            await how(two)
            await until(lambda: "NoAuthError" in one.controller_fault)
            assert one.states[KEY].leader == 2
            await until(lambda: one.gone_s(2, life) > 0)
            assert unled(one) == [], "an election takes its time"
            monkeypatch.setattr(health_of_replicas, "ELECTED_S", 0.5)
            await until(lambda: unled(one) != [])
            assert re.match("t-0 has no leader: .* the life in which 2 led it is over", *unled(one))
            three = clusters.make(3)
            await three.start()
            await until(lambda: three.gone_s(2, life) > 0)  # it never saw that life
            look.client.set_acls(state, OPEN_ACL_UNSAFE)
            await until(lambda: one.states[KEY].leader_epoch == 1)
            await until(lambda: one.controller_fault == "")
            assert unled(one) == []

    run(work())


def test_a_single_round_that_failed_is_no_news(clusters: Clusters) -> None:
    async def work() -> None:
        async with clusters.started(1) as (one,):
            controller = one._controller
            for passed_s, fault in ((0.0, ""), (FAILS_S, "RuntimeError('no')")):
                controller._failed_first -= passed_s
                controller._failed(RuntimeError("no"))
                assert one.controller_fault == fault
            controller.wake()
            await until(lambda: one.controller_fault == "")

    run(work())


def test_the_time_without_a_connection_is_not_that_of_rounds_that_fail(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two rounds that a ZooKeeper ended that was away in between would be news."""
    monkeypatch.setattr("appliance.cluster.controller.FAILS_S", 0.5)

    async def work() -> None:
        async with clusters.started(1) as (one,):
            await without_controller(one)  # its rounds are made by hand

            async def connected() -> None:
                await asyncio.sleep(0.6)

            controller = one._controller
            monkeypatch.setattr(controller, "_session", SimpleNamespace(connected=connected))
            controller._fault = ""
            controller._failed(RuntimeError("no"))
            await controller._connected()
            controller._failed(RuntimeError("no"))
            assert one.controller_fault == ""
            await asyncio.sleep(0.6)
            controller._failed(RuntimeError("no"))
            assert one.controller_fault == "RuntimeError('no')"

    run(work())


def unled(cluster: Cluster) -> list[str]:
    here: Any = SimpleNamespace(cluster=cluster, broker=cluster.member)
    return [*health_of_replicas.without_leader(here)]
