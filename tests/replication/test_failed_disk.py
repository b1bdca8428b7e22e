"""Three brokers, and the disk of one that fails while it runs."""

from __future__ import annotations

import errno
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from appliance.zookeeper.server import ZooKeeperServer
from tests.support.logs import until
from tests.support.preload import library
from tests.support.rest import Rest
from tests.support.three_brokers import DEADLINE_S, Brokers, brokers

SOURCE = Path(__file__).parents[1] / "interop/failing_sync.c"
LAG_S = 60  # who is only slow leaves after that


class FailingDisks:
    """Of the partition t-0, of each broker by itself."""

    def __init__(self, cluster: Brokers, folder: Path) -> None:
        self.cluster = cluster
        self.below = "/t-0/"  # of those that start from now on
        self._folder = folder

    def start(self, *nodes: int) -> None:
        for node in nodes:
            environment = {
                "LD_PRELOAD": str(library(SOURCE)), "SYNC_BELOW": self.below,
                "SYNC_WAITS": str(self._folder / "never"), "SYNC_FAILS": str(self._file(node)),
            }  # fmt: skip
            self.cluster.start(node, **{
                "environment": environment, "commit.sync": "files",
                "replica.lag.time.max.ms": LAG_S * 1000,
            })  # fmt: skip

    def _file(self, node: int) -> Path:
        return self._folder / f"fails-{node}"

    def fail(self, *nodes: int, error: int = errno.EIO) -> None:
        for node in nodes:
            part = self._file(node).with_suffix(".part")
            part.write_text(f"{error}")
            part.rename(self._file(node))

    def mend(self, *nodes: int) -> None:
        for node in nodes:
            self._file(node).unlink()

    def failed(self, node: int) -> bool:
        """Whether its health says so."""
        found = Rest(self.cluster.running[node].admin).get("/health")["findings"]
        return any("ENOSPC" in each["text"] for each in found if each["area"] == "logs")


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


FULL = pytest.mark.release("three brokers; tests/interop/test_failed_sync.py has one")


@FULL
@pytest.mark.parametrize("of_leader", [True, False])
def test_a_full_disk_is_followed_from_again_when_there_is_room(
    three: FailingDisks, of_leader: bool
) -> None:
    """By itself: it stays out until there is room."""
    cluster = three.cluster
    cluster.create("t", min_insync_replicas="2")
    found = cluster.until("t", lambda each: len(each.isrs) == 3)
    cluster.produce("t", ["a"])
    node = found.leader if of_leader else next(it for it in (1, 2, 3) if it != found.leader)
    three.fail(node, error=errno.ENOSPC)
    cluster.produce("t", ["b"], **{"enable.idempotence": True})
    cluster.until("t", lambda it: node not in it.isrs and it.leader not in (-1, node))
    cluster.produce("t", ["c"])
    three.mend(node)
    cluster.until("t", lambda each: len(each.isrs) == 3)
    until(lambda: not three.failed(node), DEADLINE_S)
    cluster.produce("t", ["d"])
    assert cluster.consume("t", 4) == ["a", "b", "c", "d"]
    until(lambda: len({cluster.files(each, "t") for each in (1, 2, 3)}) == 1, DEADLINE_S)


@FULL
def test_one_replica_is_left_when_all_disks_are_full_at_once(three: FailingDisks) -> None:
    cluster = three.cluster
    cluster.create("t", min_insync_replicas="2")
    cluster.until("t", lambda each: len(each.isrs) == 3)
    cluster.produce("t", ["a"])
    three.fail(1, 2, 3, error=errno.ENOSPC)
    with ThreadPoolExecutor(1) as thread:
        told = thread.submit(
            cluster.produce, "t", ["b"], deadline_s=4 * DEADLINE_S, **{"enable.idempotence": True}
        )
        until(lambda: all(map(three.failed, (1, 2, 3))), DEADLINE_S)
        cluster.until("t", lambda each: len(each.isrs) == 1)
        three.mend(1, 2, 3)
        told.result(4 * DEADLINE_S)
    cluster.until("t", lambda each: len(each.isrs) == 3)
    cluster.produce("t", ["c"])
    assert cluster.consume("t", 3) == ["a", "b", "c"]
    until(lambda: len({cluster.files(each, "t") for each in (1, 2, 3)}) == 1, DEADLINE_S)


@FULL
def test_a_cut_that_finds_no_room_is_made_when_there_is_some(three: FailingDisks) -> None:
    cluster = three.cluster
    cluster.create("t", min_insync_replicas="2")
    old = cluster.until("t", lambda each: len(each.isrs) == 3).leader
    others = [each for each in (1, 2, 3) if each != old]
    cluster.produce("t", ["a"])
    for each in others:
        cluster.stop(each, signal.SIGKILL)
    cluster.produce("t", ["of one"], node=old, acks="1")
    cluster.stop(old, signal.SIGKILL)
    three.start(*others)
    cluster.until("t", lambda each: each.leader in others)
    cluster.produce("t", ["b"])

    three.below = ".log.cleaned"
    three.fail(old, error=errno.ENOSPC)
    three.start(old)
    until(lambda: three.failed(old), DEADLINE_S)
    three.mend(old)
    cluster.until("t", lambda each: len(each.isrs) == 3)
    cluster.produce("t", ["c"])
    assert cluster.consume("t", 3) == ["a", "b", "c"]
    until(lambda: len({cluster.files(each, "t") for each in (1, 2, 3)}) == 1, DEADLINE_S)
