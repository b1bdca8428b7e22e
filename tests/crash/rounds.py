"""A load process whose acks are kept in this process, so that they survive its death."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from pathlib import Path

from .build import TESTS, command_of, engine_environment, run_module

Acks = dict[str, list[tuple[int, int, str]]]  # partition -> base offset, last offset, digest
START_SECONDS_MAX = 120


class LoadProcess:
    """Starts, kills and reads a load process; `acks` grows over all rounds on one directory."""

    def __init__(self, root: Path, acks: Acks, *options: str) -> None:
        self.acks = acks
        self.open_seconds = -1.0
        self.acked = 0
        self.is_counting = True
        self.started = time.monotonic()
        self.serving_seconds = -1.0  # from the start of the process to its first durable ack
        self.is_open = threading.Event()
        self.process = subprocess.Popen(
            command_of("crash.load", root, *options),
            cwd=TESTS,
            env=engine_environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.endswith("\n"):
                self._take(line.split())
        self.is_open.set()

    def _take(self, words: list[str]) -> None:
        if words[0] == "open":
            self.open_seconds = float(words[1])
            self.is_open.set()
            return
        if not self.is_counting:
            return
        if not self.acked:
            self.serving_seconds = time.monotonic() - self.started
        self.acked += 1
        self.acks.setdefault(words[1], []).append((int(words[2]), int(words[3]), words[4]))

    def wait_open(self) -> None:
        if not self.is_open.wait(START_SECONDS_MAX) or self.open_seconds < 0:
            raise AssertionError(f"the load did not start: {self.end()}")

    def stop_counting(self) -> None:
        """Ignores acks from now on."""
        self.is_counting = False

    def end(self, how: signal.Signals = signal.SIGKILL) -> str:
        """Kills the process if it lives. Returns its last output."""
        self.process.send_signal(how)
        self.reader.join()
        assert self.process.stderr
        said = self.process.stderr.read()
        self.process.wait()
        self.process.stderr.close()
        if self.process.stdout:
            self.process.stdout.close()
        return said


def problems_of(root: Path, acks: Acks, scratch: Path, *options: str) -> list[str]:
    """Recovers in a new process and compares with every ack so far."""
    file = scratch / "acks.json"
    file.write_text(json.dumps(acks))
    done = run_module(
        "crash.load", root, "--verify", file, *options, environment=engine_environment()
    )
    if done.returncode:
        return [f"recovery ended its process with {done.returncode}: {done.stderr[-2000:]}"]
    problems: list[str] = json.loads(done.stdout.splitlines()[-1])
    return problems
