"""Where the replicas of a new topic go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import pytest

from appliance.cluster.placement import in_turn, place, staying
from appliance.errors import Refused
from appliance.protocol.errors import ErrorCode

THREE = {1: "", 2: "", 3: ""}


def test_replica_j_of_partition_i_is_on_broker_i_plus_j() -> None:
    assert place(4, 3, THREE, start=0) == ((1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 2, 3))
    assert place(2, 2, THREE, start=2) == ((3, 1), (1, 2))
    assert place(2, 2, THREE, start=0, first_partition=4) == ((2, 3), (3, 1))


def test_leaders_and_replicas_are_spread_evenly() -> None:
    placed = place(30, 3, dict.fromkeys(range(5), ""))
    leaders = Counter(replicas[0] for replicas in placed)
    held = Counter(each for replicas in placed for each in replicas)
    assert set(leaders.values()) == {6}
    assert set(held.values()) == {18}


def test_small_topics_do_not_all_begin_on_one_broker() -> None:
    assert {place(1, 1, THREE)[0][0] for _ in range(200)} == {1, 2, 3}


@pytest.mark.parametrize(
    ("leaving", "factor", "found"),
    [(set(), 1, [1, 2, 3]), ({2}, 2, [1, 3]), ({1, 2}, 2, [1, 3]), ({3}, 4, [1, 2, 3])],
)  # fmt: skip
def test_who_leaves_gets_replicas_only_where_others_are_too_few(
    leaving: Collection[int], factor: int, found: list[int]
) -> None:
    assert sorted(staying(THREE, leaving, factor)) == found


def test_brokers_are_taken_from_each_rack_in_turn() -> None:
    racks = {0: "a", 1: "b", 2: "c", 3: "b", 4: "c", 5: "a"}
    assert in_turn(racks) == [0, 1, 2, 5, 3, 4]
    assert in_turn(racks | {9: ""}) == [0, 1, 2, 3, 4, 5, 9], "one without a rack: none count"


@pytest.mark.parametrize("factor", [1, 2, 3, 4, 6])
@pytest.mark.parametrize(
    "racks",
    [
        {0: "a", 1: "b", 2: "c", 3: "b", 4: "c", 5: "a"},
        {0: "a", 1: "a", 2: "a", 3: "b", 4: "c", 5: "c"},
        {0: "a", 1: "a", 2: "a", 3: "a", 4: "a", 5: "b"},
    ],
)
def test_a_rack_has_a_second_replica_only_when_each_has_one(
    racks: dict[int, str], factor: int
) -> None:
    for replicas in place(20, factor, racks):
        assert len({*replicas}) == factor
        used = Counter(racks[each] for each in replicas)
        assert len(used) == min(factor, len({*racks.values()}))


def test_too_many_replicas_are_refused_with_the_numbers() -> None:
    words = "got a replication factor of 4, and 3 brokers live; wanted 1 to 3"
    with pytest.raises(Refused, match=words) as refused:
        place(1, 4, THREE)
    assert refused.value.kafka_code == ErrorCode.INVALID_REPLICATION_FACTOR
    with pytest.raises(Refused, match="replication factor of 0"):
        place(1, 0, THREE)
    with pytest.raises(Refused, match="0 brokers live"):
        place(1, 1, {})
    with pytest.raises(Refused, match="got 0 partitions") as none:
        place(0, 1, THREE)
    assert none.value.kafka_code == ErrorCode.INVALID_PARTITIONS
