"""The broker as a backup reads it: points, and ranges, which go on where they broke off."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from appliance.backup.errors import OffsetsGone, SourceBroke
from appliance.backup.offset_ranges import within
from appliance.backup.point import LogAt
from appliance.errors import ApplianceError
from appliance.record import _batch
from appliance.record._batch import BatchInfo
from appliance.record.batch_bounds import batches_in

LENGTH_SIZE = 4
FRAME_BYTES_MAX = 128 << 20  # a frame is 1 MiB, or one batch that is larger
# So long a broker may be away, as for a restart with a recovery, before a backup gives up.
AWAY_S = 300.0
PAUSE_S, PAUSE_MAX_S = 0.2, 5.0
BURST_S = 0.1  # of the rate, that may be read at once after a pause


class Readable(Protocol):
    def read(self, size: int) -> bytes:
        """So many bytes, less at the end alone; or SourceBroke."""
        ...


class Source(Protocol):
    """Raises SourceBroke, SourceRefused, PointLost, TopicGone, OffsetsGone."""

    def take_point(self) -> Any: ...

    def renew_point(self, point: str) -> None: ...

    def end_point(self, point: str) -> None: ...

    def batches(self, log: LogAt, start: int | None, end: int) -> AbstractContextManager[Readable]:
        """The stream of docs/export.md. Without a start from the log's first offset."""
        ...

    def holes(self, log: LogAt, start: int, end: int) -> Sequence[tuple[int, int]]:
        """What the broker knows by now to be damaged or gone there."""
        ...


class Rate:
    """So many bytes a second, of all threads together; 0: as many as there are."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._paid_until = 0.0
        self._guard = threading.Lock()

    def took(self, size: int) -> None:
        if not self._bytes_per_s:
            return
        with self._guard:
            now = time.monotonic()
            self._paid_until = max(self._paid_until, now - BURST_S) + size / self._bytes_per_s
            wait_s = self._paid_until - now
        if wait_s > 0:
            time.sleep(wait_s)


class Patience:
    """How long something that breaks off is tried again: from its last progress on."""

    def __init__(self, away_s: float) -> None:
        self._away_s = away_s
        self.moved()

    def moved(self) -> None:
        self._pause_s, self._until = PAUSE_S, time.monotonic() + self._away_s

    def wait(self, error: SourceBroke) -> None:
        """Raises it when it was long enough."""
        if time.monotonic() + self._pause_s > self._until:
            raise error
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)


@dataclass(frozen=True)
class Frame:
    """Whole batches, each checked."""

    batches: list[BatchInfo]
    data: bytes

    @property
    def end(self) -> int:
        return self.batches[-1].last_offset + 1


@dataclass
class RangeOf:
    """All batches of [start, end) of a log, once. What is deleted meanwhile is left out, and so is
    what is damaged; `damaged` has its offsets.

    A stream tells what it passed in its trailer. One that broke off has told nothing, and the next
    begins behind all that it passed: so the broker is asked for the holes of the whole range."""

    source: Source
    rate: Rate
    log: LogAt
    start: int
    end: int
    away_s: float = AWAY_S
    damaged: list[tuple[int, int]] = field(default_factory=list)
    _place: int | None = 0  # where the next stream begins; None: where the log begins now
    _behind: int = 0  # all before it was read

    def frames(self) -> Iterator[Frame]:
        self._place = self._behind = self.start
        has_broken, patience = False, Patience(self.away_s)
        while True:
            try:
                for frame in self._of_one_stream():
                    yield frame
                    self._place = self._behind = frame.end
                    patience.moved()
                if has_broken:
                    self._ask_for_holes()
                return
            except OffsetsGone:
                self._place = None
            except SourceBroke as error:
                has_broken = True
                patience.wait(error)

    def _of_one_stream(self) -> Iterator[Frame]:
        if self._behind < self.end:
            with self.source.batches(self.log, self._place, self.end) as stream:
                for frame in self._frames(stream):
                    if frame.end > self._behind:
                        yield frame

    def _ask_for_holes(self) -> None:
        found = self.source.holes(self.log, self.start, self.end)
        self.damaged += within(found, [(self.start, self.end)])

    def _frames(self, stream: Readable) -> Iterator[Frame]:
        while size := self._number(stream):
            if size > FRAME_BYTES_MAX:
                raise SourceBroke(f"{self.log.name}: got a frame of {size} bytes")
            data = self._exactly(stream, size)
            self.rate.took(size)
            yield from self._checked(data)
        trailer = json.loads(self._exactly(stream, self._number(stream)))
        self.damaged += [(first, behind) for first, behind in trailer.get("holes", ())]
        if trailer["next_offset"] < self.end:
            raise SourceBroke(
                f"{self.log.name}: its records end at {trailer['next_offset']}, wanted {self.end}"
            )

    def _checked(self, data: bytes) -> Iterator[Frame]:
        try:
            yield Frame(_batch.headers(data), data)
            return
        except ApplianceError:
            pass  # one of them is damaged: the others are not
        for each in batches_in(data):
            one = data[each.position : each.end]
            try:
                found = Frame(_batch.headers(one), one)
            except ApplianceError:
                self.damaged.append((each.base_offset, each.next_offset))
            else:
                yield found

    def _number(self, stream: Readable) -> int:
        return int.from_bytes(self._exactly(stream, LENGTH_SIZE), "big")

    def _exactly(self, stream: Readable, size: int) -> bytes:
        data = stream.read(size)
        if len(data) != size:
            told = f"its records broke off after {len(data)} of {size} bytes"
            raise SourceBroke(f"{self.log.name}: {told}")
        return data
