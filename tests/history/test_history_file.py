"""The history file: steps of time, their ages, restarts, a full file, a damaged one."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from appliance.history.history import History, HistoryUnread
from appliance.history.history_file import NAME, HistoryFile, Step
from appliance.history.levels import DAY_S, HOUR_S, Levels

NOW = 1_700_000_000 - 1_700_000_000 % HOUR_S
IN = "broker/in_bytes_per_s"
SIZE = "topic/orders/size_bytes"


def history(folder: Path, days: int = 30, series_max: int = 1000) -> History:
    return History(folder, days, series_max)


@pytest.mark.parametrize(
    ("series", "back_s", "step_s"),
    [(IN, HOUR_S, 10), (IN, 6 * HOUR_S, 10), (IN, DAY_S, 60), (IN, 7 * DAY_S, 600),
     (IN, 30 * DAY_S, HOUR_S), (SIZE, HOUR_S, 60), (SIZE, DAY_S, HOUR_S)],
)  # fmt: skip
def test_a_range_is_told_as_exactly_as_it_is_kept(series: str, back_s: int, step_s: int) -> None:
    assert Levels(30).for_range(series, NOW - back_s, NOW, NOW).step_s == step_s


def test_a_short_range_long_ago_is_told_in_the_steps_of_its_age() -> None:
    levels = Levels(30)
    assert levels.for_range(IN, NOW - 3 * DAY_S, NOW - 3 * DAY_S + HOUR_S, NOW).step_s == 600


def test_a_step_has_the_mean_and_the_largest(tmp_path: Path) -> None:
    it = history(tmp_path)
    for at_s, value in ((NOW, 10.0), (NOW + 10, 20.0), (NOW + 50, 90.0), (NOW + 60, 5.0)):
        it.add(at_s, {IN: value})
    fine = it.read([IN], NOW, NOW + 60, NOW + 60)
    assert [tuple(each) for each in fine.series[IN]] == [
        (NOW, 10.0, 10.0), (NOW + 10, 20.0, 20.0), (NOW + 50, 90.0, 90.0), (NOW + 60, 5.0, 5.0),
    ]  # fmt: skip
    later = NOW + 7 * HOUR_S  # the fine ones are too old then
    coarse = it.read([IN], NOW, NOW + 120, later)
    assert (coarse.level.step_s, [tuple(each) for each in coarse.series[IN]]) == (
        60, [(NOW, 40.0, 90.0), (NOW + 60, 5.0, 5.0)],
    )  # fmt: skip


def test_a_step_goes_on_after_a_restart(tmp_path: Path) -> None:
    for value in (10.0, 30.0):
        it = history(tmp_path)
        it.add(NOW, {IN: value})
        it.close(NOW)
    found = history(tmp_path).read([IN], NOW, NOW, NOW)
    assert found.series[IN] == [(NOW, 20.0, 30.0)]


def test_what_is_too_old_goes_and_its_place_is_another_ones(tmp_path: Path) -> None:
    it = history(tmp_path, days=1, series_max=1)
    it.add(NOW, {SIZE: 1.0, "topic/more/size_bytes": 2.0})
    it.write(NOW)
    assert it.left_out == 1
    later = NOW + 2 * DAY_S
    it.add(later, {"topic/more/size_bytes": 3.0})
    it.write(later)  # forgets behind its write
    it.add(later, {"topic/more/size_bytes": 3.0})
    found = it.read([SIZE, "topic/more/size_bytes"], NOW, later, later)
    assert (it.left_out, found.series[SIZE]) == (0, [])
    assert len(found.series["topic/more/size_bytes"]) == 1


def test_a_month_of_the_broker_and_a_hundred_topics_is_small(tmp_path: Path) -> None:
    levels, file = Levels(30), HistoryFile(tmp_path / NAME)
    step = Step(6, 60.0, 20.0)
    for name in ["broker/x", *(f"topic/{number}/x" for number in range(10))]:
        for level in levels.of(name):
            places = range(NOW - level.kept_s, NOW, level.step_s)
            file.add({(level.number, at, name): step for at in places}, 1000)
    file.close()
    rows = sum(level.kept_s // level.step_s for level in levels.of_broker)
    rows += 10 * sum(level.kept_s // level.step_s for level in levels.of_names)
    assert rows < 20_000
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 45 * rows


@pytest.mark.parametrize("damage", ["another file", "cut off", "zeroes"])
def test_a_damaged_file_is_begun_anew(damage: str, tmp_path: Path) -> None:
    it = history(tmp_path)
    for number in range(500):
        it.add(NOW + 10 * number, {f"topic/{number}/size_bytes": 1.0})
    it.close(NOW)
    path = tmp_path / NAME
    whole = path.read_bytes()
    broken = {"another file": b"not a database" * 500, "cut off": whole[: len(whole) // 2],
              "zeroes": whole[:8192] + bytes(8192) + whole[16384:]}  # fmt: skip
    path.write_bytes(broken[damage])
    it = history(tmp_path)
    it.add(NOW, {IN: 7.0})
    assert it.read([IN], NOW, NOW, NOW).series[IN] == [(NOW, 7.0, 7.0)]


def test_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    history(tmp_path).close(NOW)
    path = tmp_path / NAME
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 2")
    before = path.read_bytes()
    it = history(tmp_path)
    with pytest.raises(HistoryUnread, match="format 2; this appliance knows 1"):
        it.read([IN], NOW, NOW, NOW)
    it.write(NOW)
    assert path.read_bytes() == before


def test_what_the_disk_does_not_take_is_written_later(tmp_path: Path) -> None:
    folder = tmp_path / "away"
    it = history(folder)
    it.add(NOW, {IN: 1.0})
    it.write(NOW)
    with pytest.raises(HistoryUnread, match="No such file"):
        it.read([IN], NOW, NOW, NOW)
    folder.mkdir()
    it.add(NOW, {IN: 3.0})
    assert it.read([IN], NOW, NOW, NOW).series[IN] == [(NOW, 2.0, 3.0)]


def test_the_file_is_for_the_broker_alone(tmp_path: Path) -> None:
    history(tmp_path).close(NOW)
    assert os.stat(tmp_path / NAME).st_mode & 0o777 == 0o600
