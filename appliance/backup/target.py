"""A target: objects named by their content, and manifests that name them.

manifests/ID.json   objects/ab/abcd...   partial.json   tests/ID.json
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from appliance.backup import manifest as manifests
from appliance.backup.cipher import Cipher
from appliance.backup.errors import BackupUnknown, KeyWrong, ObjectDamaged, TargetFailed
from appliance.backup.manifest import Blob, Manifest
from appliance.backup.store import Store

MANIFESTS, OBJECTS, TESTS, PARTIAL = "manifests", "objects", "tests", "partial.json"


def path_of(name: str) -> str:
    return f"{OBJECTS}/{name[:2]}/{name}"


class Target:
    """Any thread may call."""

    def __init__(self, where: str, store: Store, cipher: Cipher) -> None:
        self.where = where
        self._store = store
        self._cipher = cipher
        self._guard = threading.Lock()
        self.written_bytes = 0
        self._known: set[str] = set()  # objects that are there

    def locked(self) -> AbstractContextManager[None]:
        return self._store.locked()

    # Objects

    def put(self, data: bytes) -> Blob:
        """Not written again if it is there."""
        name = self._cipher.name(data)
        path = path_of(name)
        if path not in self._known:
            self._store.put(path, self._cipher.seal(path, data))
            with self._guard:
                self._known.add(path)
                self.written_bytes += len(data)
        return Blob(len(data), name)

    def look(self) -> None:
        """Before anything is put: which objects are there."""
        self._known = set(self._store.names(OBJECTS))
        self._store.count_on(self._known)

    def has(self, blobs: Iterable[Blob]) -> bool:
        return all(path_of(each.name) in self._known for each in blobs)

    def remove_damaged(self, paths: Iterable[str]) -> list[str]:
        """Those that are damaged when they are read once more: an error of reading may pass."""
        removed = []
        with self.locked():
            for each in paths:
                if each.startswith(OBJECTS) and self._is_damaged(each):
                    self._store.remove(each)
                    removed.append(each)
        return removed

    def _is_damaged(self, path: str) -> bool:
        try:
            return self._cipher.name(self._read(path)) != path.rpartition("/")[2]
        except ObjectDamaged:
            return True
        except (TargetFailed, KeyWrong):
            return False

    def get(self, blob: Blob) -> bytes:
        """Compared with its name."""
        data = self._read(path_of(blob.name))
        if len(data) != blob.size:
            raise ObjectDamaged(f"{path_of(blob.name)}: got {len(data)} bytes, wanted {blob.size}")
        if self._cipher.name(data) != blob.name:
            raise ObjectDamaged(f"{path_of(blob.name)}: its content is not what was written")
        return data

    def _read(self, path: str) -> bytes:
        try:
            data = self._store.get(path)
        except FileNotFoundError:
            raise ObjectDamaged(f"{path}: it is gone") from None
        return self._cipher.open(path, data)

    # Manifests

    def ids(self) -> list[str]:
        """Of all backups, the oldest first."""
        names = (each.rpartition("/")[2] for each in self._store.names(MANIFESTS))
        return sorted(each.removesuffix(".json") for each in names if each.endswith(".json"))

    def manifest(self, backup: str) -> Manifest:
        path = f"{MANIFESTS}/{backup}.json"
        if self._store.size(path) is None:
            raise BackupUnknown(f"{self.where}: there is no backup {backup!r}")
        return manifests.of_bytes(path, self._read(path))

    def manifests(self, backups: Iterable[str]) -> Iterator[tuple[str, Manifest | ObjectDamaged]]:
        """Of each id, or why it cannot be read: one that is damaged is no reason to stop."""
        for each in backups:
            found: Manifest | ObjectDamaged
            try:
                found = self.manifest(each)
            except ObjectDamaged as error:
                found = error
            yield each, found

    def newest(
        self, at_ms: int | None = None, tell: Callable[[str], None] = lambda text: None
    ) -> Manifest:
        """Whose point is not later than that. `tell`: what is newer and damaged."""
        damaged = []
        for _, found in self.manifests(reversed(self.ids())):
            if isinstance(found, ObjectDamaged):
                damaged.append(found)
            elif at_ms is None or found.at_ms <= at_ms:
                for each in damaged:
                    tell(str(each))
                return found
        if damaged:
            raise damaged[0]
        told = "" if at_ms is None else " as old as that"
        raise BackupUnknown(f"{self.where}: there is no backup{told}")

    def publish(self, manifest: Manifest) -> None:
        """It counts from now on: all that it names is on disk before."""
        self._store.settle()
        self._store.check_locked()
        path = f"{MANIFESTS}/{manifest.id}.json"
        self._store.put(path, self._cipher.seal(path, manifests.to_bytes(manifest)))
        self._store.settle()
        self._store.remove(PARTIAL)

    def keep_partial(self, manifest: Manifest) -> None:
        """What a run has so far, for the next one if this is killed."""
        self._store.put(PARTIAL, self._cipher.seal(PARTIAL, manifests.to_bytes(manifest)))

    def partial(self) -> Manifest | None:
        if self._store.size(PARTIAL) is None:
            return None
        try:
            return manifests.of_bytes(PARTIAL, self._read(PARTIAL))
        except ObjectDamaged:
            return None  # it saves reading, and nothing else

    # Retention

    def remove_backups(self, backups: Iterable[str]) -> None:
        """Their manifests: before any object that these name."""
        self._store.check_locked()
        for each in backups:
            self._store.remove(f"{MANIFESTS}/{each}.json")
            self._store.remove(f"{TESTS}/{each}.json")
        self._store.settle()

    def sweep(self, kept: Iterable[str]) -> None:
        """Removes all objects but those of these names."""
        paths = {path_of(each) for each in kept}
        self._store.check_locked()
        for each in [path for path in self._store.names(OBJECTS) if path not in paths]:
            self._store.remove(each)

    # Tests of restores

    def note_test(self, backup: str, facts: dict[str, Any]) -> None:
        path = f"{TESTS}/{backup}.json"
        told = {"at_ms": time.time_ns() // 1_000_000, **facts}
        self._store.put(path, self._cipher.seal(path, json.dumps(told).encode()))

    def test_of(self, backup: str) -> dict[str, Any] | None:
        path = f"{TESTS}/{backup}.json"
        if self._store.size(path) is None:
            return None
        try:
            found: dict[str, Any] = json.loads(self._read(path))
        except ValueError as error:
            raise ObjectDamaged(f"{path}: it is no JSON: {error}") from error
        return found
