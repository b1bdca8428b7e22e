"""The way into a topic that the broker writes for itself: `__consumer_offsets`,
`__transaction_state`.

Such a topic is a table: a record's key says what it is about, the last record of each key counts,
and a record without a value is a tombstone. All of one owner's records, a group's or a
transactional id's, stand in one partition.

Many writes share one group commit. Whatever comes while the disk is busy waits in one queue; when
the disk is done, all of it becomes one batch a partition, and one commit makes all batches durable.
A write alone goes at once. The event loop builds the batches; a thread that never takes the GIL
(`_control_plane_writes.pyx`) appends them and waits. `done` is called on the loop, in the writes'
order.

    write -> queue -> a batch a partition -> thread: all appended, one wait for the disk
                                                                          -> done, done, done
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from appliance._log import Log
from appliance.data_dir._control_plane_writes import LogWriter, Written
from appliance.errors import ApplianceError, BatchCorrupt, BatchTorn, DataNewer
from appliance.process import event_log
from appliance.protocol.codec import decode, encode
from appliance.protocol.errors import MalformedMessage
from appliance.record import _batch_builder, batching
from appliance.record.batch_bounds import batches_in
from appliance.storage._next_good_batch import WholeBatches
from appliance.topics.topic import TopicUnavailable

logger = event_log.named("internal_topic")

VERSION = struct.Struct(">h")

# One write may be larger; this only bounds what is gathered from many.
BATCH_BYTES = 1 << 20

# After which it is looked again whether a topic is served that could not be opened: soon beside
# what a person needs to make room on a disk, and a look costs nothing.
HELD_UP_S = 1.0

# Read at a time: few calls, and no more memory than a start can spare.
READ_BYTES = 4 << 20


class Record(NamedTuple):
    key: bytes
    value: bytes | None  # None: what the key names is no more


Together = Callable[[Callable[[], None]], None]


class Transaction(NamedTuple):
    """To which a write belongs; its records count once its marker says so."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True)
class Write:
    """Records of one owner, to stand side by side. Without any it is a place in the order."""

    owner: str
    records: Sequence[Record]
    timestamp_ms: int
    done: Callable[[ApplianceError | None, int], None]  # the error, or the first record's offset
    transaction: Transaction | None = None
    election: int = -1  # of who writes it, who has no say after the next one; -1: none
    first_offset: int = -1
    error: ApplianceError | None = None


def call(job: Callable[[], None]) -> None:
    job()


