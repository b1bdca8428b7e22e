"""A box that is thrown away, and an empty one in its place, under the same node.id: everything is
replicated to it, and nothing that was acknowledged is lost meanwhile."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.zookeeper.server import ZooKeeperServer
from tests.support.acknowledged import producing
from tests.support.three_brokers import Brokers, brokers


@pytest.fixture
def three(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Brokers]:
    root = "/tests/" + re.sub(r"\W", "-", request.node.name)
    with brokers(server, root, tmp_path) as found:
        found.start(1, 2, 3)
        yield found


def throw_away(cluster: Brokers, node: int) -> None:
    cluster.stop(node, signal.SIGKILL)
    shutil.rmtree(cluster.folder(node) / "data")


@pytest.mark.parametrize(
    "who",
    ["leader", pytest.param("follower", marks=pytest.mark.release("a leader is one, too"))],
)
def test_an_empty_box_with_the_same_id_gets_everything(three: Brokers, who: str) -> None:
    three.create("t", min_insync_replicas="2")
    found = three.until("t", lambda each: len(each.isrs) == 3)
    dead = found.leader if who == "leader" else next(
        each for each in found.replicas if each != found.leader)  # fmt: skip
    with producing(three.bootstrap, "t") as writer:
        writer.until_more()
        throw_away(three, dead)
        writer.until_more()  # the two others have all that counts
        three.start(dead)
        three.until("t", lambda each: len(each.isrs) == 3)
        writer.until_more()
        acked = writer.end()
    everything = three.everything("t")
    assert {*acked} - {*everything} == set()
    assert everything.count(acked[0]) == 1
    three.until_equal("t", 1, 2, 3)
