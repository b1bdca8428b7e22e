"""One ZooKeeper for all files of a process, and a path of its own in it for each test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.zookeeper.server import ZooKeeperServer
from tests.support.clusters import Clusters
from tests.support.registration import Looker
from tests.support.zookeeper import serving_zookeeper_in


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with serving_zookeeper_in(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def look(server: ZooKeeperServer, request: pytest.FixtureRequest) -> Iterator[Looker]:
    with Looker(server, "/tests/" + re.sub(r"\W", "-", request.node.name)) as looker:
        yield looker


@pytest.fixture
def clusters(look: Looker, tmp_path: Path) -> Clusters:
    return Clusters(look.server.address, look.root, tmp_path)
