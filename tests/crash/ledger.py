"""The books of `torture.py`: checks coins by the transactions that made them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Place = tuple[str, int]  # topic and partition


class Coin(NamedTuple):
    place: tuple[str, int, int]  # topic, partition, offset
    which: str  # the transaction that made the coin
    part: int
    parts: int
    amount: int
    took: tuple[tuple[str, int, int], ...]  # the offsets of the coins that this transaction took

    @classmethod
    def of(cls, message: Any) -> Coin:
        said = json.loads(message.value())
        place = (message.topic(), message.partition(), message.offset())
        took = tuple((topic, partition, offset) for topic, partition, offset in said.pop("took"))
        return cls(place=place, took=took, **said)


@dataclass
class Books:
    """All coins that readers of committed records see, and the tellers' knowledge."""

    coins: list[Coin]
    seen: list[Coin] = field(default_factory=list)  # seen by a reader during the run
    committed: set[str] = field(default_factory=set)
    aborted: set[str] = field(default_factory=set)
    taken_up_to: dict[Place, int] = field(default_factory=dict)  # offsets of the groups

    def __str__(self) -> str:
        return (
            f"{len(self.committed)} transactions committed, {len(self.aborted)} aborted or left, "
            f"{len(self.coins)} coins, {len(self.seen)} of them seen on the way"
        )

    def wrong(self, total: int) -> list[str]:
        checks = (self._whole(), self._balanced(), self._taken_once(), self._kept())
        found = [each for check in checks for each in check]
        money = sum(each.amount for each in self.coins if not self._is_taken(each.place))
        if money != total:
            found.append(f"{money} in both topics, deposited were {total}")
        return found

    def _is_taken(self, place: tuple[str, int, int]) -> bool:
        topic, partition, offset = place
        return offset < self.taken_up_to.get((topic, partition), 0)

    def _whole(self) -> Iterator[str]:
        """Each committed transaction is complete and occurs once, and no other one occurs."""
        parts: dict[str, Counter[int]] = defaultdict(Counter)
        for coin in self.coins:
            parts[coin.which][coin.part] += 1
        wanted = {coin.which: Counter(range(coin.parts)) for coin in self.coins}
        for which, found in parts.items():
            if found != wanted[which]:
                yield f"{which}: parts {dict(found)}, wanted each of {len(wanted[which])} once"
        for which in sorted(self.aborted & set(parts)):
            yield f"{which} is seen and was aborted"
        for which in sorted(self.committed - set(parts)):
            yield f"{which} is not seen and was committed"

    def _balanced(self) -> Iterator[str]:
        """A transaction makes coins worth the coins that it took, which were committed."""
        amounts = {coin.place: coin.amount for coin in self.coins}
        made: Counter[str] = Counter()
        for coin in self.coins:
            made[coin.which] += coin.amount
        for which, took in self._transactions():
            if not took:
                continue  # the deposit
            unseen = [each for each in took if each not in amounts]
            if unseen:
                yield f"{which} took what was never committed: {unseen}"
            worth = sum(amounts.get(each, 0) for each in took)
            if worth != made[which]:
                yield f"{which} took {worth} and made {made[which]}"

    def _transactions(self) -> list[tuple[str, tuple[tuple[str, int, int], ...]]]:
        return sorted({(coin.which, coin.took) for coin in self.coins})

    def _taken_once(self) -> Iterator[str]:
        """Coins before the group's offset were taken once, coins after it never."""
        times = Counter(place for _, took in self._transactions() for place in took)
        for coin in self.coins:
            wanted = int(self._is_taken(coin.place))
            if times[coin.place] != wanted:
                yield f"{coin.place} was taken {times[coin.place]} times, wanted {wanted}"

    def _kept(self) -> Iterator[str]:
        """Records that a reader saw stay in the log; it saw each once and in order."""
        kept = {coin.place: coin for coin in self.coins}
        last: dict[Place, int] = {}
        for coin in self.seen:
            topic, partition, offset = coin.place
            if kept.get(coin.place) != coin:
                yield f"{coin} was seen and is gone"
            if offset <= last.get((topic, partition), -1):
                yield f"{coin.place} was seen after {last[topic, partition]}"
            last[topic, partition] = offset
