"""docs/benchmarks.md and its charts, from a file of results: what was won, and what was lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.results import Comparison, Run, by_suite, middle_and_ends
from bench.suites import SUITES

WON, LOST, CLOSE = "#2f7d4f", "#b3403a", "#8a8a8a"
NOISE = 0.05  # a ratio so near to 1 is neither won nor lost


def written(run: Run, page: Path, images: Path) -> list[Path]:
    """The page and the charts that it shows."""
    images.mkdir(parents=True, exist_ok=True)
    charts = {suite: images / f"{suite}.svg" for suite in by_suite(run)}
    for suite, rows in by_suite(run).items():
        draw(rows, charts[suite])
    page.write_text("\n".join(lines(run, charts, page)) + "\n")
    return [page, *charts.values()]


def lines(run: Run, charts: dict[str, Path], page: Path) -> Iterator[str]:
    yield "# Benchmarks"
    yield ""
    yield (
        "Written by `python -m bench report`; measured by `python -m bench run`. Both brokers took "
        f"turns, A B A B, {run.rounds} rounds after one to warm up; each figure is a median, with "
        "the lowest and the highest. The ratio is ours to theirs; what it was at its lowest and "
        "its highest, round by round, stands behind it. A goal that was missed is marked, and so "
        "is a figure at which we are behind."
    )
    yield ""
    yield "; ".join(f"{name}: {value}" for name, value in run.machine.items()) + "."
    for suite, rows in by_suite(run).items():
        yield ""
        yield f"## {suite.replace('_', ' ')}"
        yield ""
        yield (SUITES[suite].__doc__ or "").strip()
        yield ""
        yield f"![Ratios of {suite}]({charts[suite].relative_to(page.parent)})"
        yield ""
        yield from table(rows)
    yield from appendix(run)


def table(rows: Iterable[Comparison]) -> Iterator[str]:
    yield "| | figure | ours | theirs | ratio | goal |"
    yield "|---|---|---|---|---|---|"
    last = ""
    for each in rows:
        name, last = ("" if each.case == last else each.case), each.case
        low, high = each.spread
        ratio = f"{each.ratio:.2f} ({low:.2f}-{high:.2f})"
        if not each.is_won and abs(each.ratio - 1) > NOISE:
            ratio += " behind"
        yield (f"| {name} | {each.figure} | {figures(each.ours)} | {figures(each.theirs)} "
               f"({each.peer}) | {ratio} | {goal(each)} |")


def goal(each: Comparison) -> str:
    if each.goal is None:
        return ""
    sign = "≥" if each.is_more_better else "≤"
    return f"{sign} {each.goal:.2g}{'' if each.is_met else ' **missed**'}"


def figures(values: list[float]) -> str:
    middle, low, high = middle_and_ends(values)
    return f"{number(middle)} ({number(low)}-{number(high)})"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def appendix(run: Run) -> Iterator[str]:
    if run.limits:
        yield from ("", "## What the machine itself gives", "", "| | |", "|---|---|")
        for name, values in run.limits.items():
            yield f"| {name} | {figures(values)} |"
    if run.instructions:
        yield from ("", "## Instructions of one step in the core", "", "| | |", "|---|---|")
        for path, count in run.instructions.items():
            yield f"| {path} | {count:,} |"
    if run.resident_mb:
        yield from ("", "## Memory at its peak, over the whole run", "", "| | MB |", "|---|---|")
        for broker, size in run.resident_mb.items():
            yield f"| {broker} | {size:.0f} |"


def draw(rows: list[Comparison], file: Path) -> None:
    """A bar for each figure: how many times better we are, on a scale in which twice as good and
    half as good are equally long."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "appliance", "font.size": 9})
    from matplotlib import pyplot

    rows = [each for each in rows if each.ratio == each.ratio and each.ratio > 0]
    chart, axes = pyplot.subplots(figsize=(8, 0.6 + 0.32 * len(rows)), layout="constrained")
    for place, each in enumerate(reversed(rows)):
        better, low, high = times_better(each)
        axes.barh(place, better - 1, left=1, color=colour(better), height=0.62)
        axes.plot([low, high], [place, place], color="black", linewidth=1)
        if each.goal:
            mark = each.goal if each.is_more_better else 1 / each.goal
            axes.plot([mark, mark], [place - 0.4, place + 0.4], color="#2b5fb0", linewidth=2)
    axes.set_yticks(range(len(rows)), [f"{each.case}: {each.figure}" for each in reversed(rows)])
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.set_xlabel("times better than the peer; line: spread; blue: the goal")
    chart.savefig(file, metadata={"Date": None})
    pyplot.close(chart)


def times_better(each: Comparison) -> tuple[float, float, float]:
    low, high = each.spread
    return (each.ratio, low, high) if each.is_more_better else (1 / each.ratio, 1 / high, 1 / low)


def colour(better: float) -> str:
    if abs(better - 1) <= NOISE:
        return CLOSE
    return WON if better > 1 else LOST
