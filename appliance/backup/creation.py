"""One backup: a point, all partitions as they are there, the manifest.

    1 the lock of the target      2 the point      3 compacted logs, while the broker holds it
    4 all other logs, and what is damaged of them at the broker and an earlier backup has
    5 the catalog                 6 the manifest, and what retention removes

A run that is killed leaves objects that the next one finds, and `partial.json`, by which it knows
what was read.
"""

from __future__ import annotations

import calendar
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from appliance.backup.errors import ObjectDamaged, PointLost, SourceBroke, SourceRefused, TopicGone
from appliance.backup.kept_records import keep_all, there
from appliance.backup.manifest import Blob, Manifest, PartitionCopy
from appliance.backup.offset_ranges import without
from appliance.backup.partition_copy import Copying, holes_of, is_same, part_at
from appliance.backup.point import LogAt, Point, Unserved, of_json
from appliance.backup.retention import Pruned, prune
from appliance.backup.source import AWAY_S, Patience, Rate, Source
from appliance.backup.target import Target
from appliance.errors import ApplianceError

THREADS = 4  # read partitions: most of a small one is waiting
POINTS_MAX = 5  # that may be lost, one after the other
FIRST_S = 30.0  # that a broker may be away before anything was read
PARTIAL_S = 10.0  # between two states that a killed run leaves

Progress = Callable[[int, int], None]
Copies = dict[tuple[str, int], PartitionCopy]
Result = TypeVar("Result")

ID = "%Y%m%dT%H%M%S"


@dataclass(frozen=True)
class Created:
    manifest: Manifest
    new_damage: Sequence[str]  # that the backup before did not tell of
    pruned: Pruned

    @property
    def is_good(self) -> bool:
        return self.manifest.is_whole and not self.new_damage


class Stopped(ApplianceError):
    """By what failed elsewhere, which is told."""


@dataclass
class Creation:
    source: Source
    target: Target
    rate: Rate
    progress: Progress = lambda done, total: None

    def run(self, keep: int = 0) -> Created:
        """`keep`: so many whole backups stay; 0: all of them."""
        with self.target.locked():
            began, written = time.monotonic(), self.target.written_bytes
            self.target.look()
            ids = self.target.ids()
            before = self._before(ids)
            run = self._run_of_a_point(before)
            run.keep(self._manifests(ids))
            made = replace(
                manifest_of(run.point, run.done, run.gone, tuple(kept(run))),
                id=id_of(run.point.at_ms, ids),
                catalog=self.target.put(run.point.catalog),
                took_ms=round((time.monotonic() - began) * 1000),
                read_bytes=run.read_bytes,
                written_bytes=self.target.written_bytes - written,
            )
            self.target.publish(made)
            known = before.damaged if before else ()
            return Created(
                made,
                [each for each in made.damaged if each not in known],
                prune(self.target, keep) if keep else Pruned(),
            )

    def _before(self, ids: Sequence[str]) -> Manifest | None:
        """The newest that can be read; `verify` tells of others."""
        return next(self._manifests(ids), None)

    def _manifests(self, ids: Sequence[str]) -> Iterator[Manifest]:
        for _, each in self.target.manifests(reversed(ids)):
            if not isinstance(each, ObjectDamaged):
                yield each

    def _copies(self, backup: Manifest | None) -> Copies:
        """What there is of each partition: what the target has lost of it is read again."""
        found = backup.partitions if backup else ()
        return {each.key: there(self.target, each) for each in found}

    def _run_of_a_point(self, before: Manifest | None) -> Run:
        # what a run that did not end has is newer
        earlier = self._copies(before) | self._copies(self.target.partial())
        for number in range(POINTS_MAX):
            point = self._point(before, AWAY_S if number else FIRST_S)
            run = Run(self.source, self.target, self.rate, point, earlier, self.progress)
            try:
                run.copy()
                return run
            except PointLost:
                earlier |= {**run.begun, **run.done}
        raise PointLost(
            f"{POINTS_MAX} points were lost, one after the other, while compacted topics were "
            "read: the broker was restarted each time, or did not answer"
        )

    def _point(self, before: Manifest | None, away_s: float) -> Point:
        point = of_json(asked_patiently(self.source.take_point, away_s))
        if before is not None and before.cluster_id != point.cluster_id:
            raise SourceRefused(
                f"{self.target.where} has backups of cluster {before.cluster_id}, this is "
                f"{point.cluster_id}: give each its own target"
            )
        return point


