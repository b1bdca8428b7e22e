"""What an export has not taken is kept, up to a number of bytes and as long as there is space."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance._log import Log
from appliance.catalog.catalog import Catalog, CatalogFailed
from appliance.data_dir.log_dir import LogDir
from appliance.errors import RequestInvalid, ResourceUnknown
from appliance.export import holds as holds_module
from appliance.export.hold_rows import HoldRows
from appliance.export.holds import Hold, Holds
from tests.support.logs import NOW, batch, everything, log_config, opened, values

HOUR_MS = 3_600_000
LATE = NOW + 1000 * HOUR_MS
SEGMENTS = 6  # of two offsets each, the last one active


@pytest.fixture
def log_dir(tmp_path: Path) -> Iterator[LogDir]:
    with opened(tmp_path / "data") as each:
        yield each


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    found = Catalog.open(tmp_path / "catalog.db")
    yield found
    found.close()


def fill(log_dir: LogDir, partition: int = 0) -> Log:
    log = log_dir.create("t", partition, log_config(retention_ms=HOUR_MS))
    for hour in range(SEGMENTS):
        log.append(batch(f"{hour}.0", f"{hour}.1", timestamp=NOW + hour * HOUR_MS))
        if hour < SEGMENTS - 1:
            log.roll()
    log.flush()
    log_dir.checkpoint()
    return log


def held(log_dir: LogDir, catalog: Catalog, is_full: bool = False) -> Holds:
    holds = Holds(HoldRows(catalog), lambda keys: is_full)
    log_dir.keeper = holds
    return holds


def put(holds: Holds, offset: int, max_bytes: int = 1 << 30, name: str = "h",
        partition: int = 0) -> None:
    holds.put(Hold(name, "t", {partition: offset}, max_bytes, NOW))


# The engine

@pytest.mark.parametrize(
    ("keep_from", "first"), [(0, 0), (1, 0), (2, 2), (5, 4), (9, 8), (10, 12), (99, 12)])
def test_segments_with_a_kept_offset_stay(log_dir: LogDir, keep_from: int, first: int) -> None:
    log = fill(log_dir)
    log.retain(LATE, keep_from)  # rolls the active segment, which is old too
    log.flush()
    log_dir.checkpoint()
    log.retain(LATE, keep_from)
    if keep_from < 10:
        assert log.log_start_offset == first
        assert values(everything(log))[0] == f"{first // 2}.0"
    else:
        assert log.log_start_offset >= 10


def test_what_would_go_is_counted(log_dir: LogDir) -> None:
    log = fill(log_dir)
    sizes = [each.size for each in log.segments()]
    assert log.kept_bytes(0, LATE) == sum(sizes[:-1])
    assert log.kept_bytes(4, LATE) == sum(sizes[2:-1])
    assert log.kept_bytes(5, LATE) == sum(sizes[2:-1])
    assert log.kept_bytes(0, NOW) == 0  # nothing is old yet
    assert log.kept_bytes(99, LATE) == 0


def test_retention_by_size_is_held_as_well(log_dir: LogDir, catalog: Catalog) -> None:
    log = fill(log_dir)
    log.configure(log_config(retention_bytes=1))
    put(held(log_dir, catalog), 3)
    log_dir.retain(NOW)
    assert log.log_start_offset == 2


def test_deleting_records_is_not_retention(log_dir: LogDir, catalog: Catalog) -> None:
    log = fill(log_dir)
    put(held(log_dir, catalog), 0)
    log.delete_before(5)
    log_dir.retain(LATE)
    assert (log.log_start_offset, log.segments()[0].base_offset) == (5, 4)
    log.delete_before(12)
    log_dir.retain(LATE)
    assert log.log_start_offset == 12


# Holds

def test_a_hold_keeps_until_it_moves_or_goes(log_dir: LogDir, catalog: Catalog) -> None:
    log = fill(log_dir)
    other = fill(log_dir, 1)
    holds = held(log_dir, catalog)
    put(holds, 3)
    log_dir.retain(LATE)
    assert (log.log_start_offset, other.log_start_offset) == (2, 10)
    assert holds.get("h").held_bytes == sum(each.size for each in log.segments()[:-2])
    put(holds, 6)
    log_dir.retain(LATE)
    assert log.log_start_offset == 6
    holds.delete("h")
    log_dir.retain(LATE)
    assert log.log_start_offset >= 10
    with pytest.raises(ResourceUnknown):
        holds.delete("h")


def test_the_lowest_of_several_holds_counts(log_dir: LogDir, catalog: Catalog) -> None:
    log = fill(log_dir)
    holds = held(log_dir, catalog)
    put(holds, 8, name="fast")
    put(holds, 4, name="slow")
    log_dir.retain(LATE)
    assert log.log_start_offset == 4
    assert holds.get("fast").held_bytes < holds.get("slow").held_bytes
    holds.delete("slow")
    log_dir.retain(LATE)
    assert log.log_start_offset == 8


def test_a_hold_that_keeps_too_much_lets_go_and_says_so(
    log_dir: LogDir, catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    log = fill(log_dir)
    holds = held(log_dir, catalog)
    put(holds, 0, max_bytes=log.kept_bytes(0, LATE))
    log_dir.retain(LATE)
    assert log.log_start_offset == 0
    assert "beyond that retention deletes" in holds.get("h").warning
    put(holds, 0, max_bytes=log.kept_bytes(0, LATE) - 1)
    with caplog.at_level(logging.ERROR):
        log_dir.retain(LATE)
    assert "hold released" in caplog.text
    assert log.log_start_offset >= 10
    assert not holds.get("h").is_holding
    assert "was released" in holds.get("h").warning
    # once only
    caplog.clear()
    log_dir.retain(LATE)
    assert "hold released" not in caplog.text


def test_quiet_below_four_fifths(log_dir: LogDir, catalog: Catalog) -> None:
    log = fill(log_dir)
    holds = held(log_dir, catalog)
    put(holds, 0, max_bytes=log.kept_bytes(0, LATE) * 2)
    log_dir.retain(LATE)
    assert holds.get("h").held_bytes > 0
    assert holds.get("h").warning == ""


def test_a_full_disk_comes_before_a_hold(log_dir: LogDir, catalog: Catalog) -> None:
    log = fill(log_dir)
    holds = held(log_dir, catalog, is_full=True)
    put(holds, 99, name="keeps nothing")
    put(holds, 0)
    log_dir.retain(LATE)
    assert log.log_start_offset >= 10
    assert "the disk is full" in holds.get("h").why_released
    assert holds.get("keeps nothing").is_holding


def test_letting_go_needs_no_room_in_the_catalog(
    log_dir: LogDir, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fill(log_dir)
    holds = held(log_dir, catalog, is_full=True)
    put(holds, 0)

    def refuse(self: HoldRows, row: object) -> None:
        raise CatalogFailed("no space left on device")

    right = HoldRows.put
    monkeypatch.setattr(HoldRows, "put", refuse)
    log_dir.retain(LATE)
    assert log.log_start_offset >= 10
    with pytest.raises(CatalogFailed):
        put(holds, 0, name="new")
    assert [each.name for each in holds.all()] == ["h"]
    started = Holds(HoldRows(catalog), lambda keys: False)
    assert started.get("h").is_holding
    monkeypatch.setattr(HoldRows, "put", right)
    log_dir.retain(LATE)
    found = Holds(HoldRows(catalog), lambda keys: False).get("h")
    assert found.why_released == holds.get("h").why_released != ""


def test_holds_come_back_with_the_broker(tmp_path: Path, catalog: Catalog) -> None:
    """And after a crash: a hold is on disk when it is put."""
    with opened(tmp_path / "data") as log_dir:
        log = fill(log_dir)
        holds = held(log_dir, catalog)
        put(holds, 3)
        put(holds, 0, max_bytes=0, name="small")
        log_dir.retain(LATE)
        assert log.log_start_offset == 2
        log_dir.abandon()
    catalog.close()
    again = Catalog.open(catalog.path)
    with opened(tmp_path / "data") as log_dir:
        holds = held(log_dir, again)
        log_dir.retain(LATE)
        assert log_dir.log("t", 0).log_start_offset == 2
        assert (holds.get("h").offsets, holds.get("h").is_holding) == ({0: 3}, True)
        assert not holds.get("small").is_holding
    again.close()


def test_a_hold_goes_with_its_topic(log_dir: LogDir, catalog: Catalog) -> None:
    holds = held(log_dir, catalog)
    put(holds, 3)
    holds.forget_topics({"other"})
    assert [each.name for each in holds.all()] == ["h"]
    holds.forget_topics({"t"})
    assert holds.all() == []
    assert HoldRows(catalog).all() == []


def test_so_many_holds_and_no_more(
    log_dir: LogDir, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holds_module, "HOLDS_MAX", 2)
    holds = held(log_dir, catalog)
    for name in ("a", "b", "a"):
        put(holds, 0, name=name)
    with pytest.raises(RequestInvalid, match="2 holds already"):
        put(holds, 0, name="c")
