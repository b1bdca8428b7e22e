"""One sync fails, the process restarts without a reboot, then the power fails; in one recorded
process.

The recorder behaves like kernels: after a failed fsync the page cache shows bytes that the disk
lacks, until they are dropped. Prints one JSON line with the faults.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appliance.errors import ApplianceError, LogFailed

from .checks import open_logs, see
from .session import SMALL, Session
from .story import Story, tell

WAIT_SECONDS = 5.0


class FailingSync(Story):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.session = Session(root, 0)

    def expect_failed(self, what: str, act: Callable[[], Any]) -> None:
        try:
            act()
        except LogFailed:
            return
        except ApplianceError as error:
            self.wrong.append(f"{what}: raised {error!r}, wanted LogFailed")
            return
        self.wrong.append(f"{what}: succeeded")

    def run(self) -> None:
        logs = open_logs(self.root)
        log = logs.create("f", 0, SMALL)
        safe = log.append_durable(self.session.records(2)).last_offset + 1
        logs.checkpoint()
        self.fail(log, safe)
        self.expect(
            logs_close(logs) is None or log.failed is not None, "close failed on a healthy log"
        )
        self.recorder.note({"do": "restart"})
        served = self.restart(safe)
        self.recorder.note({"do": "power cut"})
        for path in self.root.rglob("*"):
            if path.is_file():
                self.recorder.drop_cache(path)
        self.after_the_power_cut(served)

    def fail(self, log: Any, safe: int) -> None:
        self.recorder.fail("sync", 1, errno.EIO, match=".log")
        lost = log.append(self.session.records(2)).last_offset
        self.expect_failed(
            "the wait for records whose sync failed", lambda: log.await_durable(lost, WAIT_SECONDS)
        )
        self.expect(self.recorder.fired() == 1, f"{self.recorder.fired()} syncs failed, wanted 1")
        self.recorder.heal()
        self.expect(bool(log.failed), "the log did not stop")
        self.expect_failed(
            "an append to the stopped log", lambda: log.append(self.session.records(1))
        )
        self.expect_failed("a second wait", lambda: log.await_durable(lost, WAIT_SECONDS))
        self.expect(
            log.high_watermark <= safe, f"visible up to {log.high_watermark}, durable up to {safe}"
        )
        self.expect(
            len(log.read(safe, up_to="visible")) == 0 if log.high_watermark >= safe else True,
            "records above the durable offset are served",
        )

    def restart(self, safe: int) -> list[bytes]:
        logs = open_logs(self.root)
        log = logs.log("f", 0)
        self.expect(
            log.log_end_offset >= safe, f"ends at {log.log_end_offset}, {safe} was acknowledged"
        )
        log.append_durable(self.session.records(2))
        served = see(log).batches
        logs.close()
        return served

    def after_the_power_cut(self, served: list[bytes]) -> None:
        try:
            logs = open_logs(self.root)
            found = see(logs.log("f", 0)).batches
            logs.close()
        except ApplianceError as error:
            self.wrong.append(f"after the power cut: {error!r}")
            return
        for number, batch in enumerate(served):
            if number >= len(found) or found[number][16:] != batch[16:]:
                self.wrong.append(
                    f"batch {number} of {len(served)} was served after the restart, and is lost"
                )


def logs_close(logs: Any) -> ApplianceError | None:
    try:
        logs.close()
    except ApplianceError as error:
        return error
    return None


if __name__ == "__main__":
    tell(FailingSync(Path(sys.argv[1])), sys.argv[2])
