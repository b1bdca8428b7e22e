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

from appliance import errors
from appliance.record import _batch, _batch_builder, _columns, _records, arrow
from tests.support.batch_model import batch_of, record_bytes, stamped, varint

DATA = Path(__file__).parents[1] / "data"
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]

Given = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def golden(name: str) -> bytes:
    lines = (DATA / f"{name}.hex").read_text().splitlines()
    return bytes.fromhex("".join(line for line in lines if not line.startswith("#")))


def rows_of(records: list[_records.Record]) -> list[dict[str, object]]:
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
    assert read(_batch_builder.control_batch("commit", 1, 0, 0, 5)).num_rows == 0


def test_batches_of_all_codecs_follow_each_other() -> None:
    data = b"".join(
        _batch_builder.batch(
            [(i, b"k%d" % i, bytes(i)) for i in range(99)], codec=codec, base_offset=at
        )
        for at, codec in zip(range(0, 500, 100), CODECS, strict=True)
    )
    assert read(data).to_pylist() == rows_of(_batch.records(data))


def test_only_the_offsets_asked_for_are_there() -> None:
    ten = [(0, None, b"v")] * 10
    data = b"".join(_batch_builder.batch(ten, base_offset=at) for at in (0, 10, 20))
    made = read(data, first_offset=5, end_offset=21)
    assert made.column("offset").to_pylist() == list(range(5, 21))
    assert made.column("headers").to_pylist() == [[]] * 16


def test_no_headers_are_of_the_type_that_was_asked_for() -> None:
    data = _batch_builder.batch([(0, None, b"v")] * 3)
    ours = arrow.schema().field("headers").type
    theirs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    for kind in (ours, theirs, ours):
        made = arrow.headers(_columns.columns(data), kind)
        made.validate(full=True)
        assert (made.type, made.to_pylist()) == (kind, [[]] * 3)


def test_metadata_is_of_one_batch() -> None:
    data = _batch_builder.batch([(0, None, b"v")])
    assert arrow.record_batch(data, metadata={"a": "1"}).schema.metadata == {b"a": b"1"}
    assert arrow.record_batch(data, metadata={"b": "2"}).schema.metadata == {b"b": b"2"}
    assert arrow.record_batch(data).schema.metadata is None


def test_a_column_without_nulls_has_no_validity() -> None:
    made = read(_batch_builder.batch([(0, None, b"v"), (0, b"k", b"w")]))
    assert (made.column("key").null_count, made.column("value").null_count) == (1, 0)
    assert made.column("value").buffers()[0] is None


def test_nothing_is_copied_into_arrow() -> None:
    """The bytes are those of the decoder's vectors, which outlive what they were decoded from."""
    data = _batch_builder.batch([(i, b"key", b"value %d" % i) for i in range(1000)], codec="lz4")
    column = arrow.record_batch(data).column("value")
    del data
    gc.collect()
    assert column[999].as_py() == b"value 999"


def test_a_header_name_that_is_not_utf_8_is_replaced() -> None:
    payload = record_bytes(headers=varint(1) + varint(1) + b"\xff" + varint(-1))
    made = read(batch_of(payload))
    assert made.column("headers").to_pylist() == [[{"key": "\ufffd", "value": None}]]


def test_more_bytes_than_allowed_are_refused_with_both_numbers() -> None:
    data = _batch_builder.batch([(0, None, bytes(600))], codec="none") * 2
    with pytest.raises(errors.BatchTooLarge, match=r"1\d{3} bytes of records.*1000 allowed"):
        arrow.record_batch(data, size_max=1000)
    packed = _batch_builder.batch([(0, None, bytes(600))], codec="zstd") * 2
    with pytest.raises(errors.BatchTooLarge):
        arrow.record_batch(packed, size_max=1000)


