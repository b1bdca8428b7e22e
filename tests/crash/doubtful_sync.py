"""Syncs succeed, and the file system does not take writes any more: which of them is believed? In
one recorded process; prints one JSON line with the faults.

A device that vanishes shuts its file system down. A sync that is under way may then be told of
success with nothing written; only what is asked after it fails, or says that all is read-only.
"""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from appliance.errors import ApplianceError, LogFailed, StorageIoFailed

from .checks import open_logs
from .session import SMALL, Session
from .trace import Recorder

WAIT_SECONDS = 5.0
ALWAYS = 1 << 30
# Each may be the only one by which a file system says it.
ANSWERS = {"pread": "/lock", "pwrite": "/lock", "read_only": ""}


class Story:
    def __init__(self, root: Path, answer: str) -> None:
        self.root = root / answer
        self.root.mkdir()
        self.answer = answer
        self.recorder = Recorder()
        self.session = Session(self.root, 0)
        self.wrong: list[str] = []

    @contextmanager
    def doubt(self) -> Iterator[None]:
        self.recorder.fail(
            self.answer, 1, errno.EIO, times=ALWAYS, match=f"{self.root}{ANSWERS[self.answer]}"
        )
        yield
        if not self.recorder.fired():
            self.wrong.append(f"{self.answer}: nothing was asked")
        self.recorder.heal()

    def refused(self, what: str, kind: type[ApplianceError], act: Callable[[], Any]) -> None:
        with self.doubt():
            try:
                act()
            except kind:
                return
            except ApplianceError as error:
                self.wrong.append(f"{self.answer}: {what}: raised {error!r}, wanted {kind}")
                return
            self.wrong.append(f"{self.answer}: {what} was believed")

    def run(self) -> None:
        logs = open_logs(self.root)
        log, other = (logs.create("d", partition, SMALL) for partition in range(2))
        for each in (log, other):
            each.append_durable(self.session.records(6))
        logs.checkpoint()
        self.refused("the sync of names", StorageIoFailed, logs.engine.sync_directory)
        other.append(self.session.records(1))
        last = log.append(self.session.records(2)).last_offset
        self.refused("a commit", LogFailed, lambda: log.await_durable(last, WAIT_SECONDS))
        if not other.failed:
            self.wrong.append(f"{self.answer}: a log with unsynced bytes beside it did not fail")
        logs.abandon()
        self.journal()

    def journal(self) -> None:
        logs = open_logs(self.root)
        log = logs.log("d", 0)
        self.refused("a new log start", StorageIoFailed, lambda: log.delete_before(2))
        try:
            log.delete_before(3)
            self.wrong.append(f"{self.answer}: a journal that is not believed was written again")
        except ApplianceError:
            pass
        logs.abandon()


def main(root: str, _trace: str) -> None:
    wrong = []
    for answer in ANSWERS:
        story = Story(Path(root), answer)
        story.run()
        wrong += story.wrong
    print(json.dumps(wrong))


if __name__ == "__main__":
    main(*sys.argv[1:])
