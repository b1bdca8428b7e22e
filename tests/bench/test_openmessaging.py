"""Runs of the OpenMessaging Benchmark without it: a program that says and writes what it does."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bench.openmessaging import __main__ as command
from bench.openmessaging import page, tool, workloads
from bench.openmessaging.tool import ToolFailed
from bench.openmessaging.workloads import WORKLOADS, Minutes
from bench.peers import cost, running
from bench.peers.brokers import Nobody
from bench.results import Comparison, Run

ROOT = Path(__file__).parents[2]
RATE, MOST, BACKLOG = WORKLOADS["sixteen-rate"], WORKLOADS["one-most"], WORKLOADS["backlog"]
RESULT = {
    "publishRate": [19_000.0, 21_000.0], "consumeRate": [18_000.0, 21_000.0],
    "publishErrorRate": [0.0, 0.0], "backlog": [7, 12],
    "aggregatedPublishLatency50pct": 0.4, "aggregatedPublishLatency99pct": 2.5,
    "aggregatedPublishLatency999pct": 9.0, "aggregatedEndToEndLatency50pct": 1.0,
    "aggregatedEndToEndLatency99pct": 3.0, "aggregatedEndToEndLatency999pct": 11.0,
}
DRAINED = "12:00:01.000 [main] INFO WorkloadGenerator - --- Completed backlog draining in 7.25 s"
# Reads its files and says what the tool says: the warm-up has an aggregate, too, and it never ends.
PROGRAM = f"""
import json, pathlib, sys, threading
driver, out, workload = sys.argv[2], sys.argv[4], sys.argv[5]
for file in (driver, workload):
    print(json.loads(pathlib.Path(file).read_text())["name"])
print("Aggregated Pub Latency\\nStarting benchmark traffic\\nAggregated Pub Latency")
print("Writing test result", flush=True)
pathlib.Path(out).write_text(json.dumps({RESULT!r}))
threading.Event().wait()
"""
FAILING = """
print("Starting benchmark traffic\\nFailed to run the workload 'x'\\nNoSuchTopic", flush=True)
"""


def found(result: Mapping[str, Any], workload: workloads.Workload = RATE, said: str = "") -> Any:
    return tool.figures(result, workload, said)


def test_the_figures_are_those_of_the_result() -> None:
    assert found(RESULT) == {
        "records/s": 20_000, "MB/s": 20, "consumed, records/s": 19_500,
        "publish p50 ms": 0.4, "publish p99 ms": 2.5, "publish p99.9 ms": 9,
        "end to end p50 ms": 1, "end to end p99 ms": 3, "end to end p99.9 ms": 11,
        "backlog at most, records": 12,
    }


def test_a_backlog_is_told_by_its_end() -> None:
    told = found(RESULT, BACKLOG, f"built\n{DRAINED}\n")
    assert (told["drained in s"], told["consumed at most, records/s"]) == (7.25, 21_000)
    assert "consumed, records/s" not in told
    with pytest.raises(ToolFailed, match="when the backlog was drained"):
        found(RESULT, BACKLOG)


def test_records_that_were_not_published_are_no_result() -> None:
    with pytest.raises(ToolFailed, match=r"not published, 2\.5/s"):
        found({**RESULT, "publishErrorRate": [0.0, 2.5]})


def test_both_brokers_get_the_same_but_for_their_promise(tmp_path: Path) -> None:
    asked = workloads.of_workload(BACKLOG, Minutes(1, 2))
    ours, theirs = (workloads.of_driver(BACKLOG, name, "127.0.0.1:1") for name in command.BROKERS)
    assert ours.pop("topicConfig") == "visibility=appended\n"
    assert (theirs.pop("topicConfig"), theirs.pop("name")) == ("", "kafka")
    assert ours.pop("name") == "appliance"
    assert ours == theirs
    assert ours["producerConfig"] == "acks=1\nlinger.ms=10\nbatch.size=1048576\n"
    assert ours["commonConfig"] == "bootstrap.servers=127.0.0.1:1\n"
    workloads.write_yaml(tmp_path / "asked.yaml", asked)
    kept = json.loads((tmp_path / "asked.yaml").read_text())
    assert (kept["consumerBacklogSizeGB"], kept["testDurationMinutes"]) == (2, 2)
    assert (kept["partitionsPerTopic"], kept["producerRate"]) == (16, 30_000)


def test_what_is_durable_at_both_is_synced_by_kafka() -> None:
    durable = workloads.of_driver(WORKLOADS["hundred-rate"], "kafka", "")
    assert durable["topicConfig"] == "flush.messages=1\n"
    assert workloads.of_driver(RATE, "kafka", "")["topicConfig"] == ""


def test_titles_are_short_for_a_chart_and_tell_workloads_apart() -> None:
    titles = [WORKLOADS[name].title for name in ("one-most", "topics-rate", "backlog")]
    assert titles == ["1 partition, 1000 B, at most", "100 topics, 1000 B, 10,000/s",
                      "16 partitions, 1000 B, backlog of 2 GiB"]
    assert len(workloads.BY_TITLE) == len(WORKLOADS)


def built(folder: Path, *left_out: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in tool.NEEDED:
        if name not in left_out:
            (folder / f"{name}-1.2.jar").touch()
    return folder


def call(*words: object) -> Result:
    return CliRunner().invoke(command.main, [str(each) for each in words])


def test_jars_lie_in_the_folder_or_in_its_lib(tmp_path: Path) -> None:
    lib = built(tmp_path / "package/lib")
    assert tool.jars(tmp_path / "package") == tool.jars(lib) == lib
    assert tool.version(lib) == "1.2 with kafka-clients-1.2"


def test_a_folder_without_the_jars_is_refused(tmp_path: Path) -> None:
    done = call(tmp_path)
    assert done.exit_code == 1
    assert (f"found none in {tmp_path} or its lib: benchmark-framework-*.jar, driver-api-*.jar, "
            "driver-kafka-*.jar, kafka-clients-*.jar\n") in done.stderr
    assert "has no jar of kafka-clients\n" in call(built(tmp_path, "kafka-clients")).stderr
    assert "wanted FOLDER or --report, got neither" in call().stderr


class Silent(Nobody):
    """A broker that costs nothing, of a name."""

    pids = ()

    def forget_peak(self) -> None:
        """It has none."""

    def peak_resident_bytes(self) -> int:
        return 0


@pytest.fixture
def said_by(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets a program stand for the tool, and nothing for the brokers."""
    monkeypatch.setattr(command, "settle", lambda: None)
    monkeypatch.setattr(cost.SyncCounter, "works", staticmethod(lambda: False))
    for name in command.BROKERS:
        monkeypatch.setitem(running.PEERS, name, Silent)

    def install(program: str) -> None:
        monkeypatch.setattr(tool, "command", lambda place, workload, driver, result: [
            sys.executable, "-c", program, "-d", str(driver), "-o", str(result), str(workload)])

    return install


