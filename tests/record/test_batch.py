"""The record batch: golden batches of Java, hostile ones, a plain-Python reading as the oracle."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance import errors
from appliance.record import _batch, _batch_builder, _batch_check, _records
from tests.support import batch_model
from tests.support.batch_model import DATA, batch_of, golden, record_bytes, resealed, varint
from tests.support.logs import one_log

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
GOLDEN = sorted(path.stem for path in DATA.glob("*.hex"))

THE_FOUR = [
    (1700000000000, b"k1", b"v1", (("trace", b"7"), ("none", None))),
    (1700000000500, b"gone", None, ()),
    (1699999999000, None, b"x" * 300, ()),
    (1700000000100, b"", b"", ()),
]


def facts(record: _records.Record) -> tuple[object, ...]:
    return record.timestamp, record.key, record.value, record.headers


def small_batch() -> bytes:
    """Short enough to be damaged at every bit: one record with a header, one tombstone."""
    records = [(1000, b"key", b"value", [("h", b"1"), ("n", None)]), (990, b"key", None)]
    return _batch_builder.batch(records, producer_id=5, producer_epoch=1, base_sequence=3)


# Golden batches


def test_a_captured_java_batch_reads_as_it_was_sent() -> None:
    batch = golden("produce-java-4.3.0")
    info = _batch_check.check(batch)
    assert (info.base_offset, info.leader_epoch, info.records_count) == (0, -1, 1)
    assert [facts(record)[1:] for record in _batch.records(batch)] == [(b"k1", b"v1", ())]


def test_stamping_makes_of_the_sent_batch_the_stored_one(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.append(golden("produce-java-4.3.0"))
        assert log.read(0, up_to="end") == golden("fetch-java-4.3.0")


@pytest.mark.parametrize("codec", CODECS)
def test_java_s_four_records_read_the_same_from_every_codec(codec: str) -> None:
    batch = golden(f"java-codec-{codec}")
    info = _batch_check.check(batch, deep=True)
    assert (info.base_offset, info.last_offset, info.codec) == (42, 45, CODECS.index(codec))
    assert (info.producer_id, info.producer_epoch, info.base_sequence) == (7001, 3, 11)
    records = _batch.records(batch)
    assert [facts(record) for record in records] == THE_FOUR
    assert [record.offset for record in records] == [42, 43, 44, 45]


def test_what_is_built_is_java_s_batch_to_the_byte() -> None:
    built = _batch_builder.batch(
        THE_FOUR,
        base_offset=42,
        producer_id=7001,
        producer_epoch=3,
        base_sequence=11,
        leader_epoch=5,
    )
    assert built == golden("java-codec-none")


def test_a_transactional_batch_is_java_s_to_the_byte() -> None:
    producer = {"producer_id": 7001, "producer_epoch": 3, "base_sequence": 11}
    built = _batch_builder.batch(THE_FOUR, transactional=True, **producer)
    assert built == golden("java-transactional")
    assert _batch_check.check(built).is_transactional


@pytest.mark.parametrize("kind", ["commit", "abort"])
def test_a_control_batch_is_java_s_to_the_byte(kind: str) -> None:
    stamps = {"base_offset": 9, "leader_epoch": 2}
    built = _batch_builder.control_batch(kind, 7001, 3, 6, 1700000000000, **stamps)
    assert built == golden(f"java-control-{kind}")
    assert _batch.control(built) == (kind, 6)
    assert _batch.headers(built)[0].is_control


def test_append_time_stands_for_every_record_s_own_timestamp() -> None:
    batch = golden("java-append-time")
    info = _batch.headers(batch)[0]
    assert info.is_append_time
    assert {record.timestamp for record in _batch.records(batch)} == {info.max_timestamp}


@pytest.mark.parametrize("name", GOLDEN)
def test_every_golden_batch_is_legal_in_a_log(name: str) -> None:
    batch = golden(name)
    assert [info.size for info in _batch.headers(batch)] == [len(batch)]
    assert batch_model.crc32c(batch[21:]) == _batch.headers(batch)[0].crc


@pytest.mark.parametrize("name", GOLDEN)
def test_a_batch_cut_at_any_byte_is_torn(name: str) -> None:
    batch = golden(name)
    for size in range(1, len(batch)):
        with pytest.raises(errors.BatchTorn):
            _batch.headers(batch[:size])
        with pytest.raises((errors.BatchTorn, errors.BatchInvalid)):
            _batch_check.check(batch[:size])
        assert _batch.headers(batch[:size], partial_tail=True) == []


# Damage


def test_a_flipped_bit_is_refused_or_outside_the_crc() -> None:
    batch = small_batch()
    wanted = [facts(record) for record in _batch.records(batch)]
    for at in range(len(batch)):
        for bit in range(8):
            damaged = bytearray(batch)
            damaged[at] ^= 1 << bit
            if at < 8 or 12 <= at < 16:  # base offset and leader epoch: the log overwrites them
                _batch_check.check(damaged)
                continue
            with pytest.raises(errors.ApplianceError):
                _batch_check.check(damaged)
            with pytest.raises(errors.ApplianceError):
                _batch.records(damaged)
    assert [facts(record) for record in _batch.records(batch)] == wanted


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (b"", errors.BatchTorn),
        (bytes(61), errors.BatchCorrupt),
        (bytes(16), errors.BatchTorn),
        (small_batch() + b"\0", errors.BatchInvalid),
        (small_batch() * 2, errors.BatchInvalid),
        (resealed(small_batch(), length=-13), errors.BatchCorrupt),
        (resealed(small_batch(), length=48), errors.BatchCorrupt),
        (resealed(small_batch(), length=49), errors.BatchInvalid),
        (resealed(small_batch(), length=(1 << 31) - 1), errors.BatchTorn),
        (resealed(small_batch(), magic=0), errors.BatchMagicUnsupported),
        (resealed(small_batch(), magic=1), errors.BatchMagicUnsupported),
        (resealed(small_batch(), magic=3), errors.BatchMagicUnsupported),
        (bytes(8) + (14).to_bytes(4, "big") + bytes(14), errors.BatchMagicUnsupported),
        (resealed(small_batch(), crc=7), errors.BatchCorrupt),
        (resealed(small_batch(), attributes=5), errors.BatchCodecUnknown),
        (resealed(small_batch(), attributes=7), errors.BatchCodecUnknown),
        (resealed(small_batch(), attributes=0x08), errors.BatchTimestampInvalid),
        (resealed(small_batch(), attributes=0x20), errors.BatchInvalid),
        (resealed(small_batch(), attributes=0x40), errors.BatchInvalid),
        (resealed(small_batch(), attributes=0x80), errors.BatchInvalid),
        (resealed(small_batch(), attributes=-0x8000), errors.BatchInvalid),
        (resealed(small_batch(), records_count=0), errors.BatchInvalid),
        (resealed(small_batch(), records_count=-1), errors.BatchInvalid),
        (resealed(small_batch(), records_count=1, last_offset_delta=0), errors.BatchInvalid),
        (resealed(small_batch(), records_count=3, last_offset_delta=2), errors.BatchInvalid),
        (
            resealed(small_batch(), records_count=(1 << 31) - 1, last_offset_delta=(1 << 31) - 2),
            errors.BatchInvalid,
        ),
        (resealed(small_batch(), last_offset_delta=2), errors.BatchInvalid),
        (resealed(small_batch(), last_offset_delta=-1), errors.BatchInvalid),
        (resealed(small_batch(), producer_id=-2), errors.BatchInvalid),
        (resealed(small_batch(), producer_epoch=-1), errors.BatchInvalid),
        (resealed(small_batch(), base_sequence=-1), errors.BatchInvalid),
        (resealed(small_batch(), producer_id=-1, attributes=0x10), errors.BatchInvalid),
        (
            resealed(
                golden("java-codec-zstd"),
                records_count=(1 << 31) - 1,
                last_offset_delta=(1 << 31) - 2,
            ),
            errors.BatchInvalid,
        ),
        (golden("java-emptied"), errors.BatchInvalid),
        (golden("java-cleaned"), errors.BatchInvalid),
        (golden("java-control-commit"), errors.BatchInvalid),
    ],
    ids=[
        "nothing",
        "zeros, a header long",
        "zeros, up to the magic byte",
        "a byte behind the batch",
        "two batches",
        "length below zero",
        "length short of a header",
        "length of a header, records behind it",
        "length of 2 GiB",
        "magic 0",
        "magic 1",
        "magic 3",
        "a whole message of magic 0, shorter than a header",
        "wrong CRC",
        "codec 5",
        "codec 7",
        "append time claimed by a client",
        "control batch from a client",
        "delete horizon from a client",
        "attribute bit 7",
        "attribute bit 15",
        "no records",
        "a negative count",
        "a count below the truth",
        "a count above the truth",
        "two billion records",
        "last offset delta above the count",
        "last offset delta below zero",
        "producer id -2",
        "producer without an epoch",
        "producer without a sequence",
        "transactional without a producer",
        "two billion compressed records",
        "an emptied batch",
        "a cleaned batch",
        "a commit marker",
    ],
)
def test_a_client_s_batch_is_refused(batch: bytes, error: type[errors.ApplianceError]) -> None:
    with pytest.raises(error):
        _batch_check.check(batch)


HOSTILE_RECORDS = {
    "attributes not 0": record_bytes(attributes=1),
    "length -1": record_bytes(size=varint(-1)),
    "length 0": varint(0) + record_bytes()[1:],
    "length one short": record_bytes(size=varint(5)),
    "length one long": record_bytes(size=varint(7)),
    "length 2^31 - 1": record_bytes(size=varint((1 << 31) - 1)),
    "length of six bytes": record_bytes(size=b"\x8c\x80\x80\x80\x80\x00"),
    "length above 32 bits": record_bytes(size=b"\xff\xff\xff\xff\x1f"),
    "length that never ends": b"\xff" * 20,
    "timestamp of eleven bytes": record_bytes(timestamp=b"\x80" * 10 + b"\x00"),
    "timestamp above 64 bits": record_bytes(timestamp=b"\xff" * 9 + b"\x02"),
    "timestamp that overflows": record_bytes(timestamp=varint((1 << 63) - 1)),
    "offset delta 1 first": record_bytes(offset=varint(1)),
    "offset delta -1": record_bytes(offset=varint(-1)),
    "key length -2": record_bytes(key=varint(-2)),
    "key longer than the record": record_bytes(key=varint(5)),
    "key length 2^31 - 1": record_bytes(key=varint((1 << 31) - 1)),
    "key length below -2^31": record_bytes(key=b"\xff\xff\xff\xff\x7f"),
    "value length -2": record_bytes(value=varint(-2)),
    "value longer than the record": record_bytes(value=varint(2)),
    "header count -1": record_bytes(headers=varint(-1)),
    "header count 2^31 - 1": record_bytes(headers=varint((1 << 31) - 1)),
    "header count above the bytes left": record_bytes(headers=varint(2) + b"\0\0\0"),
    "header with a null key": record_bytes(headers=varint(1) + varint(-1) + varint(-1)),
    "header value length -2": record_bytes(headers=varint(1) + b"\0" + varint(-2)),
    "header cut off": record_bytes(headers=varint(1) + varint(3) + b"ab"),
    "bytes behind the headers": record_bytes(headers=varint(0) + b"\0"),
    "bytes behind the record": record_bytes() + b"\0",
    "nothing at all": b"",
}


@pytest.mark.parametrize("payload", HOSTILE_RECORDS.values(), ids=HOSTILE_RECORDS)
def test_a_hostile_record_is_refused_here_and_by_the_oracle(payload: bytes) -> None:
    batch = batch_of(payload, base_timestamp=5, max_timestamp=5)
    with pytest.raises(batch_model.Refused):
        batch_model.read_client_batch(batch)
    with pytest.raises(errors.BatchInvalid):
        _batch_check.check(batch)
    with pytest.raises(errors.BatchInvalid):
        _batch_check.check(_packed(batch), deep=True)


def _packed(batch: bytes) -> bytes:
    """The same records compressed, so that only a deep check sees them."""
    return resealed(batch[:61] + gzip.compress(batch[61:]), attributes=1)


@pytest.mark.parametrize("offsets", [(0, 0), (1, 0), (0, 2)], ids=["repeated", "falling", "gap"])
def test_offset_deltas_count_up_from_zero(offsets: tuple[int, int]) -> None:
    payload = b"".join(record_bytes(offset=varint(offset)) for offset in offsets)
    with pytest.raises(errors.BatchInvalid):
        _batch_check.check(batch_of(payload, 2))


def test_a_log_may_have_gaps_but_no_repeated_offsets() -> None:
    with_gap = record_bytes(offset=varint(1)) + record_bytes(offset=varint(4))
    batch = batch_of(with_gap, 2, base_offset=10, last_offset_delta=7)
    assert [record.offset for record in _batch.records(batch)] == [11, 14]
    for offsets in [(1, 1), (4, 1), (4, 8)]:
        payload = b"".join(record_bytes(offset=varint(offset)) for offset in offsets)
        with pytest.raises(errors.BatchInvalid):
            _batch.records(batch_of(payload, 2, base_offset=10, last_offset_delta=7))


@pytest.mark.parametrize(
    "fields",
    [
        {"base_offset": -1},
        {"base_offset": (1 << 63) - 1},
        {"last_offset_delta": -1},
        {"last_offset_delta": 0},
        {"records_count": -1},
        {"records_count": 0},
        {"records_count": 100, "last_offset_delta": 99},
        {"attributes": 5},
        {"producer_id": -2},
    ],
    ids=str,
)
def test_no_writer_can_have_left_this_in_a_log(fields: dict[str, int]) -> None:
    with pytest.raises(errors.BatchCorrupt):
        _batch.headers(resealed(small_batch(), **fields))


def test_a_plain_producer_s_epoch_and_sequence_mean_nothing() -> None:
    for epoch, sequence in [(-1, -1), (0, 0), (7, -3)]:
        fields = {"producer_epoch": epoch, "base_sequence": sequence}
        _batch_check.check(resealed(small_batch(), producer_id=-1, **fields))


def test_a_refusal_has_the_numbers_in_it() -> None:
    with pytest.raises(errors.BatchCorrupt) as refusal:
        _batch_check.check(resealed(small_batch(), crc=7))
    text = str(refusal.value)
    wanted = batch_model.crc32c(small_batch()[21:])
    for words in ("CRC 0x00000007", f"computed {wanted:#010x}", "2 records", "producer 5"):
        assert words in text


# Stamps


@pytest.mark.parametrize("lie", [0, 1 << 62, -1])
def test_a_lying_largest_timestamp_is_put_right(lie: int, tmp_path: Path) -> None:
    batch = bytearray(resealed(small_batch(), max_timestamp=lie))
    assert _batch_check.check(batch).max_timestamp == 1000
    with one_log(tmp_path) as log:
        log.append_in_place(batch, leader_epoch=4)
    assert bytes(batch) == resealed(small_batch(), leader_epoch=4)


def test_a_refused_batch_is_not_stamped(tmp_path: Path) -> None:
    batch = bytearray(resealed(small_batch(), crc=7))
    before = bytes(batch)
    with one_log(tmp_path) as log, pytest.raises(errors.BatchCorrupt):
        log.append_in_place(batch, leader_epoch=9)
    assert bytes(batch) == before


def test_append_time_changes_flag_timestamp_and_crc_only(tmp_path: Path) -> None:
    batch = bytearray(small_batch())
    with one_log(tmp_path, message_timestamp_type="LogAppendTime") as log:
        log.append_in_place(batch, leader_epoch=4, now_ms=123456)
    fields = {"leader_epoch": 4, "attributes": 8, "max_timestamp": 123456}
    assert bytes(batch) == resealed(small_batch(), **fields)
    assert {record.timestamp for record in _batch.records(batch)} == {123456}


# Building and reading


def test_records_come_back_as_record_objects_and_tuples_alike() -> None:
    given_records = [_records.Record(5, b"k", None, [("h", b"v")]), (6, None, b"v"), (7, b"", b"")]
    records = _batch.records(_batch_builder.batch(given_records, base_offset=3))
    assert [record.offset for record in records] == [3, 4, 5]
    assert [facts(record) for record in records] == [
        (5, b"k", None, (("h", b"v"),)),
        (6, None, b"v", ()),
        (7, b"", b"", ()),
    ]


def test_a_batch_of_no_records_is_not_built() -> None:
    with pytest.raises(errors.BatchInvalid, match="0 records"):
        _batch_builder.batch([])


def test_text_is_not_taken_for_bytes() -> None:
    with pytest.raises(TypeError, match="value is bytes or None, not str"):
        _batch_builder.batch([(0, None, "text")])  # type: ignore[list-item]


def test_an_unknown_codec_is_not_built() -> None:
    for codec in ("brotli", 5, -1):
        with pytest.raises(errors.BatchCodecUnknown):
            _batch_builder.batch([(0, None, None)], codec=codec)


def test_batches_one_behind_the_other_are_all_read_and_markers_passed_over() -> None:
    data = (
        _batch_builder.batch([(1, b"a", b"1")], base_offset=0)
        + _batch_builder.control_batch("abort", 5, 1, 0, 2, base_offset=1)
        + _batch_builder.batch([(3, b"b", b"2")] * 2, base_offset=2, codec="lz4")
    )
    assert [info.base_offset for info in _batch.headers(data)] == [0, 1, 2]
    assert [info.position for info in _batch.headers(data)][:2] == [0, 70]
    assert [record.offset for record in _batch.records(data)] == [0, 2, 3]


def test_a_cut_tail_is_left_out_on_demand_only() -> None:
    data = small_batch() + small_batch()[:-1]
    with pytest.raises(errors.BatchTorn, match=f"position {len(small_batch())}"):
        _batch.records(data)
    assert len(_batch.records(data, partial_tail=True)) == 2


def test_a_header_name_that_is_not_utf_8_is_readable() -> None:
    payload = record_bytes(headers=varint(1) + varint(1) + b"\xff" + varint(-1))
    assert _batch.records(batch_of(payload))[0].headers == (("\ufffd", None),)


def test_a_decompression_bomb_stops_at_the_bound() -> None:
    batch = _batch_builder.batch([(0, None, bytes(1 << 20))], codec="zstd")
    assert len(batch) < 300
    with pytest.raises(errors.BatchTooLarge, match="65536 allowed"):
        _batch.records(batch, size_max=1 << 16)


def test_a_compacted_topic_s_records_need_keys() -> None:
    for codec in CODECS:
        _batch_check.check(
            _batch_builder.batch([(0, b"k", None), (0, b"", b"v")], codec=codec), keys_required=True
        )
        keyless = _batch_builder.batch([(0, b"k", b"v"), (0, None, b"v")], codec=codec)
        _batch_check.check(keyless)
        with pytest.raises(errors.BatchInvalid):
            _batch_check.check(keyless, keys_required=True)


def test_records_are_values() -> None:
    import pickle

    record = _batch.records(small_batch())[0]
    assert record == _batch.records(small_batch())[0] != _batch.records(small_batch())[1]
    assert pickle.loads(pickle.dumps(record)) == record
    assert len({record, _batch.records(small_batch())[0]}) == 1
    assert "offset=0" in repr(record)


# Against the oracle

texts = st.none() | st.binary(max_size=40)
records_lists = st.lists(
    st.tuples(
        st.integers(-(1 << 40), 1 << 40),
        texts,
        texts,
        st.lists(st.tuples(st.text(max_size=8), texts), max_size=4),
    ),
    min_size=1,
    max_size=20,
)


def _unpacked(codec: str, payload: bytes) -> bytes:
    """By the libraries' plain one-shot calls, not by the product's bounded ones."""
    if codec == "gzip":
        return gzip.decompress(payload)
    if codec == "lz4":
        return lz4.frame.decompress(payload)
    if codec == "zstd":
        return zstandard.ZstdDecompressor().decompress(payload)
    return payload


@settings(max_examples=200, deadline=None)
@given(records_lists, st.sampled_from(["none", "gzip", "lz4", "zstd"]), st.integers(0, 1 << 50))
def test_the_oracle_reads_what_was_built(
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    codec: str,
    base_offset: int,
) -> None:
    batch = _batch_builder.batch(records, base_offset=base_offset, codec=codec)
    model = batch_model.read_header(batch)
    read = batch_model.read_records(model, _unpacked(codec, batch[61:]))
    assert model.crc == batch_model.crc32c(batch[21:])
    assert model.max_timestamp == max(timestamp for timestamp, *_ in records)
    assert [(r.timestamp, r.key, r.value) for r in read] == [r[:3] for r in records]
    assert [(each.offset, facts(each)) for each in _batch.records(batch)] == [
        (r.offset, (r.timestamp, r.key, r.value, tuple((k.decode(), v) for k, v in r.headers)))
        for r in read
    ]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_product_and_oracle_refuse_the_same_mutated_batches(data: st.DataObject) -> None:
    """Bytes of the records and header fields are changed and the CRC made right again."""
    batch = bytearray(small_batch())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(21, len(batch) - 1))
        batch[at] = data.draw(
            st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF]) | st.integers(0, 255)
        )
    if data.draw(st.booleans()):
        at = data.draw(st.integers(61, len(batch)))
        batch[at:at] = data.draw(st.binary(max_size=12))
    sealed = resealed(batch)
    try:
        wanted = batch_model.read_client_batch(sealed)
    except batch_model.Refused:
        if batch_model.read_header(sealed).attributes & 7 not in (1, 2, 3, 4):
            with pytest.raises(errors.ApplianceError):
                _batch_check.check(sealed)
        return
    assert _batch_check.check(sealed).max_timestamp == max(r.timestamp for r in wanted.records)
    assert [(r.offset, r.timestamp, r.key, r.value) for r in _batch.records(sealed)] == [
        (r.offset, r.timestamp, r.key, r.value) for r in wanted.records
    ]


# The walk's fast path, which may only ever be fast: the oracle and the full check say what is right

shaped_records = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 63, 64, 8191, 8192, 1 << 20, 1 << 34, 1 << 54, 1 << 55, -1, -65]),
        st.none() | st.sampled_from([0, 1, 62, 63, 64, 65]).map(bytes),
        st.none() | st.sampled_from([0, 1, 44, 63, 64, 100, 8100, 8191, 8192, 9000]).map(bytes),
        st.lists(st.tuples(st.sampled_from(["", "h", "h" * 64]), texts), max_size=3),
    ),
    min_size=1,
    max_size=16,
)
edges_of_time = st.sampled_from([0, 1700000000000, 1 << 62, -(1 << 62), (1 << 63) - 1, -(1 << 63)])


def agrees_with_oracle_and_full_check(sealed: bytes) -> None:
    """`check` walks fast, `records` reads each record by the full check, the oracle is Python."""
    try:
        wanted = batch_model.read_client_batch(sealed)
    except batch_model.Refused:
        with pytest.raises(errors.ApplianceError):
            _batch_check.check(sealed)
        return
    largest = max(record.timestamp for record in wanted.records)
    assert _batch_check.check(sealed).max_timestamp == largest
    read = [(r.offset, r.timestamp, r.key, r.value) for r in _batch.records(sealed)]
    assert read == [(r.offset, r.timestamp, r.key, r.value) for r in wanted.records]


@settings(max_examples=100, deadline=None)
@given(shaped_records, edges_of_time, st.data())
def test_records_of_every_size_are_judged_as_the_oracle_does(
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    base_timestamp: int,
    data: st.DataObject,
) -> None:
    sealed = _batch_builder.batch(records)
    agrees_with_oracle_and_full_check(resealed(sealed, base_timestamp=base_timestamp))
    # mutated: one byte in the first hundred of the records, where the varints stand close
    batch = bytearray(sealed)
    at = data.draw(st.integers(61, min(len(batch) - 1, 161)))
    batch[at] = data.draw(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFE, 0xFF]))
    agrees_with_oracle_and_full_check(resealed(batch, base_timestamp=base_timestamp))


def test_a_changed_byte_is_judged_as_the_oracle_does() -> None:
    records = [(5, b"k", b"v" * 70, [("h", b"1"), ("", None)]), (3, None, b"", []), (9, b"", b"w")]
    batch = _batch_builder.batch([(0, None, b"x" * 60), *records, (4, b"z", b"y" * 40)])
    for at in [at for at in range(61, len(batch)) if batch[at] not in b"xyv"]:
        near = {batch[at] + step & 0xFF for step in (-2, -1, 1, 2)}
        for byte in near | {0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0x81, 0x82, 0xFE, 0xFF}:
            changed = batch[:at] + bytes([byte]) + batch[at + 1 :]
            agrees_with_oracle_and_full_check(resealed(changed))


@pytest.mark.parametrize("field", ["size", "offset", "key", "value"])
def test_longer_forms_of_the_same_number_are_as_good(field: str) -> None:
    """Java reads varints that end in needless zeros, and so do both the walk and the full check."""
    number = {"size": varint(36), "offset": b"\0", "key": b"\1", "value": varint(30)}[field]
    fields = {"value": varint(30) + bytes(30)}
    for zeros in range(4):
        long = bytes(byte | 0x80 for byte in number) + b"\x80" * zeros + b"\0"
        fields_now = {**fields, field: long + bytes(30) if field == "value" else long}
        agrees_with_oracle_and_full_check(batch_of(record_bytes(**fields_now) + b"", 1))
        twice = record_bytes(**fields_now) + record_bytes(offset=varint(1), value=fields["value"])
        agrees_with_oracle_and_full_check(batch_of(twice, 2))


def test_a_null_header_name_is_refused_in_every_form() -> None:
    for name in (varint(-1), b"\x81\0", b"\x81\x80\0"):
        payload = record_bytes(
            headers=varint(1) + name + varint(2) + b"ab", value=varint(9) + b"123456789"
        )
        batch = batch_of(payload + record_bytes(offset=varint(1)), 2)
        agrees_with_oracle_and_full_check(batch)
        with pytest.raises(errors.BatchInvalid):
            _batch_check.check(batch)


@pytest.mark.parametrize("count", [64, 65, 8192, 8193, 9000])
def test_offset_deltas_of_all_sizes_count_up(count: int) -> None:
    batch = _batch_builder.batch([(i - 30, None, None) for i in range(count)])
    assert _batch_check.check(batch).max_timestamp == count - 31
    for skipped in (63, count - 1):
        payload = b"".join(record_bytes(offset=varint(i + (i >= skipped))) for i in range(count))
        with pytest.raises(errors.BatchInvalid):
            _batch_check.check(batch_of(payload, count))


def test_only_falling_timestamps_have_the_first_as_the_largest() -> None:
    batch = _batch_builder.batch(
        [(1000 - 70 * i, None, bytes(30)) for i in range(200)], base_timestamp=1500
    )
    assert _batch_check.check(resealed(batch, max_timestamp=0)).max_timestamp == 1000


def test_random_bytes_behind_a_valid_header_never_crash() -> None:
    rng = random.Random(7)
    for _ in range(3000):
        batch = batch_of(
            rng.randbytes(rng.randrange(80)), rng.randrange(1, 4), attributes=rng.randrange(5)
        )
        for read in (_batch_check.check, _batch.headers, _batch.records):
            try:
                read(batch)
            except errors.ApplianceError:
                continue
