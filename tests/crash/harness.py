"""Records a scenario and shares its states among processes, for the tests of this folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from .build import TESTS, command_of, engine_environment, recorded, run_module, scratch
from .explore import Result
from .trace import build_history, read_entries
from .workloads import LIVES

NIGHTLY = os.environ.get("CRASH_NIGHTLY") == "1"  # hours instead of minutes: every state, every cut
SHARES = min(os.cpu_count() or 1, 8) if NIGHTLY else 1  # each enumerates all states anew
LIFE_SECONDS_MAX = 120
EXPLORE_SECONDS_MAX = 20_000 if NIGHTLY else 600


@dataclass
class Recording:
    """A scenario's trace and the directory that it left; in memory until the block ends."""

    scenario: str
    place: Path
    environment: dict[str, str]

    @property
    def root(self) -> Path:
        return self.place / "root"

    @property
    def trace(self) -> Path:
        return self.place / f"{self.scenario}.trace"

    def __enter__(self) -> Recording:
        self.root.mkdir()
        for life in range(len(LIVES[self.scenario])):
            self._live(life)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

    def _live(self, life: int) -> None:
        done = run_module(
            "crash.workloads",
            self.scenario,
            life,
            self.root,
            environment=recorded(
                self.trace,
                self.root,
                self.environment,
                CRASH_SKIP_SYNC="1",
                CRASH_SYNC_MICROSECONDS="300",
            ),
            seconds_max=LIFE_SECONDS_MAX,
        )
        if done.returncode not in (0, -signal.SIGKILL):
            raise AssertionError(
                f"life {life} of {self.scenario} ended with {done.returncode}:\n{done.stderr}"
            )

    def differences(self) -> list[str]:
        history = build_history(read_entries(self.trace), self.root)
        return history.differences(self.root) + [str(entry) for entry in history.outside]

    def explore(
        self, *, states: int, seed: int, deep: int = 0, first: bool = False, focus: str = ""
    ) -> Result:
        """Try the scenario's states in SHARES processes; `first` stops at the first failure,
        `focus` takes only states whose label contains it."""
        options = ["--trace", self.trace, "--root", self.root, "--seed", seed]
        options += ["--states", states, "--deep", deep]
        options += ["--first"] * first + ["--every-cut"] * NIGHTLY + ["--focus", focus]
        running = [
            subprocess.Popen(
                command_of("crash.explore", *options, "--share", f"{share}/{SHARES}"),
                cwd=TESTS,
                env=self.environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for share in range(SHARES)
        ]
        total = Result()
        for process in running:
            total.add(self._result(process))
        return total

    def _result(self, process: subprocess.Popen[str]) -> Result:
        out, err = process.communicate(timeout=EXPLORE_SECONDS_MAX)
        if process.returncode == 0:
            return Result(**json.loads(out.splitlines()[-1]))
        in_hand = [path.read_text() for path in self.place.glob("crash-*/in-hand")]
        ended = f"the engine ended its process ({process.returncode})"
        text = f"{ended} on one of {in_hand}\n{err[-3000:]}"
        return Result(failed=1, failures=[text])


def record(scenario: str, engine: Path | None = None, **environment: str) -> Recording:
    place = Path(tempfile.mkdtemp(prefix=f"crash-{scenario}-", dir=scratch()))
    return Recording(scenario, place, engine_environment(engine, **environment))
