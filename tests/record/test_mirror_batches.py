"""What a mirror makes of fetched batches: committed ones only, offsets without a gap."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from appliance._crc import crc32c
from appliance.errors import BatchCorrupt, BatchTorn
from appliance.record import _batch, _batch_builder, _batch_check, _mirror_batches
from tests.support.batch_model import retained, stamped
from tests.support.logs import NOW, bases, batch, end_txn, marker, one_log, produced, values

SPAN_MAX = 2**31 - 1


def spans(data: bytes) -> list[tuple[int, int, int]]:
    """Of each batch: first and last offset, and how many records there are."""
    return [(each.base_offset, each.last_offset, each.records_count)
            for each in _batch.headers(data)]


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "snappy", "zstd"])
def test_a_batch_stays_as_it_was_compressed(codec: str) -> None:
    data = batch("a", "b", codec=codec, base_offset=7)
    assert _mirror_batches.kept(data, 7, []) == (data, 9, 2)


def test_what_belongs_to_a_producer_of_the_source_is_blanked() -> None:
    data = produced(3, count=2, base_offset=0, codec="gzip")
    kept = _mirror_batches.kept(data, 0, [])
    (info,) = _batch.headers(kept.data)  # the CRC is checked by this
    assert (info.producer_id, info.producer_epoch, info.base_sequence) == (-1, -1, -1)
    assert kept.data[61:] == data[61:]
    assert values(kept.data) == ["7.0.3", "7.0.4"]


def test_an_empty_batch_stands_for_offsets_that_are_missing() -> None:
    data = batch("a", base_offset=3) + batch("b", base_offset=9)
    kept = _mirror_batches.kept(data, 0, [])
    assert spans(kept.data) == [(0, 2, 0), (3, 3, 1), (4, 8, 0), (9, 9, 1)]
    assert (kept.next_offset, kept.records) == (10, 2)


def test_batches_below_the_next_offset_and_one_cut_off_are_left_out() -> None:
    whole = batch("a", base_offset=0) + batch("b", base_offset=1) + batch("c", base_offset=2)
    assert spans(_mirror_batches.kept(whole[:-1], 1, []).data) == [(1, 1, 1)]


def test_a_batch_that_begins_below_the_next_offset_comes_whole() -> None:
    kept = _mirror_batches.kept(batch("a", "b", "c", base_offset=0), 1, [])
    assert spans(kept.data) == [(0, 2, 3)]


def transactions(tmp_path: Path) -> tuple[bytes, list[tuple[int, int]]]:
    """One committed, one aborted, a plain batch between them, and who was aborted."""
    with one_log(tmp_path) as log:
        log.append(produced(0, 2, pid=1, txn=True))
        log.append(produced(0, 2, pid=2, txn=True))
        log.append(batch("plain"))
        end_txn(log, "abort", pid=2)
        end_txn(log, "commit", pid=1)
        log.append(produced(2, 1, pid=2, txn=True))
        end_txn(log, "commit", pid=2)
        log.flush()
        return log.read(0), [(2, 2)]


def test_only_committed_records_are_kept_and_every_offset_is_accounted_for(
    tmp_path: Path,
) -> None:
    data, aborted = transactions(tmp_path)
    kept = _mirror_batches.kept(data, 0, aborted)
    assert spans(kept.data) == [(0, 1, 2), (2, 3, 0), (4, 4, 1), (5, 6, 0), (7, 7, 1), (8, 8, 0)]
    assert values(kept.data) == ["1.0.0", "1.0.1", "plain", "2.0.2"]
    assert not any(each.is_transactional or each.is_control for each in _batch.headers(kept.data))


def test_a_log_takes_what_is_kept_and_comes_out_the_same(tmp_path: Path) -> None:
    data, aborted = transactions(tmp_path / "source")
    kept = _mirror_batches.kept(data, 0, aborted)
    with one_log(tmp_path / "target", mirror_source="cluster/topic") as log:
        log.append_mirrored(kept.data)
        log.flush()
        assert spans(log.read(0)) == spans(kept.data)


def test_committed_batches_come_one_by_one_for_a_broker_that_gives_offsets(
    tmp_path: Path,
) -> None:
    data, aborted = transactions(tmp_path)
    found, next_offset = _mirror_batches.committed(data, 0, aborted)
    assert [(each.runs, each.records) for each in found] == [
        ([(0, 2)], 2), ([(4, 1)], 1), ([(7, 1)], 1)]
    assert next_offset == 9
    assert all(each.is_as_produced for each in found)
    for each in found:
        _mirror_batches.number(each.data, 77, 3, 5, True)
        info = _batch_check.check(bytes(each.data))
        assert (info.producer_id, info.producer_epoch, info.base_sequence) == (77, 3, 5)
        assert info.is_transactional
        assert bases(bytes(each.data)) == [0]


def test_what_no_broker_takes_from_a_producer_is_told_apart() -> None:
    whole = batch("a", "b", "c", base_offset=4)
    compacted = retained(whole, [0, 2])
    of_the_log = stamped(whole, 4, 0, append_time_ms=5)
    for data, offset, wanted in ((whole, 0, True), (whole, 5, False), (compacted, 0, False),
                                 (of_the_log, 0, False)):
        (found,), _ = _mirror_batches.committed(data, offset, [])
        assert found.is_as_produced is wanted


def facts(data: bytes | bytearray) -> list[tuple[int, bytes | None, bytes | None, object]]:
    return [(each.timestamp, each.key, each.value, each.headers) for each in _batch.records(data)]


def small(seed: int, count: int = 40) -> tuple[list[bytes], list[int]]:
    """Batches of any time and size, one behind the other, and where each begins."""
    chance = random.Random(seed)
    found, offsets, offset = [], [], 10
    for _ in range(count):
        records = [
            (NOW + chance.randint(-(10**7), 10**7),
             chance.choice([None, b"k" * chance.randint(0, 90)]),
             chance.choice([None, chance.randbytes(chance.choice([0, 1, 60, 130, 20_000]))]),
             [("h", chance.choice([None, b"x" * chance.randint(0, 200)]))] * chance.randint(0, 2))
            for _ in range(chance.randint(1, 30))
        ]
        found.append(_batch_builder.batch(records, base_offset=offset))
        offsets.append(offset)
        offset += len(records)
    return found, [*offsets, offset]


@pytest.mark.parametrize("join_max", [0, 62, 5_000, 100_000, 1 << 30])
@pytest.mark.parametrize("seed", range(5))
def test_small_batches_are_joined_as_far_as_they_fit(seed: int, join_max: int) -> None:
    batches, offsets = small(seed)
    found, next_offset = _mirror_batches.committed(b"".join(batches), 10, [], join_max)
    assert next_offset == offsets[-1]
    at = 10
    for each in found:
        assert each.runs == [(at, each.records)]
        _mirror_batches.number(each.data, 77, 3, 5)
        info = _batch_check.check(bytes(each.data), deep=True)  # as a broker checks what it is sent
        assert info.records_count == each.records
        assert info.max_timestamp == max(fact[0] for fact in facts(each.data))
        assert len(each.data) <= join_max or each.records in map(int.__sub__, offsets[1:], offsets)
        at += each.records
    assert [fact for each in found for fact in facts(each.data)] == [
        fact for each in batches for fact in facts(each)]
    if join_max == 1 << 30:
        assert len(found) == 1


def test_offsets_that_are_missing_between_joined_batches_are_told() -> None:
    data = (batch("a", "b", base_offset=3) + batch("c", base_offset=5) + batch("d", base_offset=9)
            + marker("commit") + batch("e", base_offset=11))
    (found,), next_offset = _mirror_batches.committed(data, 0, [], 1000)
    assert found.runs == [(3, 3), (9, 1), (11, 1)]
    _mirror_batches.number(found.data, 1, 0, 0)
    assert (values(bytes(found.data)), next_offset) == ([*"abcde"], 12)


def test_what_cannot_be_joined_stands_for_itself() -> None:
    whole = batch("a", "b", base_offset=0)
    of_the_log = stamped(batch("c", base_offset=2), 2, 0, append_time_ms=5)
    packed = batch("d", base_offset=3, codec="lz4")
    compacted = retained(batch("e", "f", base_offset=4), [1])
    data = (whole + of_the_log + packed + stamped(packed, 4, 0) + compacted
            + batch("g", base_offset=6) + batch("h", base_offset=7))
    found, _ = _mirror_batches.committed(data, 1, [], 1000)
    assert [each.records for each in found] == [2, 1, 1, 1, 1, 2]


def test_records_that_are_not_what_their_batch_says_go_as_they_are() -> None:
    """Nobody knows what they mean: the target says no, and names the batch."""
    broken = bytearray(batch("a", "b", base_offset=1))
    broken[61] = 2  # the length of the first record
    broken[17:21] = crc32c(bytes(broken[21:])).to_bytes(4, "big")
    data = batch("x", base_offset=0) + bytes(broken) + batch("y", base_offset=3)
    found, _ = _mirror_batches.committed(data, 0, [], 1000)
    assert [each.runs for each in found] == [[(0, 1)], [(1, 2)], [(3, 1)]]
    assert found[1].data == broken


def test_a_timestamp_that_is_too_far_from_the_first_is_not_joined() -> None:
    ends = [_batch_builder.batch([(time, b"k", b"v")], base_offset=i)
            for i, time in enumerate((-(2**62) - 2**61, 2**62, 2**62 + 5))]
    found, _ = _mirror_batches.committed(b"".join(ends), 0, [], 1000)
    assert [each.runs for each in found] == [[(0, 1)], [(1, 2)]]
    _mirror_batches.number(found[1].data, 1, 0, 0)
    assert [fact[0] for fact in facts(found[1].data)] == [2**62, 2**62 + 5]


def test_damage_is_not_sealed_in() -> None:
    damaged = bytearray(produced(0, 3, base_offset=0))
    damaged[-1] ^= 1
    with pytest.raises(BatchCorrupt, match="position 0 of"):
        _mirror_batches.kept(damaged, 0, [])
    with pytest.raises(BatchTorn):
        _mirror_batches.number(damaged[:-1], 1, 0, 0)


@pytest.mark.parametrize("size", [1, SPAN_MAX, SPAN_MAX + 1, 5 * 10**9])
def test_a_gap_of_any_size_is_filled(size: int) -> None:
    found = spans(_mirror_batches.gap(10, 10 + size))
    assert found[0][0] == 10
    assert found[-1][1] == 9 + size
    assert [each[0] for each in found[1:]] == [each[1] + 1 for each in found[:-1]]
    assert len(found) == -(-size // SPAN_MAX)
    assert _mirror_batches.gap(10, 10) == b""