def test_both_take_turns_and_a_page_tells_it(said_by: Any, tmp_path: Path) -> None:
    said_by(PROGRAM)
    out = tmp_path / "out.json"
    done = call(built(tmp_path / "lib"), "--workload", "sixteen-rate", "--rounds", 2, "--out", out)
    assert done.exit_code == 0, done.output
    order = re.findall(r"round (\d), (\w+)$", done.stderr, re.MULTILINE)
    assert order == [("1", "appliance"), ("1", "kafka"), ("2", "appliance"), ("2", "kafka")]
    run = Run.load(out)
    rows = {each.figure: each for each in run.comparisons}
    assert (rows["publish p99 ms"].ours, rows["publish p99 ms"].theirs) == ([2.5] * 2, [2.5] * 2)
    assert (rows["cpu s/GB"].ours, len(rows["client's cpu s/GB"].theirs)) == ([0, 0], 2)
    assert run.machine["OpenMessaging Benchmark"] == "1.2 with kafka-clients-1.2"
    assert "| publish p99 ms | 2.5 (2.5-2.5) | 2.5 (2.5-2.5) | 1.00 (1.00-1.00) |" in done.stdout


@pytest.mark.parametrize(("program", "reason"), [
    (PROGRAM.replace("pathlib.Path(out).write_text", "str"), "the tool's result in result.json"),
    ("raise SystemExit('no driver')", r"before it said 'Starting benchmark traffic':\s+no driver"),
    (FAILING + PROGRAM.partition("driver, ")[0] + "threading.Event().wait()", "x'\nNoSuchTopic"),
], ids=["no result", "no test", "it failed"])
def test_a_run_without_a_result_has_failed(
    said_by: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, reason: str
) -> None:
    said_by(program)
    monkeypatch.setattr(tool, "WRITTEN_S", 0.1)
    out = tmp_path / "out.json"
    done = call(built(tmp_path / "lib"), "--workload", "one-most", "--out", out)
    assert done.exit_code == command.FAILED
    run = Run.load(out)
    assert re.search(reason, run.failed[MOST.title])
    assert run.comparisons == []


def test_a_tool_that_hangs_is_ended(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    with (tool.running(words, tmp_path, 0.1) as hung,
          pytest.raises(ToolFailed, match="or was ended, before it said 'never'")):
        hung.read_until("never")


LATENCY = Comparison("openmessaging", RATE.title, "publish p99 ms", "kafka", [2.0, 3.0, 2.5],
                     [5.0, 5.0, 5.0], None)
MARKED = "# Head\n\n<!-- openmessaging -->\nold\n<!-- /openmessaging -->\nend\n"


def test_the_page_gets_table_and_chart_between_its_marks(tmp_path: Path) -> None:
    file = tmp_path / "decisions/page.md"
    file.parent.mkdir()
    file.write_text(MARKED)
    run = Run({"cores": "2"}, 3, [LATENCY, replace(LATENCY, figure="cpu s/GB")],
              failed={MOST.title: "ToolFailed: no result:\nlines"})
    assert page.fill(run, file, tmp_path) == [file, tmp_path / page.CHART]
    text = file.read_text()
    assert text.startswith("# Head\n\n<!-- openmessaging -->\ncores: 2; rounds: 3")
    assert text.endswith("<!-- /openmessaging -->\nend\n")
    assert f"![Ratios](../{page.CHART})" in text
    assert (f"| **{RATE.title}**; defaults, acks=all | disk, page cache | publish p99 ms | "
            "2.5 (2-3) | 5 (5-5) | 0.50 (0.40-0.60) |") in text
    assert "|  |  | cpu s/GB |" in text
    assert f"**Not measured:**\n\n- {MOST.title}: ToolFailed: no result:\n" in text
    assert "publish p99 ms" in (tmp_path / page.CHART).read_text()


def test_a_page_without_marks_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("text\n")
    with pytest.raises(ValueError, match="has no <!-- openmessaging -->"):
        page.fill(Run({}, 1), file, tmp_path)
    assert not (tmp_path / page.CHART).exists()


def test_latencies_at_most_are_not_drawn() -> None:
    assert page.is_drawn(LATENCY)
    assert not page.is_drawn(replace(LATENCY, case=MOST.title))
    assert page.is_drawn(replace(LATENCY, case=MOST.title, figure="consumed, records/s"))
    assert page.is_drawn(replace(LATENCY, case=BACKLOG.title, figure="drained in s"))


def test_the_page_of_the_project_has_the_marks() -> None:
    assert page.BLOCK.search((ROOT / "docs/decisions/openmessaging.md").read_text())
