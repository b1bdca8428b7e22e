"""Where a target's files are: a directory, or what fsspec knows by a URL. Both have whole files by
name, and a file is there with all its content or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from appliance.backup.directory_store import DirectoryStore
from appliance.backup.errors import TargetFailed


class Store(Protocol):
    def locked(self) -> AbstractContextManager[None]:
        """No other run writes to it inside."""
        ...

    def check_locked(self) -> None:
        """TargetBusy: another run came in meanwhile."""
        ...

    def put(self, name: str, data: bytes) -> None: ...

    def get(self, name: str) -> bytes:
        """FileNotFoundError: there is none."""
        ...

    def size(self, name: str) -> int | None:
        """None: there is none."""
        ...

    def names(self, folder: str) -> Iterator[str]:
        """Of all files below, with the folder."""
        ...

    def remove(self, name: str) -> None: ...

    def count_on(self, names: Iterable[str]) -> None:
        """They are there, and `settle` is for them, too: who put them may have been killed."""
        ...

    def settle(self) -> None:
        """All that was put and removed survives a power cut when this returns."""
        ...


def open_store(target: str, is_new: bool = False) -> Store:
    """`is_new`: a directory is made if it is not there."""
    if "://" in target and not target.startswith("file://"):
        return object_store(target)
    return DirectoryStore(Path(target.removeprefix("file://")), is_new)


def object_store(target: str) -> Store:
    try:
        from appliance.backup.object_store import ObjectStore  # with fsspec, an extra

        return ObjectStore(target)
    except ImportError as error:
        raise TargetFailed(
            f"{target}: this target needs {error.name or error}, which is not installed: "
            "pip install 'appliance-log[backup]'"
        ) from error
