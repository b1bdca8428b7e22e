"""Brokers are interchangeable: states that differ in who is who are one to a search.

Each broker, tree and network that a search meets gets a number, and the numbers of what the six
permutations make of it are kept. So a state is a tuple of a few numbers, and the smallest among its
permutations stands for all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import permutations
from operator import attrgetter
from typing import Any

from tests.replication.state import (
    BROKERS,
    NOBODY,
    Answer,
    Broker,
    Fetch,
    Message,
    News,
    State,
    Tree,
    members,
)

PERMUTATIONS = list(permutations(range(BROKERS)))  # the new number of each broker
key_of_broker = attrgetter(*(each for each in Broker.__slots__ if each != "number"))


def renamed(number: int, names: tuple[int, ...]) -> int:
    return number if number == NOBODY else names[number]


def set_renamed(mask: int, names: tuple[int, ...]) -> int:
    return sum(1 << names[each] for each in members(mask))


def moved(values: tuple[int, ...], names: tuple[int, ...]) -> tuple[int, ...]:
    """Each to the place of its broker."""
    return tuple(values[names.index(each)] for each in range(BROKERS))


def permuted_broker(broker: Broker, names: tuple[int, ...]) -> Broker:
    new = broker.copy()
    new.leader = renamed(broker.leader, names)
    new.isr, new.eligible, new.proposed, new.looked = (
        set_renamed(each, names)
        for each in (broker.isr, broker.eligible, broker.proposed, broker.looked)
    )
    new.ends, new.lives = moved(broker.ends, names), moved(broker.lives, names)
    if write := broker.write:
        new.write = write._replace(
            isr=set_renamed(write.isr, names), eligible=set_renamed(write.eligible, names),
            added=renamed(write.added, names),
        )  # fmt: skip
    return new


def permuted_tree(tree: Tree, names: tuple[int, ...]) -> Tree:
    new: Tree = _with_sets(tree, names)
    return new._replace(live=moved(tree.live, names), lives=moved(tree.lives, names))


def _with_sets(holder: Any, names: tuple[int, ...]) -> Any:
    return holder._replace(
        leader=renamed(holder.leader, names), isr=set_renamed(holder.isr, names),
        eligible=set_renamed(holder.eligible, names),
    )  # fmt: skip


def permuted_message(message: Message, names: tuple[int, ...]) -> Message:
    if isinstance(message, Fetch | Answer):
        return message._replace(
            follower=names[message.follower], leader=names[message.leader]
        )
    message = _with_sets(message, names)
    if isinstance(message, News):
        return message._replace(receiver=names[message.receiver])
    return message


def in_order(network: tuple[Message, ...]) -> tuple[Message, ...]:
    return tuple(sorted(network, key=lambda each: (len(each), each)))


def permuted_network(network: tuple[Message, ...], names: tuple[int, ...]) -> tuple[Message, ...]:
    return in_order(tuple(permuted_message(each, names) for each in network))


class Numbers:
    """Numbers values in the order in which they are met, and what permutations make of them."""

    def __init__(
        self, key: Callable[[Any], Hashable], permuted: Callable[[Any, tuple[int, ...]], Any]
    ) -> None:
        self.key = key
        self.permuted = permuted
        self.known: dict[Hashable, int] = {}
        self.values: list[Any] = []
        self.images: list[list[int]] = [[] for _ in PERMUTATIONS]

    def number(self, value: Any) -> int:
        key = self.key(value)
        number = self.known.get(key)
        if number is None:
            number = self.known[key] = len(self.values)
            self.values.append(value)
            for images in self.images:
                images.append(-1)
        return number

    def image(self, number: int, permutation: int) -> int:
        image = self.images[permutation][number]
        if image < 0:
            permuted = self.permuted(self.values[number], PERMUTATIONS[permutation])
            image = self.images[permutation][number] = self.number(permuted)
        return image


class Symmetry:
    def __init__(self) -> None:
        self.brokers = Numbers(key_of_broker, permuted_broker)
        self.trees = Numbers(lambda tree: tree, permuted_tree)
        self.networks = Numbers(lambda network: network, permuted_network)
        self.shown: dict[Hashable, int] = {}
        self.least_images: dict[int, tuple[int, tuple[int, ...]]] = {}

    def canonical(self, state: State) -> tuple[int, ...]:
        tree, choice = self._least(self.trees.number(state.tree))
        network = self.networks.number(in_order(state.network)) if state.network else -1
        for broker in state.brokers:
            if broker.number < 0:
                broker.number = self.brokers.number(broker)
        least = self._permuted(state.brokers, network, choice[0])
        for each in choice[1:]:
            least = min(least, self._permuted(state.brokers, network, each))
        seen = (state.committed, state.led)
        return (tree, *least, self.shown.setdefault(seen, len(self.shown)))

    def _least(self, tree: int) -> tuple[int, tuple[int, ...]]:
        """The least image of a tree, and the permutations that make it."""
        if tree not in self.least_images:
            images = [self.trees.image(tree, each) for each in range(len(PERMUTATIONS))]
            least = min(images)
            choice = tuple(at for at, image in enumerate(images) if image == least)
            self.least_images[tree] = (least, choice)
        return self.least_images[tree]

    def _permuted(
        self, brokers: list[Broker], network: int, permutation: int
    ) -> tuple[int, ...]:
        result = [0] * BROKERS + [network]
        images = self.brokers.images[permutation]
        for broker, name in zip(brokers, PERMUTATIONS[permutation], strict=True):
            image = images[broker.number]
            result[name] = image if image >= 0 else self.brokers.image(broker.number, permutation)
        if network >= 0:
            result[BROKERS] = self.networks.image(network, permutation)
        return tuple(result)
