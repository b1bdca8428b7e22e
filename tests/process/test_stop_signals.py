"""SIGTERM and SIGINT at any moment of a start: it ends with 0, and the next has everything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.config import LogConfig, StorageConfig
from appliance.data_dir.locked_dir import LockedDir
from appliance.data_dir.log_dir import LogDir
from appliance.process.stop_signals import STOPS, SUCCESSION, StopSignals
from appliance.record import _batch, _batch_builder

STORAGE = StorageConfig(low_water_bytes=0, reserve_bytes=1 << 20)
LOGS = 12
END_SECONDS_MAX = 60
NEVER = -1
MOMENTS = int(os.environ.get("STOP_MOMENTS", "5"))  # of the start, at equal distances

# A start that signals itself: at the n-th time that Python imports or opens something, counted from
# the command's import, which takes the first third of it. It ends with how many of them there were.
START = """
import itertools, os, runpy, signal, sys
at, number = int(sys.argv.pop(1)), int(sys.argv.pop(1))
seen, moments = 0, itertools.count(1)  # of which each thread takes another

def watch(event, arguments):
    global seen
    if event not in ("import", "open", "sqlite3.connect", "os.scandir", "os.listdir"):
        return
    if not seen and not (event == "import" and arguments[0] == "appliance.cli.main"):
        return
    seen = moment = next(moments)
    if moment == at:
        os.kill(os.getpid(), number)

sys.addaudithook(watch)
sys.argv[0] = "appliance"
try:
    runpy.run_module("appliance", run_name="__main__")
finally:
    print("seen", seen, file=sys.stderr)
"""


def batch(text: bytes) -> bytes:
    return _batch_builder.batch([(1_700_000_000_000, b"k", text)])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Killed, so that a start has something to recover."""
    logs = LogDir.open(tmp_path / "data", STORAGE)
    for each in range(LOGS):
        logs.create("t", each, LogConfig()).append_durable(batch(b"kept"))
    logs.abandon()
    return tmp_path / "data"


def start(data: Path, at: int, number: signal.Signals) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", START, str(at), str(number), "serve", "--data-dir", str(data)]
    for name, value in {"storage.low.water.bytes": 0, "storage.reserve.bytes": 1 << 20}.items():
        command += ["--set", f"{name}={value}"]
    return subprocess.Popen(
        [*command, "--admin", "127.0.0.1:0", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )


def ends_well(process: subprocess.Popen[str], when: str) -> int:
    """How many moments there were."""
    _, told = process.communicate(timeout=END_SECONDS_MAX)
    assert process.returncode == 0, f"{when}: {process.returncode}\n{told}"
    assert "Traceback" not in told, f"{when}: {told}"
    return int(told.rsplit("seen ", 1)[1])


@pytest.mark.first
def test_a_signal_at_any_moment_of_the_start_is_a_clean_end(data: Path) -> None:
    whole = start(data, NEVER, signal.SIGTERM)
    assert whole.stdout is not None
    assert whole.stdout.readline().startswith("ready")
    whole.send_signal(signal.SIGTERM)
    moments = ends_well(whole, "when it served")
    for turn in range(MOMENTS):
        number = (signal.SIGTERM, signal.SIGINT)[turn % 2]
        at = 1 + turn * moments // MOMENTS
        ends_well(start(data, at, number), f"{number.name} at moment {at} of {moments}")
    logs = LogDir.open(data, STORAGE)
    assert (logs.report.failures, logs.report.losses) == ([], [])
    for each in range(LOGS):
        assert _batch.records(logs.log("t", each).read(0))[0].value == b"kept"
    logs.close()


def test_a_start_that_is_stopped_opens_no_more_logs_and_marks_nothing(data: Path) -> None:
    class Stopped(Exception):
        pass

    def stop(done: int, found: int) -> None:
        raise Stopped

    log_dir = LogDir(LockedDir.lock(data, STORAGE))
    with pytest.raises(Stopped):
        log_dir.recover(stop)
    again = LogDir.open(data, STORAGE)
    assert (again.report.was_clean, len(again.logs())) == (False, LOGS)
    again.close()


def test_who_comes_late_hears_of_a_signal_that_came_early() -> None:
    before = {each: signal.getsignal(each) for each in (*STOPS, SUCCESSION)}
    heard: list[signal.Signals] = []
    try:
        signals = StopSignals()
        signals.hold()
        os.kill(os.getpid(), signal.SIGTERM)
        signals.tell(heard.append)
        os.kill(os.getpid(), signal.SIGINT)
        signals.tell(None)
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert heard == [signal.SIGTERM, signal.SIGINT]


LEFT = """
import gc, sys
from appliance.cli.main import main
from appliance.server import Server
left = []

async def run(self, progress):
    left.extend([] for _ in range(50_000))

Server.run = run
before = len(gc.get_objects())
main(["serve", "--data-dir", sys.argv[1]], standalone_mode=False)
print(before - len(gc.get_objects()))
"""


def test_what_is_left_at_the_end_is_not_looked_at(tmp_path: Path) -> None:
    """Python's collector would do so several times: all of it must be out of its sight."""
    command = [sys.executable, "-c", LEFT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 0, done.stdout
