"""The scrub: reads every segment from the disk and verifies it, round after round, while in use.

    turn      runs each second: continues the round at the configured rate; idle between two rounds
    verify    verifies one segment at once after a refused read (`refused_reads.py`)
    start     starts a manual round at once and at full speed, of all topics or some

`_scrub.pyx` verifies a segment and handles its findings. This file selects the next segment, keeps
the progress, and reports: damage and losses to the ledger, other findings to the log. `scrub.json`
has the progress of the background round, so that a box that is switched off each night completes
one. The file is a hint and not synced: without it a new round begins.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from appliance._log import Log
from appliance.bulk._bulk_page_cache import lower_io_priority
from appliance.catalog.loss_ledger import Damage, Entry, Kind
from appliance.data_dir.log_dir import LogUnknown
from appliance.data_dir.log_dirs import LogDirs
from appliance.data_dir.partition_names import Key
from appliance.errors import ApplianceError, Refused
from appliance.process import event_log, owner_only
from appliance.process.known_fields import made
from appliance.protocol import ErrorCode
from appliance.repair._hole_repair import holes
from appliance.repair._scrub import ScrubFinding, SegmentScan

events = event_log.named("scrub")

NAME = "scrub.json"
TURN_MS = 1000
STEP_BYTES = 1 << 20  # between two checks whether to stop
SAVED_S = 30.0  # a restart verifies at most the work of this time again
FINDINGS_MAX = 100  # kept per round; the ledger and the log have all
LATE_INTERVALS = 3  # without a whole round health reports the scrub as late

SegmentKey = tuple[str, int, int]  # topic, partition, base offset of the segment
START: SegmentKey = ("", -1, -1)


@dataclass
class Finding:
    """A finding, as people read it."""

    topic: str
    partition: int
    what: str  # damaged or lost (in the ledger), restored, index, odd, failed
    first_offset: int
    end_offset: int
    text: str


@dataclass
class Round:
    began_ms: int
    topics: list[str] = field(default_factory=list)  # empty: all topics
    ended_ms: int | None = None
    is_whole: bool = False  # all segments were verified, none was skipped
    bytes: int = 0
    bytes_found: int = 0  # to verify, counted at the start of the round
    segments: int = 0
    skipped: int = 0  # segments of a disk or a log that fails: nothing is known of them
    damages: int = 0  # new lost or damaged ranges
    notes: int = 0  # other findings
    findings: list[Finding] = field(default_factory=list)

    def note(self, finding: Finding) -> None:
        if finding.what in ("damaged", "lost"):
            self.damages += 1
        else:
            self.notes += 1
        # The first failed segment is always kept: without it the round would look successful.
        if len(self.findings) < FINDINGS_MAX or (finding.what == "failed" and not self.has_failed):
            self.findings.append(finding)

    @property
    def has_failed(self) -> bool:
        return any(each.what == "failed" for each in self.findings)


class Verified(NamedTuple):
    course: Round  # of one segment
    is_through: bool  # the whole segment was verified
    was_refused: bool  # the disk refused to read damaged bytes


class Scrubber:
    """One thread calls `turn`, another one `start` and the properties."""

    def __init__(self, log_dir: LogDirs, now_ms: Callable[[], int] | None = None) -> None:
        self._log_dir = log_dir
        self._now_ms = now_ms or log_dir.clock.now_ms
        self.config = log_dir.config
        self.round: Round | None = None  # the running background round
        self.last: Round | None = None  # the last whole round of all topics
        self.own: Round | None = None  # the last manual round
        self.checked_bytes = 0  # in this life
        self.damages = 0
        self._failed: dict[SegmentKey, tuple[int, str]] = {}  # the time and the reason
        # Damage that the ledger could not store yet. It counts, but the log is not marked.
        self._unmarked: dict[SegmentKey, tuple[SegmentScan, Round]] = {}
        self.since_ms = self._now_ms()  # the time from which a round is expected
        self._begun_ms: int | None = None  # of the last round of all topics that ended
        self._after = START  # the round is through up to and with this segment
        self._left: Iterator[SegmentKey] | None = None
        self._scan: tuple[SegmentKey, SegmentScan] | None = None
        self._saved = time.monotonic()
        self._reporting = threading.Lock()  # two rounds report and mark the same damage once
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._load()

    # For health and the console

    @property
    def is_off(self) -> bool:
        return self.config.scrub_bytes_per_second == 0

    @property
    def is_running(self) -> bool:
        """Whether a manual round runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def age_ms(self) -> int | None:
        """The time since the end of the last whole round of all topics."""
        if self.last is None or self.last.ended_ms is None:
            return None
        return max(0, self._now_ms() - self.last.ended_ms)

    @property
    def is_late(self) -> bool:
        """Without a scrub, damage on the disk stays hidden until a reader needs the records. The
        limit is three intervals, because a round may take nearly one."""
        known_ms = self.since_ms if self.last is None else self.last.ended_ms or self.since_ms
        limit = LATE_INTERVALS * self.config.scrub_interval_ms
        return not self.is_off and self._now_ms() - known_ms > limit

    def failed(self) -> list[str]:
        """Segments whose last verification or whose restore of the file failed."""
        logs = self._log_dir.logs()
        return [why for segment, (_, why) in dict(self._failed).items() if segment[:2] in logs]

    def _failed_first(self) -> list[tuple[SegmentKey, int, str]]:
        """What a restart must not forget: enough of them, and a dead disk has thousands."""
        failed = [(segment, *found) for segment, found in dict(self._failed).items()]
        return failed[:FINDINGS_MAX]

    def _forget_failed(self, course: Round) -> None:
        """Forgets segments that a whole round did not see again: they are gone."""
        for segment, (met_ms, _) in dict(self._failed).items():
            if met_ms < course.began_ms:
                self._failed.pop(segment, None)

    # The background round

    def turn(self) -> int:
        """Verifies one second's bytes of the rate. Returns the number of findings."""
        self._mark_noted()
        if self.is_off or self.is_running or not self._is_due():
            return 0
        if self.round is None:
            self.round = Round(self._now_ms(), bytes_found=self._size(START, []))
        budget = self.config.scrub_bytes_per_second * TURN_MS // 1000
        before = self.round.damages + self.round.notes
        while budget > 0 and not self._is_stopping.is_set():
            used = self._advance(self.round, budget)
            if used is None:
                return self._complete(self.round, before)
            # An empty segment costs a read, too: ten thousand of them are more than one turn.
            budget -= max(used, STEP_BYTES // 16)
        if time.monotonic() - self._saved > SAVED_S:
            self._save()
        return self.round.damages + self.round.notes - before

    def _is_due(self) -> bool:
        if self.round is not None or self._begun_ms is None:
            return True
        since_ms = self._now_ms() - self._begun_ms
        return since_ms >= self.config.scrub_interval_ms or since_ms < 0  # the clock was set back

    def _advance(self, course: Round, most: int) -> int | None:
        """Returns the read bytes, or None after the last segment."""
        if self._scan is None:
            if self._left is None:
                self._left = self._segments(self._after, course.topics)
            segment = next(self._left, None)
            if segment is None:
                return None
            if self._log_dir.is_failing_everywhere:  # it would only skip what is left
                self._left = None  # the next turn begins with this segment
                return most
            scan = self._begin(segment, course)
            if scan is None:
                self._after = segment
                return 0
            self._scan = segment, scan
        segment, scan = self._scan
        before = scan.read_bytes
        is_more = self._step(segment, scan, min(most, STEP_BYTES), course)
        if not is_more:
            self._scan, self._after = None, segment
        return scan.read_bytes - before

    def _complete(self, course: Round, before: int) -> int:
        course.ended_ms = self._now_ms()
        course.is_whole = not course.skipped
        self._take(course)
        self.round, self._left, self._after = None, None, START
        events.info("course completed", **_facts(course))
        self._save()
        return course.damages + course.notes - before

    def _take(self, course: Round) -> None:
        """A round of all topics has ended. One that skipped segments proves nothing of them."""
        self._begun_ms = course.began_ms
        if course.is_whole:
            self.last = course
            self._forget_failed(course)

    # One segment

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping.is_set()

    def verify(self, segment: SegmentKey, *, marks_refused: bool) -> Verified:
        """Verifies one segment at once and at full speed. Bytes that the disk refuses to read get
        an entry in the ledger, and are marked as damage only with `marks_refused`."""
        course = Round(self._now_ms())
        scan = self._begin(segment, course)
        while scan is not None and self._step(segment, scan, STEP_BYTES, course, marks_refused):
            if self.is_stopping:
                return Verified(course, is_through=False, was_refused=False)
        if scan is None:
            return Verified(course, is_through=False, was_refused=False)
        is_through = not scan.is_moot and not course.skipped
        return Verified(course, is_through, scan.was_refused)

    # The manual round

    def start(self, topics: list[str]) -> Round:
        """Starts a manual round of these topics, or of all. `own` has its progress."""
        if self.is_running:
            text = "a manual scrub is running: wait for its end"
            raise Refused(ErrorCode.DUPLICATE_RESOURCE, text)
        known = {topic for topic, _ in self._log_dir.logs()}
        if unknown := sorted(set(topics) - known):
            raise LogUnknown(f"topic {unknown[0][:80]!r} has no open partition")
        own = Round(self._now_ms(), sorted(set(topics)), bytes_found=self._size(START, topics))
        self.own = own
        self._thread = threading.Thread(target=self._run, args=(own,), name="scrub", daemon=True)
        self._thread.start()
        return own

    def _run(self, own: Round) -> None:
        lower_io_priority()
        try:
            for segment in self._segments(START, own.topics):
                if self._is_stopping.is_set():
                    break
                scan = self._begin(segment, own)
                while scan is not None and self._step(segment, scan, STEP_BYTES, own):
                    if self._is_stopping.is_set():
                        break
            else:
                own.is_whole = not own.skipped
        finally:
            own.ended_ms = self._now_ms()
        if own.is_whole and not own.topics:
            self._take(own)
        self._save()
        events.info("scrub on demand ended", **_facts(own))

    def close(self) -> None:
        """Returns when the scrub uses no log any more. The caller has to end `turn`."""
        self._is_stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._scan = self._left = None
        self._unmarked.clear()  # the next round detects it again
        self._save()

    def stop(self) -> None:
        """Asks the running rounds to end; does not block the event loop."""
        self._is_stopping.set()

    # One segment

    def _segments(self, after: SegmentKey, topics: list[str]) -> Iterator[SegmentKey]:
        for topic, partition in sorted(self._log_dir.logs()):
            if (topic, partition) < after[:2] or (topics and topic not in topics):
                continue
            log = self._log_dir.logs().get((topic, partition))
            for each in log.segments() if log else []:
                segment = topic, partition, each.base_offset
                if segment > after:
                    yield segment

    def _size(self, after: SegmentKey, topics: list[str]) -> int:
        logs = self._log_dir.logs()
        return sum(
            log.size
            for key, log in logs.items()
            if key >= after[:2] and (not topics or key[0] in topics)
        )

    def _begin(self, segment: SegmentKey, course: Round) -> SegmentScan | None:
        log = self._log(segment)
        if log is None:
            return None
        if self._log_dir.is_failing(*segment[:2]):
            course.skipped += 1
            return None
        try:
            return SegmentScan(log, segment[2])
        except ApplianceError as error:
            self._fail(segment, error, course)
            return None

    def _step(
        self, segment: SegmentKey, scan: SegmentScan, most: int, course: Round,
        marks_refused: bool = True,
    ) -> bool:
        """Returns whether the segment has more bytes."""
        before = scan.read_bytes
        try:
            is_more = scan.step(most)
        except ApplianceError as error:
            self._fail(segment, error, course)
            return False
        finally:
            course.bytes += scan.read_bytes - before
            self.checked_bytes += scan.read_bytes - before
        if not is_more:
            with self._reporting:
                self._report(segment, scan, course, marks_refused)
        return is_more

    def _log(self, segment: SegmentKey) -> Log | None:
        return self._log_dir.logs().get(segment[:2])

    def _fail(self, segment: SegmentKey, error: ApplianceError, course: Round) -> None:
        if self._log(segment) is None:
            return  # deleted meanwhile
        topic, partition, base = segment
        self._failed[segment] = self._now_ms(), str(error)
        self._note(Finding(topic, partition, "failed", base, base, str(error)), course)

    def _report(
        self, segment: SegmentKey, scan: SegmentScan, course: Round, marks_refused: bool
    ) -> None:
        topic, partition, _ = segment
        damages = []
        if scan.was_refused and self._log_dir.is_failing(topic, partition):
            scan.let_go()  # the disk fails as a whole: what it has is known when it is opened again
            course.skipped += 1
            return
        course.segments += 1
        self._failed.pop(segment, None)
        for each in scan.settle():
            text = _text(each)
            if each.what == "failed":
                self._failed[segment] = self._now_ms(), text
            finding = Finding(topic, partition, each.what, each.first_offset, each.end_offset, text)
            self._note(finding, course)
            if each.what in ("damaged", "lost"):
                kind: Kind = "lost" if each.what == "lost" else "damaged"
                damages.append(
                    Damage(topic, partition, each.first_offset, each.end_offset - 1, text, kind)
                )
            log = self._log(segment)
            if each.what == "restored" and log is not None:
                log.ask_commit()  # the restore may have started a new segment
        if segment not in self._unmarked:  # else it was counted before
            self.damages += len(damages)
        if scan.was_refused and not marks_refused:
            self._log_dir.ledger.note(damages)
            scan.let_go()
            return
        # The ledger comes first: nobody would be told of a hole that it lacks.
        if self._log_dir.ledger.note(damages) or not damages:
            self._mark(segment, scan, course)
        else:
            scan.let_go()
            self._unmarked[segment] = scan, course

    def _mark(self, segment: SegmentKey, scan: SegmentScan, course: Round) -> None:
        try:
            scan.mark()
        except ApplianceError as error:
            self._fail(segment, error, course)

    def _mark_noted(self) -> None:
        """Marks damage as soon as its entries in the ledger are on disk; runs each second."""
        with self._reporting:
            if self._unmarked and self._log_dir.ledger.save():
                for segment in list(self._unmarked):
                    self._mark(segment, *self._unmarked.pop(segment))

    def _note(self, finding: Finding, course: Round) -> None:
        course.note(finding)
        events.warning(
            "found", what=finding.what, topic=finding.topic, partition=finding.partition,
            first_offset=finding.first_offset, end_offset=finding.end_offset, cause=finding.text,
        )  # fmt: skip

    # Across restarts

    def _load(self) -> None:
        try:
            stored = json.loads((self._log_dir.path / NAME).read_bytes())
            self.since_ms = min(int(stored["since_ms"]), self.since_ms)
            self.last = _round_of(stored["last"])
            self.round = _round_of(stored["round"])
            self._after = _segment_of(*stored["after"])
            for segment, met_ms, why in stored.get("failed", []):
                self._failed[_segment_of(*segment)] = int(met_ms), str(why)
        except FileNotFoundError:
            self._save()
        except (OSError, ValueError, KeyError, TypeError) as error:
            events.warning("how far the scrub was is not known: a round begins anew", error=error)
            self.round, self._after = None, START
        if self.round is None:
            self._after = START
        self._begun_ms = self.last.began_ms if self.last else None

    def _save(self) -> None:
        self._saved = time.monotonic()
        path = self._log_dir.path / NAME
        stored = {
            "since_ms": self.since_ms,
            "after": self._after,
            "round": asdict(self.round) if self.round else None,
            "last": asdict(self.last) if self.last else None,
            # Not from the findings: their offsets may lie in the middle of a segment.
            "failed": [[*each] for each in self._failed_first()],
        }
        fresh = path.with_suffix(".new")
        try:
            owner_only.write(fresh, json.dumps(stored).encode())
            os.replace(fresh, path)
        except OSError as error:
            events.warning("how far the scrub is cannot be stored", error=error)


def _segment_of(topic: Any, partition: Any, base: Any) -> SegmentKey:
    return str(topic), int(partition), int(base)


def missing_entries(log_dir: LogDirs, entries: Iterable[Entry]) -> list[Damage]:
    """Known damaged or lost ranges that the ledger lacks: a full disk may have prevented entries,
    and older versions had no ledger."""
    noted: dict[Key, list[Damage]] = {}
    for entry in entries:
        noted.setdefault((entry.damage.topic, entry.damage.partition), []).append(entry.damage)
    return [
        Damage(*key, first, end - 1, "damaged or lost since before this start")
        for key, ranges in known_damage(log_dir, []).items()
        for first, end in ranges
        if not any(_touches(each, first, end) for each in noted.get(key, []))
    ]


def _touches(damage: Damage, first_offset: int, end_offset: int) -> bool:
    is_before = damage.last_offset is not None and damage.last_offset < first_offset
    return not is_before and damage.first_offset < end_offset


def _round_of(stored: Any) -> Round | None:
    if stored is None:
        return None
    return made(Round, {**stored, "findings": [made(Finding, f) for f in stored["findings"]]})


def _text(finding: ScrubFinding) -> str:
    where = finding.file
    if finding.position >= 0:
        where += f" position {finding.position} to {finding.end_position}"
    return f"{where}: {finding.text}"


def _facts(course: Round) -> dict[str, int]:
    return {
        "segments": course.segments,
        "skipped": course.skipped,
        "bytes": course.bytes,
        "damages": course.damages,
        "notes": course.notes,
        "ms": (course.ended_ms or 0) - course.began_ms,
    }


def known_damage(log_dir: LogDirs, topics: list[str]) -> dict[Key, list[tuple[int, int]]]:
    """Ranges at which readers get an error, by partition."""
    damaged = {
        key: [
            (each.first_offset, each.end_offset)
            for each in holes(log)
            if not each.is_skipped and each.end_offset > log.log_start_offset
        ]
        for key, log in log_dir.logs().items()
        if not topics or key[0] in topics
    }
    return {key: ranges for key, ranges in damaged.items() if ranges}
