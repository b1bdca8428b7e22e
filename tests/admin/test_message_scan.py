"""A look into logs is bounded in what it opens and keeps, however small the batches are that hold
it, and tells what it left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from appliance._log import Log
from appliance.admin import message_filter, message_scan
from appliance.admin.message_filter import JSON_MAX, Condition, Filter
from appliance.admin.message_ranges import Range
from appliance.admin.message_scan import Bounds, Look, look
from appliance.record._records import Record
from tests.support.logs import batch, one_log

COUNT, SIZE = 40, 1 << 20
EVERY = message_filter.parse("")
LATE_S = 60.0


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """Forty batches of one large record each, a few KB in all."""
    with one_log(tmp_path) as log:
        for number in range(COUNT):
            log.append_durable(batch(bytes([number]) * SIZE, codec="zstd"))
        yield log


def looked(log: Log, bounds: Bounds, *, is_backward: bool, end: int = COUNT) -> Look:
    return look(lambda _: log, [Range(0, 0, end)], EVERY, bounds, is_backward=is_backward)


@pytest.mark.parametrize("is_backward", [True, False], ids=["newest", "oldest"])
def test_a_look_keeps_no_more_than_it_may_and_goes_on(log: Log, is_backward: bool) -> None:
    bounds = Bounds(COUNT, 32 << 20, LATE_S, kept_bytes=4 * SIZE)
    end, first, seen = COUNT, 0, []
    while first < end:
        part = look(
            lambda _: log, [Range(0, first, end)], EVERY, bounds, is_backward=is_backward
        )
        assert 1 <= len(part.found) <= 8
        assert part.kept_bytes <= 9 * SIZE
        seen += [each.record.offset for each in part.found]
        (left,) = part.left or [Range(0, end, end)]
        first, end = (left.first, left.end) if part.left else (0, 0)
    assert sorted(seen) == [*range(COUNT)]


def test_backwards_the_newest_that_are_wanted_are_kept(log: Log) -> None:
    seen = looked(log, Bounds(2, 32 << 20, LATE_S), is_backward=True)
    assert [each.record.offset for each in seen.found] == [COUNT - 2, COUNT - 1]
    assert seen.left == [Range(0, 0, COUNT - 2)]


def test_what_does_not_match_is_not_opened_without_end(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece of a search backwards is at most as large as what may be kept."""
    opened = []
    records = message_scan.records

    def counted(*given: Any, **named: Any) -> Any:
        opened.append(1)
        return records(*given, **named)

    monkeypatch.setattr(message_scan, "records", counted)
    none = message_filter.parse("key = none")
    bounds = Bounds(COUNT, 32 << 20, 0.0, kept_bytes=4 * SIZE)
    message_scan._read_back(log, Range(0, 0, COUNT), none, bounds, Look())
    assert len(opened) <= 10


def test_a_batch_of_too_many_records_is_told_of(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append_durable(batch(*"abc"))
    monkeypatch.setattr(message_scan, "BATCH_RECORDS_MAX", 2)
    seen = looked(log, Bounds(1, 32 << 20, LATE_S), is_backward=True, end=COUNT + 3)
    assert [(each.offset, each.end_offset) for each in seen.problems] == [(COUNT, COUNT + 3)]
    assert "3 records" in seen.problems[0].what


def test_a_value_is_read_once_for_all_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    loads = json.loads

    def counted(text: bytes) -> Any:
        read.append(text)
        return loads(text)

    monkeypatch.setattr(message_filter.json, "loads", counted)
    wanted = message_filter.parse("value.a = 1 and value.b exists and key.c = 2 and value.a < 3")
    assert wanted.fits(0, Record(0, b'{"c": 2}', b'{"a": 1, "b": 2}'))
    assert len(read) == 2


@pytest.mark.parametrize("more", [0, 1])
def test_a_value_that_is_too_large_is_not_read_as_json(more: int) -> None:
    value = json.dumps({"a": "x"}).encode().ljust(JSON_MAX + more)
    assert message_filter.parse("value.a = x").fits(0, Record(0, None, value)) == (not more)
    assert message_filter.parse("value contains x").fits(0, Record(0, None, value))


def test_a_look_ends_in_time_also_within_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first record is looked at whenever it is: each look comes further."""
    now = [0.0]
    monkeypatch.setattr(message_scan, "time", SimpleNamespace(
        monotonic=lambda: now[0], sleep=lambda _: None))

    def slow(*_: object) -> bool:
        now[0] += LATE_S
        return False

    wanted = Filter((Condition(slow, bool),))
    with one_log(tmp_path) as log:
        log.append_durable(batch("a", "b", "c"))
        left = [Range(0, 0, 3)]
        for first in (1, 2):
            left = look(lambda _: log, left, wanted, Bounds(10, 1 << 20, LATE_S)).left
            assert left == [Range(0, first, 3)]
