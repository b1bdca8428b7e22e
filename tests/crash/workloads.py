"""Lives of the engine, recorded: what is done, and what was promised, as notes in the same trace.

A scenario is a list of lives. Each life is a process of its own under the recorder; it ends by a
clean stop or by SIGKILL between two calls. `do` notes come before an act and `did` notes after it
returned, so a reader knows what had been asked for and what had been promised at every cut.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from appliance.config import LogConfig, StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError, SequenceOutOfOrder
from appliance.record import _batch

from . import share, txn
from .trace import Recorder

START_MS = 1_700_000_000_000
RACING = 100  # added to the life of a second session in it
# Small segments so that rolls happen; no timers, so that a trace is what the scenario says.
SMALL = LogConfig(
    segment_bytes=2048,
    index_interval_bytes=256,
    flush_ms=3_600_000,
    retention_ms=-1,
    producer_id_expiration_ms=1 << 40,
)
STORAGE = StorageConfig(
    checkpoint_interval_ms=3_600_000,
    reserve_bytes=0,
    low_water_bytes=0,
    sync="files",
    sync_threads=2,
    recovery_threads=1,
    sealed_files_idle_ms=3_600_000,
)

BY_SIZE = replace(SMALL, retention_bytes=3000)
BY_TIME = replace(SMALL, retention_ms=60_000)
COMPACT = replace(
    SMALL,
    segment_bytes=1024,
    cleanup_policy="compact",
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
)
CONFIGS = {"size": BY_SIZE, "time": BY_TIME, "i": BY_SIZE, "k": COMPACT}  # by topic


def config_of(topic: str, _partition: int) -> LogConfig:
    return CONFIGS.get(topic, SMALL)


def name_of(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


class Session:
    """One life of the engine; every act notes what it is and what came of it."""

    def __init__(self, root: Path, life: int) -> None:
        self.root = root
        self.life = life
        self.recorder = Recorder()
        self.act_id = 0
        self.value_id = 0
        self.dir: Any = None
        self.asked: dict[str, Any] = {}  # the act under way
        self.wait_seconds = 30.0

    def note(self, **facts: Any) -> None:
        self.asked = facts if "do" in facts else {}
        self.recorder.note(facts)

    def attempt(self, act: Callable[[], Any]) -> ApplianceError | OSError | None:
        """An act that may fail; a failed one leaves open what became of it."""
        self.asked = {}
        try:
            act()
        except (ApplianceError, OSError) as error:
            asked = self.asked
            if asked and asked["do"] != "open":
                self.note(did="fail", what=asked.pop("do"), **asked)
            return error
        return None

    # ---- the directory ----

    def open(self) -> None:
        self.note(do="open")
        self.dir = LogDir.open(self.root, config=STORAGE, log_config=config_of)
        self.note(did="open", logs=self.ends())

    def ends(self) -> dict[str, list[int]]:
        return {
            name_of(*key): [log.log_start_offset, log.log_end_offset, log.high_watermark]
            for key, log in self.dir.logs().items()
        }

    def create(self, topic: str, partition: int = 0) -> Any:
        self.note(do="create", log=name_of(topic, partition))
        log = self.dir.create(topic, partition, config_of(topic, partition))
        self.note(did="create", log=name_of(topic, partition))
        return log

    def delete(self, topic: str, partition: int = 0) -> None:
        self.note(do="delete", log=name_of(topic, partition))
        self.dir.delete(topic, partition)
        self.note(did="delete", log=name_of(topic, partition))

    def checkpoint(self) -> None:
        self.note(do="checkpoint")
        self.dir.checkpoint()
        self.note(did="checkpoint")

    def close(self) -> None:
        self.note(do="close")
        self.dir.close()
        self.note(did="close")

    # ---- one log ----

    def log(self, topic: str, partition: int = 0) -> Any:
        return self.dir.log(topic, partition)

    def append(
        self, log: Any, batch: bytes, *, durable: bool = True, origin: str = "client"
    ) -> Any:
        act_id = self.begin_append(log, batch)
        appended = log.append(batch, origin=origin)
        self.end_append(log, act_id, appended.base_offset, appended.last_offset, appended.duplicate)
        if durable:
            self.wait(log, appended.last_offset)
        return appended

    def begin_append(self, log: Any, batch: bytes) -> int:
        self.act_id += 1
        name = name_of(log.topic, log.partition)
        self.asked = {"do": "append", "id": self.act_id, "life": self.life, "log": name}
        self.recorder.note(self.asked | {"end": log.log_end_offset}, batch)
        return self.act_id

    def end_append(
        self, log: Any, act_id: int, base: int, last: int, duplicate: bool = False
    ) -> None:
        self.note(
            did="append",
            id=act_id,
            life=self.life,
            log=name_of(log.topic, log.partition),
            base=base,
            last=last,
            duplicate=duplicate,
        )
        self.see(log)

    def see(self, log: Any) -> None:
        """What a consumer could have read by now must never be taken back."""
        self.note(did="durable", log=name_of(log.topic, log.partition), end=log.high_watermark)

    def wait(self, log: Any, offset: int | None = None) -> None:
        last = log.log_end_offset - 1 if offset is None else offset
        log.await_durable(last, self.wait_seconds)
        self.waited(log, last)

    def waited(self, log: Any, last: int) -> None:
        self.note(did="durable", log=name_of(log.topic, log.partition), end=last + 1)
        self.see(log)

    def change(self, what: str, log: Any, act: Callable[[], Any], **facts: Any) -> Any:
        """An act that may remove records: notes what is left."""
        name = name_of(log.topic, log.partition)
        self.note(do=what, log=name, end=log.log_end_offset, **facts)
        result = act()
        self.note(did=what, log=name, start=log.log_start_offset, offsets=offsets_of(log), **facts)
        return result

    def records(
        self,
        count: int = 2,
        size: int = 120,
        key: str | None = None,
        codec: str = "none",
        **more: Any,
    ) -> bytes:
        """A batch of records that no other batch has."""
        made = []
        for _ in range(count):
            self.value_id += 1
            value = f"{self.life}.{self.value_id} ".encode() * (size // 16 + 1)
            made.append(
                (START_MS + self.value_id, (key or f"k{self.value_id}").encode(), value[:size])
            )
        return _batch.build(made, codec=codec, **more)


def read_batches(log: Any, up_to: str = "end") -> list[bytes]:
    """Every batch from the log's start, whole."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while True:
        data = log.read(offset, 1 << 20, up_to=up_to)
        if not data:
            return found
        view = memoryview(data)
        for info in _batch.headers(data):
            found.append(bytes(view[info.position : info.position + info.size]))
            offset = info.last_offset + 1


