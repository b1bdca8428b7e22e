from __future__ import annotations

import importlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import comparison, core_path, limits, planted, remarks, report, whole_run
from bench.__main__ import main
from bench.extent import QUICK, WHOLE, Extent
from bench.peers import running, streams, turns
from bench.peers.brokers import Broker, Nobody
from bench.peers.clients import ClientFailed, check_end
from bench.peers.turns import Case, Figures
from bench.results import Comparison, Run
from bench.suites import SUITES
from bench.whole_run import BESIDE

FAST = Comparison(
    "requests", "one record", "requests/s", "kafka", [300, 310, 290], [100, 101, 99], 3
)
SMALL = Comparison("idle", "idle", "resident MB", "kafka", [60, 61, 59], [400, 410, 390], 1 / 5)


BENCH = Path(__file__).parents[1] / "bench"
SCRIPTS = sorted(path.stem for path in BENCH.glob("*.py") if path.stem != "__main__")


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_finds_what_it_imports(name: str) -> None:
    assert importlib.import_module(f"bench.{name}").__doc__


def run(*rows: Comparison, **instructions: int) -> Run:
    return Run({"cores": "2", "kafka": "4.3.1"}, 3, list(rows), instructions=instructions)


def slower(row: Comparison, times: float) -> Comparison:
    return replace(row, ours=[each * times for each in row.ours])


def test_a_ratio_is_of_medians_and_its_spread_of_rounds() -> None:
    row = replace(FAST, ours=[300, 100, 200], theirs=[100, 100, 50])
    assert (row.ratio, row.spread) == (2, (1, 4))
    assert row.is_met is False
    assert FAST.is_met is True
    assert SMALL.is_met is True
    assert replace(SMALL, goal=None).is_met is None


@pytest.mark.parametrize(("row", "times"), [(FAST, 0.8), (SMALL, 1.25)])
def test_what_became_worse_is_named(row: Comparison, times: float) -> None:
    (found,) = comparison.regressions(run(row), run(slower(row, times)))
    assert found.what == f"{row.case}, {row.figure}, beside kafka"
    assert round(found.percent) == round((times - 1) * 100)
    assert comparison.regressions(run(slower(row, times)), run(row)) == []


def test_weather_is_no_regression() -> None:
    wide = replace(FAST, ours=[300, 400, 200])
    assert comparison.regressions(run(wide), run(slower(FAST, 0.8))) == []


def test_instructions_count_for_themselves() -> None:
    old, new = run(append=60_000, read=1000), run(append=61_900, read=1020)
    assert [each.what for each in comparison.regressions(old, new)] == ["instructions of append"]


def test_a_file_comes_back_as_it_was(tmp_path: Path) -> None:
    whole = run(FAST, SMALL, append=5)
    whole.limits = {"pwrite, MB/s": [1.0, 2.0]}
    whole.save(tmp_path / "r.json")
    assert Run.load(tmp_path / "r.json") == whole


