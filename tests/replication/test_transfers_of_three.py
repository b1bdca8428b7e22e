"""Transfers between accounts, each a transaction, while brokers are killed: totals balance."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from appliance.protocol import ErrorCode
from appliance.topics.topic import TRANSACTIONS
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.three_brokers import Brokers
from tests.support.transactions_of_three import (
    ALL,
    PARTITIONS,
    SETTINGS,
    committed,
    producer,
    three_brokers,
)  # fmt: skip

SECONDS = float(os.environ.get("TRANSFERS_S", "40"))


@pytest.fixture
def three(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Brokers]:
    with three_brokers(server, request.node.name, tmp_path) as found:
        yield found


class Transfers:
    """Moves amounts between accounts, which are partitions: each transfer is a transaction that
    takes from one and gives to another, or does nothing."""

    def __init__(self, cluster: Brokers, name: str, seed: int) -> None:
        self._cluster, self._name = cluster, name
        self._random = random.Random(seed)
        self.committed: set[str] = set()  # transfers of which the client knows it
        self.aborted: set[str] = set()
        self.faults: list[str] = []
        self.is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        own: Producer | None = None
        number = 0
        while not self.is_ending.is_set():
            number += 1
            try:
                own = own or producer(self._cluster, self._name)
                self._one(own, f"{self._name}-{number}")
            except KafkaException as error:
                own = self._after(own, error, f"{self._name}-{number}")

    def _one(self, own: Producer, transfer: str) -> None:
        own.begin_transaction()
        amount = self._random.randrange(1, 100)
        one, two = self._random.sample(range(PARTITIONS), 2)
        own.produce("t", f"{transfer} {-amount}", partition=one)
        own.produce("t", f"{transfer} {amount}", partition=two)
        if self._random.random() < 0.2:
            own.abort_transaction(60)
            self.aborted.add(transfer)
        else:
            own.commit_transaction(60)
            self.committed.add(transfer)

    def _after(
        self, own: Producer | None, error: KafkaException, transfer: str
    ) -> Producer | None:
        """What becomes of this one is not known, unless it was aborted."""
        told = error.args[0]
        if own is not None and told.txn_requires_abort():
            with suppress(KafkaException):
                own.abort_transaction(60)
                self.aborted.add(transfer)
                return own
        if told.code() not in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH):
            self.faults.append(str(told))
        return None  # another one aborts what this one left

    def end(self) -> None:
        self.is_ending.set()
        self._thread.join()


@pytest.mark.release("a history; tests/replication/test_transactions_across_brokers.py is short")
def test_totals_balance_whoever_is_killed(three: Brokers) -> None:
    seed = int(os.environ.get("TRANSFERS_SEED", str(random.randrange(1 << 30))))
    print(f"TRANSFERS_SEED={seed}")
    fate = random.Random(seed)
    clerks = [Transfers(three, f"clerk{number}", seed + number) for number in range(3)]
    end = time.monotonic() + SECONDS
    kills = 0
    while time.monotonic() < end:
        time.sleep(fate.uniform(1, 4))
        node = fate.choice(ALL)
        three.stop(node, fate.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
        time.sleep(fate.uniform(0, 4))
        three.start(node, **SETTINGS)
        kills += 1
        until_all(three)
    for each in clerks:
        each.end()
    for each in clerks:
        producer(three, each._name)  # what was left open is aborted
    found = committed(three)
    seen: dict[str, list[int]] = {}
    for values in found:
        for value in values:
            transfer, amount = value.split()
            seen.setdefault(transfer, []).append(int(amount))
    assert {name: rows for name, rows in seen.items() if sum(rows) or len(rows) != 2} == {}
    for each in clerks:
        assert each.committed <= seen.keys()
        assert not each.aborted & seen.keys()
    total = sum(len(each.committed) for each in clerks)
    print(f"{total} transfers committed, {sum(len(e.aborted) for e in clerks)} aborted, "
          f"{kills} brokers ended, clients were told {[e.faults for e in clerks]}")  # fmt: skip
    assert total > 0


def until_all(cluster: Brokers) -> None:
    for topic in ("t", TRANSACTIONS):
        for number in range(PARTITIONS):
            cluster.until(topic, lambda each: len(each.isrs) == len(ALL), number)
