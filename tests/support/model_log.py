"""One partition's log as plain Python lists: what test_log_model compares the compiled one with.

A batch is its stamped bytes; everything else is read from them anew. Nothing here is fast, durable
or able to fail; what takes effect only with a recovery point is marked by `saved_base`.
"""

from __future__ import annotations

import copy
import struct
from dataclasses import dataclass, field

from appliance.errors import (
    ApplianceError,
    ProducerEpochOld,
    SequenceOutOfOrder,
    TransactionCoordinatorFenced,
    TransactionStateInvalid,
)
from appliance.record import _batch
from tests.support.batch_model import ModelBatch, read_header

SEQUENCES = 1 << 31
REMEMBERED = 5
TRANSACTIONAL, CONTROL = 0x10, 0x20


@dataclass
class ModelProducer:
    epoch: int
    coordinator_epoch: int = -1
    txn_first: int = -1
    batches: list[tuple[int, int, int]] = field(default_factory=list)  # last sequence, first, last
    marker: int = -1  # the offset of its last end marker


@dataclass
class ModelSegment:
    base: int
    batches: list[bytes] = field(default_factory=list)
    snapshot: dict[int, ModelProducer] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(map(len, self.batches))

    @property
    def largest(self) -> int:
        heads = map(read_header, self.batches)
        return max((head.max_timestamp for head in heads if head.records_count), default=-1)


def last_offset(data: bytes) -> int:
    head = read_header(data)
    return head.base_offset + head.last_offset_delta


