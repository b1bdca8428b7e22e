"""Brokers of one cluster as one source: each partition from the first of them that has it whole.

Ends of what refers to data are taken at all of them before those of data, and those of transactions
last, as at one broker. So each is asked for three points, which are held together.

    point 1 of all    what groups and share groups have read
    point 2 of all    data
    point 3 of all    transactions, the catalog

A broker that does not answer is left out: what no other one has is missing in the backup, by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from appliance.backup.errors import SourceBroke, SourceRefused
from appliance.backup.point import LogAt, Point, Unserved, of_json, to_json
from appliance.backup.source import Readable, Source
from appliance.topics.topic import INTERNAL, TRANSACTIONS

STAGES = 3


def stage_of(topic: str) -> int:
    if topic == TRANSACTIONS:
        return 2
    return 0 if topic in INTERNAL else 1


@dataclass(eq=False)
class SeveralBrokers:
    sources: Sequence[Source]
    names: Sequence[str]  # for people
    _points: dict[str, list[tuple[Source, str]]] = field(default_factory=dict)
    _of: dict[tuple[str, int], Source] = field(default_factory=dict)

    def take_point(self) -> Any:
        taken, silent = self._take_all()
        chosen: dict[tuple[str, int], LogAt] = {}
        faults: dict[tuple[str, int], str] = {}
        self._of = {}
        for number, points in taken.items():
            for stage, point in enumerate(points):
                for log in point.logs:
                    if stage_of(log.topic) == stage and log.key not in chosen:
                        chosen[log.key], self._of[log.key] = log, self.sources[number]
            for topic, partition, why in points[-1].unserved:
                faults.setdefault((topic, partition), f"{self.names[number]}: {why}")
        unserved = [
            Unserved(*key, f"{why}{silent}") for key, why in sorted(faults.items())
            if key not in chosen
        ]  # fmt: skip
        unserved += torn(taken, chosen)
        whole = self._merged(taken, chosen, unserved)
        return to_json(whole)

    def _take_all(self) -> tuple[dict[int, list[Point]], str]:
        """By the number of the broker; and, in words, which did not answer."""
        taken: dict[int, list[Point]] = {number: [] for number in range(len(self.sources))}
        silent: dict[int, SourceBroke] = {}
        for _ in range(STAGES):
            for number in [*taken]:
                try:
                    taken[number].append(of_json(self.sources[number].take_point()))
                except SourceBroke as error:
                    silent[number] = error
                    del taken[number]
        if not taken:
            raise next(iter(silent.values()))
        told = "".join(f"; {self.names[each]} did not answer: {silent[each]}" for each in silent)
        return taken, told

    def _merged(
        self, taken: dict[int, list[Point]], chosen: dict[tuple[str, int], LogAt],
        unserved: Sequence[Unserved],
    ) -> Point:  # fmt: skip
        every = [each for points in taken.values() for each in points]
        clusters = {each.cluster_id for each in every}
        if len(clusters) > 1:
            raise SourceRefused(f"these are brokers of several clusters: {', '.join(clusters)}")
        first = every[0]
        self._points = {first.point: [
            (self.sources[number], each.point) for number, points in taken.items()
            for each in points
        ]}  # fmt: skip
        return replace(
            every[STAGES - 1],
            point=first.point,
            at_ms=min(each.at_ms for each in every),
            hold_ms=min(each.hold_ms for each in every),
            logs=tuple(chosen[key] for key in sorted(chosen)),
            unserved=tuple(unserved),
        )

    def renew_point(self, point: str) -> None:
        for source, each in self._points[point]:
            source.renew_point(each)

    def end_point(self, point: str) -> None:
        for source, each in self._points[point]:
            source.end_point(each)
        self._points[point] = []  # asked again, it is over

    def batches(self, log: LogAt, start: int | None, end: int) -> AbstractContextManager[Readable]:
        return self._of[log.key].batches(log, start, end)

    def holes(self, log: LogAt, start: int, end: int) -> Sequence[tuple[int, int]]:
        return self._of[log.key].holes(log, start, end)


def torn(
    taken: dict[int, list[Point]], chosen: dict[tuple[str, int], LogAt]
) -> list[Unserved]:
    """Transactions went on between the first points and the last."""
    found = []
    for points in taken.values():
        first, last = (
            {each.partition: each.end_offset for each in points[stage].logs
             if each.topic == TRANSACTIONS}
            for stage in (0, STAGES - 1)
        )  # fmt: skip
        moved = sorted(each for each in last if first.get(each) != last[each])
        found += [
            Unserved(TRANSACTIONS, each, "transactions went on while brokers were asked, and what "
                     "one has written may be in this backup in part")
            for each in moved if (TRANSACTIONS, each) in chosen
        ]  # fmt: skip
    return [*dict.fromkeys(found)]
