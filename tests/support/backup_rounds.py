"""Rounds of a broker that is backed up under load, lost, and restored elsewhere, where it goes on;
with `kill -9` of the backup, of the broker and of the restore at random moments.

A round:

    a backup is killed; while the next one runs the broker is killed; the backup ends
    a bit of the backup is flipped, found, and mended
    the box is lost with all it has
    a restore is killed, and goes on; the broker starts on it, at its old ports
    what was acknowledged before the point is there; groups go on; the processor moved each once
"""

from __future__ import annotations

import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from appliance.backup.store import open_store
from appliance.data_dir.unfinished_restore import RestoreUnfinished
from appliance.testing import running_broker
from loadtest.ports import lasting_ports
from tests.support import backup_load
from tests.support.backup_load import PARTITIONS, READERS, Ack, Load, Processor
from tests.support.backups import Backups
from tests.support.serving import Serving
from tests.support.zookeeper import eventually

SEGMENT_BYTES = 64 << 10
FAST = 200e6  # bytes a second, at which a backup or a restore may go
ENDS_S = 600.0  # of a small backup or restore, of thousands of objects on a loaded machine


@dataclass
class Round:
    number: int
    killed: dict[str, bool] = field(default_factory=dict)  # what was still running then
    took_s: dict[str, float] = field(default_factory=dict)
    new_bytes: int = 0
    acknowledged: int = 0  # records before the point, of "in" and "bulk"
    found: int = 0
    moved: int = 0  # by the processor, with what it moved after the restore


class Site:
    """A broker that is killed, or lost, and started again at its ports, with load."""

    def __init__(self, folder: Path, bulk_bytes: int = 0) -> None:
        self.folder, self.data = folder, folder / "data"
        self.ports = port, admin_port = lasting_ports(2)
        self.serving = Serving(folder, port=port, admin_port=admin_port)
        self.bootstrap = f"127.0.0.1:{self.ports[0]}"
        self.bulk_ends = self._filled(bulk_bytes)
        self.kept: list[list[int]] = [[] for _ in range(PARTITIONS)]  # of "in", at the last restore
        self.load: Load | None = Load(self.bootstrap, self.bulk_ends)

    def _filled(self, bulk_bytes: int) -> list[int]:
        try:
            backup_load.make_topics(self.bootstrap, SEGMENT_BYTES)
            return backup_load.fill(self.bootstrap, bulk_bytes)
        except BaseException:
            self.serving.stop(signal.SIGKILL)
            raise

    def kill(self) -> None:
        assert self.load is not None
        with self.load.guard:
            self.load.life += 1
            self.serving.stop(signal.SIGKILL)
            self._start()

    def _start(self) -> None:
        port, admin_port = self.ports
        self.serving = Serving(self.folder, port=port, admin_port=admin_port, data=self.data)

    def lose(self) -> Load:
        """The load as it was: it knows what was acknowledged."""
        load = self.load
        assert load is not None
        self.stop()
        shutil.rmtree(self.data)
        return load

    def go_on(self, data: Path) -> None:
        """Without load, until it is checked."""
        self.data = data
        self._start()

    def loaded(self, number: int) -> None:
        self.load = Load(self.bootstrap, self.bulk_ends, number)

    def await_load(self) -> None:
        load = self.load
        assert load is not None
        eventually(lambda: load.is_under_way)

    def stop(self) -> None:
        if self.load is not None:
            self.load.stop()
            self.load = None
        self.serving.stop(signal.SIGKILL)