class ModelLog:
    def __init__(self, segment_bytes: int) -> None:
        self.segment_bytes = segment_bytes
        self.start = self.end = self.saved_base = 0
        self.epoch = 0
        self.segments = [ModelSegment(0)]
        self.producers: dict[int, ModelProducer] = {}
        self.epochs: list[tuple[int, int]] = []  # epoch, first offset
        self.aborted: list[tuple[int, int, int]] = []  # producer, first, marker

    # Reading

    @property
    def batches(self) -> list[bytes]:
        """From the one that holds the log start."""
        found = [each for segment in self.segments for each in segment.batches]
        return [each for each in found if last_offset(each) >= self.start]

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches of one segment, at least one."""
        for segment in self.segments:
            found = [each for each in segment.batches if last_offset(each) >= offset]
            if found:
                taken = found[0]
                for each in found[1:]:
                    if len(taken) + len(each) > max_bytes:
                        break
                    taken += each
                return taken
        return b""

    @property
    def first_open(self) -> int:
        opened = [each.txn_first for each in self.producers.values() if each.txn_first >= 0]
        return min(opened, default=self.end)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        found = (-1, -1)
        ends = [*[start for _, start in self.epochs[1:]], self.end]
        for (each, _), end in zip(self.epochs, ends, strict=False):
            if each <= epoch:
                found = (each, end)
        return found

    def find_time(self, timestamp: int) -> tuple[int, int] | None:
        for each in self.batches:
            head = read_header(each)
            if head.max_timestamp < timestamp or not head.records_count:
                continue
            if head.attributes & CONTROL:
                return head.base_offset, head.max_timestamp
            for record in _batch.records(each):
                if record.timestamp >= timestamp and record.offset >= self.start:
                    return record.offset, record.timestamp
        return None

    # Appending

    def append(self, data: bytes) -> tuple[int, int, bool] | type[ApplianceError]:
        """Base and last offset, whether it is a duplicate; or what refuses it."""
        head = read_header(data)
        if head.attributes & CONTROL:
            refusal = self._refuse_marker(head, data)
        else:
            found = self._judge(head)
            if isinstance(found, tuple):
                return (*found, True)
            refusal = found
        if refusal:
            return refusal
        if self.active.size and self.active.size + len(data) > self.segment_bytes:
            self.roll()
        stamped = (
            struct.pack(">q", self.end) + data[8:12] + struct.pack(">i", self.epoch) + data[16:]
        )
        self.active.batches.append(stamped)
        base = self.end
        self.end = base + head.last_offset_delta + 1
        self._note(stamped)
        return base, self.end - 1, False

    @property
    def active(self) -> ModelSegment:
        return self.segments[-1]

    def _judge(self, head: ModelBatch) -> type[ApplianceError] | tuple[int, int] | None:
        known = self.producers.get(head.producer_id)
        if head.producer_id < 0 or known is None:
            return None
        if head.producer_epoch != known.epoch:
            if head.producer_epoch < known.epoch:
                return ProducerEpochOld
            return SequenceOutOfOrder if head.base_sequence else None
        last = (head.base_sequence + head.last_offset_delta) % SEQUENCES
        for sequence, first, end in known.batches:
            is_same = (sequence, end - first) == (last, head.last_offset_delta)
            if is_same and first > known.marker:
                return first, end
        if known.txn_first >= 0 and not head.attributes & TRANSACTIONAL:
            return TransactionStateInvalid
        if not known.batches:
            return SequenceOutOfOrder if head.base_sequence else None
        expected = (known.batches[-1][0] + 1) % SEQUENCES
        return None if head.base_sequence == expected else SequenceOutOfOrder

    def _refuse_marker(self, head: ModelBatch, data: bytes) -> type[ApplianceError] | None:
        known = self.producers.get(head.producer_id)
        control = _batch.control(data)
        if known is None or control is None:
            return None
        if head.producer_epoch < known.epoch:
            return ProducerEpochOld
        return TransactionCoordinatorFenced if control[1] < known.coordinator_epoch else None

    def _note(self, data: bytes) -> None:
        head = read_header(data)
        if not self.epochs or head.leader_epoch > self.epochs[-1][0]:
            self.epochs.append((head.leader_epoch, head.base_offset))
        is_marker = head.attributes & CONTROL
        if head.producer_id < 0 or (is_marker and not head.records_count):
            return
        known = self.producers.setdefault(head.producer_id, ModelProducer(head.producer_epoch))
        if head.producer_epoch > known.epoch:
            known.epoch, known.batches = head.producer_epoch, []
        if is_marker:
            self._note_marker(head, known, data)
            return
        sequence = (head.base_sequence + head.last_offset_delta) % SEQUENCES
        known.batches.append((sequence, head.base_offset, last_offset(data)))
        del known.batches[:-REMEMBERED]
        if head.attributes & TRANSACTIONAL and known.txn_first < 0:
            known.txn_first = head.base_offset

    def _note_marker(self, head: ModelBatch, known: ModelProducer, data: bytes) -> None:
        kind, known.coordinator_epoch = _batch.control(data) or ("commit", -1)
        if known.txn_first >= 0 and kind == "abort":
            self.aborted.append((head.producer_id, known.txn_first, head.base_offset))
        known.txn_first, known.marker = -1, head.base_offset

    # Segments

    def roll(self) -> None:
        if self.active.batches:
            self.segments.append(ModelSegment(self.end, [], self._last_batch_of_each()))

    def _last_batch_of_each(self) -> dict[int, ModelProducer]:
        """What Kafka's snapshot file has room for."""
        kept = copy.deepcopy(self.producers)
        for each in kept.values():
            del each.batches[:-1]
        return kept

    def checkpoint(self) -> None:
        self.saved_base = self.active.base

    def reopen(self, cleanly: bool) -> None:
        if cleanly:
            self.checkpoint()
        else:
            self.epoch += 1
        self._drop()
        self.checkpoint()

    def delete_before(self, offset: int) -> None:
        if offset > self.start:
            self.start = offset
            self._drop()

    def retain(self, retention_bytes: int, retention_ms: int, now: int) -> int:
        if retention_ms >= 0 and 0 <= self.active.largest < now - retention_ms:
            self.roll()
        size = sum(segment.size for segment in self.segments)
        start = self.start
        for segment, following in zip(self.segments, self.segments[1:], strict=False):
            is_large = retention_bytes >= 0 and size - segment.size >= retention_bytes
            is_old = retention_ms >= 0 and 0 <= segment.largest < now - retention_ms
            is_below = following.base <= self.start
            if following.base > self.saved_base or not (is_below or is_large or is_old):
                break
            size -= segment.size
            start = max(start, following.base)
        self.start = start
        before = len(self.segments)
        self._drop()
        return before - len(self.segments)

    def _drop(self) -> None:
        while len(self.segments) > 1 and self.segments[1].base <= min(self.start, self.saved_base):
            del self.segments[0]

    def truncate(self, offset: int) -> None:
        if offset >= self.end:
            return
        while len(self.segments) > 1 and self.active.base > offset:
            self.segments.pop()
        base = self.active.base
        self.active.batches = [each for each in self.active.batches if last_offset(each) < offset]
        self.producers = copy.deepcopy(self.active.snapshot)
        self.epochs = [each for each in self.epochs if each[1] < base]
        self.aborted = [each for each in self.aborted if each[2] < base]
        for each in self.active.batches:
            self._note(each)
        self.end = last_offset(self.active.batches[-1]) + 1 if self.active.batches else base
        self.start = min(self.start, self.end)
        self.checkpoint()

    def take_compacted(self, batches: list[bytes], bases: list[int]) -> None:
        """Compaction is judged elsewhere; from here on the log is what it left."""
        snapshots = {segment.base: segment.snapshot for segment in self.segments}
        self.segments = [ModelSegment(base, [], snapshots[base]) for base in bases]
        for each in batches:
            home = max(base for base in bases if base <= read_header(each).base_offset)
            self.segments[bases.index(home)].batches.append(each)