@dataclass
class Run:
    """All partitions of one point."""

    source: Source
    target: Target
    rate: Rate
    point: Point
    earlier: Copies
    progress: Progress
    done: Copies = field(default_factory=dict)
    begun: Copies = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)  # topics
    read_bytes: int = 0
    _failure: BaseException | None = None
    _kept: float = field(default_factory=time.monotonic)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def copy(self) -> None:
        self._total = sum(to_read(each, self.earlier.get(each.key)) for each in self.point.logs)
        with self._held():
            self._copy_all([each for each in self.point.logs if each.is_compacted])
        self._copy_all([each for each in self.point.logs if not each.is_compacted])
        for key in [each for each in self.done if each[0] in self.gone]:
            del self.done[key]

    def keep(self, earlier: Iterable[Manifest]) -> None:
        """What logs that are not compacted have lost is taken from these, the newest first."""
        keys = [each.key for each in self.point.logs if not each.is_compacted]
        copies = [self.done[each] for each in keys if each in self.done]
        self.done |= {each.key: each for each in keep_all(self.target, copies, earlier)}

    def _copy_all(self, logs: Sequence[LogAt]) -> None:
        copying = Copying(self.source, self.target, self.rate, self._on_read, self._keep)
        with ThreadPoolExecutor(THREADS, "backup") as threads:
            waits = [threads.submit(self._copy_one, copying, each) for each in logs]
            try:
                for each in waits:
                    each.result()
            except BaseException as error:  # noqa: BLE001  also of a key that was pressed
                self._fail(error)
        if self._failure is not None:
            raise self._failure

    def _copy_one(self, copying: Copying, log: LogAt) -> None:
        if self._failure is not None:
            return
        try:
            found = copying.copy(log, self.earlier.get(log.key))
        except TopicGone:
            self.gone.add(log.topic)
        except BaseException as error:
            self._fail(error)
            raise
        else:
            with self._guard:
                self.done[log.key] = found

    def _fail(self, error: BaseException) -> None:
        """The first ends all others."""
        with self._guard:
            self._failure = self._failure or error

    def _on_read(self, size: int) -> None:
        if self._failure is not None:
            raise Stopped("another partition cannot be read")
        with self._guard:
            self.read_bytes += size
            done = self.read_bytes
        self.progress(min(done, self._total), self._total)

    def _keep(self, found: PartitionCopy) -> None:
        """After each segment; on the target at most every so often."""
        with self._guard:
            self.begun[found.key] = found
            if time.monotonic() - self._kept < PARTIAL_S:
                return
            self._kept = time.monotonic()
            so_far = {**self.begun, **self.done}
        self.target.keep_partial(manifest_of(self.point, so_far, set()))

    # The hold of the point

    @property
    def _hold_s(self) -> float:
        return self.point.hold_ms / 1000

    @contextmanager
    def _held(self) -> Iterator[None]:
        """The broker keeps compacted logs as they are inside; it says so at the end."""
        is_over = threading.Event()
        thread = threading.Thread(target=self._renew, args=(is_over,), name="hold of a point")
        thread.start()
        try:
            yield
            asked_patiently(lambda: self.source.end_point(self.point.point), self._hold_s)
        finally:
            is_over.set()
            thread.join()

    def _renew(self, is_over: threading.Event) -> None:
        until = time.monotonic() + self._hold_s
        while not is_over.wait(self._hold_s / 4):
            try:
                self.source.renew_point(self.point.point)
                until = time.monotonic() + self._hold_s
            except SourceBroke as error:
                if time.monotonic() >= until:
                    return self._fail(PointLost(str(error)))
            except ApplianceError as error:
                return self._fail(error)


def asked_patiently(ask: Callable[[], Result], away_s: float) -> Result:
    patience = Patience(away_s)
    while True:
        try:
            return ask()
        except SourceBroke as error:
            patience.wait(error)


def manifest_of(
    point: Point, done: Copies, gone: set[str], kept: tuple[str, ...] = ()
) -> Manifest:
    partitions = tuple(done[key] for key in sorted(done))
    return Manifest(
        id="",
        at_ms=point.at_ms,
        took_ms=0,
        cluster_id=point.cluster_id,
        broker_id=point.broker_id,
        version=point.version,
        catalog=Blob(0, ""),
        partitions=partitions,
        missing=tuple(faults(point.unserved, partitions)),
        damaged=tuple(damages(partitions)),
        gone=tuple(sorted(gone)),
        kept=kept,
    )


def id_of(at_ms: int, taken: Sequence[str]) -> str:
    """The point's time. Ids stay in order when a clock was set back."""
    if taken:
        at_ms = max(at_ms, ms_of(taken[-1]) + 1)
    seconds, ms = divmod(at_ms, 1000)
    return time.strftime(ID, time.gmtime(seconds)) + f".{ms:03d}Z"


def ms_of(backup: str) -> int:
    text, _, ms = backup.removesuffix("Z").partition(".")
    return calendar.timegm(time.strptime(text, ID)) * 1000 + int(ms)


def faults(unserved: Iterable[Unserved], partitions: Sequence[PartitionCopy]) -> Iterator[str]:
    there = {each.key for each in partitions}
    for topic, partition, why in unserved:
        what = "" if (topic, partition) in there else " is not served"
        yield f"{topic}-{partition}{what}: {why}"
    for each in partitions:
        if each.fault:
            yield f"{each.name}: its end is not on disk: {each.fault}"


def kept(run: Run) -> Iterator[str]:
    for log in run.point.logs:
        if log.key not in run.done:
            continue
        for first, behind in without(holes_of(log), run.done[log.key].holes):
            yield (f"{log.name}: offsets {first} to {behind - 1} are damaged or gone at the "
                   "broker, and earlier backups had them: this one has them, too")  # fmt: skip


def damages(partitions: Iterable[PartitionCopy]) -> Iterator[str]:
    for each in partitions:
        for first, behind in each.holes:
            yield f"{each.name}: offsets {first} to {behind - 1} are damaged or gone at the broker"


def to_read(log: LogAt, before: PartitionCopy | None) -> int:
    """About so many bytes."""
    size = 0
    for each in log.segments:
        old = part_at(before, each.base_offset)
        if old is None or not is_same(old.segment, each):
            size += max(0, each.size_bytes - (old.segment.copied if old else 0))
    return size
