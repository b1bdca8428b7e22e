from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import (
    grown_log,
    instruction_paths,
    limits,
    own_measurements,
    planted_slowdown,
    regressions,
    remarks,
    report,
    whole_run,
)
from bench.__main__ import main
from bench.peers import other_clients, other_protocol_brokers, running, turns
from bench.peers.brokers import Broker, Nobody
from bench.peers.clients import ClientFailed, check_end
from bench.peers.turns import Case, Figures
from bench.results import Comparison, Run
from bench.run_size import QUICK, WHOLE, Extent
from bench.suites import SUITES
from bench.whole_run import BESIDE

FAST = Comparison(
    "requests", "one record", "requests/s", "kafka", [300, 310, 290], [100, 101, 99], 3
)
SMALL = Comparison("idle", "idle", "resident MB", "kafka", [60, 61, 59], [400, 410, 390], 1 / 5)


BENCH = Path(__file__).parents[2] / "bench"
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


def test_a_turn_that_was_not_measured_is_left_out_of_both() -> None:
    whole = run()
    whole.add("durable", Case("some", seconds, {}), {"syncs/GB": {
        "appliance": [1, None, 3], "kafka": [None, 20, 30]}})
    whole.add("durable", Case("none", seconds, {}, goals={"syncs/GB": 0.5}), {"syncs/GB": {
        "appliance": [1, 2], "kafka": [None, None]}})
    some, none = whole.comparisons
    assert (some.ours, some.theirs) == ([3], [30])
    assert (none.ours, none.theirs, none.is_met) == ([1, 2], [], None)
    assert turns.summary({"appliance": [1, None], "kafka": [None]}) == "appliance 1 (1-1), kafka -"


def test_a_round_of_nothing_is_not_drawn(tmp_path: Path) -> None:
    row = replace(FAST, figure="written bytes/byte", ours=[0, 4, 4], theirs=[8, 8, 8], goal=None)
    page, *charts = report.written(run(row), tmp_path / "page.md", tmp_path / "images")
    assert ("| one record | written bytes/byte |" in page.read_text(), charts) == (True, [])


def test_the_page_has_a_dash_for_what_was_not_measured(tmp_path: Path) -> None:
    row = replace(FAST, figure="syncs/GB", theirs=[], goal=None)
    page, *charts = report.written(run(row), tmp_path / "page.md", tmp_path / "images")
    assert "| one record | syncs/GB | 300 (290-310) | - (kafka) | none |" in page.read_text()
    assert (charts, regressions.regressions(run(row), run(FAST))) == ([], [])


def test_the_page_says_how_near_to_the_machine_it_was(tmp_path: Path) -> None:
    rows = [replace(FAST, case="produce 1000 B, librdkafka", figure="records/s", ours=[1e6] * 3),
            replace(FAST, case="durable, 1 record, 64 connections", ours=[25_000] * 3),
            replace(SMALL, case="produce 1000 B, librdkafka", figure="cpu s/GB")]
    whole = run(*rows)
    whole.limits = {limits.WRITTEN: [4000.0, 5000.0, 6000.0], limits.ONE_SYNC: [160.0]}
    page, *_ = report.written(whole, tmp_path / "page.md", tmp_path / "images")
    told = [line.rpartition(" | ")[2] for line in page.read_text().splitlines()
            if line.endswith(" of pwrite |") or line.endswith(" of fdatasync of 4 KiB |")]
    assert told == ["20% of pwrite |", "400% of fdatasync of 4 KiB |"]


def test_every_rate_of_records_is_told_beside_the_machine() -> None:
    """Only suites whose limit is the machine; wake-ups and foreign clients are no such limit."""
    bounded = report.limits_of_cases()
    names = {case.name for suite in ("produce", "partitions", "ceiling", "consume", "fan_out",
                                     "durable") for case in SUITES[suite](WHOLE)}
    assert names <= bounded.keys()
    assert {each.name for each in bounded.values()} <= limits.LIMITS.keys()


