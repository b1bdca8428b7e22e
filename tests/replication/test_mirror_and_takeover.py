"""A mirror into and out of a cluster, and a broker of a cluster that another process takes over."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.mirror.config import MirrorConfig
from appliance.mirror.mirror import Mirror
from appliance.testing import running_broker
from appliance.zookeeper.server import ZooKeeperServer
from loadtest.ports import lasting_ports
from tests.support import mirroring
from tests.support.mirroring import T0
from tests.support.three_brokers import DEADLINE_S, Brokers, brokers

pytestmark = pytest.mark.release(
    "brokers are killed and taken over; tests/mirror and tests/process/test_succession.py have one"
)


@pytest.fixture
def two(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Brokers]:
    root = "/tests/" + re.sub(r"\W", "-", request.node.name)
    with brokers(server, root, tmp_path / "cluster") as found:
        kafka = lasting_ports(2)
        for node, port in enumerate(kafka, 1):
            found._ports[node] = port
        admin, export = lasting_ports(2)
        found.start(1, **{"admin_port": admin, "export.address": f"127.0.0.1:{export}"})
        found.start(2)
        yield found


@pytest.mark.parametrize("offsets", ["keep", "map"])
def test_a_mirror_goes_on_when_a_leader_of_its_target_dies(
    two: Brokers, tmp_path: Path, offsets: str
) -> None:
    with running_broker(tmp_path / "source") as source:
        mirroring.make(source, "t", 2)
        mirroring.produce(source, *"abc")
        mirroring.produce(source, *"xyz", partition=1)
        settings = mirroring.config(source, two.bootstrap, offsets=offsets)
        two.start(3)  # what is decided of transactions is on two disks
        with mirroring.running(settings) as mirror:
            end = time.monotonic() + DEADLINE_S
            while "t" not in two.admin().list_topics(timeout=DEADLINE_S).topics:
                assert time.monotonic() < end, mirror.progress.totals()
                time.sleep(0.1)
            for each in range(2):
                two.until("t", lambda it: len(it.isrs) > 1, each)
            first = two.partition("t", 0).leader
            two.stop(first, signal.SIGKILL)
            two.until("t", lambda it: it.leader not in (-1, first))
            mirroring.produce(source, *"def")
            until_there(two, 0, [*"abcdef"])
            mirroring.produce(source, "w", partition=1)
            until_there(two, 1, [*"xyzw"])


def until_there(cluster: Brokers, partition: int, values: list[str]) -> None:
    end = time.monotonic() + DEADLINE_S
    while (found := cluster.everything("t", partition)) != values:
        assert time.monotonic() < end, found
        time.sleep(0.2)


def test_a_mirror_reads_all_leaders_of_its_source(two: Brokers, tmp_path: Path) -> None:
    two.create("t", partitions=2, factor=1)
    assert {two.until("t", lambda it: it.leader != -1, each).leader for each in range(2)} == {1, 2}
    two.produce("t", [*"abc"], 0)
    two.produce("t", [*"xyz"], 1)
    with running_broker(tmp_path / "target") as target:
        settings = MirrorConfig(source=two.bootstrap, target=target.bootstrap, topics="t")
        Mirror(settings).run(once=True)
        assert [value for _, value in mirroring.read(target)] == [*"abc"]
        assert mirroring.read_values(target, T0._replace(partition=1)) == [*"xyz"]


def test_another_process_takes_over_and_nothing_is_lost(two: Brokers) -> None:
    two.create("t", partitions=2, factor=2, min_insync_replicas="1")
    for each in range(2):
        two.until("t", lambda it: len(it.isrs) == 2, each)
        two.produce("t", ["before"], each)
    serving = two.running[1]
    os.kill(serving.process.pid, signal.SIGUSR2)
    output = serving.process.stdout
    assert output is not None
    for each in range(2):
        two.produce("t", ["meanwhile"], each)
    assert output.readline().startswith("ready"), serving.log
    (pid,) = re.findall(r"takes over pid=(\d+)", serving.log)
    try:
        for each in range(2):
            two.until("t", lambda it: len(it.isrs) == 2, each)
            two.produce("t", ["after"], each)
            assert two.everything("t", each) == ["before", "meanwhile", "after"]
        assert two.files(1, "t") == two.files(2, "t") != b""
    finally:
        os.kill(int(pid), signal.SIGTERM)
        while Path(f"/proc/{pid}/fd/1").exists():
            time.sleep(0.05)
