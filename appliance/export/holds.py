"""Retention holds: they keep what is not exported yet, up to a number of bytes.

    holding     retention deletes no segment with an offset at or after the hold's
    released    retention deletes again: the hold would have kept more than `max_bytes`, or the disk
                was full

The log, health and metrics show a released hold until it is set again. A hold is on disk before
it is acknowledged, and survives restarts. A retention run and a change of a hold exclude each
other, so retention never deletes what an acknowledged hold keeps.

Deleting records or a topic on purpose is not retention: a hold does not prevent it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from appliance._log import Log
from appliance.config import LONG_MAX
from appliance.data_dir.partition_names import Key
from appliance.errors import ApplianceError, RequestInvalid, ResourceUnknown
from appliance.export.hold_rows import HoldRows
from appliance.process import event_log

log = event_log.named("export")

HOLDS_MAX = 1000  # each is judged in every run of retention
WARN_SHARE = 0.8  # share of max_bytes; above it health warns


@dataclass(frozen=True)
class Hold:
    name: str
    topic: str
    offsets: Mapping[int, int]  # by partition; the hold ignores others
    max_bytes: int
    put_ms: int
    held_bytes: int = 0  # kept at the last check beyond retention
    released_ms: int | None = None
    why_released: str = ""
    is_stored: bool = True  # False: a start would load it as it was before

    @property
    def is_holding(self) -> bool:
        return self.released_ms is None

    @property
    def warning(self) -> str:
        """The warning, or "" if all is well."""
        if not self.is_holding:
            return f"export hold {self.name} of {self.topic} was released: {self.why_released}"
        if self.held_bytes < WARN_SHARE * self.max_bytes:
            return ""
        return (
            f"export hold {self.name} keeps {self.held_bytes} of at most {self.max_bytes} bytes of "
            f"{self.topic}: beyond that retention deletes records that are not exported"
        )


class Holds:
    """All holds. Any thread may call; a change waits for the current retention run."""

    def __init__(self, rows: HoldRows, is_full: Callable[[Iterable[Key]], bool]) -> None:
        """`is_full`: whether the disk of some of these partitions is."""
        self._rows = rows
        self._is_full = is_full
        self._lock = threading.Lock()
        self._holds = {each.name: each for each in map(_of_row, rows.all())}

    def all(self) -> list[Hold]:
        return sorted(self._holds.copy().values(), key=lambda each: each.name)

    def get(self, name: str) -> Hold:
        found = self._holds.get(name)
        if found is None:
            raise ResourceUnknown(f"there is no export hold {name!r}")
        return found

    def put(self, hold: Hold) -> None:
        with self._lock:
            if hold.name not in self._holds and len(self._holds) >= HOLDS_MAX:
                raise RequestInvalid(f"there are {HOLDS_MAX} holds already")
            self._rows.put(_row_of(hold))
            self._holds = {**self._holds, hold.name: hold}

    def delete(self, name: str) -> None:
        with self._lock:
            self.get(name)
            self._rows.delete(name)
            self._holds = {key: each for key, each in self._holds.items() if key != name}

    def forget_topics(self, topics: Collection[str]) -> None:
        """Removes holds of deleted topics: new ones of these names have other offsets."""
        with self._lock:
            for each in self.all():
                if each.topic in topics:
                    self._rows.delete(each.name)
                    self._holds = {key: one for key, one in self._holds.items() if one != each}
                    log.warning("export hold is gone with its topic", hold=each.name,
                                topic=each.topic)  # fmt: skip

    # Retention

    @contextmanager
    def judged(self, logs: Mapping[Key, Log], now_ms: int) -> Iterator[Callable[[Log], int]]:
        """For one run of retention: checks each hold, and returns the offset from which to keep
        each log."""
        with self._lock:
            self._holds = {each.name: self._judge(each, logs, now_ms) for each in self.all()}
            floors: dict[Key, int] = {}
            for each in self._holds.values():
                if each.is_holding:
                    for number, offset in each.offsets.items():
                        key = each.topic, number
                        floors[key] = min(offset, floors.get(key, LONG_MAX))
            yield lambda one: floors.get((one.topic, one.partition), LONG_MAX)

    def _judge(self, hold: Hold, logs: Mapping[Key, Log], now_ms: int) -> Hold:
        if not hold.is_holding:
            return hold if hold.is_stored else self._stored(hold)
        held = sum(
            logs[hold.topic, number].kept_bytes(offset, now_ms)
            for number, offset in hold.offsets.items()
            if (hold.topic, number) in logs
        )
        hold = replace(hold, held_bytes=held)
        if held > hold.max_bytes:
            why = f"it would keep {held} bytes, more than its {hold.max_bytes}"
        elif held and self._is_full([(hold.topic, number) for number in hold.offsets]):
            why = f"the disk is full, and it kept {held} bytes"
        else:
            return hold
        return self._let_go(hold, why)

    def _let_go(self, hold: Hold, why: str) -> Hold:
        hold = replace(hold, released_ms=time.time_ns() // 1_000_000, why_released=why)
        log.error("export hold released: retention may delete unexported records", hold=hold.name,
                  topic=hold.topic, why=why)  # fmt: skip
        return self._stored(hold)

    def _stored(self, hold: Hold) -> Hold:
        """A full disk keeps it from that, and the release frees the disk: each run tries again."""
        try:
            self._rows.put(_row_of(hold))
        except ApplianceError as error:
            log.error("the release of an export hold cannot be stored", hold=hold.name, error=error)
            return replace(hold, is_stored=False)
        return replace(hold, is_stored=True)


def _of_row(row: tuple[Any, ...]) -> Hold:
    name, topic, text, max_bytes, put_ms, released_ms, why = row
    offsets = {int(number): offset for number, offset in json.loads(text).items()}
    return Hold(name, topic, offsets, max_bytes, put_ms, 0, released_ms, why)


def _row_of(hold: Hold) -> tuple[object, ...]:
    offsets = json.dumps({str(number): offset for number, offset in hold.offsets.items()})
    return (hold.name, hold.topic, offsets, hold.max_bytes, hold.put_ms, hold.released_ms,
            hold.why_released)  # fmt: skip
