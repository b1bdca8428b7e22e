"""Compaction: records and bytes per second through one round, by codec and by kind of log.

    python -m bench.compaction [records]

    overwritten   every key 10 times: most records go, batches are rewritten
    distinct      every key once: nothing is removed, segments are only read
    again         one more round over the result, with a tenth as many new records

Records of 100-byte values and 16-byte keys, 100 per batch, keys in random order. The figures are
records (and bytes of the log) before the round, divided by its time. CPU time is shown, too, for a
machine with other load.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time

from appliance._log import Log
from appliance.config import LogConfig, StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.record import _batch_builder

CODECS = ("none", "lz4", "zstd", "gzip")
RECORDS = 1_000_000
BATCH_RECORDS = 100
VALUE_SIZE = 100
SEGMENT_BYTES = 64 << 20
NOW = 1_700_000_000_000


def fill(log: Log, count: int, keys: int, codec: str, seed: int) -> None:
    chance = random.Random(seed)
    order = [i % keys for i in range(count)]
    chance.shuffle(order)
    for at in range(0, count, BATCH_RECORDS):
        records = [
            (NOW, b"key-%012d" % key, b"%0*d" % (VALUE_SIZE, key))
            for key in order[at : at + BATCH_RECORDS]
        ]
        log.append(_batch_builder.batch(records, codec=codec))


def timed_round(log_dir: LogDir, log: Log, count: int, codec: str, kind: str) -> None:
    log.roll()
    log.flush()
    log_dir.checkpoint()
    before, began, cpu_began = log.size, time.perf_counter(), time.process_time()
    assert log.compact(NOW + 1)
    took, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    print(
        f"{codec:>6} {kind:>12} {before / 1e6:9.1f} MB -> {log.size / 1e6:8.1f} MB {took:7.2f} s "
        f"{count / took / 1e6:7.2f} M records/s {before / took / 1e6:8.1f} MB/s "
        f"{cpu:7.2f} s of CPU",
        flush=True,
    )


def run(codec: str, count: int) -> None:
    config = LogConfig(
        cleanup_policy="compact", min_cleanable_dirty_ratio=0.0, segment_bytes=SEGMENT_BYTES
    )
    with tempfile.TemporaryDirectory() as path:
        log_dir = LogDir.open(path, StorageConfig(reserve_bytes=0, low_water_bytes=0))
        log = log_dir.create("distinct", 0, config)
        fill(log, count, count, codec, 1)
        timed_round(log_dir, log, count, codec, "distinct")
        log = log_dir.create("overwritten", 0, config)
        fill(log, count, count // 10, codec, 2)
        timed_round(log_dir, log, count, codec, "overwritten")
        fill(log, count // 100, count // 10, codec, 3)
        timed_round(log_dir, log, count // 10 + count // 100, codec, "again")
        log_dir.close()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    for codec in CODECS:
        run(codec, count)


if __name__ == "__main__":
    main()