def test_compare_exits_with_what_it_found(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    run(FAST, append=100).save(old)
    run(slower(FAST, 0.5), append=100).save(new)
    found = CliRunner().invoke(main, ["compare", str(old), str(new), "--json"])
    assert found.exit_code == 1
    told = json.loads(found.stdout)
    assert (told["compared"], [row["percent"] for row in told["worse"]]) == (2, [-50.0])
    assert CliRunner().invoke(main, ["compare", str(old), str(old)]).exit_code == 0


def test_compare_of_nothing_is_no_good_news(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    run(FAST).save(old)
    run(SMALL).save(new)
    found = CliRunner().invoke(main, ["compare", str(old), str(new)])
    assert found.exit_code == 2
    assert "no figure in common" in found.stderr


def test_the_page_tells_what_was_lost(tmp_path: Path) -> None:
    lost = replace(slower(FAST, 0.1), case="lost")
    whole = run(FAST, lost, SMALL, append=62_011)
    page, *charts = report.written(whole, tmp_path / "benchmarks.md", tmp_path / "images")
    text = page.read_text()
    assert "| one record | requests/s | 300 (290-310) | 100 (99-101) (kafka) | 3.00 (" in text
    assert "0.30 (0.29-0.31) behind | ≥ 3 **missed** |" in text
    assert "| append | 62,011 |" in text
    assert [each.name for each in charts] == ["requests.svg", "idle.svg"]
    assert all(each.read_text().startswith("<?xml") for each in charts)
    again = [each.read_bytes() for each in charts]
    report.written(whole, page, tmp_path / "images")
    assert [each.read_bytes() for each in charts] == again, "drawn the same, whenever"


def test_the_page_tells_why_it_was_lost(tmp_path: Path) -> None:
    known = replace(FAST, case="consume 100 B, librdkafka", figure="records/s", ours=[50, 50, 50])
    unknown = replace(FAST, case="nothing of ours", ours=[50, 50, 50])
    page, *_ = report.written(run(known, unknown), tmp_path / "page.md", tmp_path / "images")
    text = page.read_text()
    assert "- **consume 100 B, librdkafka**, records/s 0.50 x: The client is the limit" in text
    assert "- **nothing of ours**, requests/s 0.50 x: nobody has looked into it yet." in text
    assert "0 of 2 goals are met; of 2 figures 2 are behind" in text


def test_the_readme_gets_the_goals_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- benchmarks -->\nold\n<!-- /benchmarks -->\nafter\n")
    assert report.fill_block(run(FAST, SMALL), page)
    before, between, after = re.split("<!-- /?benchmarks -->\n", page.read_text())
    assert (before, after) == ("before\n", "after\n")
    assert "2 of 2 goals are met" in between
    assert "| idle | resident MB | 0.15 (0.15-0.15) | ≤ 0.2 | yes |" in between
    page.write_text("no marks\n")
    assert not report.fill_block(run(FAST), page)


def test_every_remark_is_about_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "missing", lambda name: None)
    cases = {case.name for extent in (WHOLE, QUICK) for suite in SUITES.values()
             for case in suite(extent)}
    for heading in remarks.load():
        assert any(remarks.is_about(heading, case, heading.rpartition(": ")[2].replace("*", "x"))
                   for case in cases), heading


def seconds(broker: Broker, topic: str) -> Figures:
    return {"s": 1.0}


def fails(broker: Broker, topic: str) -> Figures:
    raise ClientFailed("the client said no")


def test_a_case_that_fails_is_told_and_the_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PEERS", dict.fromkeys(("appliance", "kafka"), Nobody))
    monkeypatch.setattr(turns, "settle", lambda: None)
    cases = [("start", Case(job.__name__, job, {})) for job in (seconds, fails)]
    cases.append(("start", Case("again", seconds, {})))
    done, out = run(), tmp_path / "out.json"
    whole_run.measured(done, cases, (), Extent(rounds=2), tmp_path, out)
    assert [(each.case, each.ours) for each in done.comparisons] == [
        ("seconds", [1, 1]), ("again", [1, 1])]
    assert "ClientFailed: the client said no" in done.failed["fails"]
    assert Run.load(out) == done
    assert list(tmp_path.iterdir()) == [out], "nothing is left behind"


def test_rounds_that_do_not_fit_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PEERS", dict.fromkeys(("appliance", "kafka"), Nobody))
    monkeypatch.setattr(turns, "settle", lambda: None)
    with running.Running(tmp_path) as brokers:
        found = turns.Turns(brokers, 5, print).take(Case("case", seconds, {}), 0)
    assert found == {"s": {"appliance": [1.0], "kafka": [1.0]}}


def test_a_peer_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams.shutil, "which", lambda name: None)
    assert streams.missing("redis") == "redis-server is not on PATH (Debian: redis-server)"
    assert list(SUITES["others"](WHOLE)) == []


def test_the_planted_work_stands_at_the_head_of_an_append() -> None:
    text = (planted.ROOT / "appliance" / planted.MODULE).read_text()
    assert planted.planted(text).count("planted_work()") == 3  # in C, its declaration, its call
    with pytest.raises(ValueError, match="0 times, not once"):
        planted.planted(text.replace(planted.FUNCTION, ""))


def test_the_time_that_is_left_is_shared_by_weight() -> None:
    cases = [Case("long", seconds, {}, weight=3), Case("short", seconds, {})]
    assert (whole_run.share(100, cases), whole_run.share(-1, cases)) == (75, 0)


def test_every_suite_says_what_it_is_and_names_each_case_once() -> None:
    names = [case.name for suite in SUITES.values() for case in suite(WHOLE)]
    assert len(names) == len(set(names))
    assert all((suite.__doc__ or "").strip() for suite in SUITES.values())
    listed = CliRunner().invoke(main, ["list"]).stdout
    words = [line.split()[0] for line in listed.splitlines()]
    assert words == [*SUITES, *BESIDE, *["peer"] * len(streams.NEEDS)]


@pytest.mark.parametrize("path", core_path.PATHS)
def test_a_path_of_the_core_can_be_taken(path: str, tmp_path: Path) -> None:
    log_dir = core_path.LogDir.open(tmp_path, core_path.STORAGE)
    core_path.PATHS[path](log_dir.create("bench", 0, core_path.LOG), 3)
    log_dir.close()


def test_limits_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHUNKS", 4)
    monkeypatch.setattr(limits, "SYNCS", 2)
    found = limits.measured(tmp_path, 2)
    assert all(len(values) == 2 and min(values) > 0 for values in found.values())
    assert list(tmp_path.iterdir()) == []


DELIVERED = ("% Sending 50000 messages of size 1000 bytes\n% 49999 messages produced, "
             "{} delivered (offset 54547, {} failed) in 2003ms\n")


def test_a_client_that_told_of_all_its_records_has_not_failed() -> None:
    check_end("rdkafka_performance", 0, "")
    check_end("rdkafka_performance", 1, DELIVERED.format(50000, 0))


@pytest.mark.parametrize("told", ["", DELIVERED.format(49999, 0), DELIVERED.format(50000, 1)])
def test_a_client_that_missed_one_has_failed(told: str) -> None:
    with pytest.raises(ClientFailed, match="ended with 1"):
        check_end("rdkafka_performance", 1, told)
