"""The commands of `appliance cluster` at real brokers."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kazoo.client import KazooClient

from appliance.cli.main import main
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.acknowledged import producing, until
from tests.support.three_brokers import DEADLINE_S, Brokers, brokers


@pytest.fixture
def three(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Brokers]:
    root = "/tests/" + re.sub(r"\W", "-", request.node.name)
    with brokers(server, root, tmp_path) as found:
        found.start(1, 2, 3)
        yield found


def command(cluster: Brokers, *words: str) -> tuple[int, str]:
    asked = ["cluster", "--zookeeper", cluster.zookeeper, *words]
    found = CliRunner().invoke(main, asked, catch_exceptions=False)
    return found.exit_code, found.output


def answer(cluster: Brokers, *words: str) -> Any:
    asked = ["cluster", "--zookeeper", cluster.zookeeper, *words, "--json"]
    found = CliRunner().invoke(main, asked, catch_exceptions=False)
    assert found.exit_code in (0, 10), found.stderr
    return json.loads(found.stdout)


def test_a_broker_is_decommissioned_and_the_others_have_it_all(three: Brokers) -> None:
    three.create("t", partitions=3, factor=2)
    three.create("all", partitions=1, factor=3)
    for each in range(3):
        three.until("t", lambda found: len(found.isrs) == 2, each)
        three.produce("t", [f"{each}-{i}" for i in range(100)], each)
    code, said = command(three, "decommission", "3")
    assert code == 4, said
    assert ("1 partition would have fewer replicas than now: wanted at least 3 other brokers, "
            "living are 2: all-0" in said)  # fmt: skip
    three.delete("all")

    planned = answer(three, "decommission", "3", "--dry-run")
    mine = [each for each in range(3) if 3 in three.partition("t", each).replicas]
    assert [each["partition"] for each in planned["moves"]] != []
    assert len(planned["moves"]) == len(mine)
    assert planned["bytes"] > 0
    code, said = command(three, "decommission", "3")
    assert (code, "Nobody can be asked here, so it wants --yes" in said) == (4, True), said
    assert answer(three, "status")["moving"] == []
    code, said = command(three, "decommission", "3", "--yes")
    assert code == 0, said
    assert f"broker 3 has no replica any more ({len(mine)} partition" in said
    for each in range(3):
        three.until("t", lambda found: {*found.replicas} == {1, 2}, each)
        assert three.everything("t", each) == [f"{each}-{i}" for i in range(100)]
    internal = three.until("__consumer_offsets", lambda found: len(found.isrs) == 3)
    assert {*internal.replicas} == {1, 2, 3}
    assert command(three, "decommission", "3")[0] == 4
    assert answer(three, "decommission", "3", "--fewer-replicas", "--yes")["partitions"] == 1
    three.until("__consumer_offsets", lambda found: {*found.replicas} == {1, 2})
    assert answer(three, "decommission", "3")["partitions"] == 0
    three.stop(3)
    three.until("t", lambda found: len(found.isrs) == 2)
    status = answer(three, "status")
    assert [each["id"] for each in status["brokers"]] == [1, 2]
    assert (status["dead"], status["without_leader"], status["offline"]) == ([], [], [])
    assert command(three, "decommission", "3")[0] == 3


@pytest.mark.release("that an empty box gets everything is in the gate")
def test_a_dead_box_is_replaced_under_its_id(three: Brokers) -> None:
    three.create("t", partitions=2, factor=3, min_insync_replicas="2")
    three.create("alone", partitions=3, factor=1)
    places = {each: three.until("alone", lambda found: found.leader > 0, each).leader
              for each in range(3)}  # fmt: skip
    (own,) = (each for each in places if places[each] == 2)
    three.produce("alone", ["gone"], own)
    with producing(three.bootstrap, "t") as writer:
        writer.until_more()
        three.stop(2, signal.SIGKILL)
        shutil.rmtree(three.folder(2) / "data")
        three.until("t", lambda found: len(found.isrs) == 2)
        three.until("alone", lambda found: found.leader == -1, own)
        code, said = command(three, "status")
        assert code == 10
        assert "broker 2 does not live, and has 3 replicas" in said
        assert f"1 without a leader: alone-{own}" in said
        told = answer(three, "replace", "2", "--dry-run")
        assert (told["partitions"], told["lost"]) == (3, [f"alone-{own}"])
        three.start(2)
        code, said = command(three, "replace", "2", "--begin-lost-anew", "--yes")
        assert code == 0, said
        assert "3 partitions of broker 2: all replicas are in sync" in said
        assert f"damage topic=alone partition={own} first_offset=0 last_offset=null" in (
            three.running[2].wait_for_log("damage topic=alone"))  # fmt: skip
        writer.until_more()
        acked = writer.end()
    assert {*acked} - {*three.everything("t")} == set()
    assert three.files(1, "t") == three.files(2, "t") == three.files(3, "t") != b""
    assert three.everything("alone", own) == []
    three.produce("alone", ["again"], own)
    assert command(three, "status")[0] == 0


@pytest.mark.release("four brokers; the plan is in tests/cluster")
def test_another_box_takes_the_place_of_a_dead_one_and_all_is_evened(three: Brokers) -> None:
    three.create("t", partitions=4, factor=2)
    for each in range(4):
        three.until("t", lambda found: len(found.isrs) == 2, each)
        three.produce("t", [f"{each}-{i}" for i in range(100)], each)
    three.stop(1, signal.SIGKILL)
    three.start(4)
    until(lambda: 1 in answer(three, "status")["dead"], "broker 1 is missed")
    refused = command(three, "replace", "2", "--with", "4")
    assert (refused[0], "appliance cluster decommission 2" in refused[1]) == (4, True)
    assert command(three, "replace", "1", "--with", "9")[0] == 3
    assert command(three, "replace", "1", "--with", "4")[0] == 4
    code, said = command(three, "replace", "1", "--with", "4", "--yes")
    assert code == 0, said
    for each in range(4):
        found = three.until("t", lambda found: len(found.isrs) == 2, each)
        assert 1 not in found.replicas
        assert three.everything("t", each) == [f"{each}-{i}" for i in range(100)]
    three.start(1)
    planned = answer(three, "rebalance", "--dry-run")
    assert len(planned["moves"]) >= 2
    assert command(three, "rebalance", "--yes")[0] == 0
    found = answer(three, "status")
    counts = [each["replicas"] for each in found["brokers"]]
    assert max(counts) - min(counts) <= 1, counts
    assert sum(counts) >= 8
    assert found["moving"] == found["under_replicated"] == []
    assert answer(three, "rebalance", "--dry-run")["moves"] == []
    for each in range(4):
        assert three.everything("t", each) == [f"{each}-{i}" for i in range(100)]


@pytest.mark.release("the same look at a cluster is in the gate")
def test_a_topic_that_brokers_tell_nothing_of_is_not_taken_for_none(three: Brokers) -> None:
    three.create("t", factor=2)
    client = KazooClient(three.zookeeper)
    client.start(DEADLINE_S)
    client.create("/brokers/topics/strange", b"somebody else's")
    client.stop()
    client.close()
    code, said = command(three, "decommission", "3")
    assert (code, "tell nothing of 1 topic that ZooKeeper has, strange among them" in said) == (
        4, True), said  # fmt: skip
    code, said = command(three, "status")
    assert (code, "1 known to ZooKeeper alone" in said) == (10, True), said


@pytest.mark.release("its plan is tested by itself, and carried out as the others'")
def test_what_one_box_had_alone_is_on_all(three: Brokers) -> None:
    three.create("t", partitions=3, factor=1)
    for each in range(3):
        three.produce("t", [f"{each}-{i}" for i in range(100)], each)
    code, said = command(three, "replicate", "--factor", "4")
    assert (code, "got --factor 4, wanted at most 3" in said) == (4, True), said
    assert command(three, "replicate", "nothing")[0] == 3
    leaders = [three.partition("t", each).leader for each in range(3)]
    assert command(three, "replicate", "--yes", "t")[0] == 0
    for each in range(3):
        found = three.until("t", lambda found: len(found.isrs) == 3, each)
        assert found.leader == leaders[each]
        assert three.everything("t", each) == [f"{each}-{i}" for i in range(100)]
    assert answer(three, "replicate", "--dry-run")["moves"] == []
