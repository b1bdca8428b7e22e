"""Brokers of three that are killed one after the other, while somebody's work goes on."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from confluent_kafka import KafkaException

from tests.support.cluster_control import ClusterControl
from tests.support.logs import until
from tests.support.three_brokers import Brokers

Nothing = Callable[[], None]
Victims = Mapping[str, Callable[[ClusterControl], int]]

ALL = (1, 2, 3)
DEADLINE_S = 300.0  # of what takes seconds on a machine that has nothing else to do
SETTINGS = {
    "transaction.state.log.num.partitions": 3,
    "offsets.topic.num.partitions": 3,
    "group.streams.session.timeout.ms": 6000,  # so long a killed instance is a member
    "zookeeper.session.timeout.ms": 6000,  # a busy machine ends no session by itself
}
FIRST_SEED = int(os.environ.get("KILLS_SEED", "1"))
SEEDS = range(FIRST_SEED, FIRST_SEED + int(os.environ.get("KILLS_ROUNDS", "1")))


def until_whole(three: Brokers) -> None:
    """All partitions of all topics have a leader, and three replicas in sync."""
    end = time.monotonic() + DEADLINE_S
    while missing := not_whole(three):
        assert time.monotonic() < end, missing
        time.sleep(0.2)


def not_whole(three: Brokers) -> list[str]:
    with contextlib.suppress(KafkaException):
        topics = three.admin().list_topics(timeout=10).topics
        return [f"{name}-{number}: {vars(each)}" for name, topic in topics.items()
                for number, each in topic.partitions.items()
                if len(each.isrs) < len(ALL) or each.leader not in three.running]  # fmt: skip
    return ["no answer"]


def until_equal(three: Brokers, topic: str, partitions: int) -> None:
    """The files of all replicas, once nobody writes."""
    for number in range(partitions):
        until(partial(is_equal, three, topic, number), DEADLINE_S)


def is_equal(three: Brokers, topic: str, number: int) -> bool:
    return len({three.files(node, topic, number) for node in ALL}) == 1


@dataclass
class KilledInTurn:
    """`victims` are brokers by what they do, killed in an order of the dice; who was not among them
    dies last. `goes_on` returns when what comes in after its call has come out."""

    three: Brokers
    control: ClusterControl
    victims: Victims
    goes_on: Nothing
    dice: random.Random

    def play(self, program_dies: Nothing, program_returns: Nothing) -> None:
        """One of the programs dies, too, while a broker is away."""
        roles = self.dice.sample([*self.victims], len(self.victims))
        at = self.dice.choice(roles)
        killed = {self._one(role, *((program_dies, program_returns) if role == at else ()))
                  for role in roles}  # fmt: skip
        for node in {*ALL} - killed:
            self._take_away(node)

    def _one(self, role: str, *program: Nothing) -> int:
        node = self.victims[role](self.control)
        print(f"broker {node}, which {role}, dies{' with a program' if program else ''}")
        self._take_away(node, *program)
        return node

    def _take_away(self, node: int, *program: Nothing) -> None:
        self.three.stop(node, signal.SIGKILL)
        for dies in program[:1]:
            dies()
        self.goes_on()
        for returns in program[1:]:
            returns()
        self.three.start(node, **SETTINGS)
        until_whole(self.three)
        self.goes_on()
