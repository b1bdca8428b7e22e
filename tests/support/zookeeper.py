"""A real ZooKeeper, and waiting for what it tells."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from appliance.zookeeper.server import NO_SETTINGS, ZooKeeperServer
from loadtest.ports import lasting_port

DEADLINE_S = 20.0
TICK_MS = 500  # ZooKeeper allows sessions of 2 to 20 ticks


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextmanager
def zookeeper_in(
    folder: Path, more: Mapping[str, object] = NO_SETTINGS
) -> Iterator[ZooKeeperServer]:
    """Not yet started."""
    folder.mkdir(exist_ok=True)
    with (folder / "output").open("wb") as output:
        server = ZooKeeperServer(folder / "data", lasting_port(), TICK_MS, output, more)
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def serving_zookeeper_in(
    folder: Path, more: Mapping[str, object] = NO_SETTINGS
) -> Iterator[ZooKeeperServer]:
    with zookeeper_in(folder, more) as server:
        server.start()
        server.wait_until_serving()
        yield server