def offsets_of(log: Any) -> list[int]:
    return [record.offset for batch in read_batches(log) for record in _batch.records(batch)]


# ---- the scenarios ----


def produce_first(session: Session) -> None:
    session.open()
    logs = [session.create("a", partition) for partition in range(2)]
    for turn, codec in enumerate(["none", "lz4", "none", "zstd"]):
        for log in logs:
            session.append(log, session.records(1 + turn, codec=codec))
    session.append(logs[0], session.records(3, 300), durable=False)
    session.append(logs[0], session.records(2), durable=False)
    session.append(logs[1], session.records(2), durable=False)
    session.wait(logs[0])
    session.append(logs[1], session.records(4, 200))
    session.append(logs[1], session.records(1, 500), durable=False)
    session.close()


def produce_again(session: Session) -> None:
    session.open()
    for _ in range(2):
        for partition in range(2):
            session.append(session.log("a", partition), session.records(2))
    session.append(session.log("a", 0), session.records(3), durable=False)
    session.recorder.kill()


def roll(session: Session) -> None:
    """Acks that cover several segments at once."""
    session.open()
    log = session.create("r")
    for _ in range(4):
        for _ in range(4):
            session.append(log, session.records(3, 180), durable=False)
        session.wait(log)
    log.roll()
    session.append(log, session.records(1))
    session.append(log, session.records(1), durable=False)
    log.roll()
    session.append(log, session.records(1), durable=False)
    session.wait(log)
    session.recorder.kill()


