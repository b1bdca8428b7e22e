"""The scrub: every segment is read from the disk and verified, round after round, while in use.

    turn      called each second: so much of the round as the set rate allows, and nothing between
              two rounds
    verify    one segment at once, as a reader met something in it (`refused_reads.py`)
    start     a round of its own at once and at full speed, of all topics or some

`_scrub.pyx` verifies a segment and deals with what it finds; here is what comes next, how far it
is, and who is told: the ledger of what is lost or damaged, the log of the rest. How far the round
in the background is stands in `scrub.json`, so that a box that is switched off each night completes
one. It is a hint and not synced: without it a round begins anew.
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
from appliance.data_dir.log_dir import LogDir, LogUnknown
from appliance.data_dir.partition_names import Key
from appliance.errors import ApplianceError, Refused
from appliance.process import event_log, owner_only
from appliance.protocol import ErrorCode
from appliance.repair._hole_repair import holes
from appliance.repair._scrub import ScrubFinding, SegmentScan

events = event_log.named("scrub")

NAME = "scrub.json"
TURN_MS = 1000
STEP_BYTES = 1 << 20  # between two looks at whether to stop
SAVED_S = 30.0  # at most so much is verified again after a restart
FINDINGS_MAX = 100  # that a round remembers; all are in the ledger or the log
LATE_INTERVALS = 3  # without a whole round: then somebody should look

SegmentKey = tuple[str, int, int]  # topic, partition, base offset of the segment
START: SegmentKey = ("", -1, -1)


@dataclass
class Finding:
    """One finding, for people."""

    topic: str
    partition: int
    what: str  # damaged, lost: in the ledger; restored, index, odd, failed
    first_offset: int
    end_offset: int
    text: str


@dataclass
class Round:
    began_ms: int
    topics: list[str] = field(default_factory=list)  # none: all of them
    ended_ms: int | None = None
    is_whole: bool = False  # it came to its end
    bytes: int = 0
    bytes_found: int = 0  # that there are to be verified, as was known when it began
    segments: int = 0
    damages: int = 0  # new ones: lost or damaged ranges
    notes: int = 0  # other findings
    findings: list[Finding] = field(default_factory=list)

    def note(self, finding: Finding) -> None:
        if finding.what in ("damaged", "lost"):
            self.damages += 1
        else:
            self.notes += 1
        # One that failed is always told: without it the round would look as if all were well.
        if len(self.findings) < FINDINGS_MAX or (finding.what == "failed" and not self.has_failed):
            self.findings.append(finding)

    @property
    def has_failed(self) -> bool:
        return any(each.what == "failed" for each in self.findings)


class Verified(NamedTuple):
    course: Round  # of one segment
    is_through: bool  # all of it
    was_refused: bool  # by the disk, what was found damaged


class Scrubber:
    """`turn` on one thread, `start` and what is asked on another."""

    def __init__(self, log_dir: LogDir, now_ms: Callable[[], int] | None = None) -> None:
        self._log_dir = log_dir
        self._now_ms = now_ms or log_dir.clock.now_ms
        self.config = log_dir.config
        self.round: Round | None = None  # in the background, under way
        self.last: Round | None = None  # the last whole one of all topics
        self.own: Round | None = None  # the last that somebody asked for
        self.checked_bytes = 0  # in this life
        self.damages = 0
        self._failed: dict[SegmentKey, tuple[int, str]] = {}  # when it was met, and why
        # Damage that the ledger could not store yet: it counts, and the log stays as it is.
        self._unmarked: dict[SegmentKey, tuple[SegmentScan, Round]] = {}
        self.since_ms = self._now_ms()  # when a round was first to be expected
        self._after = START  # up to and with this one the round is through
        self._places: Iterator[SegmentKey] | None = None
        self._scan: tuple[SegmentKey, SegmentScan] | None = None
        self._saved = time.monotonic()
        self._telling = threading.Lock()  # what two rounds find at once is told and marked once
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._load()

    # What others ask

    @property
    def is_off(self) -> bool:
        return self.config.scrub_bytes_per_second == 0

    @property
    def is_running(self) -> bool:
        """A round that somebody asked for."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def age_ms(self) -> int | None:
        """Since the end of the last whole round of all topics."""
        if self.last is None or self.last.ended_ms is None:
            return None
        return max(0, self._now_ms() - self.last.ended_ms)

    @property
    def is_late(self) -> bool:
        """A disk that is not read says nothing: what rots on it is found by the reader who needs
        it. Three intervals, since one round may take nearly as long as one."""
        known_ms = self.since_ms if self.last is None else self.last.ended_ms or self.since_ms
        limit = LATE_INTERVALS * self.config.scrub_interval_ms
        return not self.is_off and self._now_ms() - known_ms > limit

    def failed(self) -> list[str]:
        """Segments that could not be verified, or whose file not be restored, when last tried."""
        logs = self._log_dir.logs()
        return [why for segment, (_, why) in dict(self._failed).items() if segment[:2] in logs]

    def _forget_failed(self, course: Round) -> None:
        """Those that a whole round did not meet again: they are gone."""
        for segment, (met_ms, _) in dict(self._failed).items():
            if met_ms < course.began_ms:
                self._failed.pop(segment, None)

    # In the background

    def turn(self) -> int:
        """What a second's share of the rate is enough for; the count of findings."""
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
            # One that is empty costs a look all the same: ten thousand of them are not one turn.
            budget -= max(used, STEP_BYTES // 16)
        if time.monotonic() - self._saved > SAVED_S:
            self._save()
        return self.round.damages + self.round.notes - before

    def _is_due(self) -> bool:
        if self.round is not None or self.last is None:
            return True
        since_ms = self._now_ms() - self.last.began_ms
        return since_ms >= self.config.scrub_interval_ms or since_ms < 0  # the clock was set back

    def _advance(self, course: Round, most: int) -> int | None:
        """Bytes read on; None: that was the last segment."""
        if self._scan is None:
            if self._places is None:
                self._places = self._segments(self._after, course.topics)
            segment = next(self._places, None)
            if segment is None:
                return None
            scan = self._begin(segment, course)
            if scan is None:
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
        course.is_whole = True
        self._forget_failed(course)
        self.last, self.round, self._places, self._after = course, None, None, START
        events.info("course completed", **_facts(course))
        self._save()
        return course.damages + course.notes - before

    # One segment

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping.is_set()

    def verify(self, segment: SegmentKey, *, marks_refused: bool) -> Verified:
        """This one alone, at once and at full speed. What the disk refuses to read goes into the
        ledger; readers are told of it as of damage only with `marks_refused`."""
        course = Round(self._now_ms())
        scan = self._begin(segment, course)
        while scan is not None and self._step(segment, scan, STEP_BYTES, course, marks_refused):
            if self.is_stopping:
                return Verified(course, is_through=False, was_refused=False)
        if scan is None:
            return Verified(course, is_through=False, was_refused=False)
        return Verified(course, not scan.is_moot, scan.was_refused)

    # On demand

    def start(self, topics: list[str]) -> Round:
        """Of these topics, or of all; `own` tells how far it is."""
        if self.is_running:
            text = "a scrub that somebody asked for is under way: wait for its end"
            raise Refused(ErrorCode.DUPLICATE_RESOURCE, text)
        known = {topic for topic, _ in self._log_dir.logs()}
        if strange := sorted(set(topics) - known):
            raise LogUnknown(f"topic {strange[0][:80]!r} has no open partition")
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
                own.is_whole = True
        finally:
            own.ended_ms = self._now_ms()
        if own.is_whole and not own.topics:
            self.last = own
            self._forget_failed(own)
            self._save()
        events.info("scrub on demand ended", **_facts(own))

    def close(self) -> None:
        """No log is touched when this has returned. `turn` is ended by who calls it."""
        self._is_stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._scan = self._places = None
        self._unmarked.clear()  # the next round finds it again
        self._save()

    def stop(self) -> None:
        """Ends what is under way soon; for the event loop."""
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
        try:
            return SegmentScan(log, segment[2])
        except ApplianceError as error:
            self._fail(segment, error, course)
            return None

    def _step(
        self, segment: SegmentKey, scan: SegmentScan, most: int, course: Round,
        marks_refused: bool = True,
    ) -> bool:
        """Whether there is more of the segment."""
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
            course.segments += 1
            with self._telling:
                self._tell(segment, scan, course, marks_refused)
        return is_more

    def _log(self, segment: SegmentKey) -> Log | None:
        return self._log_dir.logs().get(segment[:2])

    def _fail(self, segment: SegmentKey, error: ApplianceError, course: Round) -> None:
        if self._log(segment) is None:
            return  # deleted meanwhile
        topic, partition, base = segment
        self._failed[segment] = self._now_ms(), str(error)
        self._note(Finding(topic, partition, "failed", base, base, str(error)), course)

    def _tell(
        self, segment: SegmentKey, scan: SegmentScan, course: Round, marks_refused: bool
    ) -> None:
        topic, partition, _ = segment
        damages = []
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
                log.ask_commit()  # a new segment may have begun for it
        if segment not in self._unmarked:  # else it was counted when it was first found
            self.damages += len(damages)
        if scan.was_refused and not marks_refused:
            self._log_dir.ledger.note(damages)
            scan.let_go()
            return
        # In this order: a hole that the ledger lacks would be known, and told nobody.
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
        """Each second: damage whose entries are on disk by now."""
        with self._telling:
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
            topic, partition, base = stored["after"]
            self._after = str(topic), int(partition), int(base)
        except FileNotFoundError:
            self._save()
        except (OSError, ValueError, KeyError, TypeError) as error:
            events.warning("how far the scrub was is not known: a round begins anew", error=error)
            self.round, self._after = None, START
        if self.round is None:
            self._after = START

    def _save(self) -> None:
        self._saved = time.monotonic()
        path = self._log_dir.path / NAME
        stored = {
            "since_ms": self.since_ms,
            "after": self._after,
            "round": asdict(self.round) if self.round else None,
            "last": asdict(self.last) if self.last else None,
        }
        fresh = path.with_suffix(".new")
        try:
            owner_only.write(fresh, json.dumps(stored).encode())
            os.replace(fresh, path)
        except OSError as error:
            events.warning("how far the scrub is cannot be stored", error=error)


def untold(log_dir: LogDir, entries: Iterable[Entry]) -> list[Damage]:
    """Ranges that are known to be damaged or gone, and that the ledger lacks: on a full disk it may
    have taken none, and older versions had no ledger."""
    told: dict[Key, list[Damage]] = {}
    for entry in entries:
        told.setdefault((entry.damage.topic, entry.damage.partition), []).append(entry.damage)
    return [
        Damage(*key, first, end - 1, "known to be damaged or gone since before this start")
        for key, ranges in known_damage(log_dir, []).items()
        for first, end in ranges
        if not any(_touches(each, first, end) for each in told.get(key, []))
    ]


def _touches(damage: Damage, first_offset: int, end_offset: int) -> bool:
    is_before = damage.last_offset is not None and damage.last_offset < first_offset
    return not is_before and damage.first_offset < end_offset


def _round_of(stored: Any) -> Round | None:
    if stored is None:
        return None
    return Round(**{**stored, "findings": [Finding(**each) for each in stored["findings"]]})


def _text(finding: ScrubFinding) -> str:
    where = finding.file
    if finding.position >= 0:
        where += f" position {finding.position} to {finding.end_position}"
    return f"{where}: {finding.text}"


def _facts(course: Round) -> dict[str, int]:
    return {
        "segments": course.segments,
        "bytes": course.bytes,
        "damages": course.damages,
        "notes": course.notes,
        "ms": (course.ended_ms or 0) - course.began_ms,
    }


def known_damage(log_dir: LogDir, topics: list[str]) -> dict[Key, list[tuple[int, int]]]:
    """Ranges at which readers are told of damage, by partition."""
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
