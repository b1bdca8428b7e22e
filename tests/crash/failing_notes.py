"""A sync of the watermarks fails: one that a truncation needs meanwhile, and the one of a start. In
one recorded process whose syncs are slow; prints one JSON line with the faults.
"""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from appliance.data_dir.log_dir import LogDir

from .checks import open_logs
from .session import SMALL, STORAGE, Session, config_of
from .story import Story, tell

WAIT_SECONDS = 30.0
RESERVE_BYTES = 1 << 20


class FailingNotes(Story):
    def run(self) -> None:
        self._place("cut", self.a_cut_beside_a_failing_sync)
        self._place("full", lambda root: self.a_start(root, errno.ENOSPC))
        self._place("broken", lambda root: self.a_start(root, errno.EIO))

    def _place(self, name: str, story: Callable[[Path], None]) -> None:
        root = self.root / name
        root.mkdir()
        story(root)
        self.recorder.heal()

    def a_cut_beside_a_failing_sync(self, root: Path) -> None:
        """The sync of a timer fails while a truncation takes notes back, which needs one, too."""
        session = Session(root, 0)
        logs = open_logs(root)
        log = logs.create("f", 0, SMALL)
        self.recorder.fail("fdatasync", 1, errno.EIO, match="/watermarks")
        deadline = time.monotonic() + WAIT_SECONDS
        while not self.recorder.fired() and time.monotonic() < deadline:
            log.append_durable(session.records(1))
        self.expect(self.recorder.fired() == 1, "no sync of the watermarks came")
        log.truncate(log.log_end_offset - 1)  # the failing sync is under way
        self.expect(not noted(root), "the watermarks are still there after their sync failed")
        log.append_durable(session.records(1))
        logs.close()

    def a_start(self, root: Path, error: int) -> None:
        """With room released it begins again, in a file that the next life finds."""
        held = replace(STORAGE, reserve_bytes=RESERVE_BYTES)
        LogDir.open(root, held, log_config=config_of).close()
        self.expect((root / "reserve").exists(), "no reserve was taken")
        self.recorder.fail("fdatasync", 1, error, match="/watermarks")
        logs = LogDir.open(root, held, log_config=config_of)
        self.expect(self.recorder.fired() == 1, "the sync of the start did not fail")
        name = errno.errorcode[error]
        is_full = error == errno.ENOSPC
        self.expect(noted(root) == is_full, f"{name}: there are watermarks: {noted(root)}")
        logs.create("f", 0, SMALL).append_durable(Session(root, 0).records(3))
        logs.close()
        again = LogDir.open(root, held, log_config=config_of)
        known = again.report.known.has_watermarks
        self.expect(known == is_full, f"{name}: the next start has watermarks: {known}")
        again.close()


def noted(root: Path) -> bool:
    return (root / "watermarks").exists()


if __name__ == "__main__":
    tell(FailingNotes(Path(sys.argv[1])), sys.argv[2])
