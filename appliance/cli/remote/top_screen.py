"""One screen of `appliance top`: what a look found, in lines that fit the terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from appliance.cli.remote.output import cell
from appliance.process.spoken import BLOCKS, duration, size, some, trend

PLAIN, DIM, BOLD, GREEN, YELLOW, RED = "", "2", "1", "32", "33", "31"  # as a terminal has them
OF_STATUS = {"ok": GREEN, "degraded": YELLOW}
TREND = 24  # looks back
FINDINGS_MAX = 3
FIXED = 11  # lines beside those of topics and groups
TOPIC_SHARE = 0.6  # of the rest
WIDE_MIN = 40

TOPIC_HEADS = (("in/s", 11), ("out/s", 11), ("records/s", 10), ("size", 10))
GROUP_HEADS = (("state", 19), ("members", 7), ("lag", 11), ("behind", 9))


class Line(NamedTuple):
    text: str
    style: str = PLAIN


@dataclass(frozen=True)
class Look:
    """What the broker answered at one time."""

    at: float  # time.time
    health: dict[str, Any]
    topics: list[dict[str, Any]]  # those with the most traffic first
    groups: list[dict[str, Any]]  # those with the largest lag first

    @property
    def traffic(self) -> dict[str, Any]:
        return self.health["traffic"] or {}


@dataclass
class Screen:
    width: int
    height: int
    blocks: str = BLOCKS
    received: Sequence[float] = field(default_factory=list)  # at the last looks
    sent: Sequence[float] = field(default_factory=list)

    def lines(self, look: Look, trouble: str = "", now: float | None = None) -> list[Line]:
        """`trouble`: why there is no newer look. Then all of it is grey, below its age."""
        room = max(self.height - FIXED, 6)
        topics = max(min(len(look.topics), round(room * TOPIC_SHARE)), 1)
        groups = max(min(len(look.groups), room - topics), 1)
        found = [
            *self._head(look), Line(""),
            *self._facts(look), Line(""),
            *self._topics(look.topics[:topics]), Line(""),
            *self._groups(look.groups[:groups]),
        ]  # fmt: skip
        if trouble:
            age = duration((time.time() if now is None else now) - look.at)
            grey = [each._replace(style=DIM) for each in found]
            found = [Line(f"No answer since {age}: {trouble}", RED), *grey]
        return [each._replace(text=cut(each.text, self.width)) for each in found[: self.height]]

    def _head(self, look: Look) -> Iterator[Line]:
        health = look.health
        yield Line(health["sentence"], OF_STATUS.get(health["status"], RED))
        if len(health["findings"]) > 1:  # a single one is in the sentence
            for each in health["findings"][:FINDINGS_MAX]:
                yield Line(f"{each['level']}: {each['text']}", YELLOW)
        where = health["listeners"].get("kafka")
        left = f"{health['version']} at {where}, up {duration(health['uptime_s'])}"
        clock = time.strftime("%H:%M:%S UTC", time.gmtime(look.at))
        yield Line(f"{left}{clock:>{max(self.width - len(left), len(clock) + 2)}}", DIM)

    def _facts(self, look: Look) -> Iterator[Line]:
        traffic, health = look.traffic, look.health
        more = "" if not traffic else f"{number(traffic['received_records_per_s'])} records/s"
        yield self._rate("in", traffic.get("received_bytes_per_s"), self.received, more,
                         "produce", traffic.get("produce_p99_ms"))  # fmt: skip
        yield self._rate("out", traffic.get("sent_bytes_per_s"), self.sent, "",
                         "fetch", traffic.get("fetch_p99_ms"))  # fmt: skip
        if health["storage"]:
            yield Line(disk(health["storage"], self.blocks))
        counts = [
            some(health["connections"], "connection"),
            f"{some(health['topics'], 'topic')} with {some(health['partitions'], 'partition')}",
            some(health["groups"], "group"),
        ]
        unflushed = health["unflushed"]
        if unflushed and unflushed["records"]:
            counts.append(f"{size(unflushed['bytes'])} not yet on disk")
        yield Line("      " + ", ".join(counts))

    def _rate(
        self, name: str, rate: float | None, past: Sequence[float], more: str, what: str,
        p99_ms: float | None,
    ) -> Line:  # fmt: skip
        told = "" if p99_ms is None else f"{what} p99 {p99_ms:.1f} ms"
        chart = trend(past, TREND, self.blocks)
        return Line(f"{name:<6}{per_s(rate):>11} {chart}  {more:<17}{told}")

    def _topics(self, topics: Iterable[dict[str, Any]]) -> Iterator[Line]:
        yield from self._table(
            "topic", TOPIC_HEADS,
            [
                (each["name"], per_s(each["received_bytes_per_s"]), per_s(each["sent_bytes_per_s"]),
                 number(each["received_records_per_s"]), size(each["size_bytes"]))
                for each in topics
            ],
            "none yet: appliance topic create NAME",
        )  # fmt: skip

    def _groups(self, groups: Iterable[dict[str, Any]]) -> Iterator[Line]:
        yield from self._table(
            "group", GROUP_HEADS,
            [
                (each["group"], each["state"], str(each["members"]), number(each["lag_records"]),
                 duration(each["lag_seconds"]))
                for each in groups
            ],
            "none: no consumer has joined one",
        )  # fmt: skip

    def _table(
        self, name: str, heads: Sequence[tuple[str, int]], rows: list[tuple[str, ...]], empty: str
    ) -> Iterator[Line]:
        first = max(self.width, WIDE_MIN) - sum(width + 2 for _, width in heads)
        first = max(first, 10)
        titles = "".join(f"  {head:>{width}}" for head, width in heads)
        yield Line(f"{name:<{first}}{titles}", BOLD)
        if not rows:
            yield Line(empty, DIM)
        for row in rows:
            cells = zip(row[1:], heads, strict=True)
            right = "".join(f"  {cut(cell(text), width):>{width}}" for text, (_, width) in cells)
            yield Line(f"{cut(cell(row[0]), first):<{first}}{right}")


def disk(storage: dict[str, Any], blocks: str) -> str:
    free, total = storage["free_bytes"], storage["total_bytes"]
    used = 1 - free / total if total else 0.0
    filled = round(used * TREND)
    bar = blocks[-1] * filled + "-" * (TREND - filled)
    end = storage["full_in_s"]
    more = f", full in {duration(end)}" if end is not None else ""
    return f"{'disk':<6}{used:>10.0%}  {bar}  {size(free)} free of {size(total)}{more}"


def per_s(rate: float | None) -> str:
    return "-" if rate is None else f"{size(rate)}/s"


def number(count: float | None) -> str:
    return "-" if count is None else f"{count:,.0f}"


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 3, 0)] + "..."
