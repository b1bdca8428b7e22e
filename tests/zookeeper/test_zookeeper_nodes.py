"""What a broker writes in a real ZooKeeper, and whose nodes are whose."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from kazoo.exceptions import NoAuthError
from kazoo.security import CREATOR_ALL_ACL, make_digest_acl_credential

from appliance.testing import running_broker
from appliance.zookeeper.nodes import Json, address_in
from tests.support.registration import Admin, Looker, bootstrap, health, serving
from tests.support.zookeeper import DEADLINE_S, eventually

pytestmark = pytest.mark.first


# What is written


def test_a_broker_and_its_topics_are_there_until_it_stops(look: Looker, tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        Admin(broker.bootstrap).create("before", 2)
    with running_broker(tmp_path, look.settings) as broker:
        assert look.names("/brokers/ids") == ["1"]
        assert look.data("/brokers/ids/1") == broker.bootstrap
        eventually(lambda: look.topics() == {"before": "2"})
        assert look.owner("/brokers/ids/1") == look.owner("/brokers/topics/before/1") != 0
        admin = Admin(broker.bootstrap)
        admin.create("after", 3)
        eventually(lambda: look.topics() == {"after": "3", "before": "2"})
        admin.extend("after", 5)
        eventually(lambda: look.topics() == {"after": "5", "before": "2"})
        admin.delete("before")
        eventually(lambda: look.topics() == {"after": "5"})
        assert health(broker.admin)["zookeeper"] == "connected"
    assert look.names("/brokers/ids") == []
    assert look.topics() == {"after": None}


def test_brokers_share_topics(look: Looker, tmp_path: Path) -> None:
    with (
        running_broker(tmp_path / "1", look.settings) as one,
        running_broker(tmp_path / "2", {**look.settings, "node.id": "2"}) as two,
    ):
        ids = {each: look.data(f"/brokers/ids/{each}") for each in look.names("/brokers/ids")}
        assert ids == {"1": one.bootstrap, "2": two.bootstrap}
        Admin(one.bootstrap).create("t", 3)
        Admin(two.bootstrap).create("t", 4)
        eventually(lambda: look.names("/brokers/topics/t") == ["1", "2"])
        assert (look.data("/brokers/topics/t/1"), look.data("/brokers/topics/t/2")) == ("3", "4")
        Admin(one.bootstrap).delete("t")
        eventually(lambda: look.names("/brokers/topics/t") == ["2"])
        Admin(two.bootstrap).delete("t")
        eventually(lambda: look.names("/brokers/topics") == [])


def test_topics_of_the_broker_itself_are_not_told(look: Looker, tmp_path: Path) -> None:
    with running_broker(tmp_path, look.settings) as broker:
        admin = Admin(broker.bootstrap)
        admin.create("t", 1)
        member = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        member.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
        member.close()
        assert "__consumer_offsets" in admin.client.list_topics(timeout=DEADLINE_S).topics
        admin.create("u", 1)
        eventually(lambda: look.topics() == {"t": "1", "u": "1"})


def test_the_json_form(look: Looker, tmp_path: Path) -> None:
    settings = {**look.settings, "zookeeper.format": "json"}
    with running_broker(tmp_path, settings) as broker:
        fields = json.loads(look.data("/brokers/ids/1") or "")
        assert f"{fields['host']}:{fields['port']}" == broker.bootstrap
        assert fields["endpoints"] == [f"PLAINTEXT://{broker.bootstrap}"]
        assert abs(int(fields["timestamp"]) / 1000 - time.time()) < DEADLINE_S
        admin = Admin(broker.bootstrap)
        admin.create("t", 1)
        admin.extend("t", 2)
        state = "/brokers/topics/t/partitions/1/state"
        eventually(lambda: look.data(state) is not None)
        assert json.loads(look.data("/brokers/topics/t") or "")["partitions"] == {
            "0": [1],
            "1": [1],
        }
        assert json.loads(look.data(state) or "")["leader"] == 1
        assert look.owner("/brokers/topics/t") == 0
        assert look.owner(state) == look.owner("/brokers/ids/1")
        admin.delete("t")
        eventually(lambda: look.names("/brokers/topics") == [])


def test_in_the_json_form_a_stranger_keeps_its_topic(look: Looker, tmp_path: Path) -> None:
    theirs = b'{"version":1,"partitions":{"0":[1]}}'
    look.client.create(f"{look.root}/brokers/topics/a", theirs, makepath=True)
    with running_broker(tmp_path, {**look.settings, "zookeeper.format": "json"}) as broker:
        Admin(broker.bootstrap).create("a", 1)
        eventually(lambda: health(broker.admin)["status"] == "failing")
        (reason,) = health(broker.admin)["reasons"]
        assert reason.startswith(f"not registered: {look.root}/brokers/topics/a in ZooKeeper is")
        Admin(broker.bootstrap).create("b", 1)
        eventually(lambda: look.data("/brokers/topics/b/partitions/0/state") is not None)
        Admin(broker.bootstrap).delete("b")
        eventually(lambda: look.names("/brokers/topics") == ["a"])
        assert look.data("/brokers/topics/a") == theirs.decode()


# Credentials


def test_with_a_credential_nodes_are_its_own(look: Looker, tmp_path: Path) -> None:
    file = tmp_path / "login"
    file.write_text("broker:hush hush\n")
    with serving(tmp_path / "1", {**look.settings, "zookeeper.auth.file": str(file)}) as broker:
        Admin(bootstrap(broker)).create("t", 1)
        eventually(lambda: look.topics() == {"t": "1"})
        ours = make_digest_acl_credential("broker", "hush hush")
        wanted = {("digest", ours, 31), ("world", "anyone", 1)}
        with Looker(look.server, look.root, auth_data=[("digest", "broker:hush hush")]) as user:
            for path in ("", "/brokers", "/brokers/ids", "/brokers/ids/1", "/brokers/topics/t/1"):
                acl, _ = user.client.get_acls(look.root + path)
                assert {(each.id.scheme, each.id.id, each.perms) for each in acl} == wanted, path
        for attempt in (look.client.delete, lambda path: look.client.set(path, b"x")):
            with pytest.raises(NoAuthError):
                attempt(f"{look.root}/brokers/ids/1")
        assert broker.stop() == 0
        assert "hush" not in broker.log


def test_nodes_that_are_not_ours_to_write_are_a_reason(look: Looker, tmp_path: Path) -> None:
    with Looker(look.server, "", auth_data=[("digest", "other:one")]) as other:
        other.client.create(f"{look.root}/brokers", acl=CREATOR_ALL_ACL, makepath=True)
        with running_broker(tmp_path, look.settings) as broker:
            assert health(broker.admin)["zookeeper"] == "refused"
            assert health(broker.admin)["reasons"] == [
                "not registered: ZooKeeper refuses our nodes below "
                f"{look.root}/brokers: NoAuthError()"
            ]


# Strangers


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"box:9092", "box:9092"),
        (b'{"host": "box", "port": 9092}', "box:9092"),
        (b'{"host": "box"}', '"{\\"host\\": \\"box\\"}"'),
        (b"", '""'),
        (b"a\n\x1b[2Jb\xff", '"a\\n\\u001b[2Jb\\\\xff"'),
        (b"[" * 100_000, "[" * 200),
        (b"x" * 100_000, "x" * 200),
    ],
)
def test_a_strangers_node_is_shown_safely(data: bytes, shown: str) -> None:
    assert address_in(data) == shown


@pytest.mark.parametrize("data", [b"", b"7", b"[]", b"{}", b"{", b'{"appliance": "theirs"}'])
def test_only_marked_nodes_are_ours(data: bytes) -> None:
    assert not Json(1, "ours").is_ours(data)
    assert Json(1, "ours").is_ours(Json(1, "ours").topic("t", 3)[0].data)
