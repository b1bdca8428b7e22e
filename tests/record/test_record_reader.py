"""Messages out of batches: what comes, in which order, and what counts as done."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from appliance.errors import BatchCorrupt
from appliance.record import _batch, _batch_builder
from appliance.record._record_reader import (
    ConsumerPosition,
    Message,
    MessageIterator,
    RecordReader,
    whole_batches,
)
from tests.support.batch_model import batch_of

HEADERS = (("name", b"value"), ("null", None))


def batch(base_offset: int, count: int, codec: str = "none") -> bytes:
    records = [
        (1000 + i, None if i == 1 else b"key", None if i == 2 else b"%d" % i, HEADERS[: i % 3])
        for i in range(count)
    ]
    return _batch_builder.batch(records, codec=codec, base_offset=base_offset, leader_epoch=0)


def reader(data: bytes, offset: int = 0, **facts: int) -> RecordReader:
    return RecordReader(data, "t", "1-0", ConsumerPosition(offset), **facts)


def offsets(messages: Iterator[Message]) -> list[int]:
    return [each.offset for each in messages]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_messages_are_the_records(codec: str) -> None:
    data = batch(5, 4, codec) + batch(9, 2, codec)
    assert [
        (m.topic, m.partition, m.offset, m.timestamp, m.key, m.value, m.headers)
        for m in reader(data)
    ] == [
        ("t", "1-0", r.offset, r.timestamp, r.key, r.value, r.headers) for r in _batch.records(data)
    ]


def test_records_before_the_offset_are_left_out() -> None:
    assert offsets(reader(batch(0, 4) + batch(4, 4), 2)) == [2, 3, 4, 5, 6, 7]


def test_a_batch_that_was_cut_waits_for_the_next_fetch() -> None:
    data = batch(0, 4)
    for cut in range(1, len(data)):
        some = reader(data + data[:cut])
        assert (offsets(some), some.end_offset, some.size) == ([0, 1, 2, 3], 4, len(data))
        none = reader(data[:cut], 7)
        assert (offsets(none), none.end_offset, none.size) == ([], 7, 0)


def test_control_batches_and_emptied_ones_move_the_offset_only() -> None:
    control = _batch_builder.control_batch("commit", 1, 0, 0, 1000, base_offset=4)
    emptied = batch_of(b"", 0, base_offset=5, last_offset_delta=2, base_timestamp=-1)
    some = reader(batch(0, 4) + control + emptied)
    assert (offsets(some), some.end_offset) == ([0, 1, 2, 3], 8)
    assert (some.progress.done, some.progress.next_offset) == (8, 8)


def test_batches_that_were_left_out_move_the_offset() -> None:
    some = reader(batch(0, 2), end_offset=9)
    assert (offsets(some), some.progress.next_offset) == ([0, 1], 9)


def test_a_message_is_done_when_the_next_is_asked_for() -> None:
    some = reader(batch(3, 3), 3)
    seen = []
    for message in some:
        seen.append((message.offset, some.progress.done, some.progress.next_offset))
    assert seen == [(3, 3, 4), (4, 4, 5), (5, 5, 6)]
    assert (some.progress.done, some.progress.next_offset) == (6, 6)


def test_nothing_is_handed_out_after_the_end() -> None:
    some = reader(batch(0, 3) + batch(3, 3))
    assert next(some).offset == 0
    some.progress.is_over = True
    assert offsets(some) == []
    assert (some.progress.done, some.progress.next_offset) == (0, 1), "as it was at the end"


def test_a_broken_batch_is_refused_before_the_first_message() -> None:
    data = bytearray(batch(0, 3))
    data[-1] ^= 1
    with pytest.raises(BatchCorrupt):
        reader(bytes(data))


def test_a_batch_that_cannot_be_opened_is_not_passed_over() -> None:
    packed = bytearray(_batch_builder.batch([(0, None, b"x" * 100)] * 9, codec="gzip"))
    good = batch(0, 2)
    some = RecordReader(good + bytes(packed), "t", "1-0", ConsumerPosition(0), size_max=50)
    assert [next(some).offset, next(some).offset] == [0, 1]
    for _ in range(2):
        with pytest.raises(Exception, match="at least"):
            next(some)
    assert some.progress.done == 1


def test_an_iterator_goes_from_reader_to_reader() -> None:
    progress = ConsumerPosition(0)
    readers = [RecordReader(batch(i * 3, 3), "t", "1-0", progress) for i in range(3)]

    class Chain(MessageIterator):
        def next_reader(self) -> RecordReader:
            if not readers:
                raise StopIteration
            return readers.pop(0)

    chain = Chain()
    assert offsets(iter(chain)) == [*range(9)]
    assert (progress.done, progress.next_offset) == (9, 9)


def test_whole_batches_are_counted_without_reading_them() -> None:
    data = batch(0, 4) + batch(4, 2)
    assert whole_batches(data, 0) == (len(data), 6)
    assert whole_batches(data + data[:70], 0) == (len(data), 6)
    for nothing in (b"", data[:60], b"\xff" * 100):
        assert whole_batches(nothing, 9) == (0, 9)


def test_a_message_tells_what_it_is() -> None:
    message = next(reader(batch(0, 1)))
    assert repr(message) == (
        "Message(t 1-0 offset=0 timestamp=1000 key=b'key' value=b'0' headers=())"
    )
