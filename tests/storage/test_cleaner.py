"""Compaction: what stays, and when it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.errors import BatchInvalid
from appliance.record import _batch, _batch_builder
from tests.support.batch_model import golden, read_client_batch
from tests.support.compaction import LATER, cleaned, compacted, put, settle
from tests.support.compaction_model import batches, pairs, shown
from tests.support.logs import LONG, NOW, everything

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


# What Java's cleaner left of the same batch, in tests/data

HORIZON_MS = 1700000061000


def java_cleaned(path: Path, name: str, again: str) -> bytes:
    """What is left of Java's batch when the keys `again` were written after it."""
    directory = path / "t-0"
    directory.mkdir(parents=True)
    (directory / f"{42:020d}.log").write_bytes(golden(name))
    with compacted(path, delete_retention_ms=1000) as (log_dir, log):
        log.append(_batch_builder.batch([(NOW, key.encode(), b"2") for key in again.split(",")]))
        assert cleaned(log_dir, log, NOW, latest_ms=HORIZON_MS - 1000)
        return everything(log)[0]


def test_a_cleaned_batch_is_java_s_to_the_byte(tmp_path: Path) -> None:
    assert java_cleaned(tmp_path, "java-codec-none", "k1") == golden("java-cleaned")


@pytest.mark.parametrize("codec", CODECS)
def test_an_emptied_batch_is_java_s_to_the_byte(codec: str, tmp_path: Path) -> None:
    assert java_cleaned(tmp_path, f"java-codec-{codec}", "k1,gone,") == golden("java-emptied")


@pytest.mark.parametrize("codec", CODECS)
def test_a_cleaned_batch_keeps_everything_but_the_rest(codec: str, tmp_path: Path) -> None:
    before = golden(f"java-codec-{codec}")
    after = java_cleaned(tmp_path, f"java-codec-{codec}", "k1")
    (old,), (new,) = _batch.headers(before), _batch.headers(after)
    for field in ("base_offset", "last_offset", "producer_id", "producer_epoch", "base_sequence",
                  "leader_epoch", "codec", "max_timestamp"):
        assert getattr(new, field) == getattr(old, field), field
    assert (new.records_count, new.delete_horizon_ms) == (2, HORIZON_MS)
    records = _batch.records(before)
    assert _batch.records(after) == [records[1], records[3]]


def test_a_delete_horizon_is_set_once(tmp_path: Path) -> None:
    cleaned_again = java_cleaned(tmp_path, "java-cleaned", "")
    (header,) = _batch.headers(cleaned_again)
    assert (header.records_count, header.delete_horizon_ms) == (1, HORIZON_MS)


@pytest.mark.parametrize("timestamp", [-(1 << 63), LONG])
def test_timestamps_at_the_ends_of_64_bits_survive_a_horizon(
    timestamp: int, tmp_path: Path
) -> None:
    with compacted(tmp_path) as (log_dir, log):
        log.append(_batch_builder.batch([(timestamp, b"k", None), (timestamp, b"l", None)]))
        put(log, "k=1")
        assert cleaned(log_dir, log)
        assert batches(log)[0].delete_horizon_ms is not None
        assert (shown(log)[0].offset, shown(log)[0].timestamp) == (1, timestamp)


# What stays


@pytest.mark.parametrize("codec", CODECS)
def test_the_last_record_of_each_key_stays_where_it_was(codec: str, tmp_path: Path) -> None:
    with compacted(tmp_path) as (log_dir, log):
        put(log, "a=1 b=1 c=1", codec=codec)
        put(log, "b=2 d=1", codec=codec)
        put(log, "a=2 b=3 b=4", codec=codec)
        assert cleaned(log_dir, log)
        assert pairs(log) == [(2, "c", "1"), (4, "d", "1"), (5, "a", "2"), (7, "b", "4")]
        assert [(info.base_offset, info.last_offset) for info in batches(log)] == [
            (0, 2),
            (3, 4),
            (5, 7),
        ]
        assert {info.codec for info in batches(log)} == {CODECS.index(codec)}
        assert (log.log_start_offset, log.log_end_offset) == (0, 8)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_of_which_all_stays_is_copied_byte_for_byte(codec: str, tmp_path: Path) -> None:
    with compacted(tmp_path) as (log_dir, log):
        put(log, "x=1")
        put(log, "a=1 b=1", codec=codec)
        put(log, "x=2")
        before = everything(log)
        assert cleaned(log_dir, log)
        assert everything(log) == before[1:]


def test_headers_and_timestamps_of_a_rewritten_batch_stay(tmp_path: Path) -> None:
    with compacted(tmp_path) as (log_dir, log):
        records = [
            (NOW + 50, b"a", b"1", [("h", b"x"), ("h", None)]),
            (NOW + 90, b"b", b"1"),
            (NOW - 70, b"c", b"1", [("", b"")]),
        ]
        log.append(_batch_builder.batch(records, base_timestamp=NOW))
        put(log, "b=2")
        assert cleaned(log_dir, log)
        first, third = shown(log)[:2]
        assert (first.timestamp, first.headers) == (NOW + 50, (("h", b"x"), ("h", None)))
        assert (third.offset, third.timestamp, third.headers) == (2, NOW - 70, (("", b""),))
        assert batches(log)[0].max_timestamp == NOW + 50


