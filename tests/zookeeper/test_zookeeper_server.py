"""The command that runs a ZooKeeper."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from kazoo.client import KazooClient

from appliance.cli.main import main
from loadtest.ports import lasting_port
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
