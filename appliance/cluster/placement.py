"""On which brokers the replicas of a new topic are: partition i's replica j is on broker
(start + i + j) mod n of all that live. With racks the brokers are taken from each rack in turn,
and a partition has a second replica in a rack only when each rack has one, as in Kafka."""

from __future__ import annotations

import random
from collections.abc import Container, Mapping, Sequence
from itertools import zip_longest

from appliance.cluster.forms import PARTITIONS_MAX, REPLICAS_MAX, Replicas
from appliance.errors import Refused
from appliance.protocol.errors import ErrorCode


def place(
    partitions: int,
    factor: int,
    racks: Mapping[int, str],
    start: int | None = None,
    first_partition: int = 0,
) -> tuple[Replicas, ...]:
    """`racks`: of all brokers that live, "" where there is none. Without a `start` it is any
    broker, so that small topics do not all begin on the same one."""
    check(partitions, factor, len(racks))
    brokers = in_turn(racks)
    first = random.randrange(len(brokers)) if start is None else start
    numbers = range(first_partition, first_partition + partitions)
    return tuple(replicas_from(first + each, factor, brokers, racks) for each in numbers)


def staying(racks: Mapping[int, str], leaving: Container[int], factor: int) -> dict[int, str]:
    """Of those that are being stopped only as many as are needed: a partition without another
    replica would wait for their return."""
    brokers = sorted(racks, key=lambda each: (each in leaving, each))
    stay = sum(each not in leaving for each in brokers)
    return {each: racks[each] for each in brokers[: max(factor, stay)]}


def check(partitions: int, factor: int, living: int) -> None:
    if not 0 < partitions <= PARTITIONS_MAX:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"got {partitions} partitions, wanted 1 to {PARTITIONS_MAX}",
        )
    if not 0 < factor <= min(living, REPLICAS_MAX):
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"got a replication factor of {factor}, and {living} brokers live; wanted 1 to "
            f"{min(living, REPLICAS_MAX)}",
        )


def in_turn(racks: Mapping[int, str]) -> list[int]:
    """All brokers; a broker of each rack in turn, unless one has none."""
    if not all(racks.values()):
        return sorted(racks)
    names = sorted(set(racks.values()))
    by_rack = [sorted(each for each in racks if racks[each] == name) for name in names]
    rows = zip_longest(*by_rack)
    return [each for row in rows for each in row if each is not None]


def replicas_from(
    first: int, factor: int, brokers: Sequence[int], racks: Mapping[int, str]
) -> Replicas:
    count = len(brokers)
    left = [brokers[(first + each) % count] for each in range(count)]
    is_by_rack = all(racks.values())
    taken: list[int] = []
    unused = set(racks.values())
    while len(taken) < factor:
        fitting = (each for each in left if not is_by_rack or not unused or racks[each] in unused)
        broker = next(fitting)
        taken.append(broker)
        left.remove(broker)
        unused.discard(racks[broker])
    return tuple(taken)
