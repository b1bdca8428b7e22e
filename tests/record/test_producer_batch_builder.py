"""A producer's batches: what was built from lists reads back as what was in them."""

from __future__ import annotations

import random
import sys
import threading
from typing import Any

import pytest
from kafka.partitioner import default as kafka_python

from appliance.errors import BatchTooLarge
from appliance.record import _batch, _batch_builder, _batch_check, _records, compression
from appliance.record._producer_batch_builder import (
    EncodedRecords,
    batch_head,
    check_fields,
    encode_headers,
    encode_records,
    key_hash,
    split_by_key,
)

SIZE_MAX = 1 << 20


def read_back(made: EncodedRecords, codec: int = 0, **head: Any) -> list[_records.Record]:
    payload = compression.compress(codec, made.data) if codec else made.data
    batch = batch_head(made, payload, codec, **head) + payload
    found = _batch_check.check(batch, deep=True)
    assert (found.records_count, found.max_timestamp) == (made.count, made.max_timestamp)
    return _batch.records(batch)


def random_field(chance: random.Random) -> bytes | None:
    size = chance.choice([-1, 0, 1, 62, 63, 64, 65, 8190, 8191, 8192, chance.randrange(300)])
    return None if size < 0 else chance.randbytes(size)


@pytest.mark.parametrize("codec", range(5), ids=compression.NAMES)
def test_records_read_back_as_they_were_given(codec: int) -> None:
    chance = random.Random(codec)
    for _ in range(30):
        count = chance.choice([1, 2, 63, 64, 65, 200])
        values = [random_field(chance) for _ in range(count)]
        keys = [random_field(chance) for _ in range(count)] if chance.random() < 0.7 else None
        times = [chance.randrange(-(2**40), 2**42) for _ in range(count)]
        made = encode_records(values, keys, times, 0, 1 << 30)
        found = read_back(made, codec)
        assert [each.value for each in found] == values
        assert [each.key for each in found] == (keys or [None] * count)
        assert [each.timestamp for each in found] == times


def test_headers_read_back_as_they_were_given() -> None:
    pairs = [(b"n", b"x" * size) for size in (0, 63, 64, 8192)] + [(b"", None)]
    given = [encode_headers(pairs), None, encode_headers([])]
    made = encode_records([b"v"] * 3, None, 5, 0, SIZE_MAX, given)
    wanted = [(name.decode(), value) for name, value in pairs]
    assert [list(each.headers) for each in read_back(made)] == [wanted, [], []]


def test_headers_count_towards_the_size_of_a_batch() -> None:
    headers: list[bytes | None] = [encode_headers([(b"n", bytes(600))])] * 3
    assert encode_records([b"v"] * 3, None, 5, 0, 1300, headers).count == 2
    with pytest.raises(BatchTooLarge, match="record 0 of 6"):
        encode_records([b"v"] * 3, None, 5, 0, 600, headers)
    with pytest.raises(ValueError, match="1 headers for 3 values"):
        encode_records([b"v"] * 3, None, 5, 0, 600, headers[:1])


def test_a_batch_is_byte_for_byte_what_the_other_builder_makes() -> None:
    values, keys, times = [b"a", None, b""], [None, b"k", b""], [50, 40, 60]
    made = encode_records(values, keys, times, 0, SIZE_MAX)
    who = {"producer_id": 77, "producer_epoch": 3, "base_sequence": 9}
    rows = [*zip(times, keys, values, strict=True)]
    assert batch_head(made, made.data, **who) + made.data == _batch_builder.batch(rows, **who)


def test_many_records_are_cut_where_the_size_is_reached() -> None:
    values = [b"v" * (i % 100) for i in range(5000)]
    at, found = 0, []
    while at < len(values):
        made = encode_records(values, None, 7, at, 10_000)
        assert 10_000 - 120 < len(made.data) <= 10_000 or at + made.count == len(values)
        found += read_back(made)
        at += made.count
    assert [each.value for each in found] == values
    assert {each.timestamp for each in found} == {7}


