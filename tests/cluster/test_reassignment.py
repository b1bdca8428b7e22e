"""Partitions move to other brokers."""

from __future__ import annotations

import pytest

from appliance.cluster import reassignment
from appliance.cluster.election import Voters
from appliance.cluster.forms import ClusterTopic, PartitionState, Replicas
from appliance.errors import Refused
from appliance.protocol.errors import ErrorCode
from tests.support.clusters import Clusters, run, until

LIVES = {1: 11, 2: 12, 3: 13, 4: 14}
TOPIC = ClusterTopic("t", bytes(16), ((1, 2), (2, 1)))


def state(leader: int, isr: Replicas, eligible: Replicas = ()) -> PartitionState:
    return PartitionState(leader, LIVES[leader], 5, isr, eligible)


def test_the_topic_says_what_is_under_way() -> None:
    moving = reassignment.begun(TOPIC, 0, (3, 1))
    assert moving.partitions == ((3, 1, 2), (2, 1))
    assert (moving.adding, moving.removing) == ({0: (3,)}, {0: (2,)})
    back = reassignment.cancelled(moving, 0)
    assert (back.partitions[0], back.adding, back.removing) == ((1, 2, 3), {0: (3,)}, {0: (3,)})
    assert reassignment.cancelled(back, 0) == back
    assert reassignment.without_removed(back, 0) == TOPIC
    assert reassignment.without_removed(moving, 0).partitions == ((3, 1), (2, 1))
    ordered = reassignment.begun(TOPIC, 0, (2, 1))
    assert not reassignment.is_under_way(ordered, 0), "another preferred leader is no move"
    with pytest.raises(Refused, match="t-0 is not being moved"):
        reassignment.cancelled(TOPIC, 0)


ALL_NEW = reassignment.begun(TOPIC, 0, (3, 4))
REPLACED = reassignment.begun(ALL_NEW, 0, (2, 3))
SHRINK = reassignment.begun(TOPIC, 0, (2,))
CANCELLED = reassignment.cancelled(ALL_NEW, 0)

def test_another_move_takes_the_place_of_the_first() -> None:
    """Who was added by the first, and is not wanted by the next, is no replica of before."""
    first = reassignment.begun(TOPIC, 0, (3, 1))
    second = reassignment.begun(first, 0, (4, 1))
    assert second.partitions[0] == (4, 1, 3, 2)
    assert (second.adding, second.removing) == ({0: (4, 3)}, {0: (3, 2)})
    assert reassignment.before(second, 0) == (1, 2)
    assert reassignment.cancelled(second, 0).partitions[0] == (1, 2, 4, 3)
    assert reassignment.without_removed(second, 0).partitions[0] == (4, 1)
    kept = reassignment.begun(first, 0, (1, 3))
    assert (kept.adding, kept.removing) == ({0: (3,)}, {0: (2,)}), "it is waited for as before"
    back = reassignment.begun(first, 0, (1, 2))
    assert back == reassignment.cancelled(first, 0)


# topic, state, who is dead; leader, ISR and eligible afterwards, None: not yet
MOVES = {
    "one is not in sync": (ALL_NEW, state(1, (1, 2, 3)), (), None),
    "all are": (ALL_NEW, state(1, (1, 2, 3, 4)), (), (3, (3, 4), ())),
    "another took its place": (REPLACED, state(1, (1, 2, 4)), (), None),
    "another took its place, and is in sync": (
        REPLACED, state(1, (1, 2, 3, 4)), (), (2, (2, 3), ())),
    "the leader stays": (SHRINK, state(2, (1, 2)), (), (2, (2,), ())),
    "the leader goes": (SHRINK, state(1, (1, 2)), (), (2, (2,), ())),
    "who stays is out of sync": (SHRINK, state(1, (1,)), (), None),
    "one is dead": (ALL_NEW, state(1, (1, 2, 3, 4)), (4,), None),
    "cancelled": (CANCELLED, state(1, (1, 2, 3)), (), (1, (1, 2), ())),
    "cancelled with one out of sync": (CANCELLED, state(1, (1, 3, 4)), (), None),
    "cancelled, a new one led": (CANCELLED, state(3, (1, 2, 3)), (), (1, (1, 2), ())),
}


@pytest.mark.parametrize("case", MOVES)
def test_the_end_of_a_move(case: str) -> None:
    topic, before, dead, wanted = MOVES[case]
    voters = Voters({node: life for node, life in LIVES.items() if node not in dead})
    after = reassignment.finished(topic, 0, before, voters, 2)
    assert (after and (after.leader, after.isr, after.eligible)) == wanted
    assert after is None or after.leader_epoch == 6


@pytest.mark.first
def test_a_partition_moves_and_the_next_controller_finishes_it(clusters: Clusters) -> None:
    async def work() -> None:
        async with clusters.started(1, 2, 3) as (one, two, three):
            await two.create_topic("t", [[2, 1], [1]])
            assert await two.settled("t", 20)
            with pytest.raises(Refused, match=r"brokers that live, \[1, 2, 3\]; not there: \[9\]"):
                await two.reassign("t", {0: [9]})
            with pytest.raises(Refused, match="t has 2 partitions, got 7") as unknown:
                await two.reassign("t", {7: [1]})
            assert unknown.value.kafka_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await two.reassign("t", {0: [3, 2], 1: [3]})
            await until(lambda: three.topics["t"].adding == {0: (3,), 1: (3,)})
            assert three.topics["t"].partitions == ((3, 2, 1), (3, 1))
            await one.close()
            await until(lambda: two.controller_epoch == 2)
            key = ("t", 0)
            joined = await two.write_isr(
                key, two.states[key].version, [2, 3], {3: three.life}, min_insync=1
            )
            assert joined.is_written
            await until(lambda: three.topics["t"].partitions[0] == (3, 2))
            await until(lambda: two.topics["t"].adding == {1: (3,)})
            assert (two.states[key].leader, two.states[key].isr) == (2, (2, 3))
            assert two.states[key].leader_epoch == 1
            await three.reassign("t", {1: None})
            await until(lambda: two.topics["t"].partitions[1] == (1, 3))
            assert two.topics["t"].removing == {1: (3,)}, "nobody who has the records lives"
            again = clusters.make(1)
            await again.start()
            await until(lambda: again.topics["t"].partitions == ((3, 2), (1,)))
            await until(lambda: again.leads(("t", 1)))
            assert again.topics["t"].removing == {}

    run(work())
