"""The gap that clients see when the broker is restarted in place: the longest time between two
acknowledged records of a producer, and between two records at a consumer of a group.

    python -m bench.restart [--gigabytes 1] [--partitions 200] [--rounds 5] [--clients NAME ...]
                            [--ways restart takeover] [--dir DIR] [--json FILE]

Clients have their defaults, but for what they need to try again. Each is a process of its own with
one record every 5 ms; they run side by side, so that all see the same restarts. Ways take turns:

    restart    what `systemctl restart` does: SIGTERM, the end of the process, a new one
    takeover   what `systemctl reload` does: SIGUSR2, by which a new process takes over
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from appliance.config import LogConfig, StorageConfig
from appliance.data_dir.log_dir import LogDir
from bench.peers import restarted_clients
from bench.start import BATCH_BYTES, DEFAULTS, batch_of
from loadtest.ports import lasting_ports

PARTITIONS_OF_TOPIC = 10
WAYS = ["restart", "takeover"]
WARM_S, SETTLED_S = 4.0, 6.0  # of traffic before a restart and after it


@dataclass
class Figures:
    """Of one way, in seconds."""

    took: list[float] = field(default_factory=list)  # to the ready line
    stages: dict[str, list[float]] = field(default_factory=dict)  # since the stop began
    gaps: dict[str, list[float]] = field(default_factory=dict)


def fill(data: Path, gigabytes: float, partitions: int) -> None:
    log_dir = LogDir.open(data, StorageConfig(reserve_bytes=0, low_water_bytes=0))
    batch = bytearray(batch_of(BATCH_BYTES))
    count = round(gigabytes * (1 << 30) / len(batch) / partitions)
    for number in range(partitions):
        topic, partition = divmod(number, PARTITIONS_OF_TOPIC)
        log = log_dir.create(f"topic{topic}", partition, LogConfig())
        for _ in range(count):
            log.append_in_place(batch)
    log_dir.close()


class Site:
    """A broker on lasting ports. After a takeover it is no child of ours."""

    def __init__(self, folder: Path) -> None:
        self._data, self._log = folder / "data", folder / "log"
        self._ports = lasting_ports(3)
        self._start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._ports[0]}"

    def _start(self) -> None:
        kafka, admin, export = self._ports
        command = [sys.executable, "-m", "appliance", "serve", "--data-dir", str(self._data)]
        command += ["--listen", f"127.0.0.1:{kafka}", "--admin", f"127.0.0.1:{admin}"]
        for name, value in {**DEFAULTS, "export.address": f"127.0.0.1:{export}"}.items():
            command += ["--set", f"{name}={value}"]
        with self._log.open("a") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        self._output, self._pid = process.stdout, process.pid
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        assert self._output.readline().startswith("ready"), self._log.read_text()

    def stages(self) -> dict[str, float]:
        """Of the last stop and start: from "stopping" on, by the broker's log."""
        found = re.findall(r"^(\S+)Z info appliance.server: (stopping|stopped|recovered)",
                           self._log.read_text(), re.MULTILINE)  # fmt: skip
        (begin, _), *rest = found[-3:]
        began = datetime.fromisoformat(begin)
        return {name: (datetime.fromisoformat(at) - began).total_seconds() for at, name in rest}

    def restart(self) -> None:
        self.stop()
        self._start()

    def takeover(self) -> None:
        os.kill(self._pid, signal.SIGUSR2)
        self._wait_until_ready()
        found = re.findall(r"another process takes over pid=(\d+)", self._log.read_text())
        self._pid = int(found[-1])

    def stop(self) -> None:
        process, end = os.pidfd_open(self._pid), select.poll()
        end.register(process, select.POLLIN)
        os.kill(self._pid, signal.SIGTERM)
        ended = end.poll(60_000)
        os.close(process)
        assert ended, self._log.read_text()


def client(name: str, address: str, folder: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "bench.peers.restarted_clients", name, address]
    with (folder / f"{name}.times").open("w") as times, (folder / f"{name}.log").open("w") as log:
        return subprocess.Popen(words, stdout=times, stderr=log, text=True)


def longest_gap(path: Path) -> tuple[float, int]:
    """And how many records there were."""
    times = [float(line) for line in path.read_text().splitlines()]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    return max(gaps, default=float("inf")), len(times)


def turn(site: Site, names: list[str], way: str, folder: Path, into: Figures) -> None:
    with ExitStack() as running:
        clients = []
        for name in names:
            clients.append(client(name, site.address, folder))
            running.callback(clients[-1].kill)
        wait_for_traffic(names, folder)
        time.sleep(WARM_S)
        begin = time.perf_counter()
        getattr(site, way)()
        into.took.append(time.perf_counter() - begin)
        for name, seconds in site.stages().items():
            into.stages.setdefault(name, []).append(seconds)
        time.sleep(SETTLED_S)
        for each in clients:
            each.send_signal(signal.SIGTERM)
        for each in clients:
            each.wait(30)
    for name in names:
        gap, count = longest_gap(folder / f"{name}.times")
        into.gaps.setdefault(name, []).append(gap)
        print(f"  {name:<24} {gap:6.3f} s, {count} records", flush=True)
    print(f"  {site.stages()}", flush=True)


def wait_for_traffic(names: list[str], folder: Path) -> None:
    end = time.monotonic() + 60
    for name in names:
        while not (folder / f"{name}.times").stat().st_size:
            if time.monotonic() > end:
                raise SystemExit(f"{name} has no record: {(folder / f'{name}.log').read_text()}")
            time.sleep(0.05)


def measure(folder: Path, given: argparse.Namespace) -> dict[str, Figures]:
    fill(folder / "data", given.gigabytes, given.partitions)
    found = {way: Figures() for way in given.ways}
    site = Site(folder)
    restarted_clients.make_topic(site.address)
    try:
        for number in range(given.rounds):
            for way in given.ways:
                print(f"{way} {number + 1}", flush=True)
                turn(site, given.clients, way, folder, found[way])
    finally:
        site.stop()
    return found


def told(name: str, took: list[float]) -> str:
    return f"{name:<40} {statistics.median(took):7.3f} s {min(took):7.3f} s {max(took):7.3f} s"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", nargs="+", default=[*restarted_clients.WAYS])
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--json", type=Path, help="file for the figures")
    given = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    folder = Path(tempfile.mkdtemp(dir=given.dir))
    try:
        found = measure(folder, given)
    finally:
        shutil.rmtree(folder)
    if given.json:
        plain = {name: vars(each) for name, each in found.items()}
        given.json.write_text(json.dumps(plain, indent=1) + "\n")
    for way, each in found.items():
        print(f"{way:<40} {'median':>9} {'least':>9} {'most':>9}")
        print(told("to the ready line", each.took))
        for name, took in each.stages.items():
            print(told(f"since it stops: {name}", took))
        for name, took in each.gaps.items():
            print(told(f"longest gap: {name}", took))


if __name__ == "__main__":
    main()
