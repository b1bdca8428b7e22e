"""What compaction may leave of a log, said in plain Python: the oracle of test_cleaner.

The model is the list of what was written. It does not compact; it judges what a compacted log
shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from appliance._log import Log
from appliance.record import _batch
from appliance.record._batch import BatchInfo
from appliance.record._records import Record
from tests.support.logs import everything


@dataclass(frozen=True)
class Written:
    """One record as it was given to the log."""

    offset: int
    timestamp: int
    key: bytes
    value: bytes | None
    aborted: bool = False


def shown(log: Log) -> list[Record]:
    return _batch.records(b"".join(everything(log)))


def batches(log: Log) -> list[BatchInfo]:
    return _batch.headers(b"".join(everything(log)))


def pairs(log: Log) -> list[tuple[int, str, str | None]]:
    """(offset, key, value) of every record, as text."""
    return [
        (each.offset, (each.key or b"").decode(), each.value and each.value.decode())
        for each in shown(log)
    ]


def read_committed(log: Log) -> list[Record]:
    """What a consumer of committed data makes of the log: told of aborted transactions, it leaves
    out a producer's records from the first offset of one until it meets an abort marker."""
    told = sorted(log.aborted_transactions(0, log.log_end_offset), key=lambda each: each[1])
    ignored: set[int] = set()
    found: list[Record] = []
    for data in everything(log):
        (info,) = _batch.headers(data)
        while told and told[0][1] <= info.last_offset:
            ignored.add(told.pop(0)[0])
        if info.is_control:
            if (_batch.control(data) or ("", 0))[0] == "abort":
                ignored.discard(info.producer_id)
        elif not (info.is_transactional and info.producer_id in ignored):
            found += _batch.records(data)
    return found


def check_markers(log: Log) -> None:
    """As long as a byte of a transaction is there, so is the marker that says how it ended; and a
    transaction that readers are told of has its marker."""
    unended: set[int] = set()
    markers: set[int] = set()
    for info in batches(log):
        if info.is_control and info.records_count:
            unended.discard(info.producer_id)
            markers.add(info.base_offset)
        elif info.is_transactional and not info.is_control:
            unended.add(info.producer_id)
    assert not unended
    told = log.aborted_transactions(0, log.log_end_offset)
    assert {marker for _, _, marker in told} <= markers


@dataclass
class Model:
    """What was written, and what each round of compaction made of it."""

    delete_retention_ms: int
    written: list[Written] = field(default_factory=list)
    cleaned_offset: int = 0
    seen_ms: dict[int, int] = field(default_factory=dict)  # tombstone -> first round that saw it

    def cleaned(self, offset: int, now_ms: int) -> None:
        """A round came as far as `offset`."""
        self.cleaned_offset = max(self.cleaned_offset, offset)
        for each in self.written:
            if each.offset < self.cleaned_offset and each.value is None:
                self.seen_ms.setdefault(each.offset, now_ms)

    def check(self, log: Log, now_ms: int) -> None:
        found = read_committed(log)
        check_markers(log)
        self._check_is_subset(found)
        self._check_latest(found, now_ms)
        assert state(found) == state(each for each in self.written if not each.aborted)

    def _check_is_subset(self, found: list[Record]) -> None:
        """Offsets rise; each record is the one that was written there, and not an aborted one."""
        by_offset = {each.offset: each for each in self.written}
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        for record in found:
            wanted = by_offset[record.offset]
            assert not wanted.aborted
            assert (record.timestamp, record.key, record.value) == (
                wanted.timestamp,
                wanted.key,
                wanted.value,
            )

    def _check_latest(self, found: list[Record], now_ms: int) -> None:
        """Below the cleaned offset only the last of each key, and no tombstone gone too early."""
        standing = [each for each in self.written if not each.aborted]
        last = {each.key: each.offset for each in standing if each.offset < self.cleaned_offset}
        left = {record.offset for record in found}
        for each in standing:
            is_last = each.offset >= self.cleaned_offset or last[each.key] == each.offset
            may_go = (
                each.value is None
                and now_ms >= self.seen_ms.get(each.offset, now_ms + 1) + self.delete_retention_ms
            )
            assert is_last or each.offset not in left, f"{each} was to be dropped"
            assert not is_last or may_go or each.offset in left, f"{each} is gone"


def state(records: Iterable[Written | Record]) -> dict[bytes, bytes]:
    """What a reader from the start ends up with: the last value of each key not deleted."""
    held: dict[bytes, bytes] = {}
    for each in records:
        if each.value is None:
            held.pop(each.key or b"", None)
        else:
            held[each.key or b""] = each.value
    return held
