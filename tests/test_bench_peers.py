"""What the benchmark asks of peers and of perf: programs that play their part stand in for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.peers.cost import SYNCS, SyncCounter

# perf as of --control: it needs a while until it has its handlers, and counts when it is told to
PERF = """
import signal, socket, sys, time
time.sleep(0.3)
words = dict(word.split("=", 1) for word in sys.argv if word.startswith("--") and "=" in word)
told = socket.socket(fileno=int(words["--control"].rpartition(",")[2]))
signal.signal(signal.SIGINT, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
assert told.recv(100) == b"enable\\n"
told.sendall(b"ack\\n")
signal.sigwait([signal.SIGINT])
for event in sys.argv[sys.argv.index("-e") + 1].split(","):
    print(f"2,,{event},1,100.00,,", file=sys.stderr)
"""
Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """A program of that text is the first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def made(name: str, text: str) -> None:
        (folder / name).write_text(f"#!{sys.executable}\n{text}")
        (folder / name).chmod(0o755)

    return made


def test_the_syncs_of_the_shortest_turn_are_counted(install: Install) -> None:
    install("perf", PERF)
    assert SyncCounter(os.getpid()).stop() == 2 * len(SYNCS)


def test_a_perf_that_cannot_count_says_why(install: Install) -> None:
    install("perf", "import sys; sys.exit('no permission')")
    with pytest.raises(RuntimeError, match="perf does not count: no permission"):
        SyncCounter(os.getpid())
