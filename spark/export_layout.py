"""The layout of an export's target, and durable changes to it.

    topic=T                                          a link to the newest generation of its folder
    topic=T/date=2026-11-21/hour=08/T+0003+0000000012345+0000000045678.parquet
    topic=T/date=2026-11-21/hour=08/_SUCCESS         no more records are expected for this hour
    _dead_letter/topic=T/date=…/hour=…/T+….parquet   records that did not parse, and why
    _export/manifest.json                            the truth: files, and positions of partitions
    _export/runs/ID/plan.json                        the offsets of a run, fixed before it reads
    _export/staging/ID/…                             files of a run that has not ended
    _export/generations/000008/topic=T               the link's present and past targets
    _export/lock                                     one run at a time

Spark and pyarrow skip names with an underscore in front, DuckDB and Polars do not. A file's name
has the range of its split, from the first offset up to, not including, the last number. The folders
below a topic are those of its `export_hours.Layout`.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from urllib.parse import unquote, urlsplit

DEAD_LETTERS = "_dead_letter"
OWN = "_export"
FILES_OPEN_MAX = 64  # per task: large records of more folders in disorder make more files instead


class ExportFailed(Exception):
    """A run, a check or a plan cannot continue; the text has the numbers and the remedy."""


def range_name(topic: str, partition: int, start: int, end: int, part: int = 0) -> str:
    more = f"+part{part}" if part else ""
    return f"{topic}+{partition:04d}+{start:013d}+{end:013d}{more}.parquet"


def merged_name(topic: str, sequence: int, number: int) -> str:
    return f"{topic}+merged+{sequence:06d}+{number:04d}.parquet"


def target_path(text: str) -> Path:
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise ExportFailed(f"got the target {text}: {error}") from error
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    if "://" in text:
        raise ExportFailed(
            f"got the target {text}: wanted a path, the same folder for all Spark workers")
    return Path(text).absolute()


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Creates a folder with its parents, each durable in its parent."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        sync_folder(each.parent)


def text_of(file: Path) -> str:
    """The text of a user's file."""
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ExportFailed(f"{file} is not UTF-8: {error}") from error


def write_durably(path: Path, text: str) -> None:
    """Replaces a file: readers see the old text or the new one, never half of it."""
    scratch = path.with_name(f".{path.name}.new")
    with scratch.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
    sync_folder(path.parent)


def move_durably(moves: list[tuple[Path, Path]]) -> None:
    """Many renames, with one sync per folder."""
    for source, to in moves:
        make_folder(to.parent)
        source.replace(to)
    for folder in sorted({to.parent for _, to in moves}):
        sync_folder(folder)


class Sink(Protocol):
    """A new file or object, which is there, and lasts, once it is closed."""

    def write(self, data: Any) -> int: ...

    def tell(self) -> int: ...

    def close(self) -> None: ...

    def abandon(self) -> None: ...


class Staging(Protocol):
    """Where the tasks of a run write. Workers get it."""

    def attempt(self) -> Staging:
        """With names of its own: the driver takes the files of the attempt that Spark reports."""
        ...

    def start(self, path: str) -> tuple[Sink, dict[str, str]]:
        """Also what the manifest, or the commit, wants to know of its place."""
        ...

    def clear(self) -> None:
        """Removes what stopped tasks left."""
        ...


class Files(Protocol):
    """The files of a target, by their paths in the manifest. Workers get it."""

    def open(self, path: str) -> BinaryIO: ...


class NewFile:
    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("xb")

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            self._file.close()

    def abandon(self) -> None:
        self._file.close()


@dataclass(frozen=True)
class FolderStaging:
    folder: str

    def attempt(self) -> FolderStaging:
        return FolderStaging(f"{self.folder}/{uuid.uuid4().hex}")

    def start(self, path: str) -> tuple[NewFile, dict[str, str]]:
        staged = Path(self.folder) / path
        return NewFile(staged), {"path": path, "staged": str(staged)}

    def clear(self) -> None:
        if os.path.exists(self.folder):
            shutil.rmtree(self.folder)


@dataclass(frozen=True)
class FolderFiles:
    root: str

    def open(self, path: str) -> BinaryIO:
        return (Path(self.root) / path).open("rb")


class Target:
    """In a folder. One in an object store is a StoreTarget."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.where = str(root)
        self.files = FolderFiles(str(root))
        self.own = root / OWN
        self.runs = self.own / "runs"
        self.staging = self.own / "staging"
        self.generations = self.own / "generations"
        self.manifest = self.own / "manifest.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One run, compaction or repair at a time; the kernel releases the lock when we die."""
        make_folder(self.own)
        with (self.own / "lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                raise ExportFailed(
                    f"{self.root} is being written by process {lock.read().strip() or 'unknown'}: "
                    "one run at a time"
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def tops(self) -> Iterator[str]:
        """The folders of topics for readers."""
        for top in (*self.root.glob("topic=*"), *self.root.glob(f"{DEAD_LETTERS}/topic=*")):
            yield str(top.relative_to(self.root))

    def data_files(self) -> Iterator[str]:
        """Every Parquet file that a reader could list, committed or not. DuckDB and Polars also
        list names with an underscore or a dot in front."""
        for top in self.tops():
            for path in sorted((self.root / top).rglob("*.parquet")):
                yield str(path.relative_to(self.root))

    # The manifest

    def exists(self) -> bool:
        return self.manifest.exists()

    @property
    def manifest_name(self) -> str:
        return str(self.manifest)

    def manifest_text(self) -> str | None:
        try:
            return self.manifest.read_text()
        except FileNotFoundError:
            return None

    def save_manifest(self, text: str) -> None:
        make_folder(self.own)
        write_durably(self.manifest, text)

    # Plans

    def plan_path(self, run: str) -> Path:
        return self.runs / run / "plan.json"

    def store_plan(self, plan: dict[str, Any]) -> None:
        path = self.plan_path(plan["id"])
        make_folder(path.parent)
        write_durably(path, json.dumps(plan, indent=1) + "\n")

    def plans(self, sequence: int) -> Iterator[dict[str, Any]]:
        """Those that would become this commit."""
        for path in sorted(self.runs.glob(f"*-{sequence:06d}/plan.json")):
            yield json.loads(path.read_text())

    def forget_plan(self, run: str) -> None:
        shutil.rmtree(self.runs / run)

    def forget_plans(self, kept: int) -> None:
        for path in sorted(self.runs.glob("*/plan.json"))[:-kept]:
            self.forget_plan(path.parent.name)

    # Marks of hours

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        make_folder(path.parent)
        write_durably(path, text)

    def present(self, names: Iterable[str]) -> set[str]:
        return {name for name in names if (self.root / name).exists()}

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            (self.root / name).unlink(missing_ok=True)

    # Data

    def staging_of(self, run: str) -> FolderStaging:
        folder = self.staging / run
        make_folder(folder)
        return FolderStaging(str(folder))
