"""A target in a directory. A file is written under another name, synced and renamed; names are
synced before a manifest counts on them, also those that a killed run had left, and so is what was
removed before something that it names is."""

from __future__ import annotations

import fcntl
import os
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from appliance.backup.errors import TargetBusy, TargetFailed
from appliance.data_dir.durable_directories import sync_name
from appliance.process.owner_only import DIRECTORY_MODE, FILE_MODE

LOCK, INCOMING = "lock", "incoming"


class DirectoryStore:
    def __init__(self, path: Path, is_new: bool) -> None:
        self.path = path.absolute()
        self._unsynced: set[Path] = set()  # directories whose names have changed
        self._guard = threading.Lock()
        if is_new:
            lacking = [each for each in (self.path, *self.path.parents) if not each.exists()]
            with telling(f"{self.path} cannot be made"):
                self.path.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
            self._unsynced |= {each.parent for each in lacking}
        if not self.path.is_dir():
            raise TargetFailed(f"{self.path}: there is no such directory")

    @contextmanager
    def locked(self) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        with telling(f"{self.path} cannot be written"):
            descriptor = os.open(self.path / LOCK, flags, FILE_MODE)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TargetBusy(f"{self.path}: another backup writes to it; wait for it") from None
            self._begin()
            yield
        finally:
            os.close(descriptor)

    def check_locked(self) -> None:
        """The kernel's lock is nobody else's while its file is open."""

    def _begin(self) -> None:
        """What a killed run had begun to write is of no use."""
        with telling(f"{self.path} cannot be written"):
            incoming = self.path / INCOMING
            incoming.mkdir(DIRECTORY_MODE, exist_ok=True)
            for each in incoming.iterdir():
                each.unlink()

    def put(self, name: str, data: bytes) -> None:
        final, begun = self.path / name, self.path / INCOMING / uuid.uuid4().hex
        with telling(f"{final} cannot be written"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with open(os.open(begun, flags, FILE_MODE), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if not final.parent.is_dir():
                self._make(final.parent)
            begun.rename(final)
        with self._guard:
            self._unsynced.add(final.parent)

    def _make(self, folder: Path) -> None:
        folder.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        with self._guard:
            self._unsynced |= {folder.parent, folder.parent.parent}

    def get(self, name: str) -> bytes:
        with telling(f"{self.path / name} cannot be read"):
            return (self.path / name).read_bytes()

    def size(self, name: str) -> int | None:
        try:
            with telling(f"{self.path / name} cannot be read"):
                return (self.path / name).stat().st_size
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> Iterator[str]:
        for below, _, files in os.walk(self.path / folder, onerror=unreadable):
            for each in files:
                yield str((Path(below) / each).relative_to(self.path))

    def remove(self, name: str) -> None:
        path = self.path / name
        with suppress(FileNotFoundError), telling(f"{path} cannot be removed"):
            path.unlink()
            with self._guard:
                self._unsynced.add(path.parent)

    def count_on(self, names: Iterable[str]) -> None:
        folders = {(self.path / each).parent for each in names}
        with self._guard:
            self._unsynced |= folders | {each.parent for each in folders} | {self.path}

    def settle(self) -> None:
        with self._guard:
            found, self._unsynced = self._unsynced, set()
        with telling(f"{self.path} cannot be synced"):
            for each in found:
                sync_name(each)


def unreadable(error: OSError) -> None:
    """A folder that is not there has no names; of one that cannot be read they are not known."""
    with suppress(FileNotFoundError), telling(f"{error.filename} cannot be read"):
        raise error


@contextmanager
def telling(doing: str) -> Iterator[None]:
    """A missing file is for who asked for it."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise TargetFailed(f"{doing}: {error.strerror or error}") from error