class InternalTopic:
    """Rounds are called back, not awaited: of a commit that comes alone, a task and its wake-ups
    would be a third (docs/decisions/control-plane-cost.md)."""

    def __init__(
        self,
        logs: Callable[[], Awaitable[Sequence[Log | None]]],
        timeout_ms: int,
        there: Callable[[], Sequence[Log | None] | None] = lambda: None,
        together: Together = call,
    ) -> None:
        """`logs` makes the topic when it is not there, `there` tells them when it is. None: a
        partition that is not served. `together` is given what tells all of a round."""
        self._logs = logs
        self._there = there
        self._together = together
        self._timeout_s = timeout_ms / 1000
        self._queue: list[Write] = []
        self._round: list[Write] = []  # is written just now
        self._batches: list[tuple[Batch, Log]] = []  # of it, that the thread has
        self._making: asyncio.Task[None] | None = None
        self._idle: asyncio.Event | None = None  # after the last write; None: nobody waits
        self._writer: LogWriter | None = None
        self.is_busy = False

    def write(self, write: Write) -> None:
        self._queue.append(write)
        if not self.is_busy:
            self.is_busy = True
            asyncio.get_running_loop().call_soon(self._begin)

    def owners(self) -> set[str]:
        """Those with a write that was not told yet."""
        return {each.owner for each in (*self._round, *self._queue)}

    async def close(self) -> None:
        """After the last write."""
        while self.is_busy:
            self._idle = self._idle or asyncio.Event()
            await self._idle.wait()
        if self._writer is not None:
            asyncio.get_running_loop().remove_reader(self._writer.fd)
            self._writer.close()
            self._writer = None

    def _begin(self) -> None:
        """A round, with all that came until now."""
        self._round, self._queue = self._queue, []
        logs = self._there()
        if logs is None:
            self._making = asyncio.get_running_loop().create_task(self._make())
        else:
            self._write_round(logs)

    async def _make(self) -> None:
        try:
            logs = await self._logs()
        except Exception as error:  # noqa: BLE001 - it is logged there
            self._fail_round(error)
        else:
            self._write_round(logs)

    def _write_round(self, logs: Sequence[Log | None]) -> None:
        try:
            self._batches = self._served(logs)
            self._hand_over()
        except Exception as error:  # noqa: BLE001 - it is logged there
            self._fail_round(error)
        else:
            if not self._batches:  # places in the order, or nothing that is served
                asyncio.get_running_loop().call_soon(self._end)

    def _served(self, logs: Sequence[Log | None]) -> list[tuple[Batch, Log]]:
        found = []
        for each in _batches(self._round, len(logs)):
            log = logs[each.partition]
            if log is None:
                text = f"partition {each.partition} of the topic for it is not served"
                _fail(each.writes, TopicUnavailable(text))
            elif each.data:
                found.append((each, log))
        return found

    def _hand_over(self) -> None:
        if not self._batches:
            return
        if self._writer is None:
            self._writer = LogWriter()
            asyncio.get_running_loop().add_reader(self._writer.fd, self._take)
        batches = [(log, each.data, each.election) for each, log in self._batches]
        self._writer.begin(batches, self._timeout_s)

    def _take(self) -> None:
        assert self._writer
        outcomes = self._writer.take()
        if outcomes is not None:
            self._written(outcomes)

    def _written(self, outcomes: list[Written]) -> None:
        for (batch, _), each in zip(self._batches, outcomes, strict=True):
            _place(batch.writes, each.error, each.base_offset)
        if self._queue:  # what comes in this turn of the loop belongs to the next round
            asyncio.get_running_loop().call_soon(self._end)
        else:
            self._end()

    def _fail_round(self, error: Exception) -> None:
        if not isinstance(error, ApplianceError):
            logger.exception("writing failed unexpectedly", writes=len(self._round))
            error = ApplianceError(type(error).__name__)
        _fail(self._round, error)
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        """The disk is busy with what came meanwhile before anybody is told."""
        writes, self._round, self._batches = self._round, [], []
        if self._queue:
            self._begin()
        else:
            self.is_busy = False
            if self._idle is not None:
                self._idle.set()
                self._idle = None
        self._together(partial(_tell, writes))


def _tell(writes: list[Write]) -> None:
    """One that fails must not keep the others waiting."""
    for each in writes:
        try:
            each.done(each.error, each.first_offset)
        except Exception:
            logger.exception("what follows a write failed unexpectedly")


def _fail(writes: Iterable[Write], error: ApplianceError) -> None:
    for each in writes:
        each.error = each.error or error


def _place(writes: list[Write], error: ApplianceError | None, offset: int) -> None:
    """Their records stand one behind the other, from `offset` on."""
    if error is not None:
        _fail(writes, error)
        return
    for each in writes:
        each.first_offset = offset
        offset += len(each.records)


class Batch(NamedTuple):
    partition: int
    election: int
    writes: list[Write]
    data: bytes


def _batches(writes: Iterable[Write], partitions: int) -> Iterator[Batch]:
    of_place: dict[tuple[int, int], list[Write]] = {}
    for each in writes:
        place = partition_of(each.owner, partitions), each.election
        if place in of_place:
            of_place[place].append(each)
        else:
            of_place[place] = [each]
    for place, own in of_place.items():
        for run in batching.runs(own, _size_of, BATCH_BYTES):
            yield Batch(*place, run, _batch_of(run))


def _size_of(write: Write) -> float:
    """One of a transaction shares no batch."""
    if write.transaction:
        return inf
    size = 0
    for key, value in write.records:
        size += len(key) if value is None else len(key) + len(value)
    return size


def _batch_of(writes: list[Write]) -> bytes:
    """Empty where they have no records."""
    transaction = writes[0].transaction
    rows = [(each.timestamp_ms, key, value) for each in writes for key, value in each.records]
    if not rows:
        return b""
    if transaction is None:
        return _batch_builder.batch(rows)
    return _batch_builder.batch(
        rows,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transactional=True,
    )


