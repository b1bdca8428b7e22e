"""The ledger: what was lost or damaged, where, and whether a person has seen it.

    note          an entry for each damage that has no open one; whether all are on disk
    note_act      an entry for what a person is about to do to a log: on disk, or it raises
    acknowledge   an operator has seen it: it stays in the ledger, and is no finding any more

Entries outlive restarts, in the catalog. Where the catalog takes none, on a full disk for example,
they are kept in memory and `save` tries again: they count from the first moment, and `unsaved` says
how many a restart would forget. No log is changed on account of damage before its entry is on disk:
whoever is told that it is not waits, or does not do it.

Any thread may call.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from appliance.catalog.loss_ledger_rows import LedgerRows
from appliance.errors import ApplianceError, ResourceUnknown
from appliance.process import event_log

log = event_log.named("ledger")

Kind = Literal["lost", "damaged", "skipped"]
WHOLE = -1  # the partition of what is no partition's

KINDS: tuple[Kind, ...] = ("lost", "damaged", "skipped")


@dataclass(frozen=True)
class Damage:
    """Something that was there before and is not served now. `last_offset` None: not known.
    Partition -1: it is of the whole directory, and the cause says all."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int | None
    cause: str
    kind: Kind = "lost"  # damaged: there is something left; skipped: readers pass it, by order
    aside: str = ""  # where what is left of it was put

    @property
    def offsets(self) -> str:
        if self.last_offset is None:
            return f"offsets from {self.first_offset} on"
        if self.last_offset == self.first_offset:
            return f"offset {self.first_offset}"
        return f"offsets {self.first_offset} to {self.last_offset}"

    def __str__(self) -> str:
        if self.partition == WHOLE:
            return self.cause
        text = f"{self.topic}-{self.partition}: {self.offsets}: {self.cause}"
        return f"{text}; what is left is in {self.aside}" if self.aside else text


def of_directory(cause: str) -> Damage:
    return Damage("", WHOLE, -1, -1, cause, "damaged")


@dataclass(frozen=True)
class Entry:
    id: int  # 0: not in the catalog yet
    at_ms: int
    damage: Damage
    acknowledged_ms: int | None = None
    acknowledged_by: str = ""

    @property
    def is_open(self) -> bool:
        return self.acknowledged_ms is None


class Ledger:
    def __init__(self, rows: LedgerRows) -> None:
        self._rows = rows
        self._lock = threading.Lock()
        self._entries = [_of_row(each) for each in rows.all()]
        self._unsaved: list[Entry] = []

    def entries(self) -> list[Entry]:
        """All, the oldest first."""
        return [*self._entries, *self._unsaved]

    def open(self) -> list[Entry]:
        """What nobody has acknowledged."""
        return [each for each in self.entries() if each.is_open]

    def knows(self, topic: str, partition: int, offset: int) -> bool:
        """Whether it has an entry, open or not, about this offset."""
        return any(
            (each.damage.topic, each.damage.partition) == (topic, partition)
            and each.damage.first_offset <= offset
            and (each.damage.last_offset is None or offset <= each.damage.last_offset)
            for each in self.entries()
        )

    @property
    def unsaved(self) -> int:
        return len(self._unsaved)

    def note(self, damages: Iterable[Damage]) -> bool:
        """False: these, or some before them, are in memory only."""
        with self._lock:
            self._unsaved += self._new(damages)
            return self._save()

    def note_act(self, damages: Iterable[Damage]) -> None:
        """Where it raises, the act must not be done, and no entry says that it was."""
        with self._lock:
            self._store([*self._unsaved, *self._new(damages)])

    def save(self) -> bool:
        """What could not be stored before."""
        with self._lock:
            return self._save()

    def _new(self, damages: Iterable[Damage]) -> list[Entry]:
        known = {each.damage for each in self.open()}
        now_ms = time.time_ns() // 1_000_000
        new = [each for each in dict.fromkeys(damages) if each not in known]
        for each in new:
            log.error("damage", **vars(each))
        return [Entry(0, now_ms, each) for each in new]

    def _save(self) -> bool:
        try:
            self._store(self._unsaved)
        except ApplianceError as error:
            log.error("the ledger cannot be stored", entries=len(self._unsaved), error=error)
            return False
        return True

    def _store(self, entries: list[Entry]) -> None:
        if entries:
            ids = self._rows.add([_row_of(each) for each in entries])
            added = [replace(each, id=id_) for each, id_ in zip(entries, ids, strict=True)]
            self._entries = [*self._entries, *added]
            self._unsaved = []

    def acknowledge(self, ids: Iterable[int], who: str) -> int:
        """All of them or none; what was acknowledged before stays as it was. How many were open."""
        wanted = set(ids)
        with self._lock:
            if strange := sorted(wanted - {each.id for each in self._entries}):
                raise ResourceUnknown(f"the ledger has no entry {strange[0]}")
            return self._acknowledge(who, lambda each: each.id in wanted)

    def acknowledge_up_to(self, last_id: int, who: str) -> int:
        """What was stored by then, and so can have been seen."""
        with self._lock:
            return self._acknowledge(who, lambda each: each.id <= last_id)

    def _acknowledge(self, who: str, is_meant: Callable[[Entry], bool]) -> int:
        now_ms = time.time_ns() // 1_000_000
        ids = {each.id for each in self._entries if each.is_open and is_meant(each)}
        self._rows.acknowledge(sorted(ids), now_ms, who)
        self._entries = [
            replace(each, acknowledged_ms=now_ms, acknowledged_by=who) if each.id in ids else each
            for each in self._entries
        ]
        return len(ids)


def _of_row(row: tuple[Any, ...]) -> Entry:
    id_, at_ms, topic, partition, first, last, kind, cause, aside, *acknowledged = row
    damage = Damage(topic, partition, first, last, cause, kind, aside)
    return Entry(id_, at_ms, damage, *acknowledged)


def _row_of(entry: Entry) -> tuple[object, ...]:
    one = entry.damage
    return (
        entry.at_ms, one.topic, one.partition, one.first_offset, one.last_offset, one.kind,
        one.cause, one.aside, None, "",
    )  # fmt: skip
