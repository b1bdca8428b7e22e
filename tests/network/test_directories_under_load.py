"""Logs that move between two directories, and directories that are let go of and opened again,
while clients write and read through the data plane: nothing that was acknowledged is lost.

Also run under the address and thread sanitizers: `python tests/sanitizers.py`. THREADS_S is how
long it runs.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.config import LogConfig
from appliance.data_dir.log_dir import LogDir
from appliance.data_dir.partition_move import PartitionMove
from appliance.network._data_plane import DataPlane
from tests.support.data_plane import NETWORK, batch
from tests.support.logs import everything, log_config
from tests.support.logs import values as values_of
from tests.support.wire_client import TOPIC_ID, WireClient

RUN_S = float(os.environ.get("THREADS_S", "1.5"))
PARTITIONS, WRITERS = 2, 2
SETTINGS: LogConfig = log_config(segment_bytes=20_000)


class Site:
    """Partition 0 is in directory `a` at first, partition 1 in `b`."""

    def __init__(self, root: Path) -> None:
        self.directories = [LogDir.open(root / each) for each in ("a", "b")]
        self.places = [*range(PARTITIONS)]
        for number, place in enumerate(self.places):
            self.directories[place].create("t", number, SETTINGS)
        self.data_plane = DataPlane(NETWORK)
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = listener.getsockname()
        self.data_plane.listen(listener)
        self.show()
        self.data_plane.start()
        self.ends = threading.Event()
        self.acknowledged: list[set[str]] = [set() for _ in range(PARTITIONS)]
        self.moves = self.reopened = self.read = 0

    def log(self, number: int) -> Log:
        return self.directories[self.places[number]].log("t", number)

    def show(self, *away: int) -> None:
        logs = [None if each in away else self.log(each) for each in range(PARTITIONS)]
        self.data_plane.put_topic("t", TOPIC_ID.bytes, logs)

    def move(self, number: int) -> None:
        log, target = self.log(number), 1 - self.places[number]
        copy = PartitionMove(
            log,
            self.directories[1 - target],
            self.directories[target],
            lambda: 0,
            threading.Event(),
        )

        def decide() -> None:
            self.places[number] = target

        copy.begin()
        copy.round()
        copy.sync()
        copy.switch(decide, SETTINGS)
        copy.discard()
        self.show()
        self.moves += 1

    def reopen(self, place: int) -> None:
        before = self.directories[place]
        self.show(*(each for each in range(PARTITIONS) if self.places[each] == place))
        before.let_go()
        self.directories[place] = LogDir.open(
            before.path, log_config=lambda topic, partition: SETTINGS
        )
        self.show()
        self.reopened += 1

    def change(self) -> None:
        while not self.ends.is_set():
            for number in range(PARTITIONS):
                self.move(number)
            self.reopen(self.moves // PARTITIONS % 2)

    def write(self, name: int) -> None:
        number = 0
        with WireClient(self.address, 20) as client:
            while not self.ends.is_set():
                partition, text = number % PARTITIONS, f"{name} {number}"
                (part,) = client.produce(batch(text.encode()), acks=-1, partition=partition)
                if part.error_code == 0:
                    self.acknowledged[partition].add(text)
                number += 1

    def consume(self) -> None:
        offset = 0
        with WireClient(self.address, 20) as client:
            while not self.ends.is_set():
                part = client.fetch_one(offset, wait_ms=20)
                if part.error_code == 0:
                    offset = part.high_watermark
                    self.read += 1

    def stop(self) -> None:
        self.data_plane.stop(1000)
        for each in self.directories:
            each.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.stop()


def test_what_is_acknowledged_stays_through_moves_and_reopened_directories(site: Site) -> None:
    jobs: list[Callable[[], None]] = [
        site.change,
        site.consume,
        *(lambda name=each: site.write(name) for each in range(WRITERS)),
    ]

    def run(job: Callable[[], None]) -> None:
        try:
            job()
        finally:
            site.ends.set()

    with ThreadPoolExecutor(len(jobs)) as pool:
        running = [pool.submit(run, each) for each in jobs]
        end = time.monotonic() + RUN_S
        while time.monotonic() < end and not site.ends.is_set():
            time.sleep(0.01)
        site.ends.set()
        for each in running:
            each.result()
    assert min(site.moves, site.reopened, site.read) > 0
    for number in range(PARTITIONS):
        assert site.acknowledged[number]
        assert site.acknowledged[number] <= {*values_of(everything(site.log(number)))}