def read_all(log: Log, take: Callable[[bytes], None], on_fault: Callable[[str], None]) -> None:
    """Gives whole batches from the first on, some at a time; those that `take` cannot read one by
    one, so that a damaged batch costs what is in it. Blocks: for a thread."""
    holes = log.holes()
    offset, end_offset = log.log_start_offset, log.log_end_offset
    while offset < end_offset:
        hole = next((end for first, end in holes if first <= offset < end), None)
        if hole is not None:
            on_fault(f"offsets {offset} to {hole - 1} are lost")
            offset = hole
            continue
        try:
            data = _ordered(log.read(offset, READ_BYTES, "end"), offset, end_offset)
        except (BatchCorrupt, BatchTorn):
            offset = _take_rest(log, offset, take, on_fault)
            continue
        if not data:
            return
        try:
            take(data)
        except DataNewer:
            raise
        except ApplianceError:
            _take_each(log, data, take, on_fault)
        offset = [each.next_offset for each in batches_in(data)][-1]


def _ordered(data: bytes, offset: int, end_offset: int) -> bytes:
    """As far as offsets rise: the checksum does not cover them, and a wrong one leads astray."""
    floor, size = -1, 0
    for each in batches_in(data):
        if each.base_offset < floor or not offset < each.next_offset <= end_offset:
            break
        floor, size = each.next_offset, each.end
    if data and not size:
        raise BatchCorrupt(f"the batch at offset {offset} says another offset")
    return data[:size]


def _take_rest(
    log: Log,
    offset: int,
    take: Callable[[bytes], None],
    on_fault: Callable[[str], None],
) -> int:
    """What is whole of a segment behind a header that leads nowhere, found by its bytes; the first
    offset behind the segment."""
    segments = log.segments()
    at = max(i for i, each in enumerate(segments) if each.base_offset <= offset or i == 0)
    limit = segments[at + 1].base_offset if at + 1 < len(segments) else log.log_end_offset
    for base, next_offset, batch in _batches_behind(Path(segments[at].path), offset, limit):
        if base > offset:
            on_fault(f"offsets {offset} to {base - 1} cannot be read: damage")
        _take_each(log, batch, take, on_fault)
        offset = next_offset
    if offset < limit:
        on_fault(f"offsets {offset} to {limit - 1} cannot be read: damage")
    return limit


def _batches_behind(path: Path, offset: int, limit: int) -> Iterator[tuple[int, int, bytes]]:
    """(base offset, next offset, the batch), each with a good checksum."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        found = WholeBatches(file.fileno(), size, low=offset, end_offset=limit, is_sure=True)
        for position, length, base_offset, last_offset, *_ in found:
            yield base_offset, last_offset + 1, os.pread(file.fileno(), length, position)


def _take_each(
    log: Log, data: bytes, take: Callable[[bytes], None], on_fault: Callable[[str], None]
) -> None:
    for each in batches_in(data):
        batch = data[each.position : each.end]
        try:
            take(batch)
        except DataNewer:
            raise
        except ApplianceError as error:
            log.note_damaged(each.base_offset, batch)
            on_fault(f"the batch at {each.base_offset} cannot be read: {error}")


def store(message: Any, version: int) -> bytes:
    """A key or a value: its version, and then the fields of that version as in the protocol."""
    return VERSION.pack(version) + encode(message, version)


def load(message: type[Any], stored: bytes) -> Any:
    if len(stored) < VERSION.size:
        raise MalformedMessage(f"{message.__name__}: no version in {len(stored)} bytes")
    (version,) = VERSION.unpack_from(stored)
    return decode(message, stored[VERSION.size :], version)


def load_value(message: type[Any], stored: bytes) -> Any:
    """A newer version is never left out as if it was damage: the last record of a key counts."""
    if len(stored) >= VERSION.size:
        (version,) = VERSION.unpack_from(stored)
        if version > message.VERSIONS.last:
            raise DataNewer.of(f"a stored {message.__name__}", version, message.VERSIONS.last)
    return load(message, stored)


@lru_cache(maxsize=1 << 14)
def partition_of(owner: str, partitions: int) -> int:
    """Where Kafka looks for a group or a transactional id: Java's hash of the name, without its
    sign."""
    units = owner.encode("utf-16-be", "surrogatepass")
    code = 0
    for (unit,) in struct.iter_unpack(">H", units):
        code = (31 * code + unit) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >= 1 << 31 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
