"""What a leader writes, against others that write at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from kazoo.exceptions import ConnectionLoss

from appliance.cluster.cluster import Cluster
from appliance.cluster.forms import PartitionState, state_from, state_node
from appliance.cluster.isr_writes import IsrOutcome, IsrWrite
from appliance.cluster.session import Change
from tests.support.clusters import Clusters, expire, run, until
from tests.support.registration import Looker

pytestmark = pytest.mark.first
KEY = ("t", 0)
STATE = "/brokers/topics/t/partitions/0/state"


def in_zookeeper(look: Looker) -> PartitionState:
    data, stat = look.client.get(look.root + STATE)
    return state_from(data, stat.version, STATE)


async def led(one: Cluster) -> PartitionState:
    await one.create_topic("t", [[1, 2, 3]])
    assert await one.settled("t", 20)
    return one.states[KEY]


def test_others_hear_of_it_and_a_stale_version_is_refused(
    clusters: Clusters, look: Looker
) -> None:
    async def work() -> None:
        async with clusters.started(1, 2, 3) as (one, two, three):
            first = await led(one)
            shrunk = await one.write_isr(KEY, 0, [2, 1], min_insync=2)
            wanted = replace(first, isr=(1, 2), version=1)
            assert shrunk == IsrOutcome(True, wanted)
            assert one.states[KEY] == in_zookeeper(look) == wanted
            await until(lambda: two.states.get(KEY) == three.states.get(KEY) == wanted)
            stale = await one.write_isr(KEY, 0, [1], min_insync=2)
            assert stale == IsrOutcome(False, wanted)
            grown = await one.write_isr(KEY, 1, [1, 2, 3], {3: three.life}, min_insync=2)
            assert grown == IsrOutcome(True, replace(first, version=2))

    run(work())


def test_what_was_written_meanwhile_is_not_overwritten(clusters: Clusters, look: Looker) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, _):
            first = await led(one)
            other = replace(first, isr=(1, 3))
            look.client.set(look.root + STATE, state_node(other))
            refused = await one.write_isr(KEY, 0, [1, 2])
            assert refused == IsrOutcome(False, replace(other, version=1))
            assert in_zookeeper(look) == one.states[KEY] == refused.state

    run(work())


def test_who_restarted_meanwhile_does_not_join(clusters: Clusters, look: Looker) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            await led(one)
            without = await one.write_isr(KEY, 0, [1])
            assert without.is_written
            life = two.life
            await two.renew()
            refused = await one.write_isr(KEY, 1, [1, 2], {2: life})
            assert refused == IsrOutcome(False, without.state)
            joined = await one.write_isr(KEY, 1, [1, 2], {2: two.life})
            assert joined.is_written

    run(work())


def test_a_deposed_leader_writes_nothing(clusters: Clusters, look: Looker) -> None:
    async def work() -> None:
        async with clusters.started(1, 2, 3) as (one, two, _):
            await led(two)
            await until(lambda: one.leads(KEY))
            elected = replace(one.states[KEY], leader=2, leader_life=two.life, leader_epoch=1)
            look.client.set(look.root + STATE, state_node(elected))
            refused = await one.write_isr(KEY, 0, [1])
            assert refused == IsrOutcome(False, replace(elected, version=1))
            again = await one.write_isr(KEY, 1, [1])
            assert again == refused, "nor with the version of now"
            assert in_zookeeper(look) == refused.state

    run(work())


def test_a_life_that_is_over_writes_nothing(clusters: Clusters, look: Looker) -> None:
    """Somebody with the same id has raised it: this broker takes another one."""

    async def work() -> None:
        async with clusters.started(1, 2) as (one, _):
            first = await led(one)
            look.client.set(f"{look.root}/brokers/lives/1", b"")
            refused = await one.write_isr(KEY, 0, [1])
            assert refused == IsrOutcome(False, first)
            await until(lambda: one.life == 3)
            await until(lambda: one.leads(KEY))
            assert one.states[KEY].leader_epoch == 1

    run(work())


def test_a_partition_that_is_gone_has_no_state(clusters: Clusters) -> None:
    async def work() -> None:
        async with clusters.started(1) as (one,):
            await one.create_topic("t", [[1]])
            assert await one.settled("t", 20)
            await one.delete_topic("t")
            assert await one.gone("t", 20)
            assert await one.write_isr(KEY, 0, [1]) == IsrOutcome(False, None)

    run(work())


def test_a_topic_that_was_made_again_is_not_written_by_the_leader_of_the_former(
    clusters: Clusters, look: Looker
) -> None:
    """Both states have the same version, at the same place."""

    async def work() -> None:
        async with clusters.started(2, 1) as (two, one):
            await led(one)
            assert await two.settled("t", 20)
            reading = one._view._reading
            await reading.acquire()  # it hears of nothing now
            await two.delete_topic("t")
            assert await two.gone("t", 20)
            made = await two.create_topic("t", [[2, 1, 3]])
            assert await two.settled("t", 20)
            state = two.states[KEY]
            assert (state.version, one.leads(KEY)) == (0, True)
            refused = await one.write_isr(KEY, 0, [1])
            assert refused == IsrOutcome(False, None), "its own is gone"
            assert in_zookeeper(look) == state
            assert two.states[KEY] == state
            reading.release()
            await until(lambda: one.topics.get("t") == made)
            assert one.states[KEY] == state

    run(work())


@pytest.mark.parametrize("is_taken", [True, False])
def test_an_answer_that_was_lost_is_looked_up(
    is_taken: bool, clusters: Clusters, look: Looker
) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, _):
            first = await led(one)
            change = one._isr_writes._change

            async def lost(*what: object) -> None:
                if is_taken:
                    await change(*what)  # type: ignore[arg-type]
                raise ConnectionLoss

            one._isr_writes._change = lost  # type: ignore[assignment]
            outcome = await one.write_isr(KEY, 0, [1, 2])
            after = replace(first, isr=(1, 2), version=1) if is_taken else first
            assert outcome == IsrOutcome(is_taken, after)
            assert in_zookeeper(look) == after

    run(work())


def test_a_session_that_ends_while_it_is_written(clusters: Clusters, look: Looker) -> None:
    """Whatever came first, ZooKeeper and the answer agree."""

    async def work() -> None:
        async with clusters.started(2, 1) as (_, one):
            state = await led(one)
            await until(lambda: one.leads(KEY))
            ending: asyncio.Task[None] | None = None
            while ending is None or not ending.done() or one.life != 2:
                isr = [1, 2] if 3 in state.isr else [1, 2, 3]
                outcome = await one.write_isr(KEY, state.version, isr)
                assert outcome.state is not None
                state = outcome.state
                if ending is None:
                    assert outcome.is_written
                    ending = asyncio.create_task(expire(one))
                await asyncio.sleep(0 if outcome.is_written else 0.01)
            await ending
            await until(lambda: one.states[KEY].leader_epoch > 0)
            assert in_zookeeper(look) == one.states[KEY]

    run(work())


def test_many_at_once_are_told_together(clusters: Clusters, look: Looker) -> None:
    async def work() -> None:
        async with clusters.started(1, 2) as (one, two):
            await one.create_topic("t", [[1, 2]] * 50)
            assert await two.settled("t", 20)
            before = len(look.names("/appliance/changes"))
            writes = [one.write_isr(("t", each), 0, [1], min_insync=2) for each in range(50)]
            outcomes = await asyncio.gather(*writes)
            assert all(each.is_written for each in outcomes)
            await until(lambda: all(each.eligible == (2,) for each in two.states.values()))
            assert len(look.names("/appliance/changes")) <= before + 10

    run(work())


def test_what_is_asked_for_at_once_is_one_change(clusters: Clusters, look: Looker) -> None:
    """After a broker's death clients wait for all of it. One that is refused refuses no other."""

    async def work() -> None:
        async with clusters.started(1, 2) as (one, _):
            await one.create_topic("t", [[1, 2]] * 50)
            assert await one.settled("t", 20)
            foreign = replace(one.states["t", 7], isr=(1, 9))
            path = STATE.replace("/0/", "/7/")
            look.client.set(look.root + path, state_node(foreign))
            changes = counted_changes(one)
            outcomes = await asyncio.gather(
                *(one.write_isr(("t", each), 0, [1]) for each in range(50)))  # fmt: skip
            assert [each.is_written for each in outcomes] == [each != 7 for each in range(50)]
            assert outcomes[7].state == replace(foreign, version=1)
            assert changes == [50, *[1] * 50]
            del changes[:]
            await asyncio.gather(
                *(one.write_isr(("t", each), 1, [1, 2]) for each in range(50)))  # fmt: skip
            assert changes == [50]

    run(work())


def counted_changes(cluster: Cluster) -> list[int]:
    """How many states each change writes from now on."""
    change_of, found = cluster._isr_writes._change_of, []

    def counted(writes: Sequence[IsrWrite]) -> Change:
        found.append(len(writes))
        return change_of(writes)

    cluster._isr_writes._change_of = counted  # type: ignore[method-assign]
    return found
