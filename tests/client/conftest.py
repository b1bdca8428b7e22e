"""One ZooKeeper for all consumers of a process, a broker in it for each test, and two brokers that
have none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from appliance.testing import RunningBroker, running_broker
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.consumer_site import Site
from tests.support.zookeeper import serving_zookeeper_in


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with serving_zookeeper_in(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def site(server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    root = "/" + re.sub(r"\W", "-", request.node.name)
    settings = {"zookeeper.format": "original", "zookeeper.connect": f"{server.address}{root}"}
    with running_broker(tmp_path, settings) as broker:
        site = Site(server, root, broker)
        site.create("t", 4)
        yield site
        site.look.stop()
        site.look.close()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[RunningBroker]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(running_broker(tmp_path / str(number), {"node.id": str(number)}))
            for number in (1, 2)
        ]