def checkpoint(session: Session) -> None:
    """Recovery points in the middle of a segment, with undurable records above them."""
    session.open()
    logs = list(session.dir.logs().values())
    if not logs:
        logs = [session.create("c", partition) for partition in range(2)]
    for _ in range(4):
        for log in logs:
            session.append(log, session.records(2, 200))
            session.append(log, session.records(1, 200), durable=False)
        session.checkpoint()
        session.append(logs[0], session.records(2, 300), durable=False)
        session.checkpoint()
    session.wait(logs[0])
    session.checkpoint()
    session.append(logs[0], session.records(2, 300), durable=False)
    session.append(logs[1], session.records(2, 300), durable=False)
    session.recorder.kill()


def checkpoint_clean(session: Session) -> None:
    session.open()
    session.append(session.log("c", 0), session.records(2, 200))
    session.checkpoint()
    session.append(session.log("c", 0), session.records(2, 200), durable=False)
    session.close()


JOURNALED = ("j", "a-name-that-is-longer")  # records of two sizes


def journal_first(session: Session) -> None:
    """What only the journal knows: a log start inside a segment."""
    session.open()
    for topic in JOURNALED:
        log = session.create(topic)
        for _ in range(3):
            session.append(log, session.records(6, 30))
        session.change("delete_before", log, functools.partial(log.delete_before, 4))
    session.checkpoint()
    session.append(log, session.records(2, 200))
    session.close()


def journal_turned_over(session: Session) -> None:
    """Each start turns the journal over to its other file; then nothing more is written to it."""
    session.open()
    session.recorder.kill()


def journal_used(session: Session) -> None:
    session.open()
    session.append(session.log("j"), session.records(2, 200))
    session.checkpoint()
    for turn in range(20):  # of so many records of the journal, some lie across a sector's end
        log = session.log(JOURNALED[turn % 2])
        start = log.log_start_offset + 1
        session.change("delete_before", log, functools.partial(log.delete_before, start))
    session.append(session.log("j"), session.records(1), durable=False)
    session.recorder.kill()


def retention(session: Session) -> None:
    session.open()
    size, time = session.create("size"), session.create("time")
    for _ in range(8):
        for log in (size, time):
            session.append(log, session.records(3, 200), durable=False)
    for log in (size, time):
        session.wait(log)
    session.checkpoint()
    session.change("retain", size, lambda: size.retain(START_MS))
    session.change("retain", time, lambda: time.retain(START_MS + 10_000_000))
    for log in (size, time):
        session.append(log, session.records(3, 200))
    session.change("delete_before", size, lambda: size.delete_before(size.log_end_offset - 2))
    session.append(size, session.records(1))
    session.append(size, session.records(3, 300), durable=False)
    session.recorder.kill()


def retention_again(session: Session) -> None:
    session.open()
    size, time = session.log("size"), session.log("time")
    for _ in range(3):
        session.append(time, session.records(3, 250))
    session.change("delete_before", time, lambda: time.delete_before(time.log_end_offset))
    session.append(time, session.records(1))
    session.append(size, session.records(2))
    session.close()


def compact(session: Session, log: Any, now_ms: int) -> None:
    """Only what recovery need not read again is compacted, hence the checkpoint. A first pass makes
    segments smaller, the next makes one of several small ones."""
    session.checkpoint()
    before = len(offsets_of(log))
    session.change("compact", log, lambda: log.compact(now_ms))
    assert len(offsets_of(log)) < before, "compaction took nothing away"


def compaction(session: Session) -> None:
    """Keys written again and again, so that several segments become one."""
    session.open()
    log = session.create("k")
    for turn in range(6):
        for key in ("red", "blue", "green"):
            batch = session.records(1, 150, key=f"{key}{turn % 2}")
            session.append(log, batch, durable=False)
        session.append(log, session.records(2, 100, key="same"), durable=False)
    session.append(log, _batch.build([(START_MS + 900, b"red0", None)]))
    log.roll()
    session.append(log, session.records(1, key="last"))
    compact(session, log, START_MS + 1000)
    for key in ("blue0", "blue1", "red1"):
        session.append(log, session.records(1, 150, key=key))
        log.roll()
    session.append(log, session.records(1, 150, key="blue1"))
    compact(session, log, START_MS + 10_000_000)
    session.append(log, session.records(1, key="blue0"), durable=False)
    session.recorder.kill()