def test_append_time_of_a_rewritten_batch_stays(tmp_path: Path) -> None:
    with compacted(tmp_path, message_timestamp_type="LogAppendTime") as (log_dir, log):
        data = _batch_builder.batch([(NOW, b"a", b"1"), (NOW, b"b", None)])
        log.append(data, now_ms=NOW + 5)
        log.append(_batch_builder.batch([(NOW, b"a", b"2")]), now_ms=NOW + 6)
        assert cleaned(log_dir, log)
        assert [record.timestamp for record in shown(log)] == [NOW + 5, NOW + 6]
        assert batches(log)[0].max_timestamp == NOW + 5


def test_a_rewritten_batch_is_sound_for_another_reader(tmp_path: Path) -> None:
    with compacted(tmp_path) as (log_dir, log):
        put(log, "a=1 b=1 a=2", leader_epoch=4)
        assert cleaned(log_dir, log)
        model_input = bytearray(everything(log)[0])
        assert _batch.headers(model_input)[0].records_count == 2
        with pytest.raises(Exception, match="offset"):
            read_client_batch(bytes(model_input))  # whole and summed right, but with a gap


def test_the_active_segment_is_left_alone(tmp_path: Path) -> None:
    with compacted(tmp_path) as (log_dir, log):
        put(log, "a=1")
        put(log, "a=2")
        log.flush()
        log_dir.checkpoint()
        assert not log.compact(LATER)
        settle(log_dir, log)
        put(log, "a=3")
        log.flush()
        assert log.compact(LATER)
        assert pairs(log) == [(1, "a", "2"), (2, "a", "3")]


def test_what_is_not_durable_is_left_alone(tmp_path: Path) -> None:
    with compacted(tmp_path) as (_, log):
        put(log, "a=1")
        put(log, "a=2")
        log.roll()
        assert not log.compact(LATER)


def test_a_record_without_a_key_is_refused_and_an_old_one_dropped(tmp_path: Path) -> None:
    keyless = [(NOW, None, b"x"), (NOW, b"a", b"1")]
    with compacted(tmp_path, cleanup_policy="delete") as (_, log):
        log.append(_batch_builder.batch(keyless))
    with compacted(tmp_path) as (log_dir, log):
        for codec in CODECS:
            with pytest.raises(BatchInvalid):
                log.append(_batch_builder.batch(keyless, codec=codec))
            with pytest.raises(BatchInvalid):
                log.append_in_place(bytearray(_batch_builder.batch(keyless, codec=codec)))
        put(log, "b=1", codec="zstd")
        assert cleaned(log_dir, log)
        assert pairs(log) == [(1, "a", "1"), (2, "b", "1")]


# When


def test_the_dirty_ratio_is_a_strict_limit(tmp_path: Path) -> None:
    with compacted(tmp_path, min_cleanable_dirty_ratio=0.5) as (log_dir, log):
        put(log, "a=1")
        assert cleaned(log_dir, log)
        put(log, "a=2")
        assert not cleaned(log_dir, log)  # as many dirty bytes as clean ones
        put(log, "a=3 b=3")
        assert cleaned(log_dir, log)
        assert pairs(log) == [(2, "a", "3"), (3, "b", "3")]
        assert not log.compact(LATER)


def test_a_record_younger_than_the_minimal_lag_holds_back_all_after_it(tmp_path: Path) -> None:
    with compacted(tmp_path, min_compaction_lag_ms=1000) as (log_dir, log):
        put(log, "a=1 a=2", timestamp=NOW)
        settle(log_dir, log)
        put(log, "a=3 b=1", timestamp=NOW + 5000)
        settle(log_dir, log)
        put(log, "b=2", timestamp=NOW)
        settle(log_dir, log)
        assert log.compact(NOW + 5500)
        assert pairs(log)[0] == (1, "a", "2")
        assert log.compact(NOW + 6000)
        assert pairs(log) == [(2, "a", "3"), (4, "b", "2")]


def test_a_record_older_than_the_maximal_lag_makes_the_log_due(tmp_path: Path) -> None:
    given = {"min_cleanable_dirty_ratio": 1.0, "max_compaction_lag_ms": 1000}
    with compacted(tmp_path, **given) as (log_dir, log):
        put(log, "a=1 a=2", timestamp=NOW)
        settle(log_dir, log)
        assert not log.compact(NOW + 1000)
        assert log.compact(NOW + 1001)
        assert not log.compact(NOW + 1001)


def test_the_maximal_lag_seals_a_segment_that_nobody_writes_to(tmp_path: Path) -> None:
    given = {"min_cleanable_dirty_ratio": 1.0, "max_compaction_lag_ms": 1000}
    with compacted(tmp_path, **given) as (log_dir, log):
        put(log, "a=1 a=2", timestamp=NOW)
        log.compact(NOW + 1000)
        assert len(log.segments()) == 1
        log.compact(NOW + 1001)
        assert len(log.segments()) == 2
        log.flush()
        log_dir.checkpoint()
        assert log.compact(NOW + 1001)
        assert pairs(log) == [(1, "a", "2")]


def test_a_log_without_the_policy_is_never_compacted(tmp_path: Path) -> None:
    with compacted(tmp_path, cleanup_policy="delete") as (log_dir, log):
        put(log, "a=1 a=2")
        assert not cleaned(log_dir, log)
        assert pairs(log) == [(0, "a", "1"), (1, "a", "2")]


def test_how_far_it_came_is_known_after_a_restart(tmp_path: Path) -> None:
    with compacted(tmp_path, min_cleanable_dirty_ratio=0.5) as (log_dir, log):
        put(log, "a=1 b=1 c=1")
        put(log, "a=2")
        assert cleaned(log_dir, log)
    with compacted(tmp_path, min_cleanable_dirty_ratio=0.5) as (log_dir, log):
        put(log, "a=3")
        assert not cleaned(log_dir, log)
