"""Registration in a real ZooKeeper, which is stopped, killed and started again beneath it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, make_digest_acl_credential

from appliance.cli.main import main
from appliance.config import Address, Ensemble, SettingInvalid, load
from appliance.testing import running_broker
from appliance.zookeeper.nodes import Json, NodeIdTaken, address_in
from appliance.zookeeper.registration import SESSION_FILE, credential_in
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.serving import Serving
from tests.support.zookeeper import DEADLINE_S, eventually, free_port, zookeeper_in

pytestmark = pytest.mark.first

SHORT_MS, LONG_MS = 1000, 10_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with zookeeper_in(tmp_path_factory.mktemp("zookeeper")) as server:
        server.start()
        server.wait_until_serving()
        yield server


class Looker:
    """ZooKeeper below one path, as anybody sees it."""

    def __init__(self, server: ZooKeeperServer, root: str, **login: Any) -> None:
        self.server, self.root = server, root
        self.client = KazooClient(
            str(server.address),
            timeout=LONG_MS / 1000,
            connection_retry={"max_tries": -1, "max_delay": 0.2},
            **login,
        )

    def __enter__(self) -> Looker:
        self.client.start(DEADLINE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop()
        self.client.close()

    @property
    def settings(self) -> dict[str, str]:
        return {
            "zookeeper.connect": f"{self.server.address}{self.root}",
            "zookeeper.session.timeout.ms": str(LONG_MS),
            "zookeeper.connection.timeout.ms": "10000",  # of a machine that does much else
        }

    def data(self, path: str) -> str | None:
        try:
            data, _ = self.client.retry(self.client.get, self.root + path)
        except NoNodeError:
            return None
        assert data is not None
        return str(data, "utf-8")

    def owner(self, path: str) -> int:
        """The session of an ephemeral node, 0 of one that stays."""
        stat = self.client.exists(self.root + path)
        assert stat is not None, path
        owner: int = stat.ephemeralOwner
        return owner

    def names(self, path: str) -> list[str]:
        try:
            return sorted(self.client.retry(self.client.get_children, self.root + path))
        except NoNodeError:
            return []

    def topics(self) -> dict[str, str | None]:
        """Partitions by topic, as broker 1 tells them."""
        names = self.names("/brokers/topics")
        return {name: self.data(f"/brokers/topics/{name}/1") for name in names}


@pytest.fixture
def look(server: ZooKeeperServer, request: pytest.FixtureRequest) -> Iterator[Looker]:
    with Looker(server, "/tests/" + re.sub(r"\W", "-", request.node.name)) as looker:
        yield looker


class Admin:
    def __init__(self, bootstrap: str) -> None:
        self.client = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, name: str, partitions: int) -> None:
        self._done(self.client.create_topics([NewTopic(name, partitions)]))

    def extend(self, name: str, partitions: int) -> None:
        self._done(self.client.create_partitions([NewPartitions(name, partitions)]))

    def delete(self, name: str) -> None:
        self._done(self.client.delete_topics([name]))

    def _done(self, answers: dict[str, Any]) -> None:
        for answer in answers.values():
            answer.result(DEADLINE_S)


def health(admin: str) -> dict[str, Any]:
    url = f"http://{admin}/healthz"
    try:
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            code, body = answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            code, body = error.code, json.load(error)
    assert (code == 200) == (body["status"] in ("ok", "degraded"))
    return dict(body)


@contextmanager
def serving(folder: Path, settings: dict[str, str]) -> Iterator[Serving]:
    broker = Serving(folder, **settings)
    try:
        yield broker
    finally:
        broker.stop(signal.SIGKILL)


def bootstrap(broker: Serving) -> str:
    return "{}:{}".format(*broker.kafka)


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


# Whose id it is


def test_a_taken_id_ends_the_start_and_names_the_other(look: Looker, tmp_path: Path) -> None:
    with running_broker(tmp_path / "1", look.settings) as one:
        command = [sys.executable, "-m", "appliance", "serve", "--data-dir", str(tmp_path / "2")]
        command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        command += ["--set", "storage.low.water.bytes=0", "--set", "storage.reserve.bytes=0"]
        command += ["--zookeeper", f"{look.server.address}{look.root}"]
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
            "zookeeper.connect": f"127.0.0.1:{free_port()},{server.address}",
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
                "not registered: ZooKeeper refuses what is to be below "
                f"{look.root}/brokers: NoAuthError()"
            ]


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"hush", b":hush", b"hush:", b"a:hush\nb:hush\n", b"hush:\xff"]
)
def test_a_wrong_credential_is_not_shown(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "login"
    file.write_bytes(content)
    with pytest.raises(SettingInvalid, match=f"{file}: wanted one line, user:password") as refused:
        credential_in(file)
    assert "hush" not in str(refused.value)
    with pytest.raises(SettingInvalid, match="No such file"):
        credential_in(tmp_path / "none")


# Small things


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


@pytest.mark.parametrize("written", [b"", b"\xff", b"no number\n"])
def test_a_spoilt_session_file_is_no_obstacle(written: bytes, look: Looker, tmp_path: Path) -> None:
    (tmp_path / SESSION_FILE).write_bytes(written)
    with running_broker(tmp_path, look.settings) as broker:
        assert look.data("/brokers/ids/1") == broker.bootstrap
        assert (tmp_path / SESSION_FILE).read_text() == f"{look.owner('/brokers/ids/1'):x}\n"


def test_a_session_that_cannot_be_remembered_is_no_obstacle(look: Looker, tmp_path: Path) -> None:
    (tmp_path / "data" / f"{SESSION_FILE}.new").mkdir(parents=True)
    with serving(tmp_path, look.settings) as broker:
        broker.wait_for_log("this session is not remembered .* Is a directory")
        assert look.data("/brokers/ids/1") == bootstrap(broker)


ENSEMBLES = {
    "a:1": Ensemble((Address("a", 1),)),
    "a:1/": Ensemble((Address("a", 1),)),
    "a:1, b:2/x/y/": Ensemble((Address("a", 1), Address("b", 2)), "/x/y"),
    "[::1]:1/x": Ensemble((Address("::1", 1),), "/x"),
}


def test_ensembles_are_read_and_shown() -> None:
    assert {text: Ensemble.parse(text) for text in ENSEMBLES} == ENSEMBLES
    assert str(ENSEMBLES["a:1, b:2/x/y/"]) == "a:1,b:2/x/y"
    assert load(pairs=["zookeeper.connect="]).zookeeper.ensemble == Ensemble()
    for text in ("a", "/x", "a:1,/x", "a:1//x", "a:1/../x", "a:1/x\n/y"):
        with pytest.raises(SettingInvalid, match=r"zookeeper\.connect: got"):
            load(pairs=[f"zookeeper.connect={text}"])
    answer = CliRunner().invoke(main, ["serve", "--zookeeper", "a"])
    wanted = "zookeeper.connect: got 'a' (flag), wanted HOST:PORT[,HOST:PORT...][/PATH]"
    assert (answer.exit_code, wanted in answer.stderr) == (2, True)


# The server


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()  # it takes its ZooKeeper along


def test_the_command_runs_a_zookeeper_until_it_is_told_to_stop(tmp_path: Path) -> None:
    data, port = tmp_path / "data", free_port()
    command = [sys.executable, "-m", "appliance", "zookeeper"]
    command += ["--port", str(port), "--data-dir", str(data)]
    with running(command) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"ready zookeeper=127.0.0.1:{port} data={data}\n"
        taken = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        assert (taken.returncode, taken.stdout) == (1, "")
        assert "Address already in use" in taken.stderr
        client = KazooClient(f"127.0.0.1:{port}", connection_retry={"max_tries": -1})
        client.start(DEADLINE_S)
        client.create("/kept", b"x")
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    with running(command) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("ready ")
        assert client.retry(client.get, "/kept")[0] == b"x"
        client.stop()
        client.close()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        os.kill(int(children), signal.SIGKILL)
        assert process.wait(DEADLINE_S) == 1
        assert "Error: ZooKeeper ended with code -9\n" in process.stderr.read()


def test_without_java_or_pyspark_one_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ["zookeeper", "--port", str(free_port()), "--data-dir", str(tmp_path / "data")]
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        answer = CliRunner().invoke(main, run)
        wanted = "Error: ZooKeeper needs Java 17 or newer: there is no 'java' on PATH\n"
        assert (answer.exit_code, answer.stderr) == (1, wanted)
        old = tmp_path / "java"
        old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
        old.chmod(0o755)
        answer = CliRunner().invoke(main, run)
        assert 'needs Java 17 or newer, found: openjdk version "11.0.2"' in answer.stderr
    monkeypatch.setattr("appliance.zookeeper.server.importlib.util.find_spec", lambda name: None)
    answer = CliRunner().invoke(main, run)
    assert answer.exit_code == 1
    assert "pip install 'appliance-log[spark]'" in answer.stderr
