"""Topics that left the number of replicas to the brokers, when fewer lived, get the rest later."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from appliance.cluster import forms, reassignment
from appliance.cluster.cluster import Cluster
from appliance.cluster.forms import NOBODY, ClusterTopic, FormUnknown, PartitionState, Replicas
from appliance.cluster.growth import planned
from tests.support.clusters import Clusters, run, until, without_controller

NAME = "__transaction_state"
KEY = (NAME, 0)
LED = PartitionState(1, 7, 0, (1,))
ONE, TWO, THREE = {1: ""}, {1: "", 2: ""}, {1: "", 2: "", 3: ""}


def topic(*partitions: Replicas, wanted: int = 3, name: str = NAME) -> ClusterTopic:
    return ClusterTopic(name, bytes(16), partitions, wanted_factor=wanted)


def grown(
    known: ClusterTopic, racks: dict[int, str], state: PartitionState = LED
) -> list[Replicas]:
    states = {(known.name, each): state for each in range(len(known.partitions))}
    return [each.replicas for each in planned({known.name: known}, states, racks)]


# topic, who lives, and what its partitions are to have
CASES = {
    "nobody else lives": (topic((1,)), ONE, []),
    "one more": (topic((1,)), TWO, [(1, 2)]),
    "all at once": (topic((1,)), THREE, [(1, 2, 3)]),
    "others made it, without partitions": (topic(), THREE, []),
    "it has all": (topic((1, 2, 3)), {**THREE, 4: ""}, []),
    "nothing is left to us": (topic((1,), wanted=0), THREE, []),
    "one restarts": (topic((1, 2, 3)), TWO, []),
    "one restarts before it had any": (topic((1, 2)), {1: "", 3: ""}, []),
    "one is dead, and two came": (topic((1, 2)), {1: "", 3: "", 4: ""}, [(1, 2, 3)]),
    "racks": (topic((1,), wanted=2), {1: "a", 2: "a", 3: "b"}, [(1, 3)]),
    "it is being moved": (reassignment.begun(topic((1,)), 0, (2,)), THREE, []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_added(case: str) -> None:
    known, racks, wanted = CASES[case]
    assert grown(known, racks) == wanted


def test_nobody_leads_so_nobody_could_give_records() -> None:
    assert grown(topic((1,)), TWO, replace(LED, leader=NOBODY)) == []
    assert planned({NAME: topic((1,))}, {}, TWO) == [], "it has no state yet"


def test_what_is_added_is_spread_and_others_count_as_load() -> None:
    alone = {name: topic((1,), (1,), wanted=2, name=name) for name in ("a", "b")}
    topics = {**alone, "c": topic((2, 1), (2, 1), wanted=0, name="c")}
    states = {(name, each): LED for name in topics for each in (0, 1)}
    moves = planned(topics, states, {**THREE, 4: ""})
    assert Counter(each.adding for each in moves) == {(3,): 2, (4,): 2}


def test_a_person_who_orders_fewer_is_heeded() -> None:
    growing = reassignment.begun(topic((1,), (1,)), 0, (1, 2, 3))
    assert growing.wanted_factor == 3
    assert reassignment.cancelled(growing, 0).wanted_factor == 0
    assert reassignment.begun(growing, 0, (1, 2)).wanted_factor == 0
    done = reassignment.without_removed(growing, 0)
    assert (done.partitions[0], done.wanted_factor) == ((1, 2, 3), 3)
    assert reassignment.begun(done, 0, (1,)).wanted_factor == 0
    assert reassignment.begun(done, 0, (4, 2, 3)).wanted_factor == 3, "to another broker"


def test_the_topics_node_says_what_it_wants() -> None:
    known = topic((1,))
    assert forms.topic_from(forms.topic_node(known), NAME, 0, "here") == known
    assert b"wanted" not in forms.topic_node(topic((1,), wanted=0))
    wrong = forms.topic_node(known).replace(b'"wanted_factor":3', b'"wanted_factor":-3')
    with pytest.raises(FormUnknown, match="wanted_factor is -3, wanted a number from 0 to 64"):
        forms.topic_from(wrong, NAME, 0, "here")


async def joined(leader: Cluster, *others: Cluster) -> None:
    """They have everything, and are in sync."""
    isr = [each.member.node_id for each in (leader, *others)]
    lives = {each.member.node_id: each.life for each in others}
    state = leader.states[KEY]
    outcome = await leader.write_isr(KEY, state.version, isr, lives, leader.least_in_sync(*KEY))
    assert outcome.is_written


@pytest.mark.first
def test_brokers_that_come_get_replicas_and_the_next_controller_goes_on(
    clusters: Clusters,
) -> None:
    async def work() -> None:
        async with clusters.started(1) as (one,):
            two_of = {"min.insync.replicas": "2"}
            await one.create_topic(NAME, [[1]], two_of, wanted_factor=3)
            await one.create_topic("t", [[1]])
            assert await one.settled(NAME, 20)
            assert await one.settled("t", 20)
            two = clusters.make(2)
            await two.start()
            await until(lambda: one.topics[NAME].partitions == ((1, 2),))
            assert one.topics[NAME].adding == {0: (2,)}
            assert one.least_in_sync(*KEY) == 1, "as long as it is being added"
            await joined(one, two)
            await until(lambda: one.topics[NAME].adding == {})
            assert one.least_in_sync(*KEY) == 2
            await without_controller(one)
            three = clusters.make(3)
            await three.start()
            await one._session.delete("/controller")
            await until(lambda: two.is_controller or three.is_controller)
            await until(lambda: one.topics[NAME].partitions == ((1, 2, 3),))
            await joined(one, two, three)
            await until(lambda: one.topics[NAME].adding == {})
            assert one.states[KEY].isr == (1, 2, 3)
            assert one.states[KEY].leader == 1, "it leads still"
            assert one.topics["t"].partitions == ((1,),), "that was its maker's word"
            await one.reassign(NAME, {0: [1, 2]})
            await until(lambda: two.topics[NAME].partitions == ((1, 2),))
            four = clusters.make(4)
            await four.start()
            await four.create_topic("u", [[4]])
            assert await four.settled("u", 20), "the controller has seen it"
            assert four.topics[NAME].partitions == ((1, 2),)

    run(work())
