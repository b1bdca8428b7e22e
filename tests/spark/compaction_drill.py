"""Compactions, and some of them killed, beside readers that read all the time:

    python -m tests.spark.compaction_drill --compactions 50 --kills 20

Each reader resolves the folder, counts, and must find each record once: no fewer than were
committed when it began. Beside them, the same readers go through the link for each file; what they
find is told, and none of it may be a double.
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
from tests.support.exporting import Export, send
from tests.support.folder_readers import READERS, Doubled, by_spark
from tests.support.spark_data import Topics, spark_session
from tests.test_server import Broker

TOPIC = "drilled"
STEPS = ("link", "mkdir", "symlink", "replace", "rename", "fsync", "unlink", "rmdir")
STEPS_MAX = 60  # of one compaction, about
RECORDS = 300  # of each run
PAUSE_S = 0.05  # of each reader: eight that never rest leave no time to compact
GRACE_MS = 90_000  # longer than any of these readers takes
START_S = 120.0  # of each reader, under all this load


class Watch:
    """Readers in threads of their own, and what they found."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.floor, self.ceiling = folder, 0, 0
        self.over = threading.Event()
        self.found: Counter[tuple[str, str]] = Counter()
        self.wrong: list[str] = []
        self.threads: list[threading.Thread] = []

    def start(self, name: str, read: Callable[[Path], int], is_pinned: bool) -> None:
        label = name if is_pinned else f"{name} through the link"
        thread = threading.Thread(target=self._watch, args=(label, read, is_pinned))
        thread.start()
        self.threads.append(thread)

    def _watch(self, label: str, read: Callable[[Path], int], is_pinned: bool) -> None:
        while not self.over.wait(PAUSE_S):
            floor = self.floor
            folder = self.folder.resolve() if is_pinned else self.folder
            try:
                count = read(folder)
            except Doubled as error:
                self._tell(label, "double", f"{error}", True)
            except Exception as error:  # noqa: BLE001 - each library has its own
                self._tell(label, "error", f"{type(error).__name__}: {error}"[:300], is_pinned)
            else:
                is_right = floor <= count <= self.ceiling
                text = f"{count} records, wanted {floor} to {self.ceiling}"
                self._tell(label, "right" if is_right else "short", text,
                           is_pinned and not is_right)

    def _tell(self, label: str, what: str, text: str, is_wrong: bool) -> None:
        self.found[label, what] += 1
        if is_wrong:
            self.wrong.append(f"{label}: {text}")

    def wait_for_all(self, labels: list[str]) -> None:
        """Until each has read once more."""
        before = Counter(label for label, _ in self.found.elements())
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
    dice = random.Random(seed)
    order = [True] * kills + [False] * compactions
    dice.shuffle(order)
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
            steps = [dice.randrange(STEPS_MAX) if is_killed else None for is_killed in order]
            coming = Apart(export.target.root, steps[0])
            for number, at in enumerate(steps):
                apart = coming
                add(export, watch)
                if number + 1 < len(steps):
                    coming = Apart(export.target.root, steps[number + 1])
                code = apart.go()
                watch.wait_for_all(list(readers))
                print(f"{number + 1} of {len(order)}: "
                      f"{'whole' if at is None else f'kill at step {at}'}, exit {code}; "
                      f"{sum(watch.found.values())} reads, {len(watch.wrong)} wrong", flush=True)
        finally:
            watch.end()
        if problems := export.verify():
            watch.wrong += problems
    return watch


def add(export: Export, watch: Watch) -> None:
    watch.ceiling += RECORDS
    send(export, RECORDS, watch.floor)
    export.run()
    watch.floor = watch.ceiling


class Apart:
    """A compaction in a process of its own, which a real SIGKILL ends before its nth step on the
    disk. Its Spark starts at once, and it begins when it is told."""

    def __init__(self, root: Path, kill_at: int | None) -> None:
        words = [sys.executable, "-m", "tests.spark.compaction_drill", "--one", str(root)]
        words += ["--kill-at", str(kill_at)] if kill_at is not None else []
        self.kill_at = kill_at
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE)

    def go(self) -> int:
        _, said = self.process.communicate(b"go\n")
        code = self.process.returncode
        assert code == 0 or (code == -signal.SIGKILL and self.kill_at is not None), said.decode()
        return code


def compact_here(root: Path, kill_at: int | None) -> None:
    with spark_session("local[1]") as spark:
        sys.stdin.readline()
        if kill_at is not None:
            _plant(kill_at)
        now = time.time_ns() // 1_000_000
        export_compact.compact(Target(root), lambda: spark, now, grace_ms=GRACE_MS)


def _plant(kill_at: int) -> None:
    left = [kill_at]

    def counted(step: Callable[..., object]) -> Callable[..., object]:
        def stepped(*given: object, **named: object) -> object:
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return step(*given, **named)

        return stepped

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--compactions", type=int, default=50)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--kill-at", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        compact_here(given.one, given.kill_at)
        return
    with tempfile.TemporaryDirectory(prefix="compaction-drill-") as folder:
        watch = drill(Path(folder), given.compactions, given.kills, given.seed)
    for (label, what), count in sorted(watch.found.items()):
        print(f"{label}: {count} {what}")
    for text in watch.wrong:
        print(text)
    print(f"{len(watch.wrong)} wrong")
    sys.exit(bool(watch.wrong))


if __name__ == "__main__":
    main()
