"""Reads that were refused: what a reader meets on the disk is health's at once, and is verified.

    gather    takes what the core noted, whichever thread met it: from here on health tells
    look      verifies those segments from the disk, at once and at full speed (`scrub.py`)

becomes                          when
-------------------------------  -----------------------------------------------------------------
an entry in the ledger           the segment is damaged, or offsets are missing: told there from
                                 then on, and readers are refused at just that range
an entry, and looked at again    the disk refuses a part of it. Such an error may pass with a cable
                                 or a controller, and a mark would not: it comes at the second look
told, for a day after the last   the segment is whole now, or an index or its file was put right
nothing                          the segment is not the log's any more

However often the same damage is met, its segment is verified once a minute at most.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from appliance.data_dir.log_dir import LogDir
from appliance.process import event_log
from appliance.process.spoken import some
from appliance.repair.scrub import Scrubber, SegmentKey, Verified
from appliance.storage._data_directory import ReadFaultInfo

events = event_log.named("reads")

TOLD_S = 86_400.0  # so long a read error that left nothing behind is told of: a person looks daily
AGAIN_S = 60.0  # between two looks at one segment
SEGMENTS_MAX = 1000  # remembered; a disk that is dead is told of in other ways, too
TURN_MS = 10_000  # between two looks when nothing is met


@dataclass
class Refused:
    """Reads of one segment that were refused, or failed."""

    segment: SegmentKey
    offset: int  # that was asked for when it was first met
    why: str
    count: int = 0
    at: float = 0.0  # the last time, of time.monotonic()
    verdict: str = ""  # of verifying it; none yet
    looked_at: float | None = None  # of time.monotonic()
    looked_count: int = 0  # `count` then
    is_open: bool = True  # to be verified again without being met again
    is_doubted: bool = False  # the disk refused it once: such an error may pass
    is_settled: bool = False  # nothing is to be told here; it only keeps the next look waiting

    def is_due(self, now: float) -> bool:
        if self.looked_at is None:
            return True
        if self.is_settled:
            return False
        is_wanted = self.is_open or self.count > self.looked_count
        return is_wanted and now - self.looked_at >= AGAIN_S

    def is_over(self, now: float) -> bool:
        if self.is_settled:
            return self.looked_at is not None and now - self.looked_at >= AGAIN_S
        return not self.is_open and now - self.at >= TOLD_S

    def text(self, wall_s: float, now: float) -> str:
        topic, partition, base = self.segment
        when = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(wall_s - (now - self.at)))
        verdict = self.verdict or "the segment is being verified"
        return (
            f"{some(self.count, 'read')} of {topic}-{partition} from offset {self.offset} on could "
            f"not be answered, the last at {when}: {base:020d}.log: {self.why}; {verdict}"
        )


class RefusedReads:
    """`look` on one thread; the rest is quick, and for the event loop as well."""

    def __init__(self, log_dir: LogDir, scrubber: Scrubber) -> None:
        self._log_dir = log_dir
        self._engine = log_dir.engine
        self._scrubber = scrubber
        self._lock = threading.Lock()
        self._refused: dict[SegmentKey, Refused] = {}
        self._unnamed = 0
        self._unnamed_at = 0.0

    @property
    def count(self) -> int:
        """In this life."""
        return self._engine.read_faults[0]

    def wake_fd(self) -> int:
        return self._engine.wake_at_read_faults()

    def gather(self) -> bool:
        """Whether there is a segment that was not verified for it yet."""
        with self._lock:
            now = time.monotonic()
            self._forget(now)
            is_new = False
            for each in self._engine.take_read_faults():
                is_new = self._take(each, now) or is_new
            unnamed = self._engine.read_faults[1]
            if unnamed > self._unnamed:
                self._unnamed, self._unnamed_at = unnamed, now
            return is_new

    def _take(self, fault: ReadFaultInfo, now: float) -> bool:
        segment = fault.topic, fault.partition, fault.base_offset
        known = self._refused.get(segment)
        if known is None:
            if len(self._refused) >= SEGMENTS_MAX:
                self._unnamed_at = now
                return False
            known = self._refused[segment] = Refused(segment, fault.offset, fault.why)
            events.error(
                "a read was refused", topic=fault.topic, partition=fault.partition,
                offset=fault.offset, segment=fault.base_offset, cause=fault.why,
            )  # fmt: skip
        known.count += fault.times
        known.at = max(known.at, now - fault.age_s)
        return known.looked_at is None

    def texts(self) -> list[str]:
        """What is not in the ledger, or not yet; the latest first."""
        self.gather()
        with self._lock:
            now, wall_s = time.monotonic(), self._log_dir.clock.now_ms() / 1000
            told = [each for each in self._refused.values() if not each.is_settled]
            told.sort(key=lambda each: -each.at)
            texts = [each.text(wall_s, now) for each in told]
            if self._unnamed_at and now - self._unnamed_at < TOLD_S:
                texts.append(
                    "reads of more segments could not be answered than are remembered: "
                    "`appliance scrub` verifies all"
                )
            return texts

    def _forget(self, now: float) -> None:
        for segment, each in list(self._refused.items()):
            if each.is_over(now):
                del self._refused[segment]

    def look(self) -> int:
        """How many segments were verified."""
        self.gather()
        now = time.monotonic()
        with self._lock:
            due = [each for each in self._refused.values() if each.is_due(now)]
        done = 0
        for each in due:
            if self._scrubber.is_stopping:
                break
            self._verify(each)
            done += 1
        return done

    def _verify(self, refused: Refused) -> None:
        count = refused.count
        verified = self._scrubber.verify(refused.segment, marks_refused=refused.is_doubted)
        with self._lock:
            refused.looked_at, refused.looked_count = time.monotonic(), count
            if self._scrubber.is_stopping:
                return
            refused.is_open, refused.verdict = self._verdict(refused, verified)
            refused.is_settled = not refused.verdict

    def _verdict(self, refused: Refused, verified: Verified) -> tuple[bool, str]:
        """Whether it is verified again in any case, and in words what was found; no words: nothing
        is to be told here any more."""
        course = verified.course
        if not verified.is_through and not course.findings:
            is_there = self._is_there(refused.segment)
            return is_there, "it cannot be verified yet" if is_there else ""
        if course.has_failed:
            failed = next(each.text for each in course.findings if each.what == "failed")
            return True, f"it cannot be verified: {failed}"
        if course.damages:
            refused.is_doubted = verified.was_refused and not refused.is_doubted
            if refused.is_doubted:
                return True, "the disk refuses a part of it: it is verified again in a minute"
            return False, ""  # the ledger tells
        refused.is_doubted = False  # it passed: the next refusal is a first one again
        if course.findings:
            return False, f"then it was verified: {course.findings[0].text}"
        return False, "then it was verified, and is whole: the disk or the way to it is not well"

    def _is_there(self, segment: SegmentKey) -> bool:
        log = self._log_dir.logs().get(segment[:2])
        return log is not None and any(each.base_offset == segment[2] for each in log.segments())
