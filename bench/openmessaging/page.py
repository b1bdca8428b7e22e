"""What a run found, as a table and a chart, between the two marks of its page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from bench import charts, client_limit, report
from bench.openmessaging.workloads import BY_TITLE
from bench.results import Comparison, Run

BLOCK = re.compile(r"(<!-- openmessaging -->\n).*?(<!-- /openmessaging -->)", re.DOTALL)
CHART = Path("images/benchmarks/openmessaging.svg")  # below docs/
# At most, a latency is the time in the client's full buffer; at a rate, that rate is reached.
DRAWN_AT_MOST = ("records/s", "consumed, records/s", "cpu s/GB")
DRAWN_OF_BACKLOG = ("drained in s", "cpu s/GB")
# The tool leaves out what arrives in the same millisecond, so its median end to end is none.
DRAWN_AT_RATE = ("publish p50 ms", "publish p99 ms", "publish p99.9 ms", "end to end p99 ms",
                 "cpu s/GB")


def fill(run: Run, page: Path, docs: Path) -> list[Path]:
    """Draws the chart and writes both between the marks of the page. Returns what was written."""
    text = page.read_text()
    if BLOCK.search(text) is None:
        raise ValueError(f"{page} has no <!-- openmessaging --> and <!-- /openmessaging -->")
    chart = docs / CHART
    chart.parent.mkdir(parents=True, exist_ok=True)
    charts.draw([each for each in run.comparisons if is_drawn(each)], chart)
    there = Path("..") / CHART if page.parent != docs else CHART
    block = "\n".join((head(run), "", f"![Ratios]({there})", "", *table(run))) + "\n"
    page.write_text(BLOCK.sub(lambda marks: marks[1] + block + marks[2], text))
    return [page, chart]


def is_drawn(each: Comparison) -> bool:
    workload = BY_TITLE[each.case]
    if workload.backlog_gb:
        return each.figure in DRAWN_OF_BACKLOG
    return each.figure in (DRAWN_AT_MOST if workload.is_at_most else DRAWN_AT_RATE)


def head(run: Run) -> str:
    facts = "; ".join(f"{name}: {value}" for name, value in run.machine.items())
    text = (f"{facts}; rounds: {run.rounds}; took: {run.minutes:.0f} minutes. Written by "
            "`python -m bench.openmessaging --report`.")
    failed = "".join(f"\n- {name}: {report.PATH.sub('', reason.splitlines()[0])}"
                     for name, reason in run.failed.items())
    return f"{text}\n\n**Not measured:**\n{failed}" if failed else text


def table(run: Run) -> Iterator[str]:
    yield "| | acknowledged in, ours and theirs | figure | ours | Kafka | ratio |"
    yield "|---|---|---|---|---|---|"
    last = ""
    for each in run.comparisons:
        is_new, last = each.case != last, each.case
        behind = " behind" if report.is_behind(each) else ""
        behind += ", the client's" if client_limit.reason(each, run) else ""
        yield (f"| {named(each.case) if is_new else ' | '} | {each.figure} | "
               f"{report.figures(each.ours)} | {report.figures(each.theirs)} | "
               f"{report.ratio(each)}{behind} |")


def named(title: str) -> str:
    workload = BY_TITLE[title]
    return (f"**{title}**; {workload.producer} | "
            f"{workload.promise.ours}, {workload.promise.theirs}")
