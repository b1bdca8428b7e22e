"""Requirements of a Spark session, and the errors without them."""

from __future__ import annotations

import os
import pty
import re
import socket
import subprocess
import sys
from pathlib import Path

import confluent_kafka as ck
import pytest

from appliance.testing import RunningBroker
from appliance_spark.export_layout import ExportFailed
from appliance_spark.export_session import found_java, import_as_installed

pytestmark = pytest.mark.first

ROOT = Path(__file__).parents[2]
OTHER = "raise ImportError('the source in the current directory')\n"
IMPORTED_BY_A_WORKER = """
import sys
from appliance_spark.export_session import Sessions
sessions = Sessions("local[1]", ("spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1",))
try:
    counted = sessions().sparkContext.parallelize([1]).map(
        lambda _: __import__("appliance").__file__).collect()
finally:
    sessions.stop()
print(counted[0])
"""


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with another package `appliance`."""
    (tmp_path / "appliance").mkdir()
    (tmp_path / "appliance" / "__init__.py").write_text(OTHER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.release("tests/spark/test_export_run.py asks a worker of the session of all tests")
def test_workers_import_what_is_installed_wherever_it_is_started(other: Path) -> None:
    program = other / "bin" / "program.py"
    program.parent.mkdir()
    program.write_text(IMPORTED_BY_A_WORKER)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONSAFEPATH", None)
    done = subprocess.run([sys.executable, program], env=environment, text=True,
                          capture_output=True, check=False, timeout=300)
    assert done.stdout.strip() == str(ROOT / "appliance" / "__init__.py"), done.stderr


def test_a_python_that_cannot_leave_the_directory_out_refuses(
    other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 12))
    with pytest.raises(ExportFailed, match=f"would import {other}/appliance instead of {ROOT}"):
        import_as_installed()
    monkeypatch.chdir(ROOT)
    assert import_as_installed() == ()


def test_without_java_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExportFailed, match="wants Java 17 or newer, and there is no java in PATH"):
        found_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ExportFailed, match=f"JAVA_HOME, {tmp_path}, has no bin/java"):
        found_java()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    assert found_java() == str(java)


def at_a_terminal(*words: str) -> tuple[int, str]:
    """The output of `appliance export` at a terminal, without control sequences."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen([sys.executable, "-m", "appliance", "export", *words], stderr=theirs,
                          stdout=subprocess.DEVNULL, env=environment) as process:
        os.close(theirs)
        told = b""
        try:
            while data := os.read(ours, 1 << 16):
                told += data
        except OSError:  # Linux reports EIO when nobody has the terminal open
            pass
        os.close(ours)
        code = process.wait(300)
    return code, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", told.decode())


def test_the_bar_is_there_before_the_broker_answers() -> None:
    """This one never does."""
    ours, theirs = pty.openpty()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        words = ["run", "--name", "n", "--admin", f"127.0.0.1:{silent.getsockname()[1]}"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"}
        with subprocess.Popen([sys.executable, "-m", "appliance", "export", *words],
                              stdout=subprocess.DEVNULL, stderr=theirs, env=environment) as process:
            os.close(theirs)
            shown = b""
            try:
                while b"export: planning" not in shown:
                    shown += os.read(ours, 1 << 16)  # fails if the command has ended
            finally:
                process.kill()
                os.close(ours)


def test_a_bar_says_what_is_done_and_how_far_it_is(
    appliance_broker: RunningBroker, tmp_path: Path
) -> None:
    producer = ck.Producer({"bootstrap.servers": appliance_broker.bootstrap})
    producer.produce("t", b"{}")
    assert producer.flush(20) == 0
    code, shown = at_a_terminal(
        "run", "t", "--target", str(tmp_path / "lake"), "--new-target",
        "--admin", appliance_broker.admin)
    assert code == 0, shown
    at = [shown.find(words) for words in ("export: planning", "export: starting Spark", "1/1 task")]
    assert -1 < at[0] < at[1] < at[2], shown
    assert "?" not in shown
