"""`appliance cluster`: two brokers of one ZooKeeper path as one."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, NewTopic

from appliance.cli.main import main
from appliance.testing import running_broker
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.rest import Rest
from tests.support.zookeeper import DEADLINE_S, eventually


def command(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(main, ["cluster", *words], catch_exceptions=False)
    return found.exit_code, found.output


def test_brokers_of_a_path_are_shown_as_one(server: ZooKeeperServer, tmp_path: Path) -> None:
    place = f"{server.address}/cluster"
    with ExitStack() as stack:
        brokers = {}
        for number, partitions in ((1, 2), (2, 3)):
            settings = {"node.id": str(number), "zookeeper.format": "original",
                        "zookeeper.connect": place,
                        "zookeeper.connection.timeout.ms": "10000"}  # fmt: skip
            broker = stack.enter_context(running_broker(tmp_path / str(number), settings))
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            admin.create_topics([NewTopic("t", partitions)])["t"].result(DEADLINE_S)
            brokers[number] = broker
        at = [f"--admin={number}=http://{each.admin}" for number, each in brokers.items()]

        def found() -> dict[str, Any]:
            answer: dict[str, Any] = json.loads(command("--zookeeper", place, "--json", *at)[1])
            return answer

        eventually(lambda: [each["partitions"] for each in found()["topics"]] == [5])
        answer = found()
        assert answer["topics"] == [{"topic": "t", "partitions": 5, "brokers": [1, 2]}]
        assert [each["topics"] for each in answer["brokers"]] == [{"t": 2}, {"t": 3}]
        assert {each["status"] for each in answer["brokers"]} <= {"ok", "degraded"}
        code, said = command("--zookeeper", place, at[0], "--admin=2=http://127.0.0.1:1")
        assert code == 10
        assert "unreachable: " in said.splitlines()[-1]
        assert "Connection refused" in said


def test_a_path_without_brokers_and_a_zookeeper_that_is_away_are_told(
    server: ZooKeeperServer,
) -> None:
    code, said = command("--zookeeper", f"{server.address}/nobody")
    assert (code, "no broker is registered" in said) == (3, True)
    assert command("--zookeeper", "zk")[0] == 2
    assert command("--zookeeper", f"{server.address}/x", "--admin", "1=ftp://x")[0] == 2


def test_each_broker_tells_of_all_and_of_itself_without_asking(
    server: ZooKeeperServer, tmp_path: Path
) -> None:
    settings = {"zookeeper.format": "original", "zookeeper.connect": f"{server.address}/told",
                "zookeeper.connection.timeout.ms": "10000"}  # fmt: skip
    with running_broker(tmp_path / "2", {**settings, "node.id": "2"}) as other:
        pages = f"2=http://{other.admin}"
        more = {"node.id": "1", "cluster.admin.urls": pages}
        with running_broker(tmp_path / "1", {**settings, **more}) as broker:
            eventually(lambda: len(Rest(broker.admin).get("/cluster")["brokers"]) == 2)
            answer = Rest(broker.admin).get("/cluster")
            assert (answer["node_id"], answer["zookeeper"]) == (1, settings["zookeeper.connect"])
            assert [each["admin"] for each in answer["brokers"]] == [
                f"http://{each.admin}" for each in (broker, other)
            ]
            assert "unreachable" not in {each["status"] for each in answer["brokers"]}
            seen = Rest(other.admin).get("/cluster")["brokers"]  # it is not told where 1 is
            assert [each["status"] == "unreachable" for each in seen] == [True, False]
    with running_broker(tmp_path / "alone") as alone:
        answer = Rest(alone.admin).get("/cluster")
        assert (answer["zookeeper"], answer["brokers"]) == (None, [])


def test_authorities_that_cannot_be_read_are_told(server: ZooKeeperServer, tmp_path: Path) -> None:
    where = ("--zookeeper", f"{server.address}/authorities", "--ca-file", str(tmp_path / "none"))
    settings = {"zookeeper.format": "original", "zookeeper.connect": where[1],
                "zookeeper.connection.timeout.ms": "10000"}  # fmt: skip
    with running_broker(tmp_path / "data", settings):
        code, said = command(*where)
    assert (code, "No such file" in said) == (1, True)
