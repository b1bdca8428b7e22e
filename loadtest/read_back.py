"""After a run: reads the log back and compares it with all acknowledged records.

lost         an acknowledged record is not at its offset: no record or another one is there
altered      it is there, and differs from what was sent
duplicated   a record is in the log again, after one of the same producer with that number or a
             later one: producers number their records, and send one batch after the other
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from appliance.record._record_reader import ConsumerPosition, RecordReader
from loadtest import broker, payload
from loadtest.acknowledged_batches import NOWHERE, Batch, Ledger, Place
from loadtest.broker import Connect

EXAMPLES_MAX = 5


@dataclass
class Findings:
    acked: int = 0
    lost: int = 0
    altered: int = 0
    duplicated: int = 0
    unknown: int = 0
    unknown_found: int = 0  # of the unknown ones, those in the log
    read: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        for name, value in asdict(other).items():
            setattr(self, name, getattr(self, name) + value)
        del self.examples[EXAMPLES_MAX:]

    @property
    def text(self) -> str:
        return (
            f"{self.acked} records acked, {self.lost} lost, {self.altered} altered, "
            f"{self.duplicated} duplicated; {self.unknown} of unknown outcome, "
            f"{self.unknown_found} of them in the log; {self.read} read back"
        )


class LogCopy:
    """The record at each offset, from `start` on: 12 bytes a record."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.whos, self.numbers = array("Q"), array("I")
        self.strangers: set[int] = set()  # offsets of foreign or altered records
        self.duplicated = self.read = 0
        self._last: dict[int, int] = {}

    def put(self, offset: int, value: bytes | None) -> None:
        gap = offset - self.start - len(self.whos)
        if gap > 0:
            self.whos.extend([payload.NOBODY] * gap)
            self.numbers.extend([0] * gap)
        self.read += 1
        stamp = payload.read(value)
        if stamp is None:
            self.strangers.add(offset)
            stamp = payload.Stamp(payload.NOBODY, 0, 0)
        elif stamp.number <= self._last.get(stamp.who, -1):
            self.duplicated += 1
        else:
            self._last[stamp.who] = stamp.number
        self.whos.append(stamp.who)
        self.numbers.append(stamp.number)

    def holds(self, batch: Batch) -> bool:
        at = batch.base_offset - self.start
        whos, numbers = self.whos[at : at + batch.records], self.numbers[at : at + batch.records]
        wanted = range(batch.number, batch.number + batch.records)
        return whos == array("Q", [batch.who]) * batch.records and numbers == array("I", wanted)

    def missing(self, batch: Batch) -> Iterator[int]:
        """Offsets that lack their records."""
        for i in range(batch.records):
            at = batch.base_offset + i - self.start
            found = (self.whos[at], self.numbers[at]) if at < len(self.whos) else None
            if found != (batch.who, batch.number + i):
                yield batch.base_offset + i

    def count_of(self, batches: list[Batch]) -> int:
        """The number of records of batches, at any offset."""
        whos = {batch.who: batch for batch in batches}
        if not whos:
            return 0
        pairs = zip(self.whos, self.numbers, strict=True)
        found = {pair for pair in pairs if pair[0] in whos}
        return sum((b.who, b.number + i) in found for b in batches for i in range(b.records))


def judge(place: Place, copy: LogCopy, batches: list[Batch]) -> Findings:
    acked = sorted(batch for batch in batches if batch.base_offset != NOWHERE)
    unknown = [batch for batch in batches if batch.base_offset == NOWHERE]
    found = Findings(
        acked=sum(batch.records for batch in acked),
        duplicated=copy.duplicated,
        unknown=sum(batch.records for batch in unknown),
        unknown_found=copy.count_of(unknown),
        read=copy.read,
    )
    for batch in acked:
        if copy.holds(batch):
            continue
        for offset in copy.missing(batch):
            is_altered = offset in copy.strangers
            found.altered += is_altered
            found.lost += not is_altered
            what = "altered" if is_altered else "lost"
            found.examples.append(f"{place[0]} {place[1]} offset {offset}: {what}")
            del found.examples[EXAMPLES_MAX:]
    return found


def read_partition(connect: Connect, place: Place, batches: list[Batch]) -> LogCopy:
    """From its first acknowledged offset to its end."""
    offsets = [batch.base_offset for batch in batches if batch.base_offset != NOWHERE]
    connection = connect()
    try:
        start, end = broker.bounds(connection, place)
        first = min(offsets, default=start)
        copy = LogCopy(first)
        at = max(first, start)
        while at < end:
            fetched = broker.fetch(connection, place, at, broker.WHOLE)
            reader = RecordReader(fetched.records, *place, ConsumerPosition(at))
            for message in reader:
                copy.put(message.offset, message.value)
            if reader.end_offset <= at:
                break
            at = reader.end_offset
    finally:
        connection.close()
    return copy


def read_back(connect: Connect, ledger: Ledger) -> Findings:
    found = Findings()
    for place in sorted(ledger.rows):
        batches = list(ledger.batches(place))
        found.add(judge(place, read_partition(connect, place, batches), batches))
    return found
