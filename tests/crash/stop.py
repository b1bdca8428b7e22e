"""Logs with rolled segments, and their clean stop; in one recorded process."""

from __future__ import annotations

import sys
from pathlib import Path

from appliance.config import LogConfig, StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.record import _batch_builder

from .trace import Recorder

QUIET = StorageConfig(reserve_bytes=0, low_water_bytes=0, checkpoint_interval_ms=3_600_000)


def main(root: str, logs: str, rolls: str) -> None:
    batch = _batch_builder.batch([(1_700_000_000_000, b"k", b"v")])
    log_dir = LogDir.open(Path(root), QUIET)
    for log in log_dir.create_all("t", range(int(logs)), LogConfig()):
        log.append(batch)
        for _ in range(int(rolls)):
            log.roll()
            log.append(batch)
    Recorder().note({"do": "stop"})
    log_dir.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
