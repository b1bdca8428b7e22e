"""A life on a small disk that another file fills; prints one JSON line with the faults."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appliance.config import LogConfig, StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError, StorageFull
from appliance.record import _batch, _batch_builder

from .session import read_batches

RESERVE = 1 << 20
RESUME_SECONDS_MAX = 10.0
CONFIG = LogConfig(segment_bytes=64 << 10, retention_ms=-1)
STORAGE = StorageConfig(
    reserve_bytes=RESERVE, low_water_bytes=2 * RESERVE, checkpoint_interval_ms=100
)
RECORDS_BEFORE = 40


def fill(path: Path) -> None:
    """Fills the disk to the last byte."""
    with path.open("ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def batch(number: int) -> bytes:
    return _batch_builder.batch([(1_700_000_000_000 + number, b"k", f"{number} ".encode() * 500)])


class Story:
    def __init__(self, data: Path, neighbour: Path) -> None:
        self.data, self.neighbour = data, neighbour
        self.wrong: list[str] = []
        self.logs: Any = None

    def begin(self) -> Any:
        self.logs = LogDir.open(
            self.data, config=STORAGE, log_config=lambda _topic, _partition: CONFIG
        )
        log = self.logs.create("d", 0, CONFIG)
        self.logs.create("spare", 0, CONFIG).append_durable(batch(0))
        for number in range(RECORDS_BEFORE):
            log.append_durable(batch(number))
        return log

    def attempt(self, what: str, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except (ApplianceError, OSError) as error:
            self.wrong.append(f"{what} with a full disk: {error!r}")
            return None

    def refuses(self, log: Any) -> int:
        """Appends until an append is refused. Returns the number of earlier appends."""
        for taken in range(10_000):
            try:
                log.append_durable(batch(RECORDS_BEFORE + taken))
            except StorageFull:
                return taken
            except ApplianceError as error:
                self.wrong.append(f"a full disk: {error!r}, wanted StorageFull")
                return taken
        self.wrong.append("a full disk takes appends")
        return 0

    def works_but_writes(self, log: Any, expected: int) -> None:
        found = self.attempt("reading", lambda: read_batches(log, "visible")) or []
        values = [record.value or b"" for one in found for record in _batch.records(one)]
        if [int(value.split()[0]) for value in values] != list(range(expected))[
            -len(values) :
        ] or not values:
            self.wrong.append(f"{len(values)} records are served, wanted {expected}")
        if log.failed:
            self.wrong.append(f"the log stopped: {log.failed}")
        self.attempt("delete_before", lambda: log.delete_before(5))
        self.attempt("deleting a partition", lambda: self.logs.delete("spare", 0))
        self.attempt("retention", self.logs.retain)

    def resumes(self, log: Any) -> None:
        self.neighbour.unlink()
        deadline = time.monotonic() + RESUME_SECONDS_MAX
        while True:
            try:
                log.append_durable(batch(0))
                return
            except ApplianceError as error:
                if time.monotonic() > deadline:
                    self.wrong.append(f"{RESUME_SECONDS_MAX} s after space came back: {error!r}")
                    return
                time.sleep(0.05)  # the promise is "by themselves", not "at once"

    def neighbour_fills(self) -> None:
        log = self.begin()
        fill(self.neighbour)
        taken = self.refuses(log)
        self.works_but_writes(log, RECORDS_BEFORE + taken)
        self.resumes(log)
        self.logs.close()

    def fill_and_die(self) -> None:
        self.begin()
        fill(self.neighbour)
        os.kill(os.getpid(), signal.SIGKILL)

    def start_full(self) -> None:
        self.logs = LogDir.open(
            self.data, config=STORAGE, log_config=lambda _topic, _partition: CONFIG
        )
        log = self.logs.log("d", 0)
        taken = self.refuses(log)
        self.works_but_writes(log, RECORDS_BEFORE + taken)
        self.resumes(log)
        self.logs.close()


def main(data: str, part: str, neighbour: str) -> None:
    story = Story(Path(data), Path(neighbour))
    {
        "neighbour": story.neighbour_fills,
        "fill and die": story.fill_and_die,
        "start full": story.start_full,
    }[part]()
    print(json.dumps(story.wrong))


if __name__ == "__main__":
    main(*sys.argv[1:])