@dataclass
class Rounds:
    backups: Backups
    dice: random.Random
    bulk_bytes: int = 0
    verify_each: int = 1  # rounds

    def __post_init__(self) -> None:
        """Fills the bulk."""
        self.site = Site(self.backups.folder / "site", self.bulk_bytes)
        self._ends_s = ENDS_S + self.bulk_bytes / FAST * 20
        self._backup_s = 1.0 + self.bulk_bytes / FAST  # within which they are killed
        self._restore_s = 0.7 + self.bulk_bytes / FAST
        self._rate = max(500_000, self.bulk_bytes // 20)  # bytes a second, so that it takes a while

    def run(self, number: int) -> Round:
        made = Round(number)
        self.site.await_load()
        at_ms = self._backup(made)
        if number % self.verify_each == 0:
            made.took_s["verify"] = timed(self._flip_a_bit)
        load = self.site.lose()
        data = self.backups.folder / f"data-{number}"
        self._restore(data, made)
        made.took_s["start"] = timed(lambda: self.site.go_on(data))
        made.took_s["check"] = timed(lambda: self._check(at_ms, load, made))
        self.site.loaded(load.number)
        return made

    def close(self) -> None:
        self.site.stop()

    # Parts of a round

    def _backup(self, made: Round) -> int:
        where = ("--target", self.backups.target, "--admin", self.site.serving.admin)
        begin_s = time.monotonic()
        made.killed["backup"] = killed(
            begun("create", *where), self.dice.uniform(0.2, 0.5 + self._backup_s)
        )
        running = begun("create", *where, "--rate", str(self._rate), "--keep", "3")
        time.sleep(self.dice.uniform(0.4, 0.2 + self._backup_s))
        made.killed["broker"] = running.poll() is None
        self.site.kill()
        done(running, self._ends_s)
        made.took_s["backup"] = time.monotonic() - begin_s
        self._backup_s, self._rate = 1.0, max(500_000, self.bulk_bytes // 2000)  # what is new
        found = self.backups.list()[-1]
        assert found["is_whole"], found
        made.new_bytes = found["read_bytes"]
        return int(found["at_ms"])

    def _flip_a_bit(self) -> None:
        """Of any file of any kind."""
        store = open_store(self.backups.target)
        victim = self.dice.choice(sorted([*store.names("objects"), *store.names("manifests")]))
        good = store.get(victim)
        bad = bytearray(good)
        bad[self.dice.randrange(len(bad))] ^= 1 << self.dice.randrange(8)
        store.put(victim, bytes(bad))
        code, found = self.backups.verify()
        assert (code, [each["path"] for each in found["damaged"]]) == (10, [victim])
        store.put(victim, good)

    def _restore(self, data: Path, made: Round) -> None:
        where = ("restore", "--target", self.backups.target, "--data-dir", str(data))
        begin_s = time.monotonic()
        made.killed["restore"] = killed(
            begun(*where), self.dice.uniform(0.3, 0.3 + self._restore_s)
        )
        if (data / "restoring").exists():
            with pytest.raises(RestoreUnfinished, match="has not ended"), running_broker(data):
                pass
        if not data.exists() or (data / "restoring").exists():
            done(begun(*where), self._ends_s)
        made.took_s["restore"] = time.monotonic() - begin_s
        self._restore_s = made.took_s["restore"] / 2

    def _check(self, at_ms: int, load: Load, made: Round) -> None:
        bootstrap = self.site.bootstrap
        ends = backup_load.bulk_ends(bootstrap)
        wanted_ends = [max(before(at_ms, each)) for each in load.bulk]
        for end, wanted_end in zip(ends, wanted_ends, strict=True):
            assert end >= wanted_end
        with closing(Processor(bootstrap)) as processor:  # ends what was open
            there = backup_load.numbers(bootstrap, "in", PARTITIONS)
            wanted = [
                [*kept, *before(at_ms, acks)]
                for kept, acks in zip(self.site.kept, load.acknowledged, strict=True)
            ]
            for found, each in zip(there, wanted, strict=True):
                assert found[: len(each)] == each
            # exactly once: as many as the group has read, and then the rest
            assert backup_load.numbers(bootstrap, "out") == [there[0][: processor.at]]
            while processor.at < len(there[0]):
                processor.step()
        assert backup_load.numbers(bootstrap, "out") == [there[0]]
        check_readers(bootstrap, before(at_ms, load.committed), len(there[1]))
        self.site.kept, self.site.bulk_ends = there, ends
        made.moved = len(there[0])
        made.acknowledged = sum(wanted_ends) + sum(map(len, wanted))
        made.found = sum(ends) + sum(map(len, there))


def line(made: Round) -> str:
    hit = " ".join(name for name, was_running in made.killed.items() if was_running) or "nothing"
    took = ", ".join(f"{name} {took_s:.1f} s" for name, took_s in made.took_s.items())
    return (
        f"round {made.number}: killed {hit}; {took}; {made.new_bytes / 1e6:.0f} MB read; "
        f"{made.acknowledged} acknowledged before the point, {made.found} found"
    )


def told(rounds: list[Round]) -> str:
    kinds = {name: sum(each.killed[name] for each in rounds) for name in rounds[0].killed}
    lines = [f"{len(rounds)} rounds; killed while running: {kinds}"]
    for name in dict.fromkeys(name for each in rounds for name in each.took_s):
        took = [each.took_s[name] for each in rounds if name in each.took_s]
        spread = f"{min(took):.1f} to {max(took):.1f}"
        lines.append(f"{name}: {statistics.median(took):.1f} s ({spread})")
    return "\n".join(lines)


def check_readers(bootstrap: str, committed: list[int], end: int) -> None:
    with closing(backup_load.reader(bootstrap, READERS)) as consumer:
        found = backup_load.committed(consumer, 1)
    assert max(committed, default=0) <= found <= end


def before(at_ms: int, acks: list[Ack]) -> list[int]:
    return [each.number for each in acks if each.when_s * 1000 < at_ms]


def timed(job: Callable[[], object]) -> float:
    begin_s = time.monotonic()
    job()
    return time.monotonic() - begin_s


def begun(*words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "appliance", "backup", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def killed(process: subprocess.Popen[bytes], after_s: float) -> bool:
    """Whether it was still running."""
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        return True
    finally:
        process.kill()
        process.communicate()
    return False


def done(process: subprocess.Popen[bytes], seconds: float) -> None:
    _, told = process.communicate(timeout=seconds)
    assert process.returncode == 0, told.decode()[-2000:]
