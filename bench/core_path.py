"""One path of the core, taken so many times, for those who count instructions.

    python -m bench.core_path append|append-one|read|columns COUNT
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from appliance import _batch, arrow
from appliance.log_dir import Log, LogConfig, LogDir, StorageConfig

RECORD_BYTES, RECORDS, READ_BYTES = 100, 500, 1 << 20
STORAGE = StorageConfig(low_water_bytes=0, reserve_bytes=0, checkpoint_interval_ms=60_000)
LOG = LogConfig(flush_ms=600_000, flush_messages=1 << 40)


def batch_of(records: int) -> bytearray:
    return bytearray(_batch.build([(0, None, bytes(RECORD_BYTES))] * records))


def append(log: Log, count: int) -> None:
    batch = batch_of(RECORDS)
    for _ in range(count):
        log.append_in_place(batch)


def append_one(log: Log, count: int) -> None:
    batch = batch_of(1)
    for _ in range(count):
        log.append_in_place(batch)


def read(log: Log, count: int) -> None:
    append(log, 100)
    log.flush()
    for each in range(count):
        log.read(each % 100 * RECORDS, READ_BYTES)


def columns(log: Log, count: int) -> None:
    batch = bytes(batch_of(RECORDS))
    for _ in range(count):
        arrow.record_batch(batch)


PATHS: dict[str, Callable[[Log, int], None]] = {
    "append": append, "append-one": append_one, "read": read, "columns": columns,
}


def main() -> None:
    path, count = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        log_dir = LogDir.open(Path(name, "data"), STORAGE)
        PATHS[path](log_dir.create("bench", 0, LOG), count)
        log_dir.abandon()


if __name__ == "__main__":
    main()
