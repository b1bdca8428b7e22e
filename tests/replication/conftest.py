"""One ZooKeeper for all files of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from appliance.zookeeper.server import ZooKeeperServer
from tests.support.zookeeper import serving_zookeeper_in


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with serving_zookeeper_in(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server
