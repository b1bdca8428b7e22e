"""A broker's id and session in a real ZooKeeper, which is stopped and started again beneath it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.security import OPEN_ACL_UNSAFE

from appliance.testing import running_broker
from appliance.zookeeper.nodes import NodeIdTaken
from appliance.zookeeper.registration import SESSION_FILE
from loadtest.ports import lasting_port
from tests.support.registration import LONG_MS, SHORT_MS, Admin, Looker, bootstrap, health, serving
from tests.support.zookeeper import DEADLINE_S, eventually, zookeeper_in

pytestmark = pytest.mark.first


# Whose id it is


def test_a_taken_id_ends_the_start_and_names_the_other(look: Looker, tmp_path: Path) -> None:
    with running_broker(tmp_path / "1", look.settings) as one:
        command = [sys.executable, "-m", "appliance", "serve", "--data-dir", str(tmp_path / "2")]
        command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        command += ["--set", "storage.low.water.bytes=0", "--set", "storage.reserve.bytes=0"]
        command += ["--zookeeper", f"{look.server.address}{look.root}"]
        command += ["--set", "zookeeper.format=original"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{look.root}/brokers/ids/1 in ZooKeeper is taken by {one.bootstrap}" in done.stderr
        assert "Traceback" not in done.stderr
        assert look.data("/brokers/ids/1") == one.bootstrap


def test_after_kill_9_a_broker_takes_its_nodes_over(look: Looker, tmp_path: Path) -> None:
    with serving(tmp_path / "1", look.settings) as killed:
        Admin(bootstrap(killed)).create("t", 2)
        eventually(lambda: look.topics() == {"t": "2"})
    before = look.owner("/brokers/ids/1")
    gaps: list[list[str]] = []
    look.client.ChildrenWatch(f"{look.root}/brokers/ids", gaps.append)
    with pytest.raises(NodeIdTaken, match=bootstrap(killed)):  # another with this id may not
        running_broker(tmp_path / "2", look.settings).__enter__()
    with serving(tmp_path / "1", look.settings) as again:
        assert look.data("/brokers/ids/1") == bootstrap(again) != bootstrap(killed)
        eventually(lambda: look.owner("/brokers/topics/t/1") == look.owner("/brokers/ids/1"))
        assert look.owner("/brokers/ids/1") != before
        assert again.stop() == 0
    eventually(lambda: gaps[-1] == [])
    assert [each for each in gaps if each != ["1"]] == [[]], "gone once: when it stopped"


def test_a_killed_brokers_nodes_go_with_its_session(look: Looker, tmp_path: Path) -> None:
    settings = {**look.settings, "zookeeper.session.timeout.ms": str(SHORT_MS)}
    with serving(tmp_path / "1", settings) as broker:
        Admin(bootstrap(broker)).create("t", 2)
        eventually(lambda: look.topics() == {"t": "2"})
    eventually(lambda: look.names("/brokers/ids") == [])
    eventually(lambda: look.topics() == {"t": None})


def test_an_id_taken_while_it_serves_is_a_reason(look: Looker, tmp_path: Path) -> None:
    settings = {**look.settings, "zookeeper.session.timeout.ms": str(SHORT_MS)}
    with running_broker(tmp_path, settings) as broker:
        path = f"{look.root}/brokers/ids/1"
        change = look.client.transaction()
        change.delete(path)
        change.create(path, b'{"host": "other", "port": 1}', OPEN_ACL_UNSAFE, ephemeral=True)
        assert change.commit()[0] is True
        eventually(lambda: health(broker.admin)["zookeeper"] == "refused")
        assert "taken by other:1, session 0x" in health(broker.admin)["reasons"][0]
        Admin(broker.bootstrap).create("t", 1)  # it serves
        look.client.delete(path)
        eventually(lambda: look.data("/brokers/ids/1") == broker.bootstrap)
        eventually(lambda: look.topics() == {"t": "1"})
        eventually(lambda: health(broker.admin)["status"] == "ok")


def test_a_deleted_node_is_written_again(look: Looker, tmp_path: Path) -> None:
    with running_broker(tmp_path, look.settings) as broker:
        for _ in range(3):
            look.client.delete(f"{look.root}/brokers/ids/1")
            eventually(lambda: look.data("/brokers/ids/1") == broker.bootstrap)


# Sessions and outages


def test_a_session_that_expired_is_replaced(look: Looker, tmp_path: Path) -> None:
    """The process stands still longer than its session may."""
    settings = {**look.settings, "zookeeper.session.timeout.ms": str(SHORT_MS)}
    with serving(tmp_path, settings) as broker:
        Admin(bootstrap(broker)).create("t", 2)
        eventually(lambda: look.topics() == {"t": "2"})
        before = look.owner("/brokers/ids/1")
        broker.process.send_signal(signal.SIGSTOP)
        eventually(lambda: look.names("/brokers/ids") == [])
        broker.process.send_signal(signal.SIGCONT)
        eventually(lambda: look.topics() == {"t": "2"})
        assert look.data("/brokers/ids/1") == bootstrap(broker)
        assert look.owner("/brokers/ids/1") != before
        eventually(lambda: health(broker.admin)["zookeeper"] == "connected")


@pytest.mark.parametrize("form", ["original", "json"])
def test_what_changes_while_zookeeper_is_away_is_told_when_it_is_back(
    form: str, look: Looker, tmp_path: Path
) -> None:
    with serving(tmp_path, {**look.settings, "zookeeper.format": form}) as broker:
        admin = Admin(bootstrap(broker))
        admin.create("old", 1)
        eventually(lambda: look.names("/brokers/topics") == ["old"])
        look.server.kill()
        try:
            eventually(lambda: health(broker.admin)["zookeeper"].startswith("away for "))
            assert health(broker.admin)["status"] == "degraded"
            admin.create("new", 1)
            admin.delete("old")
        finally:
            look.server.start()
            look.server.wait_until_serving()
        eventually(lambda: look.names("/brokers/topics") == ["new"])
        eventually(lambda: health(broker.admin)["zookeeper"] == "connected")
        assert "away: the broker serves on" in broker.log


def test_a_topic_deleted_unheard_goes_with_the_next_start(look: Looker, tmp_path: Path) -> None:
    settings = {**look.settings, "zookeeper.format": "json"}
    with serving(tmp_path, settings) as broker:
        admin = Admin(bootstrap(broker))
        admin.create("t", 1)
        eventually(lambda: look.names("/brokers/topics") == ["t"])
        look.server.kill()
        admin.delete("t")
    look.server.start()
    look.server.wait_until_serving()
    assert look.names("/brokers/topics") == ["t"]
    with serving(tmp_path, settings):
        eventually(lambda: look.names("/brokers/topics") == [])


def test_it_starts_without_zookeeper_and_registers_later(tmp_path: Path) -> None:
    with zookeeper_in(tmp_path / "zookeeper") as server:
        settings = {
            "zookeeper.format": "original",
            "zookeeper.connect": f"127.0.0.1:{lasting_port()},{server.address}",
            "zookeeper.connection.timeout.ms": "100",
            "zookeeper.session.timeout.ms": str(LONG_MS),
        }
        with serving(tmp_path, settings) as broker:
            broker.wait_for_log("away: the broker serves and registers later")
            Admin(bootstrap(broker)).create("t", 1)
            assert health(broker.admin)["status"] == "degraded"
            assert health(broker.admin)["zookeeper"].startswith("away for ")
            server.start()
            with Looker(server, "") as look:
                eventually(lambda: look.topics() == {"t": "1"})
                assert look.data("/brokers/ids/1") == bootstrap(broker)
            server.kill()
            assert broker.stop() == 0, "a stop does not wait for ZooKeeper either"


# The session file


@pytest.mark.parametrize("written", [b"", b"\xff", b"no number\n"])
def test_a_spoilt_session_file_is_no_obstacle(written: bytes, look: Looker, tmp_path: Path) -> None:
    (tmp_path / SESSION_FILE).write_bytes(written)
    with running_broker(tmp_path, look.settings) as broker:
        assert look.data("/brokers/ids/1") == broker.bootstrap
        assert (tmp_path / SESSION_FILE).read_text() == f"{look.owner('/brokers/ids/1'):x}\n"


def test_a_session_that_cannot_be_remembered_is_no_obstacle(look: Looker, tmp_path: Path) -> None:
    (tmp_path / "data" / f"{SESSION_FILE}.new").mkdir(parents=True)
    with serving(tmp_path, look.settings) as broker:
        broker.wait_for_log("this session cannot be stored .* Is a directory")
        assert look.data("/brokers/ids/1") == bootstrap(broker)
