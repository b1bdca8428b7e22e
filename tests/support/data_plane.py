"""A data plane over real sockets, with a real log and no control plane behind it."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance._log import Log
from appliance.config import LogConfig, NetworkConfig
from appliance.data_dir.log_dir import LogDir
from appliance.network._data_plane import DataPlane
from appliance.record import _batch_builder
from appliance.record._batch import records
from appliance.record._records import Record
from tests.support.wire_client import TOPIC_ID, WireClient

PARTITIONS = 3
NETWORK = NetworkConfig(drain_timeout_ms=1000)


def batch(text: bytes = b"value", count: int = 1, **facts: Any) -> bytes:
    now = int(time.time() * 1000)
    return bytes(_batch_builder.batch([Record(now, b"key", text) for _ in range(count)], **facts))


class Plane:
    """A data directory with topic `t` behind a data plane."""

    def __init__(self, path: Path, network: NetworkConfig, log: LogConfig) -> None:
        self.log_dir = LogDir.open(path)
        self.logs = [self.log_dir.create("t", each, log) for each in range(PARTITIONS)]
        self.data_plane = DataPlane(network)
        # Clients of other tests ask for brokers that are gone, whose ports the kernel gives again:
        # on this address nobody is looked for.
        listener = socket.create_server(("127.0.0.2", 0))
        self.address = listener.getsockname()
        self.data_plane.listen(listener)
        self.data_plane.put_topic("t", TOPIC_ID.bytes, list[Log | None](self.logs))
        self.data_plane.start()

    def client(self, timeout: float = 20) -> WireClient:
        return WireClient(self.address, timeout)

    def stop(self) -> None:
        self.data_plane.stop(1000)
        self.log_dir.close()

    def wait_for(self, counter: str, value: int) -> None:
        deadline = time.monotonic() + 10
        while self.data_plane.counters()[counter] < value:
            assert time.monotonic() < deadline, self.data_plane.counters()
            time.sleep(0.01)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Any]:
    made: list[Plane] = []

    def make_one(visibility: str = "durable", cleanup_policy: str = "delete",
                 mirror_source: str = "", **limits: Any) -> Plane:
        log = LogConfig(visibility=visibility, cleanup_policy=cleanup_policy,
                        mirror_source=mirror_source)
        made.append(Plane(tmp_path / str(len(made)), replace(NETWORK, **limits), log))
        return made[-1]

    yield make_one
    for each in made:
        each.stop()


@pytest.fixture
def plane(make: Any) -> Plane:
    return make()  # type: ignore[no-any-return]


@pytest.fixture
def client(plane: Plane) -> Iterator[WireClient]:
    with plane.client() as made:
        yield made


def values(part: Any) -> list[bytes | None]:
    return [record.value for record in records(part.records, partial_tail=True)]


def noise(chance: random.Random, whole: bytes) -> bytes:
    """A request with some bytes changed; in one of ten, none of it is left."""
    if chance.random() < 0.1:
        return chance.randbytes(chance.randint(8, 400))
    octets = bytearray(whole)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(4, len(octets))
        octets[at : at + 4] = chance.choice(
            [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"", chance.randbytes(5)])
    return bytes(octets) + bytes(8)
