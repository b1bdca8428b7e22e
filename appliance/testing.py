"""A broker in the test process, for tests of code that speaks Kafka: no Java, no containers.

    def test_mine(appliance_broker):
        producer = Producer({"bootstrap.servers": appliance_broker.bootstrap})

    appliance_broker           a new broker for each test
    appliance_session_broker   one broker for all tests; topics of one test are there in the next
    appliance_settings         override it to change settings: {"num.partitions": "4"}

pytest finds this plugin by itself once the package is installed. Without pytest's fixtures:

    with running_broker("/tmp/data") as broker: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

# Ports are the kernel's choice. No space is held back: the file that does takes longer than all
# else, and a test's disk may well be nearly full. Nothing reads the segments meanwhile. A consumer
# waits for no second one.
SETTINGS = {
    "listeners": "127.0.0.1:0",
    "admin.address": "127.0.0.1:0",
    "export.address": "127.0.0.1:0",
    "storage.reserve.bytes": "0",
    "storage.low.water.bytes": "0",
    "scrub.bytes.per.second": "0",
    "group.initial.rebalance.delay.ms": "0",
}

STOP_S = 30.0  # far more than a stop takes; a test run must not hang for ever

NO_SETTINGS: Mapping[str, str] = {}


class RunningBroker:
    """A broker whose event loop has a thread of its own. `running_broker` starts and stops it."""

    def __init__(self, data_dir: Path, settings: Mapping[str, str]) -> None:
        self.data_dir = data_dir
        self.bootstrap = ""  # HOST:PORT for Kafka clients: the first listener
        self.addresses: dict[str, str] = {}  # of all listeners, by their names
        self.admin = ""  # HOST:PORT of health and the admin pages
        self.export = ""  # HOST:PORT of bulk data
        self.setup_secret = ""  # of the link that makes their first user
        self._settings = {**SETTINGS, **settings}
        self._serves: Future[Callable[[], object]] = Future()  # what ends it
        thread = ThreadPoolExecutor(1, "appliance")
        self._ended = thread.submit(asyncio.run, self._serve())
        thread.shutdown(wait=False)
        either: list[Future[Any]] = [self._serves, self._ended]
        wait(either, return_when=FIRST_COMPLETED)
        if self._ended.done():
            self._ended.result()  # raises what the start failed with

    def stop(self) -> None:
        """Clients get what is due, and the data directory is closed with a clean mark."""
        if not self._ended.done():
            self._serves.result()()
        self._ended.result(STOP_S)

    async def _serve(self) -> None:
        # only now: pytest loads this file in every run, also in those that want no broker
        from appliance import config
        from appliance.server import Server

        pairs = [f"{name}={value}" for name, value in self._settings.items()]
        flags = {"data.dir": str(self.data_dir)}
        server = Server(config.load(pairs=pairs, flags=flags), is_embedded=True)
        serving = asyncio.ensure_future(server.serve(lambda done, found: None))
        ready = asyncio.ensure_future(server.ready.wait())
        await asyncio.wait({serving, ready}, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            self.bootstrap, self.admin = str(server.kafka_addresses[0]), str(server.admin_address)
            names = [each.name for each in server.config.listeners]
            self.addresses = dict(zip(names, map(str, server.kafka_addresses), strict=True))
            self.export = str(server.export_address)
            self.setup_secret = server.setup_secret
            loop = asyncio.get_running_loop()
            self._serves.set_result(partial(loop.call_soon_threadsafe, server.stop))
        ready.cancel()
        await serving


@contextmanager
def running_broker(
    data_dir: Path | str, settings: Mapping[str, str] = NO_SETTINGS
) -> Iterator[RunningBroker]:
    """Serves when the block begins, has stopped cleanly when it ends. A directory that was used
    before is recovered, with all its topics."""
    broker = RunningBroker(Path(data_dir), settings)
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def appliance_settings() -> Mapping[str, str]:
    """Settings by the names of docs/operations.md, over those in `SETTINGS`."""
    return NO_SETTINGS


@pytest.fixture
def appliance_broker(
    tmp_path_factory: pytest.TempPathFactory, appliance_settings: Mapping[str, str]
) -> Iterator[RunningBroker]:
    """A new broker, with `.bootstrap`, `.admin` and `.export`."""
    with running_broker(tmp_path_factory.mktemp("appliance"), appliance_settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def appliance_session_broker(
    tmp_path_factory: pytest.TempPathFactory, appliance_settings: Mapping[str, str]
) -> Iterator[RunningBroker]:
    """The one broker of this run, with `.bootstrap`, `.admin` and `.export`."""
    with running_broker(tmp_path_factory.mktemp("appliance"), appliance_settings) as broker:
        yield broker
