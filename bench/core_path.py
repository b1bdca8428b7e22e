"""One path of the core, taken so many times, for those who count instructions.

    python -m bench.core_path append|append-one|read|columns COUNT [FOLDER]

In a log of its own, or in the one in the folder.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from appliance.data_dir.log_dir import Log, LogConfig, LogDir, StorageConfig
from appliance.record import _batch, arrow

TOPIC = "bench"
RECORD_BYTES, RECORDS, READ_BYTES, PLACES = 100, 500, 1 << 20, 100
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
    """At a hundred places, all over the log."""
    append(log, PLACES)
    log.flush()
    step = log.log_end_offset // RECORDS // PLACES * RECORDS
    for each in range(count):
        log.read(each % PLACES * step, READ_BYTES)


def columns(log: Log, count: int) -> None:
    batch = bytes(batch_of(RECORDS))
    for _ in range(count):
        arrow.record_batch(batch)


PATHS: dict[str, Callable[[Log, int], None]] = {
    "append": append, "append-one": append_one, "read": read, "columns": columns,
}


def opened(folder: Path) -> LogDir:
    return LogDir.open(folder, STORAGE, log_config=lambda topic, partition: LOG)


def main() -> None:
    path, count, *folder = sys.argv[1:]
    if folder:
        log_dir = opened(Path(folder[0]))
        log = log_dir.log(TOPIC, 0)
        log.roll()  # where in a segment an append lands is no question of the log's size
        PATHS[path](log, int(count))
        log_dir.close()
        return
    with tempfile.TemporaryDirectory() as name:
        log_dir = opened(Path(name, "data"))
        PATHS[path](log_dir.create(TOPIC, 0, LOG), int(count))
        log_dir.abandon()


if __name__ == "__main__":
    main()