def compaction_again(session: Session) -> None:
    session.open()
    log = session.log("k")
    for key in ("green0", "same", "red1"):
        session.append(log, session.records(2, 200, key=key))
        log.roll()
    session.append(log, session.records(1, 200, key="red1"))
    compact(session, log, START_MS + 20_000_000)
    session.close()


def idempotent(session: Session) -> None:
    session.open()
    log = session.create("i")
    for turn in range(5):
        for producer in (7, 8):
            batch = session.records(
                2, 200, producer_id=producer, producer_epoch=0, base_sequence=2 * turn
            )
            session.append(log, batch, durable=turn != 3)
            if turn == 2:
                assert session.append(log, batch).duplicate, "a repeat was not recognised"
        if turn == 1:
            session.append(
                log, session.records(1, producer_id=9, producer_epoch=3, base_sequence=0)
            )
            session.checkpoint()
    session.wait(log)
    session.change("retain", log, lambda: log.retain(START_MS))
    session.append(log, session.records(1, producer_id=7, producer_epoch=1, base_sequence=0))
    session.append(
        log, session.records(2, producer_id=8, producer_epoch=0, base_sequence=10), durable=False
    )
    session.recorder.kill()


def idempotent_again(session: Session) -> None:
    session.open()
    log = session.log("i")
    for sequence in (1, 2):
        session.append(
            log, session.records(1, 300, producer_id=7, producer_epoch=1, base_sequence=sequence)
        )
    try:
        log.append(session.records(1, producer_id=7, producer_epoch=1, base_sequence=9))
        raise AssertionError("a gap in the sequence was accepted")
    except SequenceOutOfOrder:
        session.note(did="refuse")
    session.append(
        log, session.records(2, producer_id=8, producer_epoch=0, base_sequence=12), durable=False
    )
    session.close()


def idempotent_racing(session: Session) -> None:
    """Checkpoints while a producer goes on: what a checkpoint says must not be ahead of the log."""
    session.open()
    log = session.create("n")
    other = Session(session.root, session.life + RACING)

    def produce() -> None:
        for sequence in range(40):
            batch = other.records(1, producer_id=21, producer_epoch=0, base_sequence=sequence)
            other.append(log, batch, durable=sequence % 4 == 0)

    racing = threading.Thread(target=produce)
    racing.start()
    while racing.is_alive():
        session.checkpoint()
    session.recorder.kill()


def transaction(
    session: Session, log: Any, producer: int, sequence: int, kind: str, *, durable: bool
) -> None:
    """Two batches and a marker; its outcome is a fact once the marker is durable."""
    first = None
    for part in range(2):
        batch = session.records(
            1,
            150,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequence + part,
            transactional=True,
        )
        appended = session.append(log, batch, durable=False)
        first = appended.base_offset if first is None else first
    end(session, log, producer, first or 0, kind, durable=durable)


def end(
    session: Session, log: Any, producer: int, first: int, kind: str, *, durable: bool = True
) -> None:
    marker = _batch.build_control(kind, producer, 0, 0, START_MS)
    appended = session.append(log, marker, durable=durable, origin="coordinator")
    session.note(
        did="transaction",
        log=name_of(log.topic, log.partition),
        kind=kind,
        producer=producer,
        first=first,
        last=appended.last_offset,
        durable=durable,
    )


