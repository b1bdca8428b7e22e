"""Reads one split over one connection, on a worker: frames of raw batches in, Arrow batches out.

    stream  | frame | frame | ... | 0 u32 | length u32 | trailer, JSON |
    frame   | length u32 | length bytes of whole record batches |

A stream without its trailer was cut off: reading continues after the last whole batch. Only the
trailer lists aborted transactions, so from the first batch of a transaction on the frames are kept
until it arrives; without transactions nothing is kept. The split's size limits how much.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from http.client import HTTPResponse, IncompleteRead
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from appliance._crc import crc32c
from appliance.record._columns import Aborted, Columns, is_transactional
from appliance_spark.columns import Column, Decoder
from appliance_spark.endpoint import (
    GONE,
    OTHER_TOPIC,
    PASSING,
    Endpoint,
    Refused,
    check_trust,
    meant,
    pause,
)
from appliance_spark.options import READ_COMMITTED
from appliance_spark.planning import DataLost, Split, TopicMadeAnew

if TYPE_CHECKING:
    import pyarrow as pa

LENGTH_SIZE = 4
DAMAGED = ("are damaged or gone (failOnDataLoss=false passes over them, and --accept-loss of an "
           "export)")  # fmt: skip
# The code of the broker's answer, and what becomes of the place (`repair/refused_reads.py`).
STORAGE_FAILED = "kafka_storage_error"
UNREADABLE = (". The broker's disk refuses it: the broker looks again after a minute, and what is "
              "refused then it marks as damaged, unless the whole disk fails. Try again then: "
              "failOnDataLoss=false passes over the marked range, and --accept-loss of an export")

# Of one Arrow batch, decompressed: it stays in the processor's cache on its way to Spark, and a
# compression of 100 to 1 does not fill the memory.
BATCH_BYTES = 4 << 20
RATIO_AT_FIRST = 64  # decompressed to compressed, until it is measured
PIECE_BYTES_MIN = 16 << 10

# The position of a record batch's length, and the bytes before its content.
BATCH_LENGTH_AT, BATCH_LENGTH_END = 8, 12


class StreamDamaged(RuntimeError):
    """The received bytes differ from the sent ones."""


@dataclass(frozen=True)
class Source:
    """The settings of a query for each task."""

    endpoint: Endpoint
    isolation: str
    fail_on_data_loss: bool
    columns: tuple[Column, ...]
    passes_holes: bool = False  # damaged records alone are left out, whatever else fails


class Fetching:
    def __init__(self, source: Source, split: Split) -> None:
        self.source, self.split = source, split
        self.decoder = Decoder(split.topic, split.partition, source.columns, split.appliance)
        self.endpoint = source.endpoint.at(split.url)
        self.next_offset = split.start
        self.ratio = float(RATIO_AT_FIRST)

    def batches(self) -> Iterator[pa.RecordBatch]:
        spare_what_was_imported()
        attempt, endpoint = 0, self.endpoint
        before = self.split.start
        while self.next_offset < self.split.end:
            before = self.next_offset
            try:
                yield from self._stream()
            except PASSING as error:
                check_trust(endpoint.url, error)
                attempt = 0 if self.next_offset > before else attempt + 1
                if attempt > endpoint.retries:
                    raise ConnectionError(
                        f"{self}: {attempt} tries without a byte, the last: {error!r}"
                        + (UNREADABLE if STORAGE_FAILED in str(error) else "")
                    ) from error
                pause(attempt)
            except Refused as error:
                self._go_on_after(error)
        if before > self.split.start:
            self._check_behind_breaks()

    def __str__(self) -> str:
        split = self.split
        where = f"{split.appliance}/" if split.appliance else ""
        return f"{where}{split.topic}-{split.partition} offsets {self.next_offset} to {split.end}"

    def _go_on_after(self, error: Refused) -> None:
        """Retention deleted records between the plan and now."""
        if error.status == OTHER_TOPIC:
            raise TopicMadeAnew(f"{self}: {error.text}") from error
        if error.status != GONE:
            raise error
        if self.source.fail_on_data_loss:
            raise DataLost(f"{self}: {error.text} (failOnDataLoss=false goes on behind)") from error
        ours = json.dumps({str(self.split.partition): self.next_offset})
        plan = self.endpoint.plan(
            self.split.topic, ours, ours, 0, self.source.isolation, self.split.topic_id
        )
        self.next_offset = max(self.next_offset, plan["partitions"][0]["log_start_offset"])

    def _stream(self) -> Iterator[pa.RecordBatch]:
        split = self.split
        path = f"/export/v1/topics/{quote(split.topic, safe='')}/partitions/{split.partition}"
        query = {"start": self.next_offset, "end": split.end, "isolation": self.source.isolation}
        whole = {**query, **meant(split.topic_id)}
        with self.endpoint.opened(f"{path}/batches", whole) as (_, response):
            yield from self._frames(response)

    def _frames(self, response: HTTPResponse) -> Iterator[pa.RecordBatch]:
        kept: list[bytearray] = []
        crc = 0
        while frame := read_frame(response):
            crc = crc32c(frame, crc)
            may_abort = self.source.isolation == READ_COMMITTED
            if kept or (may_abort and is_transactional(frame)):
                kept.append(frame)
            else:
                yield from self._decoded(frame, None)
        trailer = json.loads(read_frame(response))
        if trailer["crc32c"] != f"{crc:08x}":
            raise StreamDamaged(f"{self}: crc32c {crc:08x}, the trailer says {trailer['crc32c']}")
        self._check_holes(trailer)
        aborted = Aborted([(producer, first) for producer, first in trailer["aborted"]])
        while kept:
            yield from self._decoded(kept.pop(0), aborted)
        self._end(trailer["next_offset"])

    def _check_holes(self, told: dict[str, Any]) -> None:
        """`told`: a trailer, or a partition of a plan."""
        if told.get("holes") and self._fails_at_holes:
            raise DataLost(f"{self}: offsets {told['holes']} {DAMAGED}")

    @property
    def _fails_at_holes(self) -> bool:
        return self.source.fail_on_data_loss and not self.source.passes_holes

    def _check_behind_breaks(self) -> None:
        """A stream that passed a hole and broke had no trailer to tell it, and the next one began
        behind it. The plan knows the holes of the whole range."""
        if self._fails_at_holes:
            split = self.split
            first, end = (json.dumps({str(split.partition): at}) for at in (split.start, split.end))
            plan = self.endpoint.plan(
                split.topic, first, end, 0, self.source.isolation, split.topic_id
            )
            self._check_holes(plan["partitions"][0])

    def _end(self, next_offset: int) -> None:
        """Compaction may have removed the last offsets of a range: the trailer knows."""
        if next_offset < self.split.end and self.source.fail_on_data_loss:
            raise DataLost(f"{self}: the log can be read to {next_offset} only "
                           "(failOnDataLoss=false takes that for the end)")  # fmt: skip
        self.next_offset = self.split.end

    def _decoded(self, frame: bytearray, aborted: Aborted | None) -> Iterator[pa.RecordBatch]:
        whole, at = memoryview(frame), 0
        while at < len(frame):
            end = cut(frame, at, max(PIECE_BYTES_MIN, int(BATCH_BYTES / self.ratio)))
            yield from self._piece(whole[at:end], aborted)
            at = end

    def _piece(self, data: memoryview, aborted: Aborted | None) -> Iterator[pa.RecordBatch]:
        filled: Columns = self.decoder.columns(data, self.next_offset, self.split.end, aborted)
        made = self.decoder.batch(filled) if len(filled) else None
        if made is not None:
            self.ratio = max(1.0, made.nbytes / len(data))
        # Spark has the yielded batches: after a broken connection, reading continues after them.
        self.next_offset = max(self.next_offset, filled.next_offset)
        if made is not None:
            yield made


@cache
def spare_what_was_imported() -> None:
    """Spark collects garbage after every task, which scans all objects of PySpark and pyarrow: 20
    to
    30 ms. Objects that exist at a worker's first task live as long as the worker."""
    gc.freeze()


def cut(frame: bytearray, at: int, size: int) -> int:
    """The end of whole batches from `at` on with about that size; at least one batch."""
    end = at
    while end < len(frame) and end - at < size:
        length = frame[end + BATCH_LENGTH_AT : end + BATCH_LENGTH_END]
        end += BATCH_LENGTH_END + int.from_bytes(length, "big")
    return min(end, len(frame))


def read_frame(response: HTTPResponse) -> bytearray:
    return read_whole(response, int.from_bytes(read_whole(response, LENGTH_SIZE), "big"))


def read_whole(response: HTTPResponse, size: int) -> bytearray:
    data = bytearray(size)
    room, at = memoryview(data), 0
    while at < size:
        count = response.readinto(room[at:])
        if not count:
            raise IncompleteRead(bytes(data[:at]), size - at)
        at += count
    return data
