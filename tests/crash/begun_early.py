"""A log whose commits are close, then one that is not committed; in one recorded process."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from appliance.config import LogConfig, StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.record import _batch_builder

from .trace import Recorder, read_entries

STEP = 16_384
BEGUN_S = 20.0
CONFIG = StorageConfig(
    reserve_bytes=0, low_water_bytes=0, checkpoint_interval_ms=3_600_000, write_behind_bytes=STEP
)


def main(root: str, commits: str) -> None:
    """Each commit has two thirds of a step."""
    batch = _batch_builder.batch([(1_700_000_000_000, b"k", bytes(STEP // 3))])
    log_dir = LogDir.open(Path(root), CONFIG)
    log = log_dir.create("t", 0, LogConfig(flush_ms=3_600_000))
    for _ in range(int(commits)):
        log.append(batch)
        log.append_durable(batch)
    Recorder().note({"do": "no commit from here on"})
    for _ in range(6):
        log.append(batch)
    until_begun(Path(os.environ["CRASH_TRACE"]))
    log_dir.abandon()


def until_begun(trace: Path) -> None:
    """By the thread that does so; who looks at the trace is told whether it did."""
    end, is_begun = time.monotonic() + BEGUN_S, False
    while not is_begun and time.monotonic() < end:
        time.sleep(0.01)
        with suppress(ValueError):  # a call is being recorded
            is_begun = any(each.operation == "sync_range" for each in read_entries(trace))


if __name__ == "__main__":
    main(*sys.argv[1:])