@pytest.mark.parametrize(("row", "times"), [(FAST, 0.8), (SMALL, 1.25)])
def test_what_became_worse_is_named(row: Comparison, times: float) -> None:
    (found,) = regressions.regressions(run(row), run(slower(row, times)))
    assert found.what == f"{row.case}, {row.figure}, beside kafka"
    assert round(found.percent) == round((times - 1) * 100)
    assert regressions.regressions(run(slower(row, times)), run(row)) == []


def test_weather_is_no_regression() -> None:
    wide = replace(FAST, ours=[300, 400, 200])
    assert regressions.regressions(run(wide), run(slower(FAST, 0.8))) == []


def test_instructions_count_for_themselves() -> None:
    old, new = run(append=60_000, read=1000), run(append=61_900, read=1020)
    assert [each.what for each in regressions.regressions(old, new)] == ["instructions of append"]


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
    assert "- **nothing of ours**, requests/s 0.50 x: the reason is not known yet." in text
    assert ("0 of 2 goals are met. Of the others a floor misses 0, too; 0 more are beyond the "
            "machine's limit, 0 are the client's, and 2 are left to win. Of 2 figures") in text


@pytest.mark.parametrize(("ours", "floor", "told"), [
    (200, 250, "**no** | 2.50 | a floor"), (200, 310, "**no** | 3.10 | "),
    (300, 250, "yes | 2.50 | "),
])
def test_the_page_tells_what_nobody_could_reach(
    tmp_path: Path, ours: float, floor: float, told: str
) -> None:
    """Theirs are 100, and the goal is three times as many."""
    mine = replace(FAST, ours=[ours] * 3, floor=[floor] * 3)
    page, *_ = report.written(run(mine), tmp_path / "page.md", tmp_path / "images")
    text = page.read_text()
    assert f"a floor misses {int('a floor' in told)}, too" in text
    assert f"| {told} |" in text


@pytest.mark.parametrize(("bandwidth", "told"), [
    (2.4, "the machine: 2.40 |"), (4.0, "|  |  |"), (1.9, "|  |  |"),
])
def test_the_page_tells_what_the_machine_could_not_carry(
    tmp_path: Path, bandwidth: float, told: str
) -> None:
    """200 records of 10 KB are 2 MB; at the machine's limit there would be 240, or 400;
    it carries more than what was measured of it."""
    row = Comparison("writing", "produce 10000 B, Java", "records/s", "kafka", [200.0] * 3,
                     [100.0] * 3, 3)
    whole = run(row)
    whole.limits = {limits.WRITTEN: [bandwidth]}
    assert told in "\n".join(report.goals_table(whole))
    row.floor = [400.0] * 3
    assert "| 4.00 |  |" in "\n".join(report.goals_table(whole)), "a program has reached it"


def test_a_sync_is_no_limit_since_it_may_serve_many() -> None:
    row = Comparison("durable", "durable, 1 record, 64 connections", "requests/s", "kafka",
                     [200.0] * 3, [100.0] * 3, 3)
    whole = run(row)
    whole.limits = {limits.ONE_SYNC: [4000.0]}
    assert limits.Limit(limits.ONE_SYNC).share(row.ours, whole.limits) == 0.8
    assert "1 are left to win" in "\n".join(report.goals_table(whole))


def test_a_floor_takes_its_turns_and_its_end_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PEERS", dict.fromkeys(("appliance", "kafka", "floor"), Nobody))
    whole = run()
    ended: list[str] = []

    def job(broker: Broker, topic: str) -> Figures:
        if ended and broker.name == "floor":
            raise RuntimeError("it is gone")
        return {"requests/s": {"appliance": 4.0, "kafka": 2.0, "floor": 8.0}[broker.name]}

    with running.Running(tmp_path) as brokers:
        taken = turns.Turns(brokers, 2, lambda step: None)
        for name in ("goes on", "ends"):
            case = Case(name, job, {}, goals={"requests/s": 3}, floor="floor")
            whole.add("requests", case, taken.take(case, 60))
            ended.append(name)
    first, second = whole.comparisons
    assert (first.ours, first.theirs, first.floor) == ([4.0] * 2, [2.0] * 2, [8.0] * 2)
    assert (first.floor_ratio, second.ours, second.floor) == (4.0, [4.0] * 2, [])
    assert taken.failed == {"ends, floor": "RuntimeError: it is gone"}


