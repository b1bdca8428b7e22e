"""What the report of a start tells."""

from __future__ import annotations

from pathlib import Path

from appliance.data_dir.log_dir import LogDir
from appliance.process import spoken
from tests.support.damaged import SETTINGS, Damaged, build
from tests.support.logs import STORAGE, opened


def test_the_report_of_a_clean_stop_has_nothing_to_tell(tmp_path: Path) -> None:
    build(tmp_path, cleanly=True)
    with opened(tmp_path) as log_dir:
        report = log_dir.report
        assert (report.was_clean, report.scanned_bytes, report.partitions) == (True, 0, 1)
        first, last = report.text().splitlines()
        assert first.startswith("Opened 1 partition")
        assert first.endswith("after a clean stop.")
        assert last.startswith("No acknowledged record was lost: every segment")


def test_the_report_of_a_new_directory_speaks_of_no_crash(tmp_path: Path) -> None:
    with opened(tmp_path / "new") as log_dir:
        assert not any(word in log_dir.report.text() for word in ("unclean", "crash", "LOST"))


def test_the_report_says_what_was_cut_and_set_aside(unfinished: Damaged) -> None:
    damaged = unfinished
    damaged.flip(15)
    size = sum(len(each) for each in damaged.batches[15:18])
    behind = damaged.segment(18).stat().st_size
    with opened(damaged.path, **SETTINGS) as log_dir:
        text = log_dir.report.text()
    assert "after an unclean end (crash, kill or power cut)." in text
    assert f"Cut {spoken.size(size)} of unfinished writes, none acknowledged as durable." in text
    assert f"Set {spoken.size(size + behind)} aside in files named *.corrupt-*." in text
    # 16 and 17, and the next segment's 18 to 20
    assert "Behind a torn write there were 5 whole records that were not noted as" in text
    assert "No acknowledged record was lost: all that was noted is there." in text


def test_the_report_says_what_was_lost(damaged: Damaged) -> None:
    damaged.remove(12)
    with opened(damaged.path, **SETTINGS) as log_dir:
        text = log_dir.report.text()
    assert "LOST t-0: offsets 12 to 17: a segment is missing." in text
    assert "No acknowledged record was lost" not in text


def test_progress_is_told_log_by_log(damaged: Damaged) -> None:
    with opened(damaged.path, **SETTINGS) as log_dir:
        for i in range(4):
            log_dir.create("u", i)
    told: list[tuple[int, int]] = []
    LogDir.open(damaged.path, STORAGE, progress=lambda *each: told.append(each)).close()
    assert told == [(i, 5) for i in range(1, 6)]
