"""Columns of a log's records: the same records as `_batch.records`, in Arrow's layout."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance import _batch, arrow, errors
from tests.support.batch_model import batch_of, record_bytes, varint

DATA = Path(__file__).parent / "data"
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]

Given = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def golden(name: str) -> bytes:
    lines = (DATA / f"{name}.hex").read_text().splitlines()
    return bytes.fromhex("".join(line for line in lines if not line.startswith("#")))


def rows_of(records: list[_batch.Record]) -> list[dict[str, object]]:
    return [
        {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": record.key,
            "value": record.value,
            "headers": [{"key": name, "value": value} for name, value in record.headers],
        }
        for record in records
    ]


def read(data: bytes, **options: int) -> pa.RecordBatch:
    """The columns, after Arrow has gone through every one of them."""
    made = arrow.record_batch(data, **options)
    made.validate(full=True)
    assert made.schema == arrow.schema()
    return made


@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("*.hex")))
def test_java_s_batches_come_out_as_columns(name: str) -> None:
    assert read(golden(name)).to_pylist() == rows_of(_batch.records(golden(name)))


def test_no_data_is_no_rows() -> None:
    assert read(b"").num_rows == 0
    assert read(_batch.build_control("commit", 1, 0, 0, 5)).num_rows == 0


def test_batches_of_all_codecs_follow_each_other() -> None:
    data = b"".join(
        _batch.build([(i, b"k%d" % i, bytes(i)) for i in range(99)], codec=codec, base_offset=at)
        for at, codec in zip(range(0, 500, 100), CODECS, strict=True)
    )
    assert read(data).to_pylist() == rows_of(_batch.records(data))


def test_only_the_offsets_asked_for_are_there() -> None:
    data = b"".join(_batch.build([(0, None, b"v")] * 10, base_offset=at) for at in (0, 10, 20))
    made = read(data, first_offset=5, end_offset=21)
    assert made.column("offset").to_pylist() == list(range(5, 21))
    assert made.column("headers").to_pylist() == [[]] * 16


def test_a_column_without_nulls_has_no_validity() -> None:
    made = read(_batch.build([(0, None, b"v"), (0, b"k", b"w")]))
    assert (made.column("key").null_count, made.column("value").null_count) == (1, 0)
    assert made.column("value").buffers()[0] is None


def test_nothing_is_copied_into_arrow() -> None:
    """The bytes are those of the decoder's vectors, which outlive what they were decoded from."""
    data = _batch.build([(i, b"key", b"value %d" % i) for i in range(1000)], codec="lz4")
    column = arrow.record_batch(data).column("value")
    del data
    gc.collect()
    assert column[999].as_py() == b"value 999"


def test_a_header_name_that_is_not_utf_8_is_replaced() -> None:
    payload = record_bytes(headers=varint(1) + varint(1) + b"\xff" + varint(-1))
    made = read(batch_of(payload))
    assert made.column("headers").to_pylist() == [[{"key": "\ufffd", "value": None}]]


def test_more_bytes_than_allowed_are_refused_with_both_numbers() -> None:
    data = _batch.build([(0, None, bytes(600))], codec="none") * 2
    with pytest.raises(errors.BatchTooLarge, match=r"1\d{3} bytes of records.*1000 allowed"):
        arrow.record_batch(data, size_max=1000)
    packed = _batch.build([(0, None, bytes(600))], codec="zstd") * 2
    with pytest.raises(errors.BatchTooLarge):
        arrow.record_batch(packed, size_max=1000)


LONG = record_bytes(value=varint(20) + bytes(20))  # as many bytes as several records may have


@pytest.mark.parametrize(
    "payload",
    [
        record_bytes(offset=varint(0)) * 2,
        record_bytes(offset=varint(1)) + record_bytes(offset=varint(0)),
        record_bytes(offset=varint(0)) + record_bytes(offset=varint(2)),
        LONG,
        record_bytes(offset=varint(0)) + record_bytes(offset=varint(1)) + b"\0",
        LONG + record_bytes(offset=varint(1))[:-1],
    ],
    ids=["one twice", "descending", "behind the last", "too few", "bytes behind", "cut"],
)
def test_records_against_the_rules_are_refused_with_their_batch(payload: bytes) -> None:
    good = _batch.build([(0, b"k", b"v")])
    bad = batch_of(payload, records_count=2)
    with pytest.raises(errors.BatchInvalid, match=r"batch refused, .* bytes given: .*records"):
        arrow.record_batch(good + bad)


def test_damage_is_refused_and_a_cut_tail_is_left_out_on_demand() -> None:
    batch = _batch.build([(0, b"k", b"v")])
    damaged = bytearray(batch)
    damaged[-1] ^= 1
    with pytest.raises(errors.BatchCorrupt):
        arrow.record_batch(damaged)
    with pytest.raises(errors.BatchTorn):
        arrow.record_batch(batch + batch[:-1])
    assert arrow.record_batch(batch + batch[:-1], partial_tail=True).num_rows == 1


def test_pyarrow_is_not_imported_before_it_is_needed() -> None:
    program = "import sys, appliance.arrow; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


texts = st.none() | st.binary(max_size=30)
records_lists = st.lists(
    st.tuples(
        st.integers(-(1 << 62), 1 << 62),
        texts,
        texts,
        st.lists(st.tuples(st.text(max_size=6), texts), max_size=3),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(records_lists, st.sampled_from(CODECS)), max_size=4), st.integers(0, 40))
def test_columns_and_record_objects_agree(
    batches: list[tuple[list[Given], str]], first_offset: int
) -> None:
    data, base_offset = b"", 0
    for records, codec in batches:
        data += _batch.build(records, base_offset=base_offset, codec=codec, base_timestamp=0)
        base_offset += len(records)
    wanted = [record for record in _batch.records(data) if record.offset >= first_offset]
    assert read(data, first_offset=first_offset).to_pylist() == rows_of(wanted)