def test_the_readme_gets_the_goals_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- benchmarks -->\nold\n<!-- /benchmarks -->\nafter\n")
    assert report.fill_block(run(FAST, SMALL), page)
    before, between, after = re.split("<!-- /?benchmarks -->\n", page.read_text())
    assert (before, after) == ("before\n", "after\n")
    assert "2 of 2 goals are met" in between
    assert "| idle | resident MB | 0.15 (0.15-0.15) | ≤ 0.2 | yes |  |" in between
    page.write_text("no marks\n")
    assert not report.fill_block(run(FAST), page)


def test_every_remark_is_about_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_protocol_brokers, "missing", lambda name: None)
    cases = {case.name for extent in (WHOLE, QUICK) for suite in SUITES.values()
             for case in suite(extent)}
    for heading in remarks.load():
        assert any(remarks.is_about(heading, case, heading.rpartition(": ")[2].replace("*", "x"))
                   for case in cases), heading


@pytest.mark.parametrize(("case", "figure", "heading"), [
    ("produce 1000 B, ceiling", "records/s", "produce * B, ceiling: records/s"),
    ("produce 1000 B, gzip", "records/s", "produce 1000 B, *: records/s"),
    ("page cache, 16 partitions", "syncs/GB", "page cache, * partitions: syncs*"),
    ("page cache, 16 partitions", "records/s", "page cache, * partitions: *"),
])
def test_a_remark_is_about_its_own_case(case: str, figure: str, heading: str) -> None:
    """The first remark that matches is printed; wide headings come last in the file."""
    row = replace(FAST, case=case, figure=figure)
    assert remarks.heading_of(remarks.load(), row) == heading


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
    monkeypatch.setattr(other_protocol_brokers.shutil, "which", lambda name: None)
    told = "redis-server is not on PATH (Debian: redis-server)"
    assert other_protocol_brokers.missing("redis") == told
    assert list(SUITES["others"](WHOLE)) == []


def test_the_planted_work_stands_at_the_head_of_an_append(tmp_path: Path) -> None:
    text = (planted_slowdown.ROOT / "appliance" / planted_slowdown.MODULE).read_text()
    found = planted_slowdown.planted(text).count("planted_work()")
    assert found == 3  # in C, its declaration, its call
    planted_slowdown.copied(tmp_path)
    source = tmp_path / "appliance" / planted_slowdown.MODULE
    source.write_text(planted_slowdown.planted(text))
    words = [sys.executable, "-m", "cython", "-3", "--cplus", str(source)]
    subprocess.run(words, cwd=tmp_path, check=True)
    with pytest.raises(ValueError, match="0 times, not once"):
        planted_slowdown.planted(text.replace(planted_slowdown.FUNCTION, ""))


def test_the_time_that_is_left_is_shared_by_weight() -> None:
    cases = [Case("long", seconds, {}, weight=3), Case("short", seconds, {})]
    assert (whole_run.share(100, cases), whole_run.share(-1, cases)) == (75, 0)


def test_every_suite_says_what_it_is_and_names_each_case_once() -> None:
    names = [case.name for suite in SUITES.values() for case in suite(WHOLE)]
    assert len(names) == len(set(names))
    assert all((suite.__doc__ or "").strip() for suite in SUITES.values())
    listed = CliRunner().invoke(main, ["list"]).stdout
    words = [line.split()[0] for line in listed.splitlines()]
    clients = ["client"] * len(other_clients.CLIENTS)
    assert words == [*SUITES, *BESIDE, *["peer"] * len(other_protocol_brokers.NEEDS), *clients]


@pytest.mark.parametrize("path", instruction_paths.PATHS)
def test_a_path_of_the_core_can_be_taken(path: str, tmp_path: Path) -> None:
    log_dir = instruction_paths.LogDir.open(tmp_path, instruction_paths.STORAGE)
    log = log_dir.create("bench", 0, instruction_paths.LOG)
    instruction_paths.PATHS[path](log_dir, log, 3)
    stored = {"append": 3 * instruction_paths.RECORDS, "append-one": 3,
              "request-one": 3, "fetch-one": 1, "connect-one": 1,
              "request-allowed": 3, "fetch-allowed": 1,
              "read": instruction_paths.OFFSETS * instruction_paths.RECORDS, "columns": 0}
    assert log.log_end_offset == stored[path]
    log_dir.close()


