"""A target in an object store. There is no rename, no link and no lock of a kernel there:

    topic=T/date=…/hour=…/T+0003+0000000012345+0000000045678+w000000007-5f0c….parquet
                                  written under its final name, which is of one attempt alone
    _export/manifests/000000008.json   the truth is the one with the highest number
    _export/runs/ID/plan.json
    _export/lock.json             who writes just now: for people; it protects nothing

A file counts if the newest manifest lists it. A manifest is written only if there is none of its
number, so of two writers that follow the same one the second is refused: this is the commit.

Who begins to write takes the next number first, with the same content. So all that began before can
commit no more, and what is not in this manifest of files that they marked with an earlier number
(`w…`) is nobody's: it is deleted, even if a worker of theirs still writes.

docs/decisions/object-stores.md has the reasons.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from appliance.export.store_urls import UrlWrong, checked, is_url
from appliance_spark.export_layout import DEAD_LETTERS, OWN, ExportFailed, Target, target_path
from appliance_spark.export_store import Store, Upload

MANIFESTS, RUNS, LOCK = f"{OWN}/manifests", f"{OWN}/runs", f"{OWN}/lock.json"
KEPT = 20  # manifests: a reader that has listed them finds the newest, also a slow one
LOCK_S = 120.0  # without a sign of life: longer than the driver ever pauses
SIGN_S = 20.0
NUMBERED = re.compile(r"/(\d{9})\.json$")
MARK = re.compile(r"\+w(\d{9})-[0-9a-f]+\.parquet$")


@dataclass(frozen=True)
class StoreStaging:
    """Where the tasks of a run write: to the final place, under names of this attempt alone."""

    store: Store
    number: int
    attempt_id: str = ""

    def attempt(self) -> StoreStaging:
        return replace(self, attempt_id=uuid.uuid4().hex[:12])

    def start(self, path: str) -> tuple[Upload, dict[str, str]]:
        name = f"{path.removesuffix('.parquet')}+w{self.number:09d}-{self.attempt_id}.parquet"
        return self.store.upload(name), {"path": name}

    def clear(self) -> None:
        """The next sweep deletes what is in no manifest."""


class StoreTarget:
    def __init__(self, url: str) -> None:
        self.files = Store(url)
        self.where = url
        self.number = 0  # of the manifest that this process has written
        self._lease = uuid.uuid4().hex

    # The manifest

    def exists(self) -> bool:
        return bool(self._numbers())

    def _numbers(self) -> list[int]:
        found = (NUMBERED.search(name) for name in self.files.names(MANIFESTS))
        return sorted(int(each[1]) for each in found if each is not None)

    @property
    def manifest_name(self) -> str:
        return f"{self.where}/{MANIFESTS}"

    def manifest_text(self) -> str | None:
        """The newest one."""
        return self._newest()[1]

    def _newest(self) -> tuple[int, str | None]:
        numbers = self._numbers()
        if not numbers:
            return 0, None
        try:
            return numbers[-1], self.files.read(_manifest(numbers[-1])).decode()
        except FileNotFoundError as error:
            raise ExportFailed(f"{self.where}: {error} is listed and cannot be read: twenty runs "
                               "came meanwhile, or it was deleted by hand. Try again") from error

    def save_manifest(self, text: str) -> None:
        """Follows the one that this process has written last, or nothing.

        Old numbers are deleted, so one of them could be written again by who slept for long; the
        newest number tells."""
        marked = json.dumps({**json.loads(text), "write": uuid.uuid4().hex}, separators=(",", ":"))
        is_first = self.files.put_new(_manifest(self.number + 1), marked.encode() + b"\n")
        if not is_first or self._numbers()[-1] > self.number + KEPT:
            raise ExportFailed(
                f"{self.where}: another run, compaction or repair has begun to write it since, so "
                "this one may not commit; nothing of it counts. The next run starts where that "
                "one ends")
        self.number += 1

    def _claim(self) -> None:
        self.number, text = self._newest()
        if text is None:  # the first save is the claim
            return
        self.save_manifest(text)
        self.files.delete(_manifest(each) for each in self._numbers() if each <= self.number - KEPT)

    # One writer at a time

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Tells who else writes. What keeps two from committing is the number of the manifest."""
        self._check_lease()
        self.files.check()
        self._sign()
        over = threading.Event()
        signing = threading.Thread(target=self._sign_until, args=(over,), daemon=True)
        try:
            self._claim()
            signing.start()
            yield
        finally:
            over.set()
            if signing.ident is not None:
                signing.join()
            self._unsign()

    def _check_lease(self) -> None:
        told = self._read_lease()
        if told is None or _is_dead(told["who"]):
            return
        left_s = told["until"] - time.time()
        if left_s > 0:
            raise ExportFailed(
                f"{self.where} is being written by {told['who']}: one run at a time. If it was "
                f"killed, others may go on in {left_s:.0f} s")

    def _read_lease(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self.files.read(LOCK))
        except (FileNotFoundError, ValueError):
            return None
        return found

    def _sign(self) -> None:
        told = {"who": f"{socket.gethostname()}:{os.getpid()}", "until": time.time() + LOCK_S,
                "lease": self._lease}
        self.files.put(LOCK, json.dumps(told).encode())

    def _sign_until(self, over: threading.Event) -> None:
        while not over.wait(SIGN_S):
            with suppress(ExportFailed):  # without the sign others may take over, and say so
                self._sign()

    def _unsign(self) -> None:
        """An error here must not hide the one that ended the run; the lease ends by itself."""
        with suppress(ExportFailed):
            told = self._read_lease()
            if told is not None and told.get("lease") == self._lease:
                self.files.delete([LOCK])

    # Plans

    def store_plan(self, plan: dict[str, Any]) -> None:
        self.files.put(f"{RUNS}/{plan['id']}/plan.json", json.dumps(plan, indent=1).encode())

    def plans(self, sequence: int) -> Iterator[dict[str, Any]]:
        """Those that would become this commit."""
        for run in self._runs():
            if run.endswith(f"-{sequence:06d}"):
                yield json.loads(self.files.read(f"{RUNS}/{run}/plan.json"))

    def _runs(self) -> list[str]:
        return sorted({name.split("/")[2] for name in self.files.names(RUNS)})

    def forget_plan(self, run: str) -> None:
        self.files.delete([f"{RUNS}/{run}/plan.json"])

    def forget_plans(self, kept: int) -> None:
        for run in self._runs()[:-kept]:
            self.forget_plan(run)

    # Data

    def staging_of(self, run: str) -> StoreStaging:
        return StoreStaging(self.files, self.number)

    def data_files(self) -> Iterator[str]:
        """Also those that do not count."""
        return (name for name in self.files.names("") if name.endswith(".parquet")
                and name.startswith(("topic=", f"{DEAD_LETTERS}/")))

    def sweep(self, known: set[str]) -> int:
        """Deletes what stopped runs wrote: it is marked with a number before ours, and in no
        manifest. What later ones write is theirs."""
        lost = [path for path in self.data_files() if path not in known and self._is_over(path)]
        self.files.delete(lost)
        self.files.abort_uploads(self._is_over)
        return len(lost)

    def _is_over(self, name: str) -> bool:
        found = MARK.search(name)
        return found is not None and int(found[1]) < self.number

    # Marks of hours

    def write(self, name: str, text: str) -> None:
        self.files.put(name, text.encode())

    def present(self, names: Iterable[str]) -> set[str]:
        """Of many names, in one listing."""
        wanted = set(names)
        return wanted.intersection(self.files.names("")) if wanted else wanted

    def delete(self, names: Iterable[str]) -> None:
        self.files.delete(names)


AnyTarget = Target | StoreTarget


def target_of(text: str) -> AnyTarget:
    """From what a person wrote."""
    return StoreTarget(checked_url(text)) if is_url(text) else Target(target_path(text))


def checked_url(text: str) -> str:
    try:
        return checked(text)
    except UrlWrong as error:
        raise ExportFailed(f"the target: {error}") from error


def _manifest(number: int) -> str:
    return f"{MANIFESTS}/{number:09d}.json"


def _is_dead(who: str) -> bool:
    """Only of this machine can we know it."""
    host, _, process = who.rpartition(":")
    return host == socket.gethostname() and not os.path.exists(f"/proc/{process}")
