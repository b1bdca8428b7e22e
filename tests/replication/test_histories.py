"""Three brokers under faults, with producers and a ledger of what was acknowledged to them: nothing
of it is lost, nothing comes twice, and each producer's records keep their order."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from appliance.zookeeper.server import ZooKeeperServer
from tests.support.three_brokers import SESSION_MS, Brokers, brokers

ROUNDS = int(os.environ.get("HISTORY_ROUNDS", "1"))
ROUND_S = float(os.environ.get("HISTORY_S", "30"))
PARTITIONS = 4
PRODUCERS = 3
SETTLED_S = 120.0


class Ledger:
    """A producer, and what was acknowledged to it, by partition."""

    def __init__(self, cluster: Brokers, name: str) -> None:
        self.name = name
        self.acked: dict[int, list[int]] = defaultdict(list)
        self.fatal = ""
        self.is_ending = threading.Event()
        self._producer = Producer({
            "bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True,
            "message.timeout.ms": 300_000, "linger.ms": 5,
        })  # fmt: skip
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self.is_ending.is_set():
            partition = number % PARTITIONS
            with suppress(BufferError):  # full: `poll` makes room
                self._producer.produce(
                    "t", f"{self.name}-{number}", partition=partition,
                    on_delivery=lambda error, _, at=(partition, number): self._note(error, at),
                )  # fmt: skip
                number += 1
            self._producer.poll(0.002)

    def _note(self, error: Any, at: tuple[int, int]) -> None:
        if error is None:
            self.acked[at[0]].append(at[1])
        elif error.fatal():
            self.fatal = str(error)

    def end(self) -> int:
        """How many were neither acknowledged nor refused in time."""
        self.is_ending.set()
        self._thread.join()
        return self._producer.flush(SETTLED_S)


class Faults:
    def __init__(self, cluster: Brokers, server: ZooKeeperServer, seed: int) -> None:
        self.cluster, self.server = cluster, server
        self.random = random.Random(seed)
        self.done: Counter[str] = Counter()

    def one(self) -> None:
        kinds = [self.kill, self.stop, self.pause, self.kill_two, self.kill_all]
        kind = self.random.choices(kinds, [4, 3, 3, 1, 1])[0]
        kind()
        self.done[kind.__name__] += 1
        time.sleep(self.random.uniform(0.5, 4))

    def kill(self) -> None:
        self._away([self._any()], signal.SIGKILL)

    def stop(self) -> None:
        self._away([self._any()], signal.SIGTERM)

    def kill_two(self) -> None:
        self._away(self.random.sample([1, 2, 3], 2), signal.SIGKILL)

    def kill_all(self) -> None:
        self._away([1, 2, 3], signal.SIGKILL)

    def pause(self) -> None:
        """Often longer than the session: what it does when it goes on is of another time."""
        process = self.cluster.running[self._any()].process
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(self.random.uniform(0.2, 2) * SESSION_MS / 1000)
        os.kill(process.pid, signal.SIGCONT)

    def _any(self) -> int:
        return self.random.choice([1, 2, 3])

    def _away(self, nodes: list[int], number: signal.Signals) -> None:
        for node in nodes:
            self.cluster.stop(node, number)
        time.sleep(self.random.uniform(0, 1.5) * SESSION_MS / 1000)
        for node in nodes:
            self.cluster.start(node)


@pytest.mark.release("minutes of faults; the gate has one of each kind in test_three_brokers")
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_what_is_acknowledged_survives_all_faults(
    seed: int, server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    root = "/histories/" + re.sub(r"\W", "-", request.node.name)
    with brokers(server, root, tmp_path) as cluster:
        cluster.start(1, 2, 3)
        cluster.create("t", partitions=PARTITIONS, min_insync_replicas="2")
        ledgers = [Ledger(cluster, f"p{each}") for each in range(PRODUCERS)]
        faults = Faults(cluster, server, seed)
        end = time.monotonic() + ROUND_S
        while time.monotonic() < end:
            faults.one()
        left = [each.end() for each in ledgers]
        for each in range(PARTITIONS):
            cluster.until("t", lambda found: len(found.isrs) == 3, each)
        acked = sum(len(numbers) for each in ledgers for numbers in each.acked.values())
        print(f"seed {seed}: {acked} acknowledged under {dict(faults.done)}, {left} left")
        assert [each.fatal for each in ledgers] == [""] * PRODUCERS
        assert acked > 0
        for each in range(PARTITIONS):
            check(cluster, each, ledgers)


def check(cluster: Brokers, partition: int, ledgers: list[Ledger]) -> None:
    wanted = sum(len(each.acked[partition]) for each in ledgers)
    found = cluster.everything("t", partition)
    for ledger in ledgers:
        numbers = [int(value.rpartition("-")[2]) for value in found
                   if value.startswith(f"{ledger.name}-")]  # fmt: skip
        twice = [number for number, times in Counter(numbers).items() if times > 1]
        assert twice == [], f"{ledger.name}: {twice[:10]} came twice in partition {partition}"
        assert numbers == sorted(numbers), f"{ledger.name} out of order in partition {partition}"
        lost = sorted({*ledger.acked[partition]} - {*numbers})
        assert lost == [], f"{len(lost)} of {wanted} acknowledged are lost, {lost[:10]} among them"
    copies = {cluster.files(node, "t", partition) for node in (1, 2, 3)}
    assert len(copies) == 1, f"the replicas of partition {partition} differ"


def test_the_checks_find_what_is_wrong() -> None:
    class Told(Brokers):
        def __init__(self, values: list[str], files: list[bytes]) -> None:
            self.values, self.copies = values, files

        def everything(self, topic: str, partition: int = 0) -> list[str]:
            return self.values

        def files(self, node: int, topic: str, partition: int = 0) -> bytes:
            return self.copies[node - 1]

    class Acked(Ledger):
        def __init__(self, numbers: list[int]) -> None:
            self.name, self.acked = "p0", defaultdict(list, {0: numbers})

    same = [b"x"] * 3
    check(Told(["p0-1", "p0-2"], same), 0, [Acked([1, 2])])
    for values, files, words in [
        (["p0-1"], same, "1 of 2 acknowledged are lost"),
        (["p0-1", "p0-2", "p0-1"], same, "came twice"),
        (["p0-2", "p0-1"], same, "out of order"),
        (["p0-1", "p0-2"], [b"x", b"x", b"y"], "differ"),
    ]:
        with pytest.raises(AssertionError, match=words):
            check(Told(values, files), 0, [Acked([1, 2])])