@pytest.mark.parametrize("name", own_measurements.SCRIPTS)
@pytest.mark.parametrize("extent", [WHOLE, QUICK], ids=["whole", "quick"])
def test_a_script_knows_the_words_that_it_gets(name: str, extent: Extent) -> None:
    """Runs only the parser: --help ends the script after the options that it must accept."""
    script = own_measurements.SCRIPTS[name]
    command = [sys.executable, "-m", script.module, *script.words(extent), "--json", "f", "--help"]
    done = subprocess.run(command, cwd=BENCH.parent, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    for word in script.words(extent):
        assert not word.startswith("--") or word in done.stdout


def test_the_figures_of_a_script_are_those_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "its_own.py").write_text(
        "import json, sys\n"
        "open(sys.argv[-1], 'w').write(json.dumps({'a': 1, 'b': {'c': [2, 3, 4]}}))\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    script = own_measurements.Script("its_own", "What it is about", lambda extent: [])
    monkeypatch.setitem(own_measurements.SCRIPTS, "its_own", script)
    whole = run()
    whole_run.measured(whole, (), ["its_own"], QUICK, tmp_path, tmp_path / "out.json")
    assert Run.load(tmp_path / "out.json").scripts == {"its_own": {"a": [1], "b: c": [2, 3, 4]}}
    page, *_ = report.written(whole, tmp_path / "page.md", tmp_path / "images")
    assert "## What it is about" in page.read_text()
    assert "| b: c | 3 (2-4) |" in page.read_text()


def test_a_log_that_has_grown_takes_little_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(grown_log, "RESERVE", 0)
    folder = tmp_path / "grown"
    grown_log.fill(folder, 0.05, 4 << 20)
    logs = sorted(folder.glob("bench-0/*.log"))
    assert len(logs) == 12
    assert sum(each.stat().st_size for each in logs) == 12 * 4 << 20
    assert sum(each.stat().st_blocks for each in logs) * 512 < 10 << 20
    grown_log.turn(folder)
    figures = json.loads(capsys.readouterr().out)
    assert all(value > 0 for value in figures.values())
    grown_log.open_again(folder)
    assert "open after kill ms" in capsys.readouterr().out
    assert len(list(folder.rglob("*.corrupt*"))) == 0


def test_a_grown_log_has_every_record_at_its_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grown_log, "RESERVE", 0)
    grown_log.fill(tmp_path / "grown", 0.01, 2 << 20)
    log_dir = instruction_paths.opened(tmp_path / "grown")
    log = log_dir.log(instruction_paths.TOPIC, 0)
    each = grown_log.FILLING_RECORDS
    assert log.log_end_offset == 5 * 2 * each
    for batch in range(10):
        data = log.read(batch * each + each // 2, instruction_paths.READ_BYTES)
        assert int.from_bytes(data[:8], "big") == batch * each
    log_dir.close()


def test_a_copy_that_is_not_whole_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the engine has checked every batch of a grown log."""
    copied = grown_log.copied

    def damaged(first: Path, base_offset: int) -> None:
        copied(first, base_offset)
        with first.with_name(f"{base_offset:020d}.log").open("r+b") as file:
            file.seek(grown_log.FILLING_BYTES // 2)
            file.write(b"x")

    monkeypatch.setattr(grown_log, "RESERVE", 0)
    monkeypatch.setattr(grown_log, "copied", damaged)
    with pytest.raises(RuntimeError, match="was opened with 16,000 records, not 80,000"):
        grown_log.fill(tmp_path / "grown", 0.01, 2 << 20)


def test_a_log_that_does_not_fit_is_not_begun(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"bytes free, .* are needed"):
        grown_log.fill(tmp_path / "grown", 1e9)
    assert list(tmp_path.iterdir()) == []


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
