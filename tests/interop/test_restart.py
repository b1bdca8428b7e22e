"""Clients whose broker is killed again and again: no acknowledged record is lost, and an idempotent
producer's records are in the log once and in order."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, overload

import pytest

from tests.interop import kafka_jars
from tests.interop.clients import CLIENTS, Client, Record
from tests.interop.kafka_tools import TOOLS
from tests.support.frame_relay import FrameRelay
from tests.support.logs import until
from tests.support.release import gate_has
from tests.support.warm_broker import WarmBroker as Broker

COUNT = 12_000
KILL_AT = (2000, 5000, 8000)
PER_TURN, TURN_S = 50, 0.005  # ten thousand a second
DEADLINE_S = 60.0
ONE = gate_has(CLIENTS[:1], "kills under a second and a third client", CLIENTS)


class Restarted:
    """One data directory over several lives of its broker, and one address: a relay's, because
    other programs could take the broker's port while it is down."""

    def __init__(self, data: Path, *options: str) -> None:
        self._data, self._options = data, options
        self._relay = FrameRelay()
        self.address = f"127.0.0.1:{self._relay.port}"
        self._start()

    def _start(self) -> None:
        self._broker = Broker(
            self._data, "--set", f"advertised.listeners={self.address}", *self._options)
        host, port = self._broker.kafka.split(":")
        self._relay.broker = (host, int(port))

    def kill(self) -> None:
        self._broker.end(signal.SIGKILL)
        self._start()

    def end_offset(self, topic: str) -> int:
        logs = self._broker.get("/api/v1/logs")[1]["logs"]
        return sum(each["log_end_offset"] for each in logs if each["topic"] == topic)

    def close(self) -> None:
        self._relay.close()
        self._broker.end(signal.SIGKILL)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Restarted]:
    with closing(Restarted(tmp_path)) as made:
        yield made


class Paced(Sequence[Record]):
    """Records at a fixed rate, as from a real source."""

    def __init__(self, count: int) -> None:
        self._records = [Record(None, b"%d" % i) for i in range(count)]
        self.gone = 0

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._records[index]

    def __iter__(self) -> Iterator[Record]:
        for count, record in enumerate(self._records, 1):
            self.gone = count
            if count % PER_TURN == 0:
                time.sleep(TURN_S)
            yield record


@pytest.mark.parametrize("client", ONE, ids=lambda client: client.name)
def test_an_idempotent_producer_lives_through_kills(broker: Restarted, client: Client) -> None:
    sent = Paced(COUNT)
    with ThreadPoolExecutor(1) as thread:
        told = thread.submit(client.produce, broker.address, "t", sent, is_idempotent=True)
        for count in KILL_AT:
            until(lambda count=count: sent.gone >= count or told.done(), DEADLINE_S)
            assert not told.done(), told.exception()
            broker.kill()
        assert told.result(DEADLINE_S) == list(range(COUNT))
    with closing(client.reader(broker.address, "t", 0)) as reader:
        assert reader.ends() == (0, COUNT)
        assert reader.take(COUNT) == list(enumerate(sent))


@pytest.mark.release("tests/interop/test_streams.py has the Java client through kills")
def test_apache_kafkas_producer_lives_through_kills(broker: Restarted) -> None:
    tool = ("--bootstrap-server", broker.address, "--topic", "t", "--num-records", str(COUNT),
            "--record-size", "100", "--throughput", str(COUNT // 3))
    with ThreadPoolExecutor(1) as thread:
        said = thread.submit(
            kafka_jars.must_run, TOOLS["kafka-producer-perf-test"], *tool)
        for count in KILL_AT:
            until(lambda count=count: broker.end_offset("t") >= count, DEADLINE_S)
            assert not said.done(), said.result()
            broker.kill()
        assert re.search(rf"^{COUNT} records sent", said.result(DEADLINE_S), re.MULTILINE)
    assert broker.end_offset("t") == COUNT
