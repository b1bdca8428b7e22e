"""A real ZooKeeper, and waiting for what it tells."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.zookeeper.server import ZooKeeperServer

DEADLINE_S = 20.0
TICK_MS = 500  # ZooKeeper allows sessions of 2 to 20 ticks


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextmanager
def zookeeper_in(folder: Path) -> Iterator[ZooKeeperServer]:
    """Not yet started."""
    folder.mkdir(exist_ok=True)
    with (folder / "output").open("wb") as output:
        server = ZooKeeperServer(folder / "data", free_port(), TICK_MS, output)
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def serving_zookeeper_in(folder: Path) -> Iterator[ZooKeeperServer]:
    with zookeeper_in(folder) as server:
        server.start()
        server.wait_until_serving()
        yield server
