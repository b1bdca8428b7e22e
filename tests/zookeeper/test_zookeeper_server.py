"""The command that runs a ZooKeeper."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from kazoo.client import KazooClient

from appliance.cli.main import main
from appliance.zookeeper.jaas import JaasInvalid, settings_of
from appliance.zookeeper.server import ZooKeeperServer, peers_in, settings_in
from loadtest.ports import lasting_port, lasting_ports
from tests.support.certificates import Authority
from tests.support.children import child_of, until_gone
from tests.support.zookeeper import DEADLINE_S

pytestmark = pytest.mark.first


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()  # it takes its ZooKeeper along


def test_the_command_runs_a_zookeeper_until_it_is_told_to_stop(tmp_path: Path) -> None:
    data, port = tmp_path / "data", lasting_port()
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


JAVA = """#!/bin/sh
[ "$1" = -version ] && { echo 'openjdk version "17.0.1"' >&2; exit; }
exec sleep 60
"""


def test_a_killed_command_leaves_no_java_behind(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text(JAVA)
    java.chmod(0o755)
    command = ["env", f"PATH={tmp_path}:{os.environ['PATH']}", sys.executable, "-m", "appliance",
               "zookeeper", "--port", str(lasting_port()), "--data-dir", str(tmp_path / "data")]
    with running(command) as process:
        child = child_of(process.pid, "sleep")
        process.kill()
        until_gone(child)


def test_without_java_or_pyspark_one_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ["zookeeper", "--port", str(lasting_port()), "--data-dir", str(tmp_path / "data")]
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


def test_a_server_of_an_ensemble_knows_the_others(tmp_path: Path) -> None:
    peers = peers_in("zk1, zk2:2889:3889,[::1]:1:2", 2)
    server = ZooKeeperServer(tmp_path, 2181, host="zk2", number=2, peers=peers,
                             more=dict(settings_in(["sslQuorum=true"])))  # fmt: skip
    server.command()
    written = (tmp_path / "zoo.cfg").read_text()
    for line in ("clientPortAddress=zk2", "server.1=zk1:2888:3888", "server.2=zk2:2889:3889",
                 "server.3=[::1]:1:2", "sslQuorum=true"):  # fmt: skip
        assert f"{line}\n" in written
    assert (tmp_path / "myid").read_text() == "2\n"


@pytest.mark.parametrize("wrong", [
    ["--id", "1"],
    ["--ensemble", "zk1,zk2,zk3"],
    ["--ensemble", "zk1,zk2", "--id", "3"],
    ["--ensemble", "zk1:1:x", "--id", "1"],
    ["--set", "tickTime"],
])  # fmt: skip
def test_half_an_ensemble_is_refused(wrong: list[str], tmp_path: Path) -> None:
    answer = CliRunner().invoke(main, ["zookeeper", "--data-dir", str(tmp_path), *wrong])
    assert answer.exit_code == 1
    assert "Error: " in answer.stderr
    assert not [*tmp_path.iterdir()]


@pytest.mark.release("three JVMs; tests/replication/histories runs ensembles, too")
def test_three_commands_are_one_ensemble_with_certificates(tmp_path: Path) -> None:
    port, ports = lasting_port(), lasting_ports(2)
    hosts = [f"127.0.0.{each}" for each in (1, 2, 3)]
    authority = Authority(tmp_path / "tls")
    tls = [each for name, value in {
        "sslQuorum": "true",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.quorum.keyStore.location": authority.keystore(*hosts),
        "ssl.quorum.trustStore.location": authority.trust,
    }.items() for each in ("--set", f"{name}={value}")]  # fmt: skip
    ensemble = ",".join(f"{each}:{ports[0]}:{ports[1]}" for each in hosts)
    with ExitStack() as stack:
        commands = [[sys.executable, "-m", "appliance", "zookeeper", "--port", str(port), "--id",
                     str(number), "--ensemble", ensemble, "--data-dir", str(tmp_path / host), *tls]
                    for number, host in enumerate(hosts, 1)]  # fmt: skip
        processes = [stack.enter_context(running(each)) for each in commands]
        for each in processes:
            assert each.stdout is not None
            assert each.stdout.readline().startswith("ready zookeeper=127.0.0.")
        client = KazooClient(f"{hosts[0]}:{port}", connection_retry={"max_tries": -1})
        client.start(DEADLINE_S)
        client.create("/on-all", b"x")
        client.stop()
        client.close()
        processes[0].terminate()
        processes[0].wait(DEADLINE_S)
        client = KazooClient(f"{hosts[1]}:{port}", connection_retry={"max_tries": -1})
        client.start(DEADLINE_S)
        assert client.retry(client.get, "/on-all")[0] == b"x"
        client.stop()
        client.close()


JAAS = """
QuorumServer {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_zk="%s";
};
QuorumLearner {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    username="zk"
    password="%s";
};
"""
CLIENTS = """
Server {  // of clients
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_tool="hush";
};
"""


def test_a_file_of_jaas_says_who_logs_in(tmp_path: Path) -> None:
    file = tmp_path / "jaas"
    found = {}
    for name, text in (("servers", JAAS), ("clients", CLIENTS), ("all", JAAS + CLIENTS)):
        file.write_text(text)
        server = ZooKeeperServer(tmp_path, 2181, jaas=file)
        assert f"-Djava.security.auth.login.config={file}" in server.command()
        written = (tmp_path / "zoo.cfg").read_text()
        wanted = ("quorum.auth.serverRequireSasl=true", "authProvider.sasl")
        found[name] = tuple(each in written for each in wanted)
    assert found == {"servers": (True, False), "clients": (False, True), "all": (True, True)}
    for text in ("", "Client { x; };", JAAS.replace("QuorumLearner", "Learner"), "// Server {\n"):
        file.write_text(text)
        with pytest.raises(JaasInvalid, match="wanted Server, for logins of clients, or Quorum"):
            settings_of(file)


@pytest.mark.release("four JVMs, one after the other three")
def test_who_does_not_know_the_password_is_no_server_of_an_ensemble(tmp_path: Path) -> None:
    port, ports = lasting_port(), lasting_ports(2)
    hosts = [f"127.0.0.{each}" for each in (1, 2, 3)]
    ensemble = ",".join(f"{each}:{ports[0]}:{ports[1]}" for each in hosts)
    commands = []
    for number, host in enumerate(hosts, 1):
        own = "right" if number < 3 else "wrong"
        file = tmp_path / f"{number}.jaas"
        file.write_text(JAAS % (own, own))
        commands.append([sys.executable, "-m", "appliance", "zookeeper", "--port", str(port),
                         "--id", str(number), "--ensemble", ensemble, "--data-dir",
                         str(tmp_path / host), "--jaas", str(file)])  # fmt: skip
    with ExitStack() as stack:
        processes = [stack.enter_context(running(each)) for each in commands]
        for each in processes[:2]:
            assert each.stdout is not None
            assert each.stdout.readline().startswith("ready zookeeper=127.0.0.")
        client = KazooClient(f"{hosts[0]}:{port}", connection_retry={"max_tries": -1})
        client.start(DEADLINE_S)
        client.create("/on-two", b"x")
        client.stop()
        client.close()
        assert not ZooKeeperServer(tmp_path, port, host=hosts[2]).is_serving()
        processes[2].terminate()
        processes[2].wait(DEADLINE_S)
        (tmp_path / "3.jaas").write_text(JAAS % ("right", "right"))
        third = stack.enter_context(running(commands[2]))
        assert third.stdout is not None
        assert third.stdout.readline().startswith("ready zookeeper=127.0.0.3")
