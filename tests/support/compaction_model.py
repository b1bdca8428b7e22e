"""What compaction may leave of a log, said in plain Python: the oracle of test_cleaner.

The model is the list of what was written. It does not compact; it judges what a compacted log
shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from appliance import _batch
from appliance._batch import BatchInfo, Record
from appliance._engine import Log
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


def check_is_subset(written: Iterable[Written], found: list[Record]) -> None:
    """Offsets rise, and each record is the one that was written there."""
    by_offset = {each.offset: each for each in written}
    offsets = [record.offset for record in found]
    assert offsets == sorted(set(offsets))
    for record in found:
        wanted = by_offset[record.offset]
        assert (record.timestamp, record.key, record.value) == (
            wanted.timestamp,
            wanted.key,
            wanted.value,
        )


def state(records: Iterable[Written | Record]) -> dict[bytes, bytes]:
    """What a reader from the start ends up with: the last value of each key not deleted."""
    held: dict[bytes, bytes] = {}
    for each in records:
        if each.value is None:
            held.pop(each.key or b"", None)
        else:
            held[each.key or b""] = each.value
    return held


def latest_only(written: Iterable[Written], cleaned_offset: int) -> list[int]:
    """Offsets that must be left when everything below `cleaned_offset` was compacted once."""
    standing = [each for each in written if not each.aborted]
    last = {each.key: each.offset for each in standing if each.offset < cleaned_offset}
    return [
        each.offset
        for each in standing
        if each.offset >= cleaned_offset or last[each.key] == each.offset
    ]
