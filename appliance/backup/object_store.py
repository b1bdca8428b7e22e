"""A target that fsspec knows by its URL, as `s3://bucket/folder`. Where the service is and who asks
is read from its own settings (`AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`, ...).

An object is there whole once it is put. The lock is an object, too: such a store has no other, so a
run that was killed elsewhere keeps others out until its lock is old. A thread renews it, whatever
the run waits for. A run that slept for longer, as on a machine that was suspended, finds another's
lock or none: what it counts on may be swept away by now, so it publishes and removes nothing.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
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
        self._lease = uuid.uuid4().hex

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        self._check_free()
        over = threading.Event()
        signing = threading.Thread(target=self._sign_until, args=(over,), daemon=True)
        try:
            self._sign()
            signing.start()
            yield
        finally:
            over.set()
            if signing.ident is not None:
                signing.join()
            self._unsign()

    def check_locked(self) -> None:
        told = self._lock()
        if told is None or told.get("lease") != self._lease:
            who = "and has ended" if told is None else f"({told['who']})"
            raise TargetBusy(
                f"{self.target}: another backup has begun to write to it {who} while this one "
                "could not renew its lock: nothing of this one counts"
            )

    def _check_free(self) -> None:
        told = self._lock()
        if told is None:
            return
        left_s = told["until"] - time.time()
        if left_s > 0 and not self._is_dead(told["who"]):
            raise TargetBusy(
                f"{self.target}: another backup writes to it ({told['who']}); if it was killed, "
                f"others may go on in {left_s:.0f} s"
            )

    def _lock(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self.get(LOCK))
        except (FileNotFoundError, ValueError):
            return None
        return found

    def _is_dead(self, who: str) -> bool:
        host, _, process = who.rpartition(":")
        return host == socket.gethostname() and not os.path.exists(f"/proc/{process}")

    def _sign(self) -> None:
        told = {"who": self._who, "until": time.time() + LOCK_S, "lease": self._lease}
        self.put(LOCK, json.dumps(told).encode())

    def _sign_until(self, over: threading.Event) -> None:
        """Not what is another's by now: that is for `check_locked` to tell. An error of the target
        is for the run, and if it passes, a later sign is in time."""
        while not over.wait(SIGN_S):
            with suppress(TargetFailed, TargetBusy):
                self.check_locked()
                self._sign()

    def _unsign(self) -> None:
        """An error here would hide the one that ended the run; the lock ends by itself."""
        with suppress(TargetFailed, TargetBusy):
            self.check_locked()
            self.remove(LOCK)

    def put(self, name: str, data: bytes) -> None:
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

    def count_on(self, names: Iterable[str]) -> None:
        """They are the service's to keep, as is what is put."""

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