def test_a_record_fits_to_the_byte_or_is_refused_with_its_numbers() -> None:
    whole = len(encode_records([b"x" * 500], None, 0, 0, SIZE_MAX).data)
    assert encode_records([b"x" * 500], None, 0, 0, whole).count == 1
    with pytest.raises(BatchTooLarge, match=f"record 0 of {whole} bytes, {whole - 1} allowed"):
        encode_records([b"x" * 500], None, 0, 0, whole - 1)
    assert encode_records([b"a", b"x" * 500], None, 0, 0, whole).count == 1


@pytest.mark.parametrize(
    ("values", "keys", "fact"),
    [
        ([b"", "text"], None, "value 1: got str"),
        ([b""], [3], "key 0: got int"),
        ([bytearray(1)], None, "value 0: got bytearray"),
    ],
)
def test_what_is_not_bytes_is_named(values: list[Any], keys: Any, fact: str) -> None:
    with pytest.raises(TypeError, match=fact):
        encode_records(values, keys, 0, 0, SIZE_MAX)


def test_arguments_that_do_not_fit_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="1 keys for 2 values"):
        encode_records([b"", b""], [b""], 0, 0, SIZE_MAX)
    with pytest.raises(ValueError, match="1 timestamps for 2 values"):
        encode_records([b"", b""], None, [1], 0, SIZE_MAX)
    for start in (-1, 2):
        with pytest.raises(IndexError):
            encode_records([b"", b""], None, 0, start, SIZE_MAX)
    with pytest.raises(ValueError, match="1 keys for 0 values"):
        split_by_key([b""], [], 1)
    with pytest.raises(ValueError, match="0 partitions"):
        split_by_key([], [], 0)
    with pytest.raises(TypeError, match="value 0: got int"):
        check_fields([1], "value")  # type: ignore[list-item]


def test_keys_go_where_other_producers_put_them() -> None:
    chance = random.Random(4)
    for size in range(40):
        key = chance.randbytes(size)
        assert key_hash(key) == kafka_python.murmur2(key) & 0x7FFFFFFF


def test_pairs_are_split_by_key_in_their_order() -> None:
    keys = [None if i % 7 == 0 else b"k%d" % (i % 50) for i in range(1000)]
    values = [b"%d" % i for i in range(1000)]
    parts = split_by_key(keys, values, 3)
    wanted: list[list[tuple[bytes | None, bytes]]] = [[], [], [], []]
    for key, value in zip(keys, values, strict=True):
        wanted[3 if key is None else key_hash(key) % 3].append((key, value))
    assert [list(zip(of, vs, strict=True)) for of, vs in parts] == wanted
    assert all(wanted)


def test_what_is_built_holds_while_another_thread_changes_the_list() -> None:
    """The copying lets the GIL go: what it copies must not be freed meanwhile."""
    values: list[bytes | None] = [bytes([i % 256]) * 2000 for i in range(4000)]
    is_over = threading.Event()

    def change() -> None:
        while not is_over.is_set():
            for i in range(0, len(values), 7):
                values[i] = bytes([i % 256]) * 2000

    thread = threading.Thread(target=change)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        for _ in range(20):
            found = read_back(encode_records(values, None, 0, 0, 1 << 30))
            for i, each in enumerate(found):
                assert each.value == bytes([i % 256]) * 2000
    finally:
        is_over.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_references_are_given_back() -> None:
    value, key = bytes(5000), bytes(4999)
    values, keys = [value] * 10, [key] * 10
    before = sys.getrefcount(value), sys.getrefcount(key)
    for _ in range(10):
        encode_records(values, keys, 0, 0, SIZE_MAX)
        split_by_key(keys, values, 3)
        with pytest.raises(TypeError):
            encode_records([value, 1], None, 0, 0, SIZE_MAX)  # type: ignore[list-item]
    assert (sys.getrefcount(value), sys.getrefcount(key)) == before
