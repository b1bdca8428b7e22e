"""Refused reads: health reports a read error at once, and the scrub verifies its segment.

    gather    takes the read errors that the core noted, of all threads; health reports them then
    look      verifies their segments from the disk, at once and at full speed (`scrub.py`)

result                           if
-------------------------------  -----------------------------------------------------------------
an entry in the ledger           the segment is damaged, or offsets are missing. The ledger reports
                                 it from then on, and readers get an error for this range only
an entry, verified again         the disk refuses to read a part. A new cable or controller may end
                                 such errors, so the range is marked after the second refusal
reported for a day               the segment is whole now, or its index or its file was restored
nothing                          the log does not have the segment any more

However often a read error occurs, its segment is verified at most once a minute.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from appliance.data_dir.log_dirs import LogDirs
from appliance.process import event_log
from appliance.process.spoken import some
from appliance.repair.scrub import Scrubber, SegmentKey, Verified
from appliance.storage._data_directory import ReadFaultInfo

events = event_log.named("reads")

TOLD_S = 86_400.0  # a read error without damage is reported for this time: a person looks daily
AGAIN_S = 60.0  # between two verifications of a segment
SEGMENTS_MAX = 1000  # kept; health reports a dead disk in other ways, too
TURN_MS = 10_000  # between two calls without read errors


@dataclass
class Refused:
    """Refused or failed reads of one segment."""

    segment: SegmentKey
    offset: int  # of the first refused read
    why: str
    count: int = 0
    at: float = 0.0  # the last refusal, by time.monotonic()
    verdict: str = ""  # the result of the verification; empty before
    looked_at: float | None = None  # the last verification, by time.monotonic()
    looked_count: int = 0  # `count` at that time
    is_open: bool = True  # verified again even without a new refusal
    is_doubted: bool = False  # the disk refused it once, which may be temporary
    is_settled: bool = False  # not reported; delays the next verification

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
            f"{some(self.count, 'read')} of {topic}-{partition} from offset {self.offset} failed, "
            f"the last at {when}: {base:020d}.log: {self.why}; {verdict}"
        )


class RefusedReads:
    """One thread calls `look`; all other methods are quick enough for the event loop."""

    def __init__(self, log_dir: LogDirs, scrubber: Scrubber) -> None:
        self._log_dir = log_dir
        self._scrubber = scrubber
        self._lock = threading.Lock()
        self._refused: dict[SegmentKey, Refused] = {}
        self._unnamed = 0
        self._unnamed_at = 0.0

    @property
    def count(self) -> int:
        """Since the start of the broker."""
        return self._log_dir.read_faults[0]

    def wake_fd(self) -> int:
        return self._log_dir.wake_at_read_faults()

    def gather(self) -> bool:
        """Returns whether a segment with read errors was not verified yet."""
        with self._lock:
            now = time.monotonic()
            self._forget(now)
            is_new = False
            for each in self._log_dir.take_read_faults():
                is_new = self._take(each, now) or is_new
            unnamed = self._log_dir.read_faults[1]
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
        """Reports of read errors that are not in the ledger, or not yet; the latest first."""
        self.gather()
        with self._lock:
            now, wall_s = time.monotonic(), self._log_dir.clock.now_ms() / 1000
            unsettled = [each for each in self._refused.values() if not each.is_settled]
            unsettled.sort(key=lambda each: -each.at)
            texts = [each.text(wall_s, now) for each in unsettled]
            if self._unnamed_at and now - self._unnamed_at < TOLD_S:
                texts.append(
                    f"reads of more than {SEGMENTS_MAX} segments failed: "
                    "`appliance scrub` verifies all"
                )
            return texts

    def _forget(self, now: float) -> None:
        for segment, each in list(self._refused.items()):
            if each.is_over(now):
                del self._refused[segment]

    def look(self) -> int:
        """Verifies the due segments. Returns their number."""
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
        """Returns whether the segment is verified again in any case, and the result as text; an
        empty text ends the reports of the read error."""
        course = verified.course
        if not verified.is_through and not course.findings:
            exists = self._exists(refused.segment)
            return exists, "the segment cannot be verified yet" if exists else ""
        if course.has_failed:
            failed = next(each.text for each in course.findings if each.what == "failed")
            return True, f"the segment cannot be verified: {failed}"
        if course.damages:
            refused.is_doubted = verified.was_refused and not refused.is_doubted
            if refused.is_doubted:
                return True, "the disk refuses a part of the segment: the next check is in a minute"
            return False, ""  # the ledger reports it
        refused.is_doubted = False  # the error ended: the next refusal counts as the first
        if course.findings:
            return False, f"verified since: {course.findings[0].text}"
        return False, "verified since, and whole: the disk, its cable or its controller is faulty"

    def _exists(self, segment: SegmentKey) -> bool:
        log = self._log_dir.logs().get(segment[:2])
        return log is not None and any(each.base_offset == segment[2] for each in log.segments())
