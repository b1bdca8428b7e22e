"""A target that fsspec knows by its URL, as `s3://bucket/folder`. Where the service is and who asks
is read from its own settings (`AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`, ...).

An object is there whole once it is put. The lock is an object, too: such a store has no other, so a
run that was killed elsewhere keeps others out until its lock is old.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fsspec

from appliance.backup.errors import TargetBusy, TargetFailed

LOCK = "lock.json"
LOCK_S = 600.0  # without a sign of life
SIGN_S = 60.0


class ObjectStore:
    def __init__(self, target: str) -> None:
        self.target = target.rstrip("/")
        with telling(self.target):
            self._fs, root = fsspec.core.url_to_fs(self.target, use_listings_cache=False)
        self._root = str(root).rstrip("/")
        self._who = f"{socket.gethostname()}:{os.getpid()}"
        self._signed = 0.0
        self._guard = threading.Lock()
        self._is_locked = False

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        self._check_lock()
        self._is_locked = True
        try:
            self._sign()
            yield
        finally:
            self._is_locked = False
            self.remove(LOCK)

    def _check_lock(self) -> None:
        try:
            told: Any = json.loads(self.get(LOCK))
        except (FileNotFoundError, ValueError):
            return
        left_s = told["until"] - time.time()
        if left_s > 0 and not self._is_dead(told["who"]):
            raise TargetBusy(
                f"{self.target}: another backup writes to it ({told['who']}); if it was killed, "
                f"others may go on in {left_s:.0f} s"
            )

    def _is_dead(self, who: str) -> bool:
        host, _, process = who.rpartition(":")
        return host == socket.gethostname() and not os.path.exists(f"/proc/{process}")

    def _sign(self) -> None:
        with self._guard:
            if not self._is_locked or time.monotonic() - self._signed < SIGN_S:
                return
            self._signed = time.monotonic()
        text = json.dumps({"who": self._who, "until": time.time() + LOCK_S})
        self._put(LOCK, text.encode())

    def put(self, name: str, data: bytes) -> None:
        self._sign()
        self._put(name, data)

    def _put(self, name: str, data: bytes) -> None:
        with telling(self._at(name)):
            self._fs.pipe_file(self._at(name), data)

    def get(self, name: str) -> bytes:
        with telling(self._at(name)):
            return bytes(self._fs.cat_file(self._at(name)))

    def size(self, name: str) -> int | None:
        try:
            with telling(self._at(name)):
                return int(self._fs.info(self._at(name))["size"])
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> Iterator[str]:
        try:
            with telling(self._at(folder)):
                self._fs.invalidate_cache()
                found = self._fs.find(self._at(folder))
        except FileNotFoundError:
            return
        for each in found:
            yield str(each)[len(self._root) + 1 :]

    def remove(self, name: str) -> None:
        try:
            with telling(self._at(name)):
                self._fs.rm_file(self._at(name))
        except FileNotFoundError:
            pass

    def settle(self) -> None:
        """What was put is the service's to keep."""


@contextmanager
def telling(doing: str) -> Iterator[None]:
    """Its errors are of as many kinds as there are services. A missing file is for who asked."""
    try:
        yield
    except (FileNotFoundError, ImportError):
        raise
    except Exception as error:
        raise TargetFailed(f"{doing}: {type(error).__name__}: {error}") from error
