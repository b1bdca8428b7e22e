"""Our client library compared with kafka-python and confluent-kafka: one broker, turns, medians.

    python -m bench.client_library [SUITE ...] [--rounds 3] [--records 100=2000000 1000=300000]

`records/s` is per second of wall clock, including other load of the machine; `records/cpu s` is per
second of the client's processor time. All clients count messages and do not read them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from appliance.record import _batch_builder
from appliance.zookeeper.server import ZooKeeperServer
from bench.peers.brokers import Appliance
from bench.peers.consumers import WAYS
from bench.peers.producers import WAYS as PRODUCERS
from loadtest.ports import lasting_port
from tests.support.wire_client import WireClient

LOADS = {100: 2_000_000, 1000: 300_000}  # bytes of a value, and number of records
SHARES = {"kafka_python": 20}  # divisor of the number of records, for a shorter turn
BATCH_BYTES = 100_000  # the size that a busy producer reaches
TIMEOUT_S = 120
STORAGE = {"storage.low.water.bytes": "0", "storage.reserve.bytes": "0"}

Figures = dict[str, list[float]]


class Site:
    """One broker and one ZooKeeper for all clients."""

    def __init__(self, folder: Path, zookeeper: ZooKeeperServer) -> None:
        self.zookeeper = str(zookeeper.address)
        settings = {**STORAGE, "zookeeper.format": "original", "zookeeper.connect": self.zookeeper}
        self.broker = Appliance(folder / "broker", settings)

    def fill(self, topic: str, size: int, count: int) -> None:
        """One partition. The values differ, so that compression has no unusual advantage."""
        self.broker.create_topic(topic, 1, {"visibility": "appended", "retention.ms": "-1"})
        host, _, port = self.broker.address.rpartition(":")
        each = max(1, BATCH_BYTES // size)
        with WireClient((host, int(port)), TIMEOUT_S) as client:
            for first in range(0, count, each):
                numbers = range(first, min(first + each, count))
                rows = [(1_700_000_000_000 + n, None, b"%0*d" % (size, n)) for n in numbers]
                (part,) = client.produce(_batch_builder.batch(rows), topic=topic)
                assert part.error_code == 0, part


def run(words: list[str]) -> dict[str, float]:
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def consume(site: Site, loads: dict[int, int], rounds: int) -> None:
    for size, count in loads.items():
        topic = f"consume-{size}"
        site.fill(topic, size, count)
        found: dict[str, Figures] = {}
        for turn in range(rounds + 1):
            for way in WAYS:
                some = count // SHARES.get(way, 1)
                words = ["bench.peers.consumers", way, site.broker.address, site.zookeeper]
                output = run([*words, topic, str(some)])
                assert output["records"] == some, (way, output)
                if turn:  # the first turn warms up
                    figures = found.setdefault(way, {})
                    for name in ("seconds", "cpu"):
                        figures.setdefault(name, []).append(some / output[name])
        show(f"consume {size} B", found, peer="confluent")


def produce(site: Site, loads: dict[int, int], rounds: int) -> None:
    for size, count in loads.items():
        found: dict[str, Figures] = {}
        for turn in range(rounds + 1):
            for way in PRODUCERS:
                topic = f"produce-{size}-{turn}-{way}"
                site.broker.create_topic(topic, 1, {})
                words = ["bench.peers.producers", way, site.broker.address]
                output = run([*words, topic, str(size), str(count)])
                site.broker.delete_topic(topic)
                if turn:
                    figures = found.setdefault(way, {})
                    for name in ("seconds", "cpu"):
                        figures.setdefault(name, []).append(output["records"] / output[name])
        show(f"produce {size} B", found, peer="confluent")


def show(job: str, found: dict[str, Figures], peer: str) -> None:
    for name, each in found.items():
        wall, cpu = (statistics.median(each[figure]) for figure in ("seconds", "cpu"))
        of_peer = [statistics.median(found[peer][figure]) for figure in ("seconds", "cpu")]
        spread = " ".join(f"{value / 1e3:.0f}" for value in sorted(each["seconds"]))
        print(f"{job:16} {name:15} {wall:12,.0f} records/s ({spread} k) x{wall / of_peer[0]:5.2f}"
              f"   {cpu:12,.0f} records/cpu s x{cpu / of_peer[1]:5.2f}", flush=True)


SUITES: dict[str, Callable[[Site, dict[int, int], int], None]] = {
    "consume": consume,
    "produce": produce,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", nargs="*", default=[f"{s}={n}" for s, n in LOADS.items()])
    given = parser.parse_args()
    loads = {int(size): int(count) for size, _, count in (r.partition("=") for r in given.records)}
    with (
        tempfile.TemporaryDirectory(prefix="bench-client-") as folder,
        ZooKeeperServer(Path(folder, "zookeeper"), lasting_port()) as keeper,
    ):
        keeper.wait_until_serving()
        site = Site(Path(folder), keeper)
        try:
            for name in given.suites or SUITES:
                SUITES[name](site, loads, given.rounds)
        finally:
            site.broker.stop()


if __name__ == "__main__":
    main()
