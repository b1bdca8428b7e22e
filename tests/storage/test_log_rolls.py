"""When a segment of a log is rolled."""

from __future__ import annotations

from pathlib import Path

from tests.support.batch_model import resealed
from tests.support.logs import (
    NOW,
    batch,
    everything,
    log_config,
    one_log,
    opened,
    segment_bases,
    values,
)


def test_a_segment_is_rolled_before_it_would_grow_beyond_its_size(tmp_path: Path) -> None:
    size = len(batch("a"))
    with one_log(tmp_path, segment_bytes=3 * size) as log:
        for _ in range(7):
            log.append(batch("a"))
        assert segment_bases(log) == [0, 3, 6]
        assert [segment.size for segment in log.segments()] == [3 * size, 3 * size, size]


def test_a_segment_is_rolled_when_its_records_span_too_much_time(tmp_path: Path) -> None:
    with one_log(tmp_path, segment_ms=1000) as log:
        for timestamp in (0, 1000, 1001, 2001, 2002):
            log.append(batch("a", timestamp=NOW + timestamp), now_ms=NOW)
        assert segment_bases(log) == [0, 2, 4]


def test_a_segment_is_rolled_when_it_is_too_old_whatever_its_records_say(tmp_path: Path) -> None:
    with one_log(tmp_path, segment_ms=1000) as log:
        for elapsed in (0, 1000, 1001, 1002, 2002):
            log.append(batch("a", timestamp=NOW), now_ms=NOW + elapsed)
        assert segment_bases(log) == [0, 2, 4]


def test_the_age_of_a_segment_survives_a_reopen(tmp_path: Path) -> None:
    for cleanly in (True, False):
        path = tmp_path / str(cleanly)
        with opened(path, segment_ms=1000) as log_dir:
            log = log_dir.create("t", 0, log_config(segment_ms=1000))
            log.append_durable(batch("a"), now_ms=NOW)
            log_dir.checkpoint()
            if not cleanly:
                log_dir.abandon()
        with one_log(path, segment_ms=1000) as log:
            log.append(batch("b"), now_ms=NOW + 1000)
            log.append(batch("c"), now_ms=NOW + 1001)
            assert segment_bases(log) == [0, 2], cleanly


def test_a_segment_is_rolled_when_its_offset_index_is_full(tmp_path: Path) -> None:
    given = {"segment_index_bytes": 80, "index_interval_bytes": 0}
    with one_log(tmp_path, **given) as log:
        for _ in range(40):
            log.append(batch("a"))
        folder = Path(log.segments()[0].path).parent
        assert len(log.segments()) > 2
        assert values(everything(log)) == ["a"] * 40
    sizes = [path.stat().st_size for path in folder.glob("*.index")]
    assert max(sizes) <= 80
    assert max(path.stat().st_size for path in folder.glob("*.timeindex")) <= 80


def test_a_segment_is_rolled_when_its_time_index_is_full(tmp_path: Path) -> None:
    with one_log(tmp_path, segment_index_bytes=96, index_interval_bytes=0) as log:
        for i in range(60):
            log.append(batch("a", timestamp=NOW + i))
        folder = Path(log.segments()[0].path).parent
        assert len(log.segments()) > 2
    assert max(path.stat().st_size for path in folder.glob("*.timeindex")) <= 96


def test_a_segment_is_rolled_before_an_offset_leaves_31_bits(tmp_path: Path) -> None:
    """A compacted batch may span any number of offsets; here a directory begins with such a one."""
    folder = tmp_path / "t-0"
    folder.mkdir(parents=True)
    span = (1 << 31) - 3
    sparse = resealed(batch("a", "b"), last_offset_delta=span)
    (folder / f"{0:020d}.log").write_bytes(sparse)
    with one_log(tmp_path) as log:
        assert log.log_end_offset == span + 1
        log.append(batch("c"))
        log.append(batch("d"))
        log.append(batch("e", "f"))
        assert segment_bases(log) == [0, span + 3]
        assert values(everything(log)) == list("abcdef")


def test_a_roll_by_hand_begins_a_segment_and_an_empty_one_is_not_rolled(tmp_path: Path) -> None:
    with one_log(tmp_path) as log:
        log.roll()
        log.append(batch("a"))
        log.roll()
        log.roll()
        assert segment_bases(log) == [0, 1]
        first, second = log.segments()
        assert (first.end_offset, second.end_offset, second.size) == (1, 1, 0)
        assert Path(first.path).stat().st_size == first.size
