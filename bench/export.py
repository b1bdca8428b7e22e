"""The cost of a full, cold export: rate, the broker's CPU time and memory, the page cache
afterwards, and the effect on a producer's latency.

    python -m bench.export [--gigabytes 1] [--rounds 3] [--seconds 8] [--streams 2]
                           [--pace N] [--pace-beside N] [--json FILE]
    python -m bench.export --sendfile          the same files by loop.sendfile instead, for compare

It fills a topic with 1 KiB records and drops its segments from the page cache. A producer writes 1
KiB records to another topic, 200 a second, acks=all, and records the latency of each: for a while
alone, then beside an export that restarts cold as often as it ends. A B A B; the figure is the
median of the ratios of the 99th percentiles.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import mmap
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from appliance.record import _batch_builder
from tests.support.serving import Serving
from tests.support.wire_client import WireClient

RECORD_BYTES = 1024
BATCH_RECORDS = 200
SEGMENT_BYTES = 128 << 20
PRODUCED_PER_SECOND = 200
READ_BYTES = 1 << 20
PAGE = 4096
GIB = 1 << 30
EXPORTED = "appliance_export_read_bytes_total"

libc = ctypes.CDLL(None, use_errno=True)


class Scan(NamedTuple):
    mib_per_s: float
    cpu_s_per_gib: float  # of the broker
    cached_share: float  # of the segments, afterwards


def fill(serving: Serving, gigabytes: float) -> None:
    values = [(1, None, os.urandom(RECORD_BYTES)) for _ in range(BATCH_RECORDS)]
    batch = _batch_builder.batch(values)
    with WireClient(serving.kafka) as client:
        client.create_topic("cold", 1)
        client.create_topic("hot", 1)
        for _ in range(int(gigabytes * GIB / len(batch))):
            client.produce(batch, topic="cold", acks=1)
        client.produce(batch, topic="cold", acks=-1)


def segments(folder: Path) -> list[Path]:
    """The sealed ones: readers use the active one."""
    return sorted((folder / "data" / "cold-0").glob("*.log"))[:-1]


def drop(folder: Path) -> None:
    for path in segments(folder):
        with path.open("rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cached_share(folder: Path) -> float:
    cached = total = 0
    for path in segments(folder):
        pages = -(-path.stat().st_size // PAGE)
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            found = (ctypes.c_ubyte * pages)()
            begin = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
            assert libc.mincore(ctypes.c_void_p(begin), ctypes.c_size_t(len(mapped)), found) == 0
            cached += sum(each & 1 for each in found)
        total += pages
    return cached / total


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def take(url: str) -> int:
    size = 0
    with urllib.request.urlopen(url, timeout=600) as answer:
        while data := answer.read(READ_BYTES):
            size += len(data)
    return size


def export(admin: str, streams: int) -> int:
    path = f"http://{admin}/export/v1/topics/cold"
    with urllib.request.urlopen(f"{path}/plan?splits={4 * streams}", timeout=60) as answer:
        splits = json.load(answer)["splits"]
    urls = [f"{path}/partitions/0/batches?start={each['start']}&end={each['end']}"
            for each in splits]
    with ThreadPoolExecutor(streams) as pool:
        return sum(pool.map(take, urls))


def scan(serving: Serving, folder: Path, streams: int) -> Scan:
    drop(folder)
    begin, used = time.perf_counter(), cpu_seconds(serving.process.pid)
    size = export(serving.admin, streams)
    seconds = time.perf_counter() - begin
    used = cpu_seconds(serving.process.pid) - used
    return Scan(size / seconds / (1 << 20), used / (size / GIB), cached_share(folder))


def answers(serving: Serving, seconds: float) -> list[float]:
    batch = _batch_builder.batch([(1, None, bytes(RECORD_BYTES))])
    times = []
    with WireClient(serving.kafka) as client:
        due = time.perf_counter()
        end = due + seconds
        while due < end:
            time.sleep(max(0.0, due - time.perf_counter()))
            begin = time.perf_counter()
            client.produce(batch, topic="hot", acks=-1)
            times.append((time.perf_counter() - begin) * 1000)
            due += 1 / PRODUCED_PER_SECOND
    return times


class Beside(NamedTuple):
    times: list[float]
    mib_per_s: float  # exported in that time


def exported(serving: Serving) -> float:
    with urllib.request.urlopen(f"http://{serving.admin}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(each.split()[1]) for each in lines if each.startswith(EXPORTED))


def beside_export(serving: Serving, folder: Path, seconds: float) -> Beside:
    """The readers are a separate process: a thread here would delay the producer. They only use
    idle processor time, like another machine."""
    code = (f"import os; from pathlib import Path; from bench import export as e\n"
            f"os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\n"
            f"while True: e.drop(Path({str(folder)!r})); e.export({serving.admin!r}, 2)")
    reader = subprocess.Popen([sys.executable, "-c", code])
    try:
        time.sleep(1.0)
        before, begin = exported(serving), time.perf_counter()
        times = answers(serving, seconds)
        size, took = exported(serving) - before, time.perf_counter() - begin
        return Beside(times, size / took / (1 << 20))
    finally:
        reader.kill()
        reader.wait()


def p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


def measure(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    settings = {"log.segment.bytes": SEGMENT_BYTES, "log.retention.ms": -1,
                "export.bytes.per.second": given.pace}
    if given.pace_beside is not None:
        settings["export.beside.commits.bytes.per.second"] = given.pace_beside
    serving = Serving(folder, **settings)
    try:
        return measure_at(serving, folder, given)
    finally:
        serving.stop()


def measure_at(serving: Serving, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    fill(serving, given.gigabytes)
    resident = serving.resident_bytes
    scans = [scan(serving, folder, given.streams) for _ in range(given.rounds)]
    after = serving.resident_bytes
    pairs, paces = [], []
    for _ in range(given.rounds):
        alone = p99(answers(serving, given.seconds))
        beside = beside_export(serving, folder, given.seconds)
        pairs.append((alone, p99(beside.times)))
        paces.append(beside.mib_per_s)
        print(f"p99 {alone:.1f} ms alone, {pairs[-1][1]:.1f} ms beside an export of "
              f"{paces[-1]:.0f} MiB/s", flush=True)
    return {
        "mib_per_s": statistics.median(each.mib_per_s for each in scans),
        "cpu_s_per_gib": statistics.median(each.cpu_s_per_gib for each in scans),
        "cached_share": max(each.cached_share for each in scans),
        "resident_mib_before": resident / (1 << 20),
        "resident_mib_after": after / (1 << 20),
        "p99_alone_ms": statistics.median(a for a, _ in pairs),
        "p99_beside_ms": statistics.median(b for _, b in pairs),
        "mib_per_s_beside": statistics.median(paces),
        "p99_ratio": statistics.median(b / a for a, b in pairs),
    }


# sendfile, for comparison


async def send_files(paths: list[Path]) -> tuple[int, float, float]:
    """Each file over its own connection, by loop.sendfile: bytes, seconds, processor time."""
    loop = asyncio.get_running_loop()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = paths[int(await reader.readline())]
        with path.open("rb") as file:
            await loop.sendfile(writer.transport, file)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    code = ("import socket, sys\n"
            "for n in range(int(sys.argv[2])):\n"
            "    s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
            "    s.sendall(b'%d\\n' % n)\n"
            "    while s.recv(1 << 20): pass\n")
    begin, used = time.perf_counter(), own_cpu()
    reader = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(port), str(len(paths)))
    await reader.wait()
    seconds, used = time.perf_counter() - begin, own_cpu() - used
    server.close()
    return sum(each.stat().st_size for each in paths), seconds, used


def own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def compare_sendfile(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    serving = Serving(folder, **{"log.segment.bytes": SEGMENT_BYTES, "log.retention.ms": -1})
    try:
        fill(serving, given.gigabytes)
    finally:
        serving.stop()
    found = []
    for _ in range(given.rounds):
        drop(folder)
        stalls: list[float] = []
        ends = threading.Event()
        size, seconds, used = asyncio.run(watched(segments(folder), stalls, ends))
        found.append((size / seconds / (1 << 20), used / (size / GIB), max(stalls) * 1000))
    return {
        "mib_per_s": statistics.median(each[0] for each in found),
        "cpu_s_per_gib": statistics.median(each[1] for each in found),
        "longest_stall_ms": statistics.median(each[2] for each in found),
        "cached_share": cached_share(folder),
    }


async def watched(
    paths: list[Path], stalls: list[float], ends: threading.Event
) -> tuple[int, float, float]:
    """Also how long the event loop had no turn."""

    async def tick() -> None:
        while not ends.is_set():
            begin = time.perf_counter()
            await asyncio.sleep(0.005)
            stalls.append(time.perf_counter() - begin - 0.005)

    ticking = asyncio.ensure_future(tick())
    found = await send_files(paths)
    ends.set()
    await ticking
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--streams", type=int, default=2)
    parser.add_argument("--pace", type=int, default=0, help="export.bytes.per.second")
    parser.add_argument("--pace-beside", type=int, metavar="BYTES",
                        help="export.beside.commits.bytes.per.second")
    parser.add_argument("--sendfile", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-export-"))
    try:
        found = (compare_sendfile if given.sendfile else measure)(folder, given)
    finally:
        shutil.rmtree(folder)
    print(json.dumps(found, indent=1))
    if given.json:
        given.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
