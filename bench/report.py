"""Writes docs/benchmarks.md and its charts from a file of results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from pathlib import Path

from bench import charts, client_limit, remarks
from bench.limits import Limit
from bench.own_measurements import SCRIPTS
from bench.remarks import Remarks
from bench.results import MORE_IS_BETTER, Comparison, Run, by_suite, middle_and_ends
from bench.run_size import WHOLE
from bench.suites import SUITES

REPEAT = (
    "To repeat the run: `make bench` (an hour), or `make bench ARGS=--quick` (15 minutes, "
    "smaller loads), then `python -m bench report results.json`. The run needs Java, Maven and "
    "librdkafka's `rdkafka_performance`; as root it also empties the page cache and, with perf, "
    "counts syncs; with valgrind it counts instructions; with Go it measures franz-go, "
    "with Node kafkajs, with cargo rskafka. "
    "A rate is marked as the client's where the client had no rest left: its one thread had 95 % "
    "of a core, or all cores were busy and most of that was the client. "
    "`python -m bench.planted_slowdown` shows that `python -m bench compare` detects an append "
    "that takes a fifth more instructions. "
    "Disks with platters, simulated: `python -m bench.disks`, "
    "[disks as they are](decisions/disks-as-they-are.md). "
    "Both under the benchmark of others: `python -m bench.openmessaging`, "
    "[OpenMessaging](decisions/openmessaging.md)."
)
BOUNDS = (
    "A floor: the same client, in the same turns, with a program that does only the least of a "
    "broker's work in our place. It appends a batch to a file, responds, and sends a file's bytes. "
    "With real clients it keeps our promise (`bench/peers/floor_broker.c`): a batch has the right "
    "checksum, and a file is synced behind 10,000 records or a second, and before an answer with "
    "acks=all. For requests of one record it checks nothing (`floor.c`), and syncs only where "
    "durable latency is compared. The floor of a start imports the web server of the console and "
    "opens a port. "
    "Where ours is ahead of it, both are at what the machine gave in that turn. "
    "Without a floor, the machine: our figure at the machine's whole limit, as the tables below "
    "have it; or the client: it had no rest left. These say what is left for a broker to win here; "
    "where none of them stands in the way, the reason is ours."
)
PATH = re.compile(r"(?:/[\w.+-]+)+/")  # paths of the machine, which do not belong on the page
A_FLOOR, THE_MACHINE, THE_CLIENT = "a floor", "the machine", "the client"
BLOCK = re.compile(r"(<!-- benchmarks -->\n).*?(<!-- /benchmarks -->)", re.DOTALL)


def written(run: Run, page: Path, images: Path) -> list[Path]:
    """Writes the page and its charts. Returns their paths."""
    images.mkdir(parents=True, exist_ok=True)
    drawn = {}
    for suite, rows in by_suite(run).items():
        if any(map(charts.can_be_drawn, rows)):
            drawn[suite] = images / f"{suite}.svg"
            charts.draw(rows, drawn[suite])
    page.write_text("\n".join(lines(run, drawn, page, remarks.load())) + "\n")
    return [page, *drawn.values()]


def fill_block(run: Run, page: Path) -> bool:
    """Writes the goals between the two marks of a page. Returns whether the page has the marks."""
    text = page.read_text()
    goals = "\n".join(goals_table(run)) + "\n"
    new = BLOCK.sub(lambda marks: marks[1] + goals + marks[2], text)
    page.write_text(new)
    return BLOCK.search(text) is not None


def lines(run: Run, drawn: dict[str, Path], page: Path, known: Remarks) -> Iterator[str]:
    yield from head(run)
    yield from ("", "## The goals", "")
    yield from goals_table(run)
    for suite, rows in by_suite(run).items():
        yield from ("", f"## {suite.replace('_', ' ')}", "", about(suite))
        if suite in drawn:
            yield from ("", f"![Ratios of {suite}]({drawn[suite].relative_to(page.parent)})")
        yield ""
        yield from table(rows, run)
        yield from why(rows, known, run)
    yield from appendix(run)


def about(suite: str) -> str:
    """Empty for a suite of an older file that is gone."""
    return (SUITES[suite].__doc__ or "").strip() if suite in SUITES else ""


def head(run: Run) -> Iterator[str]:
    yield from ("# Benchmarks", "")
    yield (
        "Written by `python -m bench report`; measured by `python -m bench run`. Both took "
        f"turns, A B A B, and a floor with them, {run.rounds} rounds after a warm-up, fewer if the "
        "time of the run ended; each figure is a median, with the lowest and the highest value. "
        "The ratio is ours to theirs, with the lowest and the highest ratio of a round. Missed "
        "goals are marked, and so are figures that are behind; the text below each table has the "
        "reasons and the attempts. "
        "A ratio of one round may be wrong by a third: the run had no time for more rounds."
    )
    yield ""
    took = {"took": f"{run.minutes:.0f} minutes"} if run.minutes else {}
    yield "; ".join(f"{name}: {value}" for name, value in {**run.machine, **took}.items()) + "."
    yield from ("", REPEAT)
    if run.failed:
        yield from ("", "**Not measured:**", "")
        yield from (f"- {name}: {PATH.sub('', reason.splitlines()[0])}"
                    for name, reason in run.failed.items())


def goals_table(run: Run) -> Iterator[str]:
    rows = [each for each in run.comparisons if each.goal is not None]
    met = sum(bool(each.is_met) for each in rows)
    compared = [each for each in run.comparisons if not each.is_explaining]
    behind = sum(is_behind(each) for each in compared)
    bounds = bounds_of(rows, run)
    lost = Counter(bounds[at][0] for at, each in enumerate(rows) if each.is_met is False)
    yield (f"{met} of {len(rows)} goals are met. Of the others a floor misses {lost[A_FLOOR]}, "
           f"too; {lost[THE_MACHINE]} more are beyond the machine's limit, {lost[THE_CLIENT]} are "
           f"the client's, and {lost['']} are left to win. "
           f"Of {len(compared)} figures {behind} are behind the peer's.")
    yield from ("", "| case | figure | ours to theirs, with its spread | goal | met | a floor's | "
                "what stands in the way |", "|---|---|---|---|---|---|---|")
    for each, (kind, words) in zip(rows, bounds, strict=True):
        sign = "≥" if each.is_more_better else "≤"
        reason = f"{kind}{words}" if each.is_met is False else ""
        yield (f"| {each.case} | {each.figure} | {ratio(each)} | {sign} {each.goal:.3g} | "
               f"{'yes' if each.is_met else '**no**'} | {floor(each)} | {reason} |")
    yield from ("", BOUNDS)


def floor(each: Comparison) -> str:
    return f"{each.floor_ratio:.2f}" if isfinite(each.floor_ratio) else ""


def bounds_of(rows: Sequence[Comparison], run: Run) -> list[tuple[str, str]]:
    """For each goal what is under it, and the words that go with it; empty: nothing that was
    measured."""
    of_case = limits_of_cases()
    return [bound(each, of_case.get(each.case), run) for each in rows]


def bound(each: Comparison, limit: Limit | None, run: Run) -> tuple[str, str]:
    if is_short(each, each.floor_ratio):
        return A_FLOOR, ""
    if isfinite(each.floor_ratio):
        return "", ""
    share = limit.share(each.ours, run.limits) if limit and each.is_more_better else None
    if share and share < 1 and limit.is_bandwidth and is_short(each, each.ratio / share):
        return THE_MACHINE, f": {each.ratio / share:.2f}"
    if client_limit.reason(each, run):
        return THE_CLIENT, ""
    return "", ""


def is_short(each: Comparison, of_bound: float) -> bool:
    """Whether not even the bound meets the goal."""
    assert each.goal is not None
    return of_bound < each.goal if each.is_more_better else of_bound > each.goal


def table(rows: Iterable[Comparison], run: Run) -> Iterator[str]:
    of_case = limits_of_cases()

    yield ("| | figure | ours | theirs | ratio | goal | a floor | "
           "ours as a share of the machine's limit |")
    yield "|---|---|---|---|---|---|---|---|"
    last = ""
    for each in rows:
        name, last = ("" if each.case == last else each.case), each.case
        behind = " behind" if is_behind(each) else ""
        behind += ", the client's" if client_limit.reason(each, run) else ""
        least = figures(each.floor) if each.floor else ""
        yield (f"| {name} | {each.figure} | {figures(each.ours)} | {figures(each.theirs)} "
               f"({each.peer}) | {ratio(each)}{behind} | {goal(each)} | {least} | "
               f"{of_machine(each, of_case.get(each.case), run)} |")


def limits_of_cases() -> dict[str, Limit]:
    return {case.name: case.limit for suite in SUITES.values() for case in suite(WHOLE)
            if case.limit}


def of_machine(each: Comparison, limit: Limit | None, run: Run) -> str:
    if limit is None or each.figure not in MORE_IS_BETTER:
        return ""
    share = limit.share(each.ours, run.limits)
    if share is None:
        return ""
    return f"{share:.{int(share < 0.1)}%} of {limit.name.rpartition(', ')[0]}"


def why(rows: Iterable[Comparison], known: Remarks, run: Run) -> Iterator[str]:
    """The reason for each figure that is behind or misses its goal: the remark on it, or that the
    client is the limit."""
    lost = [each for each in rows if is_behind(each) or each.is_met is False]
    groups: dict[str, list[Comparison]] = {}
    for each in lost:
        heading = remarks.heading_of(known, each)
        text = known[heading] if heading else client_limit.reason(each, run)
        groups.setdefault(text or "the reason is not known yet.", []).append(each)
    if lost:
        yield from ("", "**Behind, or under the goal:**", "")
    for text, each_of in groups.items():
        yield f"- {named(each_of)}: " + text.replace("\n\n", "\n\n  ").replace("\n", "\n  ")


def named(rows: Sequence[Comparison]) -> str:
    by_case: dict[str, list[Comparison]] = {}
    for each in rows:
        by_case.setdefault(each.case, []).append(each)
    return "; ".join(
        f"**{case}**, " + ", ".join(f"{each.figure} {each.ratio:.2f} x" for each in of_case)
        for case, of_case in by_case.items())


def is_behind(each: Comparison) -> bool:
    """False without a ratio: the peer may have 0, as a mock that writes no bytes."""
    return (isfinite(each.ratio) and not each.is_explaining and not each.is_won
            and not charts.is_close(each.ratio))


def ratio(each: Comparison) -> str:
    if not isfinite(each.ratio):
        return "none"
    if min(len(each.ours), len(each.theirs)) == 1:
        return f"{each.ratio:.2f}, one round"
    low, high = each.spread
    return f"{each.ratio:.2f} ({low:.2f}-{high:.2f})"


def goal(each: Comparison) -> str:
    if each.goal is None:
        return ""
    sign = "≥" if each.is_more_better else "≤"
    return f"{sign} {each.goal:.3g}{'' if each.is_met else ' **missed**'}"


def figures(values: list[float]) -> str:
    if not values:
        return "-"
    middle, low, high = middle_and_ends(values)
    if len(values) == 1:
        return number(middle)
    return f"{number(middle)} ({number(low)}-{number(high)})"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def appendix(run: Run) -> Iterator[str]:
    if run.limits:
        yield from ("", "## Limits of the machine", "", "| | |", "|---|---|")
        for name, values in run.limits.items():
            yield f"| {name} | {figures(values)} |"
    for name, figures_of in run.scripts.items():
        yield from ("", f"## {SCRIPTS[name].about}", "", f"`python -m {SCRIPTS[name].module}`", "",
                    "| | |", "|---|---|")
        for figure, values in figures_of.items():
            yield f"| {figure} | {figures(values)} |"
    if run.instructions:
        yield from ("", "## Instructions of one step in the core", "", "| | |", "|---|---|")
        for path, count in run.instructions.items():
            yield f"| {path} | {count:,} |"
    if run.resident_mb:
        yield from ("", "## Peak memory of the whole run", "", "| | MB |", "|---|---|")
        for broker, size in run.resident_mb.items():
            yield f"| {broker} | {size:.0f} |"
