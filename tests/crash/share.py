"""The state of share groups, recorded: the real store over a real log.

Every life acquires records of two share partitions and acknowledges most of them, writes changes
and some snapshots, and deletes records before the snapshots. After a start, records that were
reported as acknowledged must be acknowledged, and no others.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from appliance.config import ShareStateConfig
from appliance.data_dir.log_dir import LogDir
from appliance.record import _batch_builder
from appliance.share.acquisition import Asked, Extent, Limits
from appliance.share.partition import Acknowledgement, SharePartition
from appliance.share.state_log import SharePartitionKey, Stored
from appliance.share.state_store import StateStore
from appliance.share.states import FINAL, AcknowledgeType
from appliance.topics.internal_topic import Record
from appliance.topics.topic import SHARE_STATE

from .noted import NotedLog, NotedTopic
from .trace import NEVER, Note

START_MS = 1_700_000_000_000
DIRECTORY = f"{SHARE_STATE}-0"
PLACES = tuple(SharePartitionKey("g", UUID(int=1), index) for index in range(2))
CONFIG = ShareStateConfig(updates_per_snapshot=3)
ROUNDS, TAKEN = 7, 4  # of a life; records of a round
LIMITS = Limits()
MEMBER = "m"


class Logs:
    """The store's interface to a broker, over a directory's logs."""

    def __init__(self, log_dir: Any, session: Any = None) -> None:
        self._dir = log_dir
        self._session = session

    def share_state_logs(self) -> list[Any]:
        log = self._dir.logs().get((SHARE_STATE, 0))
        if log is None:
            return []
        return [NotedLog(self._session, log) if self._session else log]

    async def make_share_state_topic(self) -> list[Any]:
        return self.share_state_logs()


# ---- lives ----


def live(session: Any, kind: type[StateStore] = StateStore) -> None:
    session.open()
    if not session.dir.logs():
        session.create(SHARE_STATE)
    asyncio.run(_live(session, kind))


async def _live(session: Any, kind: type[StateStore]) -> None:
    places = Logs(session.dir, session)
    store = kind(CONFIG, places, lambda: START_MS)
    store._topic = NotedTopic(session, places.make_share_state_topic, CONFIG.write_timeout_ms)
    faults = await store.load()
    assert not faults, faults
    for place in PLACES:
        store._stored.setdefault(place, Stored(SharePartition(0), must_snapshot=True))
    for number in range(ROUNDS):
        for place in PLACES:
            await acknowledge(session, store, place, store._stored[place], number)
        if number % 3 == 2:
            await store.prune()
    await store.close()


async def acknowledge(
    session: Any, store: StateStore, place: SharePartitionKey, own: Stored, number: int
) -> None:
    """Releases the last record of every second round, for gaps."""
    first = own.partition.next_fetch_offset()
    piece = Extent(first, first + TAKEN - 1, True)
    given = []
    for each in own.partition.acquire(Asked(MEMBER, TAKEN, TAKEN), first, [piece], LIMITS, 0):
        types = [AcknowledgeType.ACCEPT] * (each.last - each.first + 1)
        if number % 2 == 0 and each.last == piece.last:
            types[-1] = AcknowledgeType.RELEASE
        given.append(Acknowledgement(each.first, each.last, types))
    change = own.partition.acknowledge(MEMBER, given, LIMITS, 0)
    assert change is not None
    facts = {"place": place.partition, "offsets": accepted(given)}
    session.note(do="acknowledge", **facts)
    await store.store(place, own)
    own.partition.settle(change)
    session.note(did="acknowledge", **facts)


def accepted(given: Sequence[Acknowledgement]) -> list[int]:
    return [
        offset
        for each in given
        for offset, kind in enumerate(each.types, each.first)
        if kind == AcknowledgeType.ACCEPT
    ]


def first(session: Any) -> None:
    live(session)
    session.recorder.kill()


def second(session: Any) -> None:
    live(session)
    session.close()


def not_awaited(session: Any) -> None:
    live(session, Impatient)
    session.recorder.kill()


# ---- a planted fault ----


class Impatient(StateStore):
    """Planted: reports changes before they are on disk."""

    async def _write(
        self, key: SharePartitionKey, record: Record, written: Callable[[int], object]
    ) -> None:
        (log,) = self._places.share_state_logs()
        batch = _batch_builder.batch([(START_MS, *record)])
        written(log.append(batch, origin="coordinator").base_offset)


# ---- the state of a disk ----

Done = dict[int, set[int]]  # share partition -> offsets


def outcomes(root: Path, **opening: Any) -> tuple[Done, list[str]]:
    """The state after a start has read a copy of the directory, and its faults."""
    copy = root.with_name("with-share-state")
    shutil.copytree(root, copy)
    try:
        log_dir = LogDir.open(copy, **opening)
        try:
            store = StateStore(CONFIG, Logs(log_dir), lambda: START_MS)
            faults = asyncio.run(store.load())
        finally:
            log_dir.abandon()
    finally:
        shutil.rmtree(copy)
    done = {place.partition: _done(own.partition) for place, own in store.all()}
    return done, [f"share state: {each}" for each in faults]


def _done(found: SharePartition) -> set[int]:
    runs = [range(each.first, each.last + 1) for each in found.runs if each.state in FINAL]
    return set(range(found.start_offset)).union(*runs)


# ---- promises ----


@dataclass
class Acknowledged:
    asked: int
    told: int = NEVER


class Acknowledgements:
    """The story of all lives, from their notes."""

    def __init__(self, notes: list[Note]) -> None:
        self._all: dict[tuple[int, int], Acknowledged] = {}
        for note in notes:
            if note.facts.get("do") == "acknowledge":
                for place in self._places(note):
                    self._all.setdefault(place, Acknowledged(note.at))
            elif note.facts.get("did") == "acknowledge":
                for place in self._places(note):
                    self._all[place].told = min(self._all[place].told, note.at)

    @staticmethod
    def _places(note: Note) -> list[tuple[int, int]]:
        return [(note.facts["place"], offset) for offset in note.facts["offsets"]]

    def judge(self, seen: Done, cut: int) -> list[str]:
        shown = {(place, offset) for place, done in seen.items() for offset in done}
        asked = {place for place, own in self._all.items() if own.asked < cut}
        told = {place for place, own in self._all.items() if own.told < cut}
        return [
            *(f"share partition {p}: {o} was acknowledged, and is not" for p, o in told - shown),
            *(f"share partition {p}: {o} is acknowledged by nobody" for p, o in shown - asked),
        ]
