"""Three brokers, and the disk of one that fails while it runs."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.zookeeper.server import ZooKeeperServer
from tests.support.preload import library
from tests.support.three_brokers import Brokers, brokers

SOURCE = Path(__file__).parents[1] / "interop/failing_sync.c"
LAG_S = 60  # who is only slow leaves after that


class FailingDisks:
    """Of the partition t-0, of each broker by itself."""

    def __init__(self, cluster: Brokers, folder: Path) -> None:
        self.cluster = cluster
        self._folder = folder

    def start(self, *nodes: int) -> None:
        for node in nodes:
            environment = {
                "LD_PRELOAD": str(library(SOURCE)), "SYNC_BELOW": "/t-0/",
                "SYNC_WAITS": str(self._folder / "never"), "SYNC_FAILS": str(self._file(node)),
            }  # fmt: skip
            self.cluster.start(node, **{
                "environment": environment, "commit.sync": "files",
                "replica.lag.time.max.ms": LAG_S * 1000,
            })  # fmt: skip

    def _file(self, node: int) -> Path:
        return self._folder / f"fails-{node}"

    def fail(self, node: int) -> None:
        self._file(node).touch()

    def mend(self, node: int) -> None:
        self._file(node).unlink()


@pytest.fixture
def three(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[FailingDisks]:
    root = "/tests/" + re.sub(r"\W", "-", request.node.name)
    with brokers(server, root, tmp_path) as found:
        made = FailingDisks(found, tmp_path)
        made.start(1, 2, 3)
        yield made


@pytest.mark.release("three brokers; tests/replication/test_three_brokers.py has what it rests on")
@pytest.mark.parametrize("of_leader", [True, False])
def test_a_disk_that_fails_is_waited_for_by_nobody(three: FailingDisks, of_leader: bool) -> None:
    """It stays out until it works again, and nothing that was acknowledged is lost."""
    cluster = three.cluster
    cluster.create("t", min_insync_replicas="2")
    found = cluster.until("t", lambda each: len(each.isrs) == 3)
    cluster.produce("t", ["a"])
    node = found.leader if of_leader else next(it for it in (1, 2, 3) if it != found.leader)
    three.fail(node)
    begun = time.monotonic()
    # An answer may be lost with the disk: the record is sent again.
    cluster.produce("t", ["b"], **{"enable.idempotence": True})
    found = cluster.until("t", lambda it: node not in it.isrs and it.leader not in (-1, node))
    assert len(found.isrs) == 2
    cluster.produce("t", ["c"])
    assert time.monotonic() - begun < LAG_S
    time.sleep(2)  # a new life has begun
    assert node not in cluster.partition("t").isrs
    assert cluster.consume("t", 3) == ["a", "b", "c"]

    cluster.stop(node, signal.SIGKILL)
    three.mend(node)
    three.start(node)
    cluster.until("t", lambda each: len(each.isrs) == 3)
    assert cluster.consume("t", 3) == ["a", "b", "c"]
