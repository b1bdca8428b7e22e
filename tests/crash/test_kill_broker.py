"""kill -9 of the whole broker under a real producer and a consumer: acknowledged records keep their
offsets, records that the consumer saw do not change, and no record is there twice."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from appliance.record._batch import records
from loadtest.ports import lasting_port
from tests.support.serving import Serving
from tests.support.wire_client import WireClient

from .harness import NIGHTLY
from .test_power_cut_states import SEED

ROUNDS = 100 if NIGHTLY else 3
PARTITIONS = 4
TOPIC = "load"
READY_S = 5.0  # far above the figure of bench/start.py, for a busy machine

Found = dict[tuple[int, int], bytes]  # by partition and offset


class Producing:
    """An idempotent producer, acks=all, that sends numbered records until it is told to stop."""

    def __init__(self, bootstrap: str) -> None:
        self.acked: Found = {}
        self.faults: list[str] = []
        self._producer = Producer({
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 2,
            "message.timeout.ms": 60_000,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
            "log_level": 0,
        })
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            for _ in range(20):
                number += 1
                self._producer.produce(
                    TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._note
                )
            self._producer.poll(0.002)
            while len(self._producer) > 5000 and not self._is_over.is_set():
                self._producer.poll(0.01)

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.faults.append(str(error))
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert isinstance(value, bytes)
        self.acked[partition, offset] = value


class Watching:
    """Reads records as soon as they are visible."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.seen: Found = {}
        self._address = address
        self._next = [0] * PARTITIONS
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.is_set():
            with contextlib.suppress(OSError, EOFError), WireClient(self._address) as client:
                while not self._is_over.is_set():
                    for partition in range(PARTITIONS):
                        self._read(client, partition)
            time.sleep(0.005)

    def _read(self, client: WireClient, partition: int) -> None:
        offset = self._next[partition]
        part = client.fetch_one(offset, topic=TOPIC, partitions=(partition,), wait_ms=5)
        assert part.error_code == 0, (partition, offset, part)
        for record in records(part.records or b"", partial_tail=True):
            if record.offset >= offset:
                self.seen[partition, record.offset] = record.value or b""
                self._next[partition] = record.offset + 1


def everything(address: tuple[str, int]) -> Found:
    watching = Watching(address)
    before = -1
    while before < len(watching.seen):
        before = len(watching.seen)
        time.sleep(0.5)
    watching.stop()
    return watching.seen


@pytest.mark.alone
def test_kill_9_of_the_broker_loses_nothing_acknowledged_or_seen(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    serving = Serving(tmp_path, lasting_port())
    with WireClient(serving.kafka) as client:
        client.create_topic(TOPIC, PARTITIONS)
    host, port = serving.kafka
    producing, watching = Producing(f"{host}:{port}"), Watching(serving.kafka)
    ready = []
    try:
        for _ in range(ROUNDS):
            time.sleep(chance.uniform(0.3, 1.5))
            serving.stop(signal.SIGKILL)
            begin = time.monotonic()
            serving = Serving(tmp_path, port)
            ready.append(time.monotonic() - begin)
        time.sleep(0.5)
    finally:
        producing.stop()
        watching.stop()
    kept = everything(serving.kafka)
    assert serving.stop() == 0
    print(f"{len(producing.acked)} acknowledged, {len(watching.seen)} seen, {len(kept)} kept; "
          f"ready after {sorted(ready)[len(ready) // 2]:.2f} s, at most {max(ready):.2f} s")
    assert producing.faults == []
    assert len(producing.acked) > ROUNDS * 100, "hardly anything was acknowledged: not a load"
    assert {place: kept.get(place) for place in producing.acked} == producing.acked
    assert {place: kept.get(place) for place in watching.seen} == watching.seen
    assert len(set(kept.values())) == len(kept), "a record is there twice"
    for partition in range(PARTITIONS):
        offsets = sorted(offset for part, offset in kept if part == partition)
        assert offsets == list(range(len(offsets)))
    assert max(ready) < READY_S, ready
