"""Locust's users against a real broker. Each run is a process: locust replaces Python's sockets."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from appliance.process.spoken import BLOCKS
from appliance.testing import Login, running_broker
from loadtest import broker, soak
from loadtest.__main__ import environment, locust_command
from loadtest.options import LOOPBACK
from loadtest.ports import lasting_port
from tests.loadtest.test_loadtest import delete_records
from tests.support.serving import Serving

pytestmark = pytest.mark.first

LISTENS = "0A"  # in /proc/net/tcp
DEADLINE_S = 120.0  # of a machine on which much else runs


@dataclass
class Ended:
    code: int
    said: str
    report: dict[str, Any]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    made = Serving(tmp_path_factory.mktemp("broker"), **{"group.initial.rebalance.delay.ms": 0})
    yield made
    made.stop()


class Runs:
    """Each with a topic of its own."""

    def __init__(self, serving: Serving, folder: Path) -> None:
        self.serving, self.folder = serving, folder
        self.host = f"{serving.kafka[0]}:{serving.kafka[1]}"
        self.topic, self.report = folder.name, folder / "report.json"
        self.started: list[subprocess.Popen[str]] = []

    def command(self, *options: str) -> list[str]:
        given = ["--host", self.host, "--admin", self.serving.admin, "--topic", self.topic]
        given += ["--report", str(self.report), "--partitions", "2", "-r", "100"]
        return locust_command(*given, *options)

    def start(self, *options: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self.command(*options),
            env=environment(),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.started.append(process)
        return process

    def end(self, process: subprocess.Popen[str]) -> Ended:
        with process:
            said, _ = process.communicate(timeout=DEADLINE_S)
        report = json.loads(self.report.read_text()) if self.report.exists() else {}
        return Ended(process.returncode, said, report)

    def run(self, *options: str) -> Ended:
        return self.end(self.start("--headless", "--only-summary", *options))


@pytest.fixture
def runs(serving: Serving, tmp_path: Path) -> Iterator[Runs]:
    made = Runs(serving, tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:  # of a test that failed
            process.terminate()
            process.communicate()


def eventually(what: Callable[[], Any]) -> Any:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {DEADLINE_S} s: {what}")


def test_all_users_run_and_what_they_did_is_counted(runs: Runs, tmp_path: Path) -> None:
    ended = runs.run(
        "-u", "20", "-t", "4s", "--rate", "5", "--fetch-min-bytes", "1", "--slo",
        "loss=0,duplicates=0,p50=60s", "--csv", str(tmp_path / "csv"),
    )  # fmt: skip
    assert ended.code == 0, ended.said
    report, counts = ended.report, ended.report["counts"]
    assert report["passed"] is True
    for kind in ("PRODUCE", "END-TO-END", "FETCH", "COMMIT", "JOIN"):
        assert counts[f"{kind} events"] > 0, kind
    assert counts["PRODUCE records"] == counts["PRODUCE events"] * 10
    assert counts["PRODUCE bytes"] == counts["PRODUCE records"] * 200
    assert report["read_back"]["acked"] == counts["PRODUCE records"]
    assert report["read_back"]["read"] >= counts["PRODUCE records"]
    rows = (tmp_path / "csv_stats.csv").read_text()
    assert re.search("^(GET|POST),/", rows, re.MULTILINE), rows  # which of them is chance


def test_a_breached_goal_is_the_exit_code(runs: Runs) -> None:
    ended = runs.run(
        "ProducerUser", "-u", "4", "-t", "2s", "--shape", "ramp", "--slo", "p99=1us,loss=0"
    )
    assert re.search("Ramping to [23] users", ended.said), ended.said
    assert (ended.code, ended.report["passed"]) == (1, False)
    assert re.search(r"slo: p99: \S+, wanted 1e-06: BREACHED", ended.said)
    assert "slo: loss: 0, wanted 0: met" in ended.said


def test_what_workers_acked_is_looked_for_and_a_loss_is_found(runs: Runs) -> None:
    """Two workers; the first records of a partition are deleted while they run."""
    options = ["ProducerUser", "-u", "4", "-t", "5s", "--processes", "2", "--rate", "10"]
    port = str(lasting_port())
    options += ["--master-bind-port", port, "--master-port", port, "--slo", "duplicates=0"]
    process = runs.start("--headless", "--only-summary", *options)
    with closing(eventually(lambda: connected(runs))) as connection:
        place = (runs.topic, 0)
        eventually(lambda: broker.offset_at(connection, place, broker.LATEST) >= 20)
        delete_records(connection, runs.topic, 0, 20)
    ended = runs.end(process)
    found = ended.report["read_back"]
    assert (ended.code, ended.report["passed"]) == (1, False), ended.said
    assert found["lost"] == 20
    assert found["acked"] == ended.report["counts"]["PRODUCE records"]
    assert f"{runs.topic} 0 offset 0: lost" in ended.said


def connected(runs: Runs) -> Any:
    """Once the topic is there."""
    connection = broker.connect_to(runs.host)()
    try:
        broker.partitions_of(connection, runs.topic)
    except broker.BrokerRefused:
        connection.close()
        return None
    return connection


def test_a_broker_killed_under_load_loses_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loadtest.soak", "--users", "30", "--minutes", "0.15"]
    port = str(lasting_port())
    command += ["--out", str(tmp_path), "--no-ceiling", "--rate", "4", "--stop-timeout", "1"]
    command += ["--master-bind-port", port, "--master-port", port]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=2 * DEADLINE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["restart"]["how"] == "kill"
    assert report["counts"]["reconnects"] > 0
    assert report["read_back"]["acked"] > 0
    assert report["read_back"]["lost"] == report["read_back"]["duplicated"] == 0
    assert "<html" in (tmp_path / "report.html").read_text()
    assert "acked" in soak.text_of(report)


def asked(url: str, data: bytes | None = None) -> str:
    try:
        with urllib.request.urlopen(url, data, timeout=DEADLINE_S) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, ConnectionError) as error:
        if isinstance(error, urllib.error.HTTPError):
            raise
        return ""  # it does not listen yet


def latency_now(page: str) -> dict[str, Any]:
    rows = json.loads(asked(f"{page}/appliance/stats") or "[]")
    (found,) = [each for each in rows if each["name"] == "PRODUCE p99, ms"] or [{"now": 0}]
    return found


def listening_on(port: int) -> list[str]:
    """Addresses, of IPv4 and IPv6."""
    rows = [line.split() for name in ("tcp", "tcp6")
            for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    places = [row[1].split(":") for row in rows if row[3] == LISTENS]
    found = [address for address, number in places if int(number, 16) == port]
    assert found
    return [socket.inet_ntoa(bytes.fromhex(each)[::-1]) if len(each) == 8 else each
            for each in found]


def test_the_web_page_has_a_tab_of_ours(runs: Runs) -> None:
    port = lasting_port()
    page = f"http://127.0.0.1:{port}"
    process = runs.start(
        "ProducerUser", "ConsumerUser", "-u", "4", "--autostart",
        "--web-port", str(port), "--fetch-min-bytes", "1",
    )  # fmt: skip
    eventually(lambda: "acked records" in asked(f"{page}/appliance/stats"))
    assert '"title": "Appliance"' in asked(page)
    (ours,) = json.loads(asked(f"{page}/stats/requests"))["extended_stats"]
    rows = {each["name"]: each for each in ours["data"]}
    assert {"produced MB/s", "consumed records/s", "broker commit p99, at most ms"} <= set(rows)
    eventually(
        lambda: not re.search(r"^acked records,,0", asked(f"{page}/appliance/stats.csv"), re.M)
    )
    assert all(address == LOOPBACK for address in listening_on(port)), "for this machine alone"
    eventually(lambda: latency_now(page)["now"])
    latency = latency_now(page)
    assert 0 < latency["now"] < DEADLINE_S * 1000
    assert set(latency["trend"]) - {" "} <= set(BLOCKS)
    asked(f"{page}/stop", b"")
    eventually(lambda: "verdict,passed" in asked(f"{page}/appliance/stats.csv"))
    process.send_signal(signal.SIGTERM)
    ended = runs.end(process)
    assert ended.code == 0, ended.said
    assert ended.report["passed"] is True


def test_a_page_of_a_broker_that_was_never_there_ends_when_it_is_told_to(tmp_path: Path) -> None:
    """It has nothing to read back, so it does not wait for a broker to come."""
    port = lasting_port()
    words = locust_command("--host", f"127.0.0.1:{lasting_port()}", "--web-port", str(port),
                           "--give-up", str(DEADLINE_S * 10), "ProducerUser")
    with subprocess.Popen(words, env=environment(), text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            eventually(lambda: asked(f"http://127.0.0.1:{port}"))
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
    assert "verdict: FAILED" in said


def test_a_wrong_host_ends_the_test() -> None:
    """A broker may be away later on; at the start it must be there."""
    host = f"127.0.0.1:{lasting_port()}"
    done = ran(locust_command("--host", host, "--headless", "-t", f"{DEADLINE_S * 10:.0f}s",
                              "--give-up", "1", "ProducerUser"))  # fmt: skip
    assert done.returncode == 1, done.stdout
    assert f"the test ends before it has begun: broker {host}: no connection" in done.stdout


def test_users_log_in_over_tls(tmp_path: Path) -> None:
    """Locust has replaced Python's sockets, those of TLS too."""
    load, file = Login("load", "correct horse battery"), tmp_path / "password"
    file.write_text(load.password)
    with running_broker(tmp_path / "data", logins=[load], tls=True) as secured:
        given = ["--headless", "--only-summary", "-u", "8", "-r", "100", "-t", "2s",
                 "--host", secured.bootstrap, "--rate", "5", "--fetch-min-bytes", "1",
                 "--report", str(tmp_path / "report.json"), "--slo", "loss=0,errors=0",
                 "--set", "security.protocol=SASL_SSL", "--set", f"sasl.username={load.user}",
                 "--set", f"ssl.ca.location={secured.ca_file}"]  # fmt: skip
        login = ["--set", f"sasl.password.file={file}"]
        done = ran(locust_command(*given, *login))
        assert done.returncode == 0, done.stdout
        report = json.loads((tmp_path / "report.json").read_text())
        assert report["read_back"]["acked"] == report["counts"]["PRODUCE records"] > 0
        assert report["counts"]["JOIN events"] > 0
        done = ran(locust_command(*given))
        assert "--set SCRAM-SHA-512 wants one of sasl_password" in done.stdout
        file.write_text("not its own one")
        done = ran(locust_command(*given, *login))
        assert done.returncode == 1
        assert "login of user 'load' by SCRAM-SHA-512 failed" in done.stdout
        assert "not its own one" not in done.stdout


def ran(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=environment(),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=DEADLINE_S,
    )