def transactions(session: Session) -> None:
    session.open()
    log = session.create("x")
    transaction(session, log, 1, 0, "commit", durable=True)
    transaction(session, log, 2, 0, "abort", durable=True)
    opened = session.append(
        log,
        session.records(1, producer_id=3, producer_epoch=0, base_sequence=0, transactional=True),
    )
    transaction(session, log, 1, 2, "abort", durable=False)
    session.append(log, session.records(2, 200))
    log.roll()
    session.append(log, session.records(1))
    session.checkpoint()
    transaction(session, log, 2, 2, "commit", durable=True)
    end(session, log, 3, opened.base_offset, "abort")
    transaction(session, log, 1, 4, "abort", durable=True)
    session.append(log, session.records(2, 900))
    session.append(log, session.records(2, 600))
    session.checkpoint()
    session.append(
        log,
        session.records(1, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True),
        durable=False,
    )
    session.recorder.kill()


def transactions_again(session: Session) -> None:
    session.open()
    log = session.log("x")
    transaction(session, log, 2, 4, "abort", durable=True)
    session.append(log, session.records(1), durable=False)
    session.close()


def truncate(session: Session) -> None:
    session.open()
    log = session.create("t")
    for _ in range(6):
        session.append(log, session.records(2, 200), durable=False)
    session.wait(log)
    session.checkpoint()
    session.change("truncate", log, lambda: log.truncate(8), to=8)
    session.append(log, session.records(2, 220))
    session.append(log, session.records(2, 220), durable=False)
    session.change("truncate", log, lambda: log.truncate(2), to=2)
    for _ in range(3):
        session.append(log, session.records(2, 180))
    truncate_producers(session, log)
    session.append(log, session.records(1), durable=False)
    session.recorder.kill()


def truncate_producers(session: Session, log: Any) -> None:
    """Into a later segment than the recovery point's: what lies between must not be lost."""
    transaction(session, log, 1, 0, "abort", durable=True)
    for sequence in range(4):
        batch = session.records(1, 90, producer_id=6, producer_epoch=0, base_sequence=sequence)
        session.append(log, batch)
        if sequence == 1:
            log.roll()
    to = log.log_end_offset - 1
    session.change("truncate", log, lambda: log.truncate(to), to=to)


def truncate_again(session: Session) -> None:
    session.open()
    log = session.log("t")
    session.append(log, session.records(2, 240))
    session.change("truncate", log, lambda: log.truncate(4), to=4)
    session.append(log, session.records(1, 240))
    session.close()


def partitions(session: Session) -> None:
    """Created, filled, deleted, created again under the same name."""
    session.open()
    for partition in range(2):
        log = session.create("p", partition)
        session.append(log, session.records(2))
        session.append(log, session.records(8, 250))
    session.checkpoint()
    session.delete("p", 0)
    log = session.create("q")
    session.append(log, session.records(1))
    log = session.create("p", 0)
    session.append(log, session.records(1, 90))
    session.append(log, session.records(1), durable=False)
    session.recorder.kill()


def partitions_again(session: Session) -> None:
    session.open()
    session.delete("q")
    session.create("empty")
    session.append(session.log("p", 0), session.records(1))
    session.close()


SCENARIOS: dict[str, Sequence[Callable[[Session], None]]] = {
    "produce": (produce_first, produce_again, produce_again),
    "roll": (roll,),
    "checkpoint": (checkpoint, checkpoint_clean, checkpoint),
    "journal": (journal_first, *[journal_turned_over] * 2, journal_used, journal_turned_over),
    "retention": (retention, retention_again),
    "compaction": (compaction, compaction_again),
    "idempotent": (idempotent, idempotent_again),
    "racing": (idempotent_racing,),
    "transactions": (transactions, transactions_again),
    "transfers": (txn.first, txn.second, txn.first),
    "share": (share.first, share.second, share.first),
    "truncate": (truncate, truncate_again),
    "partitions": (partitions, partitions_again),
}

# Faults planted in what is not compiled: each must be found.
FAULTY: dict[str, Sequence[Callable[[Session], None]]] = {
    "transfers-markers-first": (txn.markers_first,),
    "transfers-markers-not-awaited": (txn.markers_not_awaited,),
    "share-not-awaited": (share.not_awaited,),
}
LIVES = SCENARIOS | FAULTY


def main(scenario: str, life: str, root: str) -> None:
    LIVES[scenario][int(life)](Session(Path(root), int(life)))


if __name__ == "__main__":
    main(*sys.argv[1:])
