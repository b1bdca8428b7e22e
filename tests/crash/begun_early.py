"""A log whose commits are close, then one that is not committed; in one recorded process."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from appliance.config import LogConfig, StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.record import _batch_builder

from .trace import Recorder

STEP = 16_384
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
    time.sleep(1)  # for the thread that begins
    log_dir.abandon()


if __name__ == "__main__":
    main(*sys.argv[1:])
