"""A run: its cases one after the other, in bounded time. A failed case does not stop the run."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from bench import instructions, limits, own_measurements
from bench.peers.running import Running, key_of
from bench.peers.turns import Case, Turns, summary
from bench.results import Run
from bench.run_size import Extent

# Steps that measure no broker, or only ours.
BESIDE = {name: (each.__doc__ or "").partition(":")[0].strip(".") + "."
          for name, each in (("limits", limits), ("instructions", instructions))}
BESIDE |= {name: f"{each.about}." for name, each in own_measurements.SCRIPTS.items()}
OVERTIME = 1.5  # multiple of the run's minutes, after which no step begins
WIDTH = 24  # characters of the progress bar
LINE_S = 10  # between two lines without a terminal

Named = tuple[str, Case]  # the suite and the case


class Course:
    """The progress of a run, on stderr."""

    def __init__(self, cases: int, minutes: float) -> None:
        self._cases, self._seconds = cases, minutes * 60
        self._done = 0
        self._begin = self._printed = time.monotonic()
        self._is_terminal = sys.stderr.isatty()

    def spent(self) -> float:
        return time.monotonic() - self._begin

    def left(self) -> float:
        return self._seconds - self.spent()

    def is_over(self) -> bool:
        return self.spent() > self._seconds * OVERTIME

    def say(self, what: str) -> None:
        now = time.monotonic()
        if not self._is_terminal and now - self._printed < LINE_S:
            return
        self._printed = now
        bar = "#" * (WIDTH * self._done // max(self._cases, 1))
        line = (f"[{bar:-<{WIDTH}}] {self._done}/{self._cases}, {self.spent() / 60:.0f} min, at "
                f"most {max(self.left(), 0) / 60:.0f} more: {what}")
        click.echo(f"\r{line[:110]:110}" if self._is_terminal else line, err=True,
                   nl=not self._is_terminal)

    def ended(self, lines: Sequence[str]) -> None:
        self._done += 1
        if self._is_terminal:
            click.echo(f"\r{'':110}\r", err=True, nl=False)
        for line in lines:
            click.echo(line)
        sys.stdout.flush()


def measured(run: Run, cases: Sequence[Named], beside: Sequence[str], extent: Extent,
             directory: Path | None, out: Path) -> None:
    """Saves the run to `out` after every step, so that a later error loses no figure."""
    course = Course(len(cases) + len(beside), extent.minutes)

    def step(name: str, job: Callable[[], Sequence[str]]) -> None:
        lines = attempted(run, course, name, job)
        course.ended(lines)
        run.minutes = round(course.spent() / 60, 1)
        run.save(out)

    try:
        for name in beside:
            step(name, lambda name=name: of_machine(run, name, extent, directory))
        with Running(directory) as running:
            turns = Turns(running, extent.rounds, course.say)
            for at, (suite, case) in enumerate(cases):
                seconds = share(course.left(), [each for _, each in cases[at:]])
                step(case.name, lambda suite=suite, case=case, seconds=seconds: of_case(
                    run, turns, suite, case, seconds))
                run.failed.update(running.keep(wanted(cases[at + 1:])))
            run.resident_mb = running.resident_mb
    finally:
        run.save(out)


def attempted(run: Run, course: Course, name: str, job: Callable[[], Sequence[str]]) -> list[str]:
    """Returns the lines to print. Adds a failure to `run`."""
    course.say(name)
    try:
        if course.is_over():
            raise TimeoutError(f"not begun: {course.spent() / 60:.0f} minutes were over")
        return list(job())
    except Exception as error:  # noqa: BLE001 - reported as the reason
        run.failed[name] = reason(error)
        return [f"{name:34} FAILED, {run.failed[name]}"]


def reason(error: Exception) -> str:
    """The error with its line in bench/, because many errors of clients say little."""
    ours = [each for each in traceback.extract_tb(error.__traceback__) if "bench" in each.filename]
    line = f" ({Path(ours[-1].filename).name}, line {ours[-1].lineno})" if ours else ""
    return f"{type(error).__name__}: {error}{line}"


def of_machine(run: Run, name: str, extent: Extent, directory: Path | None) -> list[str]:
    if name == "limits":
        run.limits = limits.measured(directory, extent.rounds)
        return [f"{each:34} {sorted(values)[len(values) // 2]:,.5g}"
                for each, values in run.limits.items()]
    if name in own_measurements.SCRIPTS:
        run.scripts[name] = own_measurements.measured(name, extent)
        return [f"{name}: {figure:34} {sorted(values)[len(values) // 2]:,.5g}"
                for figure, values in run.scripts[name].items()]
    run.instructions = instructions.measured()
    return [f"instructions of {path:18} {count:,}" for path, count in run.instructions.items()]


def of_case(run: Run, turns: Turns, suite: str, case: Case, seconds: float) -> list[str]:
    results = turns.take(case, seconds)
    run.add(suite, case, results)
    run.failed.update(turns.failed)
    return [f"{case.name:34} {figure:18} {summary(values)}" for figure, values in results.items()]


def share(left: float, cases: Sequence[Case]) -> float:
    """The seconds for the first of the cases, by its weight."""
    return max(left, 0) * cases[0].weight / sum(each.weight for each in cases)


def wanted(cases: Sequence[Named]) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    return {key_of(name, case.settings) for _, case in cases for name in case.brokers}
