"""One ZooKeeper for all files of a process; a cluster in it, below a path of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.zookeeper.server import ZooKeeperServer
from tests.support.embedded_cluster import EmbeddedCluster, embedded_cluster
from tests.support.registration import Looker
from tests.support.zookeeper import serving_zookeeper_in


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """With the node above all clusters, for everybody: else it is for whoever has the login of the
    cluster that comes first in this process."""
    with serving_zookeeper_in(tmp_path_factory.mktemp("zookeeper")) as server:
        with Looker(server, "/tests") as looker:
            looker.client.ensure_path(looker.root)
        yield server


@pytest.fixture
def cluster(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[EmbeddedCluster]:
    root = "/tests/" + re.sub(r"\W", "-", request.node.name)
    with embedded_cluster(server, root, tmp_path / "cluster") as found:
        yield found
