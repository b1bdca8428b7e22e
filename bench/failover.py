"""The gap that clients see when the leader of many partitions is killed, or stopped in good order:
the longest time between two acknowledged records of a partition, with acks=all.

    python -m bench.failover [--partitions 1000] [--rounds 5] [--dir DIR] [--json FILE]

Three appliances with a ZooKeeper, and three Apache Kafka brokers, one after the other. Each round
has new brokers and a topic of three replicas. A producer of its own process writes to some of the
partitions that the victim leads, a record to each every 20 ms. Beside it the others are asked when
the last of all partitions has a new leader, and a new producer writes to the same partitions then:
the first one's gap has the client's own waits in it, up to a second of librdkafka's. All is counted
from the signal; after a kill the others miss the victim when its session ends: after the timeout,
the same on both, and what the clocks of ZooKeeper and of Kafka's controller add to it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from bench.peers.brokers import Broker
from bench.peers.clusters import SESSION_MS, Appliances, Cluster, Kafkas

KINDS: dict[str, Callable[..., Cluster]] = {"ours": Appliances, "kafka": Kafkas}
TOPIC = "failover"
WATCHED = 16  # partitions of the victim that are written to
EVERY_S = 0.02
LOOK_S = 0.02
WARM_S, SETTLED_S = 5.0, 5.0
PATIENCE_S = 120.0
FIGURES = ("gap of the middle partition", "gap of the last partition", "missed by the others",
           "all have leaders", "a new client has written")


def gaps_of(address: str, partitions: Sequence[int], seconds: float) -> dict[int, float]:
    """Runs as a process of its own: nothing else delays its clock."""
    acknowledged: dict[int, list[float]] = defaultdict(list)

    def heard(error: object, message: object) -> None:
        if error is None:
            acknowledged[message.partition()].append(time.monotonic())  # type: ignore[attr-defined]

    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0,
                         "log_level": 0, "delivery.timeout.ms": 1000 * int(PATIENCE_S)})
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for each in partitions:
            producer.produce(TOPIC, bytes(100), partition=each, on_delivery=heard)
        producer.poll(EVERY_S)
    if left := producer.flush(PATIENCE_S):
        raise RuntimeError(f"{left} records were not acknowledged within {PATIENCE_S:.0f} s")
    return {each: max(after - before for before, after in pairwise(times))
            for each, times in acknowledged.items()}


def led_by(cluster: Cluster, victim: Broker) -> list[int]:
    leaders, _ = asked(witness(cluster, victim))
    return [number for number, leader in leaders.items() if cluster.nodes[leader - 1] is victim]


def others(cluster: Cluster, victim: Broker) -> str:
    """Who knows the victim's address as well may wait for it first."""
    return ",".join(each.address for each in cluster.nodes if each is not victim)


def witness(cluster: Cluster, victim: Broker) -> AdminClient:
    address = others(cluster, victim).partition(",")[0]
    return AdminClient({"bootstrap.servers": address, "log_level": 0})


def asked(admin: AdminClient) -> tuple[dict[int, int], set[int]]:
    """The leader of each partition, -1 where there is none; and the brokers that live."""
    found = admin.list_topics(TOPIC, PATIENCE_S)
    leaders = {number: each.leader for number, each in found.topics[TOPIC].partitions.items()}
    return leaders, {*found.brokers}


def until_led(cluster: Cluster, victim: Broker) -> tuple[float, float]:
    """Seconds until the victim is missed, and until another broker leads each partition."""
    begin, number = time.monotonic(), cluster.nodes.index(victim) + 1
    admin, missed_s = witness(cluster, victim), 0.0
    while time.monotonic() < begin + PATIENCE_S:
        leaders, living = asked(admin)
        if number not in living and not missed_s:
            missed_s = time.monotonic() - begin
        if missed_s and not {-1, number} & {*leaders.values()}:
            return missed_s, time.monotonic() - begin
        time.sleep(LOOK_S)
    raise RuntimeError(f"partitions have no leader after {PATIENCE_S:.0f} s")


def written(address: str, partitions: Sequence[int]) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0,
                         "log_level": 0})
    for each in partitions:
        producer.produce(TOPIC, bytes(100), partition=each)
    if left := producer.flush(PATIENCE_S):
        raise RuntimeError(f"{left} records were not acknowledged within {PATIENCE_S:.0f} s")


def one_round(cluster: Cluster, how: signal.Signals, partitions: int) -> dict[str, float]:
    cluster.create_topic(TOPIC, partitions, {})
    victim = cluster.leader_of(TOPIC)
    time.sleep(WARM_S)  # internal work of a new topic
    watched = led_by(cluster, victim)[:WATCHED]
    seconds = WARM_S + SETTLED_S + (SESSION_MS / 1000 if how == signal.SIGKILL else 0)
    words = [sys.executable, "-m", "bench.failover", "--client", cluster.address,
             ",".join(map(str, watched)), str(seconds)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as client:
        time.sleep(WARM_S)
        begin = time.monotonic()
        os.kill(victim.pid, how)
        missed, led = until_led(cluster, victim)
        written(others(cluster, victim), watched)
        whole = time.monotonic() - begin
        assert client.stdout is not None
        gaps = sorted(json.loads(client.stdout.read()).values())
    if len(gaps) != len(watched):
        raise RuntimeError(f"{len(watched) - len(gaps)} partitions acknowledged nothing")
    return dict(zip(FIGURES, (statistics.median(gaps), gaps[-1], missed, led, whole), strict=True))


def measured(kind: str, how: signal.Signals, partitions: int, root: Path) -> dict[str, float]:
    folder = Path(tempfile.mkdtemp(dir=root, prefix=f"{kind}-"))
    cluster = KINDS[kind](folder / "cluster", {})
    try:
        return one_round(cluster, how, partitions)
    finally:
        for each in cluster.nodes:
            if each.is_alive():
                each.kill()
        cluster.nodes = []
        cluster.stop()
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS], default=[*KINDS])
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--client", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.client:
        address, partitions, seconds = given.client
        numbers = [int(each) for each in partitions.split(",")]
        print(json.dumps(gaps_of(address, numbers, float(seconds))))
        return
    figures: dict[str, list[float]] = defaultdict(list)
    for number in range(1, given.rounds + 1):
        for how, word in ((signal.SIGKILL, "killed"), (signal.SIGTERM, "stopped")):
            for kind in given.kinds:
                found = measured(kind, how, given.partitions, given.dir)
                for name, value in found.items():
                    figures[f"{kind}, {word}: {name}"].append(value)
                words = ", ".join(f"{name} {value:.3f} s" for name, value in found.items())
                print(f"round {number}, {kind}, {word}: {words}", flush=True)
    for name, values in figures.items():
        print(f"{name}: {statistics.median(values):.3f} s "
              f"({min(values):.3f} to {max(values):.3f})")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
