"""A log that moves between two directories of records and back, while it is written to.

The catalog's rows are a file here, which is replaced as durably as a commit is: the recorder cannot
follow the memory that SQLite shares.
"""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from appliance._log import Engine, Log
from appliance.catalog.log_directory_rows import Move
from appliance.config import LogConfig
from appliance.data_dir import durable_directories, unfinished_moves
from appliance.data_dir.locked_dir import LockedDir
from appliance.data_dir.log_dir import LogDir
from appliance.data_dir.partition_move import PartitionMove
from appliance.data_dir.partition_names import Key
from appliance.data_dir.record_dir import RecordDir
from appliance.data_dir.recovery_report import Knowledge, RecoveryReport

from .producer_lives import transaction
from .session import SMALL, STORAGE, Session, config_of

DIRECTORY = "second"  # below the first
FIRST, SECOND = "1", "2"
ROWS = "rows"
KEY = ("m", 0)


class Rows:
    """As `LogDirectoryRows`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def _read(self) -> dict[str, list[Any]]:
        path = self._root / ROWS
        found: dict[str, list[Any]] = json.loads(path.read_text()) if path.exists() else {}
        return {"places": [], "moves": []} | found

    def _write(self, table: str, rows: Sequence[Any]) -> None:
        new = self._root / f"{ROWS}.new"
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(file, json.dumps(self._read() | {table: rows}).encode())
        os.fsync(file)
        os.close(file)
        new.rename(self._root / ROWS)
        directory = os.open(self._root, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)

    def places(self) -> dict[Key, str]:
        return {(topic, number): place for topic, number, place in self._read()["places"]}

    def place(self, key: Key, place: str) -> None:
        self._write("places", [(*each, at) for each, at in ({**self.places(), key: place}).items()])

    def moves(self) -> dict[Key, Move]:
        return {(topic, number): Move(*ids) for topic, number, *ids in self._read()["moves"]}

    def begin_move(self, key: Key, move: Move) -> None:
        self._write("moves", [(*each, *ids) for each, ids in ({**self.moves(), key: move}).items()])

    def end_move(self, key: Key) -> None:
        self._write("moves", [(*each, *ids) for each, ids in self.moves().items() if each != key])


class Report:
    """Of both directories as one."""

    def __init__(self, of: Sequence[RecoveryReport]) -> None:
        self.partitions = sum(each.partitions for each in of)
        self.losses = [loss for each in of for loss in each.losses]
        self.failures = [failure for each in of for failure in each.failures]
        self.known = Knowledge(
            any(each.known.journal_is_lost for each in of),
            any(each.known.journal_is_behind for each in of),
            all(each.known.has_watermarks for each in of if each.partitions),
        )
        self._texts = [each.text() for each in of]

    def text(self) -> str:
        return "\n".join(self._texts)


class TwoDirs:
    """As `LogDirs` has them, of which only the places and the order are of interest here."""

    def __init__(self, root: Path) -> None:
        self.rows = Rows(root)
        places = self.rows.places()
        self.by_id = {FIRST: RecordDir(root, FIRST), SECOND: RecordDir(root / DIRECTORY, SECOND)}
        belief = None
        for each in self.by_id.values():
            locked = LockedDir.lock(each.path, STORAGE, belief=belief)
            belief = locked.belief
            unfinished_moves.remove_futures(each)
            each.logs = LogDir(locked)
        for name, each in self.by_id.items():
            each.opened().recover(
                log_config=config_of,
                is_elsewhere=lambda key, name=name: places.get(key, name) != name,
            )
        self.report = Report([each.opened().report for each in self.by_id.values()])
        self.settle()

    def settle(self) -> None:
        unfinished_moves.settle(self.rows, self.rows.moves(), self.rows.places(), self.by_id)

    def logs(self) -> dict[Key, Log]:
        places = self.rows.places()
        return {
            key: log
            for name, each in self.by_id.items()
            for key, log in each.opened().logs().items()
            if places[key] == name
        }

    def log(self, topic: str, partition: int) -> Log:
        return self.logs()[topic, partition]

    def create(self, topic: str, partition: int, config: LogConfig) -> Log:
        self.rows.place((topic, partition), FIRST)
        return self.by_id[FIRST].opened().create(topic, partition, config)

    def checkpoint(self) -> None:
        for each in self.by_id.values():
            each.opened().checkpoint()

    def close(self) -> None:
        for each in reversed(self.by_id.values()):
            each.opened().close()

    def abandon(self) -> None:
        for each in reversed(self.by_id.values()):
            each.opened().abandon()


# ---- lives ----


def begin(session: Session) -> None:
    session.note(do="open")
    session.dir = TwoDirs(session.root)
    session.note(did="open", logs=session.ends())


def move(session: Session, kind: type[PartitionMove] = PartitionMove) -> Any:
    """To the other directory. The last bytes that are written before the switch are in no file that
    was synced."""
    both = session.dir
    log = session.log(*KEY)
    source = both.rows.places()[KEY]
    target = {FIRST: SECOND, SECOND: FIRST}[source]
    both.rows.begin_move(KEY, Move(source, target))
    copy = kind(
        log, both.by_id[source].opened(), both.by_id[target].opened(), lambda: 0, threading.Event()
    )
    copy.begin()
    copy.copy()
    session.append(log, session.records(2, 200))
    session.append(log, session.records(3, 300), durable=False)
    new = copy.switch(functools.partial(both.rows.place, KEY, target), SMALL)
    copy.discard()
    both.settle()
    session.see(new)
    return new


def live(session: Session, kind: type[PartitionMove] = PartitionMove) -> None:
    begin(session)
    log = session.create(*KEY)
    for sequence in range(5):
        made = session.records(
            2, 300, producer_id=7, producer_epoch=0, base_sequence=2 * sequence
        )
        session.append(log, made, durable=sequence == 4)
    transaction(session, log, 8, 0, "abort", durable=True)
    session.change("delete_before", log, functools.partial(log.delete_before, 3))
    session.checkpoint()
    log = move(session, kind)
    session.append(log, session.records(2, 250))
    log.roll()
    session.append(log, session.records(2, 100), durable=False)
    log = move(session, kind)
    session.append(log, session.records(1), durable=False)


def first(session: Session) -> None:
    live(session)
    session.recorder.kill()


def second(session: Session) -> None:
    begin(session)
    session.append(session.log(*KEY), session.records(2, 200))
    session.close()


# ---- planted faults ----


class FilesNotSynced(PartitionMove):
    def _sync_file(self, target: int) -> None:
        """Left out."""


class CopyNotSynced(PartitionMove):
    """The names in the directory of the copy."""

    def sync(self) -> None:
        right = durable_directories.sync_name
        durable_directories.sync_name = nothing
        super().sync()
        durable_directories.sync_name = right


class LastBytesLeft(PartitionMove):
    def round(self, is_paced: bool = True) -> int:
        return super().round() if is_paced else 0


class DecidedBefore(PartitionMove):
    def _close_and_put(self, decide: Callable[[], None]) -> None:
        decide()
        super()._close_and_put(nothing)


class StepLeftOut(PartitionMove):
    step: str

    def _close_and_put(self, decide: Callable[[], None]) -> None:
        right = self.target.engine
        self.target.engine = Without(right, self.step)  # type: ignore[assignment]
        super()._close_and_put(decide)
        self.target.engine = right


class NameNotSynced(StepLeftOut):
    step = "sync_directory"


class StateNotHandedOver(StepLeftOut):
    step = "take_over"


class Without:
    def __init__(self, engine: Engine, step: str) -> None:
        self._engine = engine
        self._step = step

    def __getattr__(self, name: str) -> Any:
        return nothing if name == self._step else getattr(self._engine, name)


def nothing(*_: Any) -> None:
    """What a step does that is left out."""


def with_fault(kind: type[PartitionMove]) -> Callable[[Session], None]:
    def faulty(session: Session) -> None:
        live(session, kind)
        session.recorder.kill()

    return faulty


FAULTY: dict[str, Sequence[Callable[[Session], None]]] = {
    "moves: files not synced": (with_fault(FilesNotSynced),),
    "moves: copy not synced": (with_fault(CopyNotSynced),),
    "moves: last bytes left": (with_fault(LastBytesLeft),),
    "moves: decided before": (with_fault(DecidedBefore),),
    "moves: name not synced": (with_fault(NameNotSynced),),
    "moves: state not handed over": (with_fault(StateNotHandedOver),),
}
