"""Folders by the day or the hour of a zone, and files that are cut near a size."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from appliance_spark import export_compact, export_hours, export_manifest, export_plan, export_write
from appliance_spark.export_generation import top_of
from appliance_spark.export_hours import Layout
from appliance_spark.export_layout import ExportFailed, FolderStaging, Target
from appliance_spark.export_plan import Wanted
from tests.export.test_export_parts import (
    BEGIN_MS,
    HOUR_MS,
    SHAPE,
    Timed,
    batch_of,
    file_of,
    plan_of,
    rows_of,
    written,
)

BERLIN = {"per": "hour", "zone": "Europe/Berlin"}
BERLIN_DAYS = {"per": "day", "zone": "Europe/Berlin"}
NONE = "__HIVE_DEFAULT_PARTITION__"


def ms_of(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def folders(done: dict[str, Any]) -> dict[str, int]:
    found = Counter[str]()
    for each in done["files"]:
        found[each["folder"].removeprefix("topic=t/")] += each["rows"]
    return dict(found)


def at(*moments: str) -> list[Timed]:
    return [(i, b"v", ms_of(moment)) for i, moment in enumerate(moments)]


# Zones

def test_days_and_hours_are_those_of_the_zone(tmp_path: Path) -> None:
    records = at("2025-11-20T22:59:59.999+00:00", "2025-11-20T23:00:00+00:00",
                 "2025-06-20T21:59:59+00:00", "2025-06-20T22:00:00+00:00")
    assert folders(written(tmp_path, records, layout=BERLIN_DAYS)) == {
        "date=2025-11-20": 1, "date=2025-11-21": 1, "date=2025-06-20": 1, "date=2025-06-21": 1}
    assert folders(written(tmp_path, records, layout=BERLIN)) == {
        "date=2025-11-20/hour=23": 1, "date=2025-11-21/hour=00": 1,
        "date=2025-06-20/hour=23": 1, "date=2025-06-21/hour=00": 1}


def test_an_hour_that_clocks_show_twice_is_one_folder_and_a_skipped_one_is_none(
    tmp_path: Path,
) -> None:
    back = [(i, b"v", ms_of("2025-10-25T23:30:00+00:00") + i * HOUR_MS) for i in range(4)]
    assert folders(written(tmp_path, back, layout=BERLIN)) == {
        "date=2025-10-26/hour=01": 1, "date=2025-10-26/hour=02": 2, "date=2025-10-26/hour=03": 1}
    ahead = [(i, b"v", ms_of("2025-03-30T00:30:00+00:00") + i * HOUR_MS) for i in range(2)]
    assert folders(written(tmp_path, ahead, layout=BERLIN)) == {
        "date=2025-03-30/hour=01": 1, "date=2025-03-30/hour=03": 1}


@pytest.mark.parametrize("zone", [
    "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe",
    "America/Sao_Paulo", "Pacific/Apia", "Africa/Casablanca", "Pacific/Kiritimati", "UTC",
])  # fmt: skip
def test_every_moment_is_in_its_folder_and_before_its_end(zone: str) -> None:
    """Python's table of zones tells where each belongs, for random moments of 140 years and those
    around each change of the clocks."""
    dice = random.Random(zone)
    moments = [dice.randrange(ms_of("2110-01-01T00:00:00+00:00")) for _ in range(1000)]
    moments += [day + dice.randrange(24 * HOUR_MS) for day in changes(zone) for _ in range(40)]
    moments += [0, HOUR_MS - 1]
    batch = batch_of([(i, b"v", ms) for i, ms in enumerate(moments)])
    for per, form in (("day", "date=%Y-%m-%d"), ("hour", "date=%Y-%m-%d/hour=%H")):
        layout = Layout(per, zone)
        hours = layout.slots(export_hours.by_timestamp(batch, "timestamp", zone)).to_pylist()
        lasts = dict[str, int]()
        for hour, ms in zip(hours, moments, strict=True):
            local = datetime.fromtimestamp(ms / 1000, timezone.utc).astimezone(ZoneInfo(zone))
            folder = layout.folder("t", hour)
            assert folder == f"topic=t/{local:{form}}", (ms, local)
            lasts[folder] = max(lasts.get(folder, 0), ms)
        ends = {folder: layout.end_ms(folder) for folder in lasts}
        assert [folder for folder, last in lasts.items() if last >= (ends[folder] or 0)] == []


def changes(zone: str) -> list[int]:
    """Days before which its clocks are set, of some years."""
    found, day = [], datetime(2007, 1, 1, tzinfo=timezone.utc)
    while day.year < 2013:
        after = day + timedelta(days=1)
        if len({each.astimezone(ZoneInfo(zone)).utcoffset() for each in (day, after)}) > 1:
            found.append(round(day.timestamp() * 1000))
        day = after
    return found


@pytest.mark.parametrize(("layout", "folder", "end"), [
    (Layout(), "date=2025-11-21/hour=08", "2025-11-21T09:00:00+00:00"),
    (Layout("day"), "date=2025-11-21", "2025-11-22T00:00:00+00:00"),
    (Layout(**BERLIN), "date=2025-10-26/hour=01", "2025-10-26T00:00:00+00:00"),
    (Layout(**BERLIN), "date=2025-10-26/hour=02", "2025-10-26T02:00:00+00:00"),
    (Layout(**BERLIN_DAYS), "date=2025-10-26", "2025-10-26T23:00:00+00:00"),
    (Layout("day", "America/Sao_Paulo"), "date=2011-02-19", "2011-02-20T03:00:00+00:00"),
    (Layout("day", "Asia/Tokyo"), "date=9999-12-30", "9999-12-30T15:00:00+00:00"),
])  # fmt: skip
def test_a_folder_is_over_with_the_last_moment_that_clocks_show(
    layout: Layout, folder: str, end: str
) -> None:
    assert layout.end_ms(f"topic=t/{folder}") == ms_of(end)


# Times at the edges

@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Pacific/Kiritimati"])
def test_no_time_is_no_folder_and_the_ends_of_the_calendar_break_nothing(
    zone: str, tmp_path: Path
) -> None:
    last = ms_of("9999-12-29T23:00:00+00:00")
    records = [(0, b"a", -1), (1, b"b", 10**15), (2, b"c", -(2**53)), (3, b"d", last),
               (4, b"e", ms_of("9999-12-31T12:00:00+00:00"))]
    done = written(tmp_path, records, layout={"per": "day", "zone": zone})
    local = datetime(9999, 12, 29, 23, tzinfo=timezone.utc).astimezone(ZoneInfo(zone))
    wanted = {f"date={local.date()}": 1, f"date={NONE}": 4}
    assert folders(done) == wanted
    assert Layout("day").end_ms(f"topic=t/date={NONE}") is None
    assert Layout().end_ms(f"topic=t/date={NONE}/hour={NONE}") is None


@pytest.mark.parametrize(("value", "folder"), [
    ("2025-11-21", "date=2025-11-21"),
    ("2025-11-21T00:30:00", "date=2025-11-21"),  # without an offset it is the zone's
    ("2025-11-21T00:30:00Z", "date=2025-11-20"),
    ("1965-03-01T12:00:00Z", "date=1965-03-01"),
    ("0001-01-03", "date=0001-01-03"),
    (-86_400 * 365, "date=1968-12-31"),
    (86_400, "date=1970-01-01"),
    (1_763_715_600_000, "date=2025-11-21"),
    ("0001-01-01T00:00:00Z", None),
    ("9999-12-31T23:59:59Z", None),
    (1e300, None),
    (-(10**30), None),
    ("soon", None),
    (None, None),
])  # fmt: skip
def test_a_field_may_have_any_time_that_has_a_date(
    value: Any, folder: str | None, tmp_path: Path
) -> None:
    records = [(0, json.dumps({"at": value}).encode(), BEGIN_MS)]
    layout = {"per": "day", "zone": "America/New_York"}
    done = written(tmp_path, records, way="field:at", layout=layout)
    if folder is None:
        (row,) = rows_of(done, is_dead=True)
        assert "is not a time" in row["reason"]
        assert folders(done) == {"date=2025-11-21": 1}  # of the record's timestamp
    else:
        assert (folders(done), done["dead_letters"]) == ({folder: 1}, 0)


def test_a_date_of_arrow_or_avro_is_a_time() -> None:
    day = datetime(2025, 11, 21, tzinfo=timezone.utc).date()
    assert export_hours.hour_of({"d": day}, ["d"], "America/New_York") == BEGIN_MS // HOUR_MS - 8


@pytest.mark.parametrize("row", [
    {"per": "week", "zone": "UTC"}, {"per": "day", "zone": "Europe/Nowhere"},
    {"per": "day", "zone": "../../etc/passwd"}, {"per": "day", "zone": ""},
])  # fmt: skip
def test_other_layouts_and_unknown_zones_are_refused(row: dict[str, str]) -> None:
    with pytest.raises(ExportFailed, match="got the"):
        Layout(**row)


def test_the_topics_folder_of_a_file_does_not_depend_on_the_layout() -> None:
    for below in ("date=2025-11-21/x.parquet", "date=2025-11-21/hour=08/x.parquet"):
        assert top_of(f"topic=t/{below}") == "topic=t"
        assert top_of(f"_dead_letter/topic=t/{below}") == "_dead_letter/topic=t"


# A target keeps its layout

def test_a_target_keeps_its_layout_and_an_older_version_refuses_it(tmp_path: Path) -> None:
    target, empty = Target(tmp_path), export_manifest.empty()
    plan = plan_of(0, 100, 1)
    plan["topics"][0]["layout"] = BERLIN_DAYS
    new = export_manifest.committed(empty, plan, [], [], 9)
    assert (new["format"], new["topics"]["t"]["layout"]) == (2, BERLIN_DAYS)
    target.own.mkdir()
    export_manifest.save(target, new)
    known = export_manifest.load(target)["topics"]["t"]
    for wanted in (Wanted(("t",)), Wanted(("t",), layout="day", zone="Europe/Berlin")):
        assert export_plan.layout_wanted(wanted, known, "t") == Layout(**BERLIN_DAYS)
    for wanted in (Wanted(("t",), layout="hour"), Wanted(("t",), zone="UTC")):
        with pytest.raises(ExportFailed, match="by the day in Europe/Berlin in this target, wan"):
            export_plan.layout_wanted(wanted, known, "t")
    assert export_plan.layout_wanted(Wanted(("t",), layout="day"), None, "t") == Layout("day")
    assert export_manifest.committed(empty, plan_of(0, 1, 1), [], [], 9)["format"] == 1


def test_another_layout_is_another_plan() -> None:
    old, new = plan_of(0, 100, 1), plan_of(0, 100, 1)
    assert export_plan.is_same(old, {**new, "topics": [{**new["topics"][0], "layout": None}]})
    other = {**new, "topics": [{**new["topics"][0], "layout": BERLIN}]}
    assert not export_plan.is_same(old, other)


def test_a_day_has_its_success_when_it_is_over_in_its_zone() -> None:
    end = ms_of("2025-11-21T23:00:00+00:00")
    plan = plan_of(0, 100, 1, end + HOUR_MS)
    plan["topics"][0]["layout"] = BERLIN_DAYS
    files = [file_of(0, 100, 100, 5) | {"folder": "topic=t/date=2025-11-21"}]
    new = export_manifest.committed(export_manifest.empty(), plan, files, [], 9)
    assert export_manifest.finished_hours(new, plan, HOUR_MS) == ["topic=t/date=2025-11-21"]
    assert export_manifest.finished_hours(new, plan, HOUR_MS + 1) == []


# Files of a split

def test_a_folder_has_one_file_in_whatever_order_its_records_come(tmp_path: Path) -> None:
    records = [(i, b"v", BEGIN_MS + i * 37 % 100 * HOUR_MS) for i in range(300)]
    done = written(tmp_path, records)
    assert sorted(row["offset"] for row in rows_of(done)) == list(range(300))
    assert len({each["path"] for each in done["files"]}) == len(done["files"]) == 100


def test_records_that_have_no_room_make_more_files_and_not_more_open_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_write, "HELD_BYTES_MAX", 1000)
    before, most = len(os.listdir("/proc/self/fd")), 0
    make = export_write.PartFile.__init__

    def counted(*given: Any) -> None:
        nonlocal most
        make(*given)
        most = max(most, len(os.listdir("/proc/self/fd")) - before)

    monkeypatch.setattr(export_write.PartFile, "__init__", counted)
    records = [(i, b"v" * 100, BEGIN_MS + i * 37 % 100 * HOUR_MS) for i in range(300)]
    done = written(tmp_path, records)
    assert sorted(row["offset"] for row in rows_of(done)) == list(range(300))
    assert len({each["path"] for each in done["files"]}) == len(done["files"]) > 100
    assert any("+part1." in each["path"] for each in done["files"])
    assert 60 < most < 64 + 10
    words = [part for each in done["files"] for part in each["ranges"]]
    assert export_manifest.hash_of(words) == done["hash"]


MIB = 1 << 20


def test_files_are_cut_near_their_size_and_no_small_one_is_left_behind(tmp_path: Path) -> None:
    dice = random.Random(1)
    records = [(i, dice.randbytes(2000), BEGIN_MS + (i % 500 == 7) * HOUR_MS)
               for i in range(6000)]
    done = written(tmp_path, records, step=100, file_bytes=2 * MIB)
    large = [each for each in done["files"] if each["folder"].endswith("hour=08")]
    large.sort(key=lambda each: each["ranges"][0]["min_offset"])
    assert [each["path"].partition("+part")[2] for each in large] == [
        "", *(f"{i}.parquet" for i in range(1, len(large)))]
    assert len(large) in (5, 6)
    assert all(2 * MIB <= each["bytes"] < 2.5 * MIB for each in large[:-1]), large
    assert large[-1]["bytes"] > 2 * MIB // 8
    assert folders(done) == {"date=2025-11-21/hour=08": 5988, "date=2025-11-21/hour=09": 12}
    assert len(done["files"]) == len(large) + 1  # the small folder is one file
    assert sorted(row["offset"] for row in rows_of(done)) == list(range(6000))
    same = written(tmp_path, records, step=100, file_bytes=2 * MIB)
    assert [each["digest"] for each in same["files"]] == [each["digest"] for each in done["files"]]


def test_the_rest_of_a_full_file_is_added_to_it(tmp_path: Path) -> None:
    files = export_write.SplitFiles(
        FolderStaging(str(tmp_path)), {"topic": "t", "partition": 3, "from": 0, "to": 9}, MIB)
    names = [each.name for each in SHAPE]

    def add(offset: int, size: int) -> None:
        row = {"key": None, "value": random.Random(offset).randbytes(size), "topic": "t",
               "partition": 3, "offset": offset, "timestamp": 0, "timestampType": 0,
               "headers": None}
        batch = pa.RecordBatch.from_pylist([row], schema=SHAPE)
        assert batch.schema.names == names
        files.add(0, False, batch, pa.array([offset]), pa.array([1], pa.uint64()))

    add(0, MIB)
    add(1, 1000)
    (file,) = files.close()
    assert (file["rows"], file["ranges"][0]["max_offset"]) == (2, 1)


def test_splits_are_not_smaller_than_files() -> None:
    asked: list[int] = []

    class Broker:
        def plan(self, topic: str, begin: Any, end: Any, splits: int, isolation: str) -> Any:
            asked.append(splits)
            part = {"partition": 0, "start": 0, "end": 10, "end_offset": 10, "log_start_offset": 0}
            return {"topic": topic, "topic_id": "i", "cluster_id": "c", "isolation": isolation,
                    "partitions": [part],
                    "splits": [{"partition": 0, "start": 0, "end": 10, "bytes": 1000 * MIB}]}

        def batch_at(self, *where: Any) -> None:
            """Nothing to compare the next run with."""

    for wanted, splits in ((None, 8), (500 * MIB, 2), (MIB, 8)):
        export_plan.make(Broker(), Wanted(("t",), file_bytes=wanted),  # type: ignore[arg-type]
                         export_manifest.empty(), BEGIN_MS)
        assert asked[-1] == splits


def test_a_lost_part_is_made_again_with_the_other_parts_of_its_range() -> None:
    def part(name: str, start: int, **more: Any) -> dict[str, Any]:
        return {**file_of(start, start + 10, 5, 1, name), **more}

    files = [part("a", 0), part("a+part1", 0), part("b", 10), part("dead", 0, is_dead_letter=True)]
    merged = part("m", 10)
    merged["ranges"] += files[0]["ranges"]
    for lost, wanted in (([files[1]], [0, 1]), ([files[2]], [2]), ([files[3]], [3])):
        found = export_compact._with_parts({"files": files}, lost)
        assert found == [files[i] for i in wanted]
    found = export_compact._with_parts({"files": [*files, merged]}, [files[2]])
    assert found == [*files[:3], merged]
