"""The transaction protocol over several partitions, recorded: the real coordinator over real logs.

A transfer writes one record into each partition of a topic and one into `__consumer_offsets`, and
then ends. Its name is the key of its records. After the coordinator of the next life has run, a
disk must have all of its records or none, as promised.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance.config import TransactionsConfig
from appliance.data_dir.log_dir import LogDir
from appliance.data_dir.log_writes import LogWrites
from appliance.errors import ApplianceError
from appliance.record import _batch
from appliance.topics.topic import OFFSETS, TRANSACTIONS
from appliance.txn.coordinator import Coordinator
from appliance.txn.decided_ends import DecidedEnds
from appliance.txn.markers import Marker, Markers
from appliance.txn.transaction import TV1, TV2, Partition, Producer, Transaction

from .noted import NotedLog, NotedTopic, NotedWrites
from .trace import NEVER, Note

START_MS = 1_700_000_000_000

TOPIC = "y"
DIRECTORY = f"{TRANSACTIONS}-0"
PLACES = (Partition(TOPIC, 0), Partition(TOPIC, 1), Partition(OFFSETS, 0))
NAMES = {TV1: "old", TV2: "new"}  # transactional ids


class Logs:
    """The coordinator's interface to a broker, over a directory's logs."""

    def __init__(self, log_dir: Any, session: Any = None) -> None:
        self._dir = log_dir
        self.session = session
        self._next_id = 1000 * (session.life + 1) if session else 0

    def _noted(self, log: Any) -> Any:
        return NotedLog(self.session, log) if self.session else log

    def transaction_logs(self) -> list[Any]:
        log = self._dir.logs().get((TRANSACTIONS, 0))
        return [] if log is None else [self._noted(log)]

    async def make_transaction_topic(self) -> list[Any]:
        return self.transaction_logs()

    is_in_cluster = False

    def transaction_topic(self) -> None:
        """Is asked in a cluster alone, as is the next."""

    def led_log(self, topic: str, partition: int) -> None:
        """Nothing is led here."""

    def find_log(self, topic: str, partition: int) -> Any:
        log = self._dir.logs().get((topic, partition))
        return None if log is None else self._noted(log)

    def all_logs(self) -> Iterable[Any]:
        return [self._noted(each) for each in self._dir.logs().values()]

    def unserved_partitions(self) -> set[tuple[str, int]]:
        return set()

    async def new_producer_id(self) -> int:
        self._next_id += 1
        return self._next_id


async def nothing() -> None:
    return


Plant = Callable[[Coordinator], None]


def sound(transactions: Coordinator) -> None:
    """No fault."""


def coordinator(logs: Logs, plant: Plant = sound) -> Coordinator:
    config = TransactionsConfig()
    writes = NotedWrites(logs.session) if logs.session else LogWrites()
    made = Coordinator(config, logs, nothing, lambda producer_id, is_commit: None, writes)
    plant(made)
    if logs.session:
        timeout_ms = config.write_timeout_ms
        made.table._topic = NotedTopic(logs.session, logs.make_transaction_topic, timeout_ms)
    return made


# ---- lives ----


async def transfer(
    session: Any, transactions: Coordinator, version: int, producer: Producer, kind: str
) -> Producer:
    """`kind`: how it ends; "left" stays open. Returns the next producer."""
    session.value_id += 1
    which, logs = f"{session.life}.{session.value_id}", Logs(session.dir, session)
    name = NAMES[version]
    session.note(do="transfer", which=which)
    if version == TV1:
        await transactions.add(name, producer, PLACES)
    writers = dict.fromkeys(PLACES, producer)
    async with transactions.writing(name, writers, may_add=version == TV2) as refused:
        assert not refused, refused
        for place in PLACES:
            batch = session.records(
                1, 60, which, producer_id=producer.id, producer_epoch=producer.epoch,
                transactional=True,
            )  # fmt: skip
            session.append(logs.find_log(*place)._log, batch, origin="coordinator")
    if kind == "left":
        return producer
    session.note(do="end", which=which, kind=kind)
    following = await transactions.end(name, producer, kind == "commit", version)
    session.note(did="end", which=which)
    await transactions.tasks.settled()
    return following


def live(session: Any, ends: dict[int, tuple[str, ...]], plant: Plant) -> None:
    session.open()
    if not session.dir.logs():
        for topic, partition in (*PLACES, Partition(TRANSACTIONS, 0)):
            session.create(topic, partition)
    asyncio.run(_live(session, ends, plant))


async def _live(session: Any, ends: dict[int, tuple[str, ...]], plant: Plant) -> None:
    transactions = coordinator(Logs(session.dir, session), plant)
    transactions.start()
    await transactions.loading.loaded()
    await transactions.tasks.settled()
    for version, each_end in ends.items():
        producer = await transactions.init_producer(NAMES[version], 60_000, None)
        await transactions.tasks.settled()
        for each in each_end:
            producer = await transfer(session, transactions, version, producer, each)
    await transactions.close()


def first(session: Any, plant: Plant = sound) -> None:
    ends = {TV1: ("commit", "abort", "commit"), TV2: ("commit", "abort", "left")}
    live(session, ends, plant)
    session.recorder.kill()


def second(session: Any) -> None:
    """Starts with the open transactions of the first life, and leaves some itself."""
    live(session, {TV2: ("commit", "commit"), TV1: ("abort", "commit", "left")}, sound)
    session.close()


def markers_first(session: Any) -> None:
    first(session, plant_markers_first)


def markers_not_awaited(session: Any) -> None:
    first(session, plant_markers_not_awaited)


# ---- planted faults ----


class MarkersFirst(DecidedEnds):
    """Planted: readers see the end before it is decided."""

    async def end(self, prepared: Transaction) -> None:
        logs = [self._logs.find_log(*each) for each in prepared.partitions]
        marker = Marker(prepared.producer, prepared.is_commit, 0)
        await self._markers.write([each for each in logs if each is not None], marker)
        await super().end(prepared)


def plant_markers_first(transactions: Coordinator) -> None:
    transactions.decided_ends.__class__ = MarkersFirst


class MarkersNotAwaited(Markers):
    """Planted: the end is on disk before the markers."""

    async def write(self, logs: Iterable[Any], marker: Marker) -> list[ApplianceError]:
        for each in logs:
            each.append(marker.batch(START_MS), origin="coordinator")
        return []


def plant_markers_not_awaited(transactions: Coordinator) -> None:
    transactions.markers.__class__ = MarkersNotAwaited


# ---- the state of a disk ----

Outcomes = dict[str, dict[str, str]]  # transfer -> log -> committed, aborted, open


def outcomes(root: Path, **opening: Any) -> tuple[Outcomes, list[str]]:
    """The state after the coordinator has run on a copy of the directory, and its faults."""
    copy = root.with_name("with-coordinator")
    shutil.copytree(root, copy)
    try:
        log_dir = LogDir.open(copy, **opening)
        try:
            return asyncio.run(_outcomes(log_dir))
        finally:
            log_dir.abandon()
    finally:
        shutil.rmtree(copy)


async def _outcomes(log_dir: Any) -> tuple[Outcomes, list[str]]:
    transactions = coordinator(Logs(log_dir))
    transactions.start()
    await transactions.loading.loaded()
    await transactions.tasks.settled()
    wrong = [transactions.loading.fault] if transactions.loading.fault else []
    found: Outcomes = {}
    for (topic, partition), log in log_dir.logs().items():
        if topic == TRANSACTIONS:
            continue
        name = f"{topic}-{partition}"
        for which, outcome in _read(log).items():
            found.setdefault(which, {})[name] = outcome
        owned = [
            each.id
            for each in transactions.table.transactions.values()
            if Partition(topic, partition) in each.partitions
        ]
        if log.last_stable_offset < log.log_end_offset and not owned:
            wrong.append(f"{name}: readers wait at {log.last_stable_offset} for nobody")
    # open transactions can be ended
    for each in list(transactions.table.transactions.values()):
        await transactions.init_producer(each.id, 60_000, None)
    await transactions.tasks.settled()
    for (topic, partition), log in log_dir.logs().items():
        if log.last_stable_offset < log.log_end_offset and topic != TRANSACTIONS:
            wrong.append(f"{topic}-{partition}: still open at {log.last_stable_offset}")
    await transactions.close()
    return found, wrong


def _read(log: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    is_open: dict[int, list[str]] = {}
    offset = log.log_start_offset
    while data := log.read(offset, 1 << 20, "end"):
        for info in _batch.headers(data):
            batch = data[info.position : info.position + info.size]
            offset = info.last_offset + 1
            if info.is_control:
                kind = _batch.control(batch)
                for which in is_open.pop(info.producer_id, ()):
                    found[which] = "committed" if kind and kind[0] == "commit" else "aborted"
            elif info.is_transactional:
                for each in _batch.records(batch):
                    which = (each.key or b"").decode()
                    found[which] = "open"
                    is_open.setdefault(info.producer_id, []).append(which)
    return found


# ---- promises ----


@dataclass
class Transfer:
    began: int
    kind: str = "left"
    asked: int = NEVER  # time of its end
    told: int = NEVER


@dataclass
class Transfers:
    """The story of all lives, from their notes."""

    told: dict[str, Transfer] = field(default_factory=dict)

    def __init__(self, notes: list[Note]) -> None:
        self.told = {}
        for note in notes:
            facts = note.facts
            if facts.get("do") == "transfer":
                self.told[facts["which"]] = Transfer(note.at)
            elif facts.get("do") == "end":
                own = self.told[facts["which"]]
                own.kind, own.asked = facts["kind"], note.at
            elif facts.get("did") == "end":
                self.told[facts["which"]].told = note.at

    def judge(self, seen: Outcomes, cut: int) -> list[str]:
        wrong = []
        for which, own in self.told.items():
            shown = seen.get(which, {})
            kinds = set(shown.values())
            if len(kinds) > 1:
                wrong.append(f"transfer {which} is {shown}: not one thing everywhere")
            may_commit = own.kind == "commit" and own.asked < cut
            if "committed" in kinds and not may_commit:
                wrong.append(f"transfer {which} was never to be committed, and is: {shown}")
            is_whole = kinds == {"committed"} and len(shown) == len(PLACES)
            if own.told < cut and own.kind == "commit" and not is_whole:
                wrong.append(f"transfer {which} was committed, and is {shown}")
            if "committed" in kinds and not is_whole:
                wrong.append(f"transfer {which} is committed in part: {shown}")
        return wrong
