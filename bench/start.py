"""The time from the start of the process to its ready line: with an empty directory, and with a
large one after a clean stop and after kill -9.

    python -m bench.start [--gigabytes 10] [--rounds 7] [--dir DIR] [--json FILE]

There are ten topics of ten partitions. Before each kill -9 every partition gets an unsynced batch,
so that recovery has work; the page cache is warm, as after the death of a process. The time
includes the interpreter's own start.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import tempfile
import time
from pathlib import Path

from appliance.config import LogConfig, StorageConfig
from appliance.data_dir.log_dir import LogDir
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse
from appliance.record import _batch_builder
from tests.support.serving import Serving
from tests.support.wire_client import WireClient, frame_of

TOPICS = PARTITIONS = 10
BATCH_BYTES = 1_000_000
DEFAULTS = {"storage.reserve.bytes": 64 << 20, "storage.low.water.bytes": 256 << 20}
METADATA = 3


def batch_of(size: int) -> bytes:
    return _batch_builder.batch([(time.time_ns() // 1_000_000, None, bytes(size))])


def fill(data: Path, gigabytes: float) -> None:
    storage = StorageConfig(reserve_bytes=0, low_water_bytes=0)
    log_dir = LogDir.open(data, storage)
    batch = bytearray(batch_of(BATCH_BYTES))
    count = round(gigabytes * (1 << 30) / len(batch) / TOPICS / PARTITIONS)
    for topic in range(TOPICS):
        for partition in range(PARTITIONS):
            log = log_dir.create(f"topic{topic}", partition, LogConfig())
            for _ in range(count):
                log.append_in_place(batch)
    log_dir.close()


def started(folder: Path) -> tuple[Serving, float]:
    begin = time.perf_counter()
    serving = Serving(folder, **DEFAULTS)
    return serving, time.perf_counter() - begin


def after_clean_stops(folder: Path, rounds: int) -> list[float]:
    started(folder)[0].stop()  # the first start has no journal of these files
    took = []
    for _ in range(rounds):
        serving, seconds = started(folder)
        took.append(seconds)
        serving.stop()
    return took


def after_kills(folder: Path, rounds: int) -> list[float]:
    took = []
    serving, _ = started(folder)
    for _ in range(rounds):
        append_everywhere(serving)
        serving.stop(signal.SIGKILL)
        serving, seconds = started(folder)
        took.append(seconds)
    serving.stop()
    return took


def append_everywhere(serving: Serving) -> None:
    batch = batch_of(BATCH_BYTES // 10)
    with WireClient(serving.kafka) as client:
        client.send(frame_of(MetadataRequest(topics=None), METADATA, 9))
        topics = client.answer(MetadataResponse, METADATA, 9).topics
        for topic in topics:
            for row in topic.partitions:
                (part,) = client.produce(
                    batch, topic=topic.name, partition=row.partition_index, acks=1
                )
                assert part.error_code == 0, part


def on_empty(folder: Path, rounds: int) -> list[float]:
    took = []
    for turn in range(rounds):
        serving, seconds = started(folder / str(turn))
        took.append(seconds)
        serving.stop()
    return took


def measure(folder: Path, gigabytes: float, rounds: int) -> dict[str, list[float]]:
    times = {"empty": on_empty(folder / "empty", rounds)}
    fill(folder / "large/data", gigabytes)
    times[f"{gigabytes:g} GB, clean stop"] = after_clean_stops(folder / "large", rounds)
    times[f"{gigabytes:g} GB, kill -9"] = after_kills(folder / "large", rounds)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--json", type=Path, help="file for the figures")
    given = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    folder = Path(tempfile.mkdtemp(dir=given.dir))
    try:
        started(folder / "first")[0].stop()  # writes missing bytecode
        times = measure(folder, given.gigabytes, given.rounds)
    finally:
        shutil.rmtree(folder)
    if given.json:
        given.json.write_text(json.dumps(times, indent=1) + "\n")
    print(f"{'ready after':<22} {'median':>8} {'max':>8}")
    for name, took in times.items():
        print(f"{name:<22} {statistics.median(took):6.3f} s {max(took):6.3f} s")


if __name__ == "__main__":
    main()
