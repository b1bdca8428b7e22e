"""Compactions, some of them killed, beside readers that read all the time:

    python -m tests.spark.compaction_drill --compactions 50 --kills 20

Each reader resolves the folder, counts, and must see each record once, and at least the records
that were committed when it began. Other readers follow the link for each file; their results are
reported, and must not contain duplicates. A reader that fails there reads again at once, which is
reported, too.

A kill comes before a step on the disk that the last whole compaction had. A kill after the end is
reported as missed, and repeated.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from appliance_spark import export_compact
from appliance_spark.export_layout import Target
from tests.support.exporting import DISK_STEPS, Export, send
from tests.support.folder_readers import READERS, Doubled, by_spark
from tests.support.spark_data import Topics, spark_session
from tests.support.warm_broker import WarmBroker as Broker

TOPIC = "drilled"
NOT_THERE = ("No such file", "No files found", "FileNotFoundException", "PATH_NOT_FOUND")
RECORDS = 300  # per run
PAUSE_S = 0.2  # pause of each reader: eight without a pause leave no time to compact
GRACE_MS = 90_000  # longer than any read
START_S = 600.0  # for each reader under this load


class Watch:
    """Readers in their own threads, and their results."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.floor, self.ceiling = folder, 0, 0
        self.over = threading.Event()
        self.found: Counter[tuple[str, str]] = Counter()
        self.wrong: list[str] = []
        self.errors: dict[tuple[str, str], str] = {}  # the first result of each kind
        self.threads: list[threading.Thread] = []

    def start(self, name: str, read: Callable[[Path], int], is_pinned: bool) -> None:
        label = name if is_pinned else f"{name} through the link"
        thread = threading.Thread(target=self._watch, args=(label, read, is_pinned))
        thread.start()
        self.threads.append(thread)

    def _watch(self, label: str, read: Callable[[Path], int], is_pinned: bool) -> None:
        while not self.over.wait(PAUSE_S):
            what, text = self._read(read, is_pinned)
            if what in ("not there", "error"):
                self.errors.setdefault((label, what), text)
                what = f"{what}, then {self._read(read, is_pinned)[0]}"
            self.found[label, what] += 1
            if "double" in what or "more" in what or (is_pinned and what != "right"):
                self.wrong.append(f"{label}: {what}: {text}")

    def _read(self, read: Callable[[Path], int], is_pinned: bool) -> tuple[str, str]:
        """The result as a word, with details."""
        floor = self.floor
        try:
            count = read(self.folder.resolve() if is_pinned else self.folder)
        except Doubled as error:
            return "double", f"{error}"
        except Exception as error:  # noqa: BLE001 - each library has its own
            is_gone = any(words in f"{error}" for words in NOT_THERE)
            return "not there" if is_gone else "error", f"{type(error).__name__}: {error}"[:300]
        text = f"{count} records, wanted {floor} to {self.ceiling}"
        if count < floor:
            return "short", text
        return "more" if count > self.ceiling else "right", text

    def wait_for_all(self) -> None:
        """Waits until each reader that resolves the link has read once more."""
        labels = [*READERS, "spark"]
        before = {label: self._reads(label) for label in labels}
        end = time.monotonic() + START_S
        while any(self._reads(each) <= before[each] for each in labels):
            assert time.monotonic() < end, f"a reader stands still: {self.found}"
            time.sleep(0.05)

    def _reads(self, label: str) -> int:
        return sum(count for (name, _), count in self.found.items() if name == label)

    def end(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()


def drill(folder: Path, compactions: int, kills: int, seed: int) -> Watch:
    with Broker(folder / "data") as broker, spark_session() as spark:
        topics = Topics(spark, broker)
        topics.create(TOPIC, 2)
        export = Export(spark, topics, folder / "lake", TOPIC)
        watch = Watch(export.target.root / f"topic={TOPIC}")
        add(export, watch)
        readers = {**READERS, "spark": lambda path: by_spark(spark, path)}
        for name, read in readers.items():
            watch.start(name, read, True)
            watch.start(name, read, False)
        try:
            blows(export, watch, order_of(compactions, kills, seed), random.Random(seed))
        finally:
            watch.end()
        if problems := export.verify():
            watch.wrong += problems
    return watch


def order_of(compactions: int, kills: int, seed: int) -> list[bool]:
    """The order of killed compactions. The first is not killed: it counts the steps."""
    order = [True] * kills + [False] * (compactions - 1)
    random.Random(seed).shuffle(order)
    return [False, *order]


def blows(export: Export, watch: Watch, order: list[bool], dice: random.Random) -> None:
    steps, hit, missed, whole = 0, 0, 0, 0
    coming = Apart(export.target.root)
    while order:
        apart, at = coming, dice.randrange(steps) if order.pop(0) else None
        add(export, watch)
        coming = Apart(export.target.root)
        done = apart.go(at)
        hit, whole = hit + (done is None), whole + (done is not None)
        if done is not None:
            steps = done
            if at is not None:
                missed += 1
                order.append(True)
        watch.wait_for_all()
        print(f"{'whole' if at is None else f'kill at step {at}'}, {done} steps: {whole} whole, "
              f"{hit} killed, {missed} missed, {len(order)} to go; "
              f"{sum(watch.found.values())} reads, {len(watch.wrong)} wrong", flush=True)
    coming.end()


def add(export: Export, watch: Watch) -> None:
    watch.ceiling += RECORDS
    send(export, RECORDS, watch.floor)
    export.run()
    watch.floor = watch.ceiling


class Apart:
    """A compaction in a separate process. A real SIGKILL ends it before its nth step on the disk.
    Its Spark starts at once; it waits for the command to begin."""

    def __init__(self, root: Path) -> None:
        words = [sys.executable, "-m", "tests.spark.compaction_drill", "--one", str(root)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)

    def go(self, kill_at: int | None) -> int | None:
        """The number of steps, or None if it was killed."""
        given = b"whole\n" if kill_at is None else b"%d\n" % kill_at
        steps, said = self.process.communicate(given)
        code = self.process.returncode
        assert code == 0 or (code == -signal.SIGKILL and kill_at is not None), said.decode()
        return int(steps.split()[-1]) if code == 0 else None

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def compact_here(root: Path) -> None:
    with spark_session("local[1]") as spark:
        given = sys.stdin.readline().strip()
        done = _counted(None if given == "whole" else int(given))
        now = time.time_ns() // 1_000_000
        export_compact.compact(Target(root), lambda: spark, now, grace_ms=GRACE_MS)
        print(len(done), flush=True)


def _counted(kill_at: int | None) -> list[str]:
    """The names of finished steps. Kills this process before step `kill_at`."""
    done: list[str] = []

    def counted(name: str, step: Callable[..., object]) -> Callable[..., object]:
        def stepped(*given: object, **named: object) -> object:
            if len(done) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            done.append(name)
            return step(*given, **named)

        return stepped

    for name in DISK_STEPS:
        setattr(os, name, counted(name, getattr(os, name)))
    return done


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--compactions", type=int, default=50)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        compact_here(given.one)
        return
    with tempfile.TemporaryDirectory(prefix="compaction-drill-") as folder:
        watch = drill(Path(folder), given.compactions, given.kills, given.seed)
    for (label, what), count in sorted(watch.found.items()):
        print(f"{label}: {count} {what}")
    for (label, what), text in sorted(watch.errors.items()):
        print(f"{label}: the first {what}: {text}")
    for text in watch.wrong:
        print(text)
    print(f"{len(watch.wrong)} wrong")
    sys.exit(bool(watch.wrong))


if __name__ == "__main__":
    main()
