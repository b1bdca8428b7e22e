"""The cost of idling: memory of an idle broker, memory of 5,000 idle connections, and their effect
on ten busy ones.

    python -m bench.idle [--connections 5000] [--rounds 5] [--seconds 2] [--json FILE]

Ten busy connections, a thread each, write 1 KiB records with acks=all and wait for each response;
then the idle ones are opened, the busy ones run again, the idle ones are closed. A B A B; the
figure is the median of the ratios. Idle connections use several loopback addresses, because one has
28,000 ports, and send ApiVersions once, as clients do.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import statistics
import struct
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from appliance.record import _batch_builder
from tests.support.serving import Serving
from tests.support.wire_client import WireClient

BUSY = 10
RECORD_BYTES = 1024
SOURCES = 5
MIB = 1 << 20
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)


class Run(NamedTuple):
    rate: float  # responses per second of all busy connections
    p50_ms: float
    p99_ms: float


def busy_run(serving: Serving, seconds: float) -> Run:
    times: list[float] = []
    batch = _batch_builder.batch([(time.time_ns() // 1_000_000, None, bytes(RECORD_BYTES))])

    def work(partition: int) -> None:
        own = []
        with WireClient(serving.kafka) as client:
            end = time.perf_counter() + seconds
            while (begin := time.perf_counter()) < end:
                client.produce(batch, topic="busy", partition=partition, acks=-1)
                own.append(time.perf_counter() - begin)
        times.extend(own)

    threads = [threading.Thread(target=work, args=(each,)) for each in range(BUSY)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    cuts = statistics.quantiles(times, n=100)
    return Run(len(times) / seconds, cuts[49] * 1000, cuts[98] * 1000)


def open_idle(serving: Serving, count: int) -> list[socket.socket]:
    opened = []
    for i in range(count):
        source = (f"127.0.0.{2 + i % SOURCES}", 0)
        opened.append(socket.create_connection(serving.kafka, 20, source))
        opened[-1].sendall(API_VERSIONS)
        assert opened[-1].recv(4096)
    return opened


def measure(folder: Path, connections: int, rounds: int, seconds: float) -> dict[str, float]:
    serving = Serving(folder)
    time.sleep(2)
    idle_bytes = serving.resident_bytes
    with WireClient(serving.kafka) as client:
        client.create_topic("busy", BUSY)
    busy_run(serving, seconds)
    growth, alone, crowded = 0, [], []
    for _ in range(rounds):
        alone.append(busy_run(serving, seconds))
        before = serving.resident_bytes
        idle = open_idle(serving, connections)
        growth = max(growth, serving.resident_bytes - before)
        crowded.append(busy_run(serving, seconds))
        for each in idle:
            each.close()
        time.sleep(0.5)
    serving.stop()
    return {
        "idle_mib": idle_bytes / MIB,
        "growth_mib": growth / MIB,
        "rate_alone": statistics.median(each.rate for each in alone),
        "rate_crowded": statistics.median(each.rate for each in crowded),
        "p99_alone_ms": statistics.median(each.p99_ms for each in alone),
        "p99_crowded_ms": statistics.median(each.p99_ms for each in crowded),
        "rate_ratio": median_ratio([(c.rate, a.rate) for a, c in zip(alone, crowded, strict=True)]),
        "p50_ratio": median_ratio(
            [(c.p50_ms, a.p50_ms) for a, c in zip(alone, crowded, strict=True)]
        ),
    }


def median_ratio(pairs: list[tuple[float, float]]) -> float:
    return statistics.median(one / other for one, other in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--connections", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--json", type=Path, help="file for the figures")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=given.dir))
    try:
        figures = measure(folder, given.connections, given.rounds, given.seconds)
    finally:
        shutil.rmtree(folder)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"resident when idle             {figures['idle_mib']:8.1f} MiB")
    print(f"{given.connections} idle connections add     {figures['growth_mib']:8.1f} MiB")
    print(f"responses a second, {BUSY} busy     {figures['rate_alone']:8.0f} alone, "
          f"{figures['rate_crowded']:.0f} with them, ratio {figures['rate_ratio']:.2f}")
    print(f"p99                            {figures['p99_alone_ms']:8.2f} ms alone, "
          f"{figures['p99_crowded_ms']:.2f} ms with them; ratio of p50 {figures['p50_ratio']:.2f}")


if __name__ == "__main__":
    main()
