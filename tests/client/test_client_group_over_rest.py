"""A group that lives in ZooKeeper is shown, measured, reset and deleted as all others are."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kazoo.client import KazooClient

from appliance.cli.main import main
from appliance.zookeeper import consumer_nodes
from appliance.zookeeper.consumer_nodes import ConsumerNodes
from tests.support.consumer_site import Site, until_quiet
from tests.support.rest import Rest
from tests.support.zookeeper import eventually


def group_of(rest: Rest, name: str = "g") -> dict[str, Any]:
    answer = rest.ask("GET", f"/groups/{name}")
    return answer.body if answer.status == 200 else {}


def command(site: Site, *words: str) -> tuple[int, str]:
    found = CliRunner().invoke(main, [*words, "--admin", site.broker.admin])
    return found.exit_code, found.output


def test_a_group_in_zookeeper_is_shown_measured_reset_and_deleted(site: Site) -> None:
    rest = Rest(site.broker.admin)
    site.produce("t", 0, *range(10))
    assert rest.get("/groups")["groups"] == []
    connector, stream = site.reader()
    assert until_quiet(stream, 10) == [*range(10)]
    connector.commit_offsets()
    eventually(lambda: group_of(rest).get("lag_records") == 0)
    found = group_of(rest)
    assert (found["protocol"], found["state"], found["members"]) == ("zookeeper", "Stable", 1)
    [member] = found["member_rows"]
    assert member["member_id"] in site.names("ids")
    assert member["partitions"] == {"t": [0, 1, 2, 3]}
    committed = {each["partition"]: each["committed"] for each in found["offsets"]}
    assert committed[0] == 10
    assert abs(found["offsets"][0]["committed_ms"] / 1000 - time.time()) < 60
    assert found["unread"] == []
    refused = rest.ask("POST", "/groups/g/reset", {"to": "earliest"})
    assert (refused.status, "1 consumers" in str(refused.body)) == (409, True)
    assert rest.ask("DELETE", "/groups/g").status == 409
    connector.shutdown()
    site.produce("t", 0, 10, 11)
    eventually(lambda: group_of(rest).get("state") == "Empty")
    [row] = rest.get("/groups")["groups"]
    assert (row["group"], row["protocol"], row["lag_records"]) == ("g", "zookeeper", 2)
    code, said = command(site, "group", "reset", "g", "3", "--topic", "t", "--yes", "--json")
    assert code == 0
    assert {each["before"] for each in json.loads(said)["partitions"] if each["partition"] == 0} \
        == {10}
    assert site.node("offsets/t/1-0") == "3"
    connector, stream = site.reader()
    assert until_quiet(stream, 9) == [*range(3, 12)]
    connector.shutdown()
    page = rest.raw("GET", "/metrics").body.decode()
    assert 'appliance_groups{protocol="zookeeper",state="' in page
    code, said = command(site, "group", "describe", "g")
    assert (code, "Empty, 0 members" in said or "Stable" in said) == (0, True)
    eventually(lambda: group_of(rest).get("state") == "Empty")
    assert command(site, "group", "delete", "g", "--yes")[0] == 0
    assert not site.look.exists("/consumers/g")
    assert group_of(rest) == {}


def test_lag_of_a_group_in_zookeeper_has_a_history_and_a_metric(site: Site) -> None:
    """It is measured with that of all others."""
    rest = Rest(site.broker.admin)
    site.produce("t", 1, *range(5))
    site.look.create("/consumers/old/offsets/t/1-1", b"2", makepath=True)
    eventually(lambda: group_of(rest, "old").get("lag_records") == 3)
    assert group_of(rest, "old")["offsets"][0]["lag_seconds"] >= 0
    assert set(rest.get("/groups/old/lag")) == {"interval_s", "topics"}


@pytest.mark.parametrize("data", [b"", b"-1", b"nine", b"9" * 30, "٣".encode(), b"\xff"])
def test_what_strangers_write_there_is_no_offset(site: Site, data: bytes) -> None:
    nodes = ConsumerNodes(site.look, "", 1, False, 10.0)
    for path in ("old/offsets/t/1-0", "old/offsets/t/1-x", "old/offsets/t/2-0",
                 "x" * 300 + "/offsets/t/1-0"):  # fmt: skip
        site.look.create(f"/consumers/{path}", data, makepath=True)
    site.look.create("/consumers/old/ids/host:1", data, makepath=True)
    found = nodes.look()
    assert set(found.groups) == {"old"}
    assert found.groups["old"].offsets == {}
    assert found.groups["old"].members == ["host:1"]


def test_no_more_is_read_than_may_be(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for group in range(5):
        for partition in range(4):
            path = f"/consumers/g{group}/offsets/t/1-{partition}"
            site.look.create(path, b"1", makepath=True)
    nodes = ConsumerNodes(site.look, "", 1, False, 10.0)
    assert nodes.look().left_out == 0
    monkeypatch.setattr(consumer_nodes, "GROUPS_MAX", 3)
    assert (len(nodes.look().groups), nodes.look().left_out) == (3, 2)
    monkeypatch.setattr(consumer_nodes, "IN_FLIGHT", 1)
    monkeypatch.setattr(consumer_nodes, "NODES_MAX", 8)
    found = nodes.look()
    assert (len(found.groups), found.left_out) == (2, 3)


def test_a_zookeeper_that_is_away_is_a_refusal(tmp_path: Path) -> None:
    nodes = ConsumerNodes(KazooClient("127.0.0.1:1"), "", 1, False, 0.2)
    with pytest.raises(consumer_nodes.ZooKeeperRefused, match="away"):
        nodes.look()
