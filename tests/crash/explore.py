"""Runs states of a recorded scenario through recovery, as one of several processes.

Prints one JSON line. It is a separate process, because an engine that crashes or hangs on a state
must not stop the tests: a file beside the states has the name of the current state.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .build import CACHE, recorded, run_module
from .checks import Observation, judge, observe, open_logs, see_all
from .facts import Facts
from .states import Enumerator, Materialiser, State
from .trace import Entry, Recorder, build_history, read_entries, read_tree

HANG_SECONDS = 60
FAILURES_MAX = 5  # failures kept in full
EXCERPT = 14  # calls shown before the cut of a failure


@dataclass
class Result:
    """The result of one process, or of all processes of a scenario."""

    distinct: int = 0
    tried: int = 0
    judged: int = 0  # state and cut
    deep: int = 0  # states of recoveries that were themselves cut
    failed: int = 0
    seconds: float = 0.0
    slowest_open_seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    def add(self, other: Result) -> None:
        self.distinct = max(self.distinct, other.distinct)
        self.seconds = max(self.seconds, other.seconds)
        self.slowest_open_seconds = max(self.slowest_open_seconds, other.slowest_open_seconds)
        for name in ("tried", "judged", "deep", "failed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.failures += other.failures


@dataclass
class Failure:
    state: State
    cut: int
    wrong: list[str]
    entries: list[Entry]  # of the trace that the state is cut from
    label: str


class Explorer:
    """One process's share of a trace's states."""

    def __init__(self, arguments: argparse.Namespace, place: Path) -> None:
        self.arguments = arguments
        self.place = place
        self.entries = read_entries(arguments.trace)
        self.history = build_history(self.entries, arguments.root)
        self.facts = Facts(self.history.notes)
        self.enumerator = Enumerator(self.history, arguments.seed, strict=not arguments.ext4)
        self.result = Result()
        self.broken: set[int] = (
            set()
        )  # failed states, whose recovery need not be cut

    def run(self) -> Result:
        began = time.monotonic()
        states = self.enumerator.find(
            every_cut=self.arguments.every_cut,
            states_max=self.arguments.states,
            focus=self.arguments.focus,
        )
        self.result.distinct = self.enumerator.distinct
        share, shares = self.arguments.share
        if self.arguments.first:  # a random order detects failures sooner
            random.Random(self.arguments.seed).shuffle(states)
        mine = states[share::shares]
        self._try_all(mine, began)
        if not self.arguments.first:
            self._deepen(mine)
        self.result.seconds = time.monotonic() - began
        return self.result

    def _try_all(self, states: list[State], began: float) -> None:
        bench = Bench(self.place, self.enumerator)
        for state in states:
            if self.arguments.first and self.result.failed:
                return
            seen = bench.recover(state)
            self.result.tried += 1
            self.result.slowest_open_seconds = max(self.result.slowest_open_seconds, seen.seconds)
            for cut in state.cuts if not seen.problems else state.cuts[:1]:
                self.result.judged += 1
                wrong = seen.problems or judge(seen, self.facts, cut)
                if wrong:
                    self.broken.add(id(state))
                    self._fail(Failure(state, cut, wrong, self.entries, state.label), seen, bench)
                    break

    def _fail(self, failure: Failure, seen: Observation, bench: Bench) -> None:
        self.result.failed += 1
        if len(self.result.failures) >= FAILURES_MAX:
            return
        name = f"{self.arguments.trace.stem}-{self.arguments.share[0]}-{self.result.failed}"
        kept = CACHE / "failures" / name
        shutil.rmtree(kept, ignore_errors=True)
        bench.materialiser.lay(failure.state)
        shutil.copytree(bench.root, kept)
        lines = [
            failure.label,
            f"  seed {self.arguments.seed}, cut {failure.cut}, kept in {kept.name}",
            *(f"  ! {problem}" for problem in failure.wrong[:6]),
            f"  recovery said: {seen.report}",
            *[f"    {entry}" for entry in failure.entries if entry.start < failure.cut][-EXCERPT:],
        ]
        self.result.failures.append("\n".join(lines))

    # ---- a crash while recovering from a crash ----

    def _deepen(self, states: list[State]) -> None:
        sound = [state for state in states if id(state) not in self.broken]
        count = min(self.arguments.deep, len(sound))
        chosen = random.Random(self.arguments.seed).sample(sound, count)
        root, trace = self.place / "deep", self.place / "deep.trace"
        for number, state in enumerate(chosen):
            (root / str(number)).mkdir(parents=True)
            Materialiser(root / str(number), self.enumerator.contents).lay(state)
        trees = [read_tree(root / str(number)) for number in range(count)]
        environment = recorded(trace, root, dict(os.environ))
        done = run_module("crash.explore", "--recover", root, environment=environment)
        if done.returncode:
            raise AssertionError(f"recovery under the recorder failed: {done.stderr}")
        entries = read_entries(trace)
        for number, state in enumerate(chosen):
            self._try_recovery(
                state, root / str(number), below(entries, root / str(number), number), trees[number]
            )

    def _try_recovery(self, state: State, root: Path, entries: list[Entry], tree: Any) -> None:
        history = build_history(entries, root, tree)
        if history.differences(root) or history.outside:
            self.result.failures.append(
                f"recovery of {state.label}: {history.differences(root)} {history.outside}"
            )
            self.result.failed += 1
        enumerator = Enumerator(history, self.arguments.seed, random_members=1)
        bench = Bench(self.place, enumerator)
        for deeper in enumerator.find(states_max=self.arguments.deep_states):
            seen = bench.recover(deeper, probe=False)
            self.result.deep += 1
            wrong = list(seen.problems)
            for cut in state.cuts if not wrong else ():
                wrong = wrong or judge(seen, self.facts, cut)
            for note in history.notes:
                if "ends" in note.facts and note.at < deeper.cuts[-1]:
                    wrong += shown_and_lost(seen, note.facts["ends"])
            if wrong:
                label = f"{state.label}; then, cut in its recovery: {deeper.label}"
                self._fail(Failure(deeper, deeper.cuts[-1], wrong, entries, label), seen, bench)


def shown_and_lost(seen: Observation, ends: dict[str, int]) -> list[str]:
    """Records that a finished recovery served to consumers must survive the next power cut."""
    return [
        f"{name}: the first recovery showed offsets below {end}, "
        f"the second ends at {seen.logs[name].end}"
        for name, end in ends.items()
        if name in seen.logs and seen.logs[name].end < end
    ]


class Bench:
    """A directory for laying out and recovering one state after another."""

    def __init__(self, place: Path, enumerator: Enumerator) -> None:
        self.place = Path(tempfile.mkdtemp(dir=place))
        self.root = self.place / "state"
        self.root.mkdir()
        self.materialiser = Materialiser(self.root, enumerator.contents)
        self.in_hand = place / "in-hand"

    def recover(self, state: State, *, probe: bool = True) -> Observation:
        self.in_hand.write_text(f"{state.label}, cut {state.cuts[-1]}")
        self.materialiser.lay(state)
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        seen = observe(self.root, probe=probe)
        faulthandler.cancel_dump_traceback_later()
        strangers = [path.name for path in self.place.iterdir() if path != self.root]
        if strangers:
            seen.problems.append(f"written outside the data directory: {strangers}")
        return seen


def below(entries: list[Entry], root: Path, number: int) -> list[Entry]:
    """The entries of one of several directories under one recorder."""
    handles: set[int] = set()
    kept = []
    for entry in entries:
        is_inside = entry.path == str(root) or entry.path.startswith(f"{root}/")
        if entry.operation == "open" and is_inside and entry.result >= 0:
            handles.add(entry.handle)
        if entry.operation == "note":
            is_inside = json.loads(entry.data.partition(b"\n")[0])["number"] == number
        if is_inside or entry.handle in handles or entry.operation == "outside":
            kept.append(entry)
    return kept


def recover_all(root: Path) -> None:
    """In a recorded process: recovers each directory, reports its content, stops."""
    recorder = Recorder()
    for place in sorted(root.iterdir(), key=lambda path: int(path.name)):
        recorder.note({"number": int(place.name)})
        logs = open_logs(place)
        ends = {name: seen.high_watermark for name, seen in see_all(logs).items()}
        recorder.note({"number": int(place.name), "ends": ends})
        logs.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--states", type=int, default=1000)
    parser.add_argument(
        "--share", type=lambda text: tuple(map(int, text.split("/"))), default=(0, 1)
    )
    parser.add_argument("--first", action="store_true", help="stop at the first failure")
    parser.add_argument("--focus", default="", help="only states whose label contains this")
    parser.add_argument("--ext4", action="store_true", help="the ext4-like mode instead of strict")
    parser.add_argument("--every-cut", action="store_true")
    parser.add_argument("--deep", type=int, default=0, help="recoveries that are cut in their turn")
    parser.add_argument("--deep-states", type=int, default=40)
    parser.add_argument("--recover", type=Path)
    arguments = parser.parse_args()
    if arguments.recover:
        recover_all(arguments.recover)
        return
    place = Path(tempfile.mkdtemp(prefix="crash-", dir=arguments.root.parent))
    try:
        print(json.dumps(vars(Explorer(arguments, place).run())))
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