def transactions() -> list[bytes]:
    """Producers 1 and 2 at the same time: 1 aborts and then commits, 2 commits and then aborts, and
    somebody is there without a transaction."""

    def of(producer: int, value: bytes) -> bytes:
        at = 10 * len(made)
        given = [(0, None, value)] * 10
        return _batch_builder.batch(
            given, base_offset=at, producer_id=producer, producer_epoch=0,
            base_sequence=0 if producer >= 0 else -1, transactional=producer >= 0,
        )  # fmt: skip

    def end(kind: str, producer: int) -> bytes:
        return _batch_builder.control_batch(kind, producer, 0, 0, 5, base_offset=10 * len(made))

    made: list[bytes] = []
    for producer, value in ((1, b"gone"), (2, b"kept"), (-1, b"kept")):
        made.append(of(producer, value))
    made.append(end("abort", 1))
    made.append(of(1, b"kept"))
    made.append(end("commit", 2))
    made.append(of(2, b"gone"))
    made.append(end("commit", 1))
    made.append(end("abort", 2))
    made.append(of(2, b"kept"))
    return made


@pytest.mark.parametrize("pieces", [1, 3, 10])
def test_batches_of_aborted_transactions_are_left_out_piece_by_piece(pieces: int) -> None:
    batches = transactions()
    aborted = _columns.Aborted([(2, 60), (1, 0)])
    step = -(-len(batches) // pieces)
    found = []
    for at in range(0, len(batches), step):
        made = arrow.record_batch(b"".join(batches[at : at + step]), aborted=aborted)
        found += [(row["offset"], row["value"]) for row in made.to_pylist()]
    kept = {start + i for start in (10, 20, 40, 90) for i in range(10)}
    assert found == [(offset, b"kept") for offset in sorted(kept)]


def test_without_a_list_of_the_aborted_all_records_are_there() -> None:
    made = read(b"".join(transactions()))
    assert made.column("value").to_pylist().count(b"gone") == 20


def test_it_is_told_whether_any_batch_is_of_a_transaction() -> None:
    batches = transactions()
    assert not _columns.is_transactional(batches[2])
    assert not _columns.is_transactional(b"")
    assert _columns.is_transactional(batches[2] + batches[3])


def test_the_kind_of_a_timestamp_is_told_record_by_record() -> None:
    times = stamped(_batch_builder.batch([(7, None, b"v")] * 2), 2, 0, append_time_ms=9)
    filled = _columns.columns(_batch_builder.batch([(7, None, b"v")] * 2) + times)
    assert arrow.numbers(pa.int32(), filled.timestamp_type).to_pylist() == [0, 0, 1, 1]
    assert arrow.numbers(pa.int64(), filled.timestamp).to_pylist() == [7, 7, 9, 9]


def test_what_nobody_wants_is_not_copied() -> None:
    data = _batch_builder.batch([(0, b"k", b"v", [("h", b"x")])] * 3, base_offset=5)
    filled = _columns.columns(data, keys=False, values=False, headers=False)
    assert (len(filled), len(filled.key), len(filled.value), len(filled.header_key)) == (3, 0, 0, 0)
    assert filled.next_offset == 8
    assert _columns.columns(b"").next_offset == -1


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
    good = _batch_builder.batch([(0, b"k", b"v")])
    bad = batch_of(payload, records_count=2)
    with pytest.raises(errors.BatchInvalid, match=r"batch refused, .* bytes given: .*records"):
        arrow.record_batch(good + bad)


def test_damage_is_refused_and_a_cut_tail_is_left_out_on_demand() -> None:
    batch = _batch_builder.batch([(0, b"k", b"v")])
    damaged = bytearray(batch)
    damaged[-1] ^= 1
    with pytest.raises(errors.BatchCorrupt):
        arrow.record_batch(damaged)
    with pytest.raises(errors.BatchTorn):
        arrow.record_batch(batch + batch[:-1])
    assert arrow.record_batch(batch + batch[:-1], partial_tail=True).num_rows == 1


def test_pyarrow_is_not_imported_before_it_is_needed() -> None:
    program = "import sys, appliance.record.arrow; sys.exit('pyarrow' in sys.modules)"
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
        data += _batch_builder.batch(
            records, base_offset=base_offset, codec=codec, base_timestamp=0
        )
        base_offset += len(records)
    wanted = [record for record in _batch.records(data) if record.offset >= first_offset]
    assert read(data, first_offset=first_offset).to_pylist() == rows_of(wanted)
