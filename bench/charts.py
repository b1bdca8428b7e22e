"""The charts of docs/benchmarks.md: a bar per figure, with the ratio to the peer."""

from __future__ import annotations

from pathlib import Path

from bench.results import Comparison

WON, LOST, CLOSE, GOAL = "#2f7d4f", "#b3403a", "#8a8a8a", "#2b5fb0"
NOISE = 0.05  # a ratio this near to 1 is neither won nor lost
TICKS = (0.1, 0.2, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 20, 50, 100, 500)


def draw(rows: list[Comparison], file: Path) -> None:
    """A scale on which twice as good and half as good are equally long."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "appliance", "font.size": 9})
    from matplotlib import pyplot

    rows = [each for each in rows if can_be_drawn(each)][::-1]
    chart, axes = pyplot.subplots(figsize=(9, 0.9 + 0.3 * len(rows)), layout="constrained")
    ends = [0.8, 1.25]
    for place, each in enumerate(rows):
        better, low, high = times_better(each)
        axes.barh(place, better - 1, left=1, color=colour(better), height=0.62)
        axes.plot([low, high], [place, place], color="black", linewidth=1)
        ends += [value for value in (better, low, high) if 0 < value < float("inf")]
        if each.goal:
            mark = each.goal if each.is_more_better else 1 / each.goal
            axes.plot([mark, mark], [place - 0.4, place + 0.4], color=GOAL, linewidth=2.5)
            ends.append(mark)
        axes.annotate(f"{better:.3g}x", (max(better, high, 1), place), (4, 0),
                      textcoords="offset points", va="center", fontsize=8,
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})
    axes.set_yticks(range(len(rows)), [f"{each.case}: {each.figure}" for each in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xscale("log")
    axes.set_xlim(min(ends) / 1.1, max(ends) * 1.35)
    shown = [each for each in TICKS if min(ends) / 1.1 <= each <= max(ends) * 1.35]
    axes.set_xticks(shown, [f"{each:g}x" for each in shown])
    axes.xaxis.minorticks_off()
    axes.axvline(1, color="black", linewidth=0.8)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("times better than the peer (right of 1x: we are ahead); "
                    "black: spread; blue: the goal")
    chart.savefig(file, metadata={"Date": None}, facecolor="white")
    pyplot.close(chart)


def can_be_drawn(each: Comparison) -> bool:
    """A ratio to zero cannot be drawn on such a scale, not even of one round."""
    return not each.is_explaining and 0 < each.ratio < float("inf") and each.spread[0] != 0


def times_better(each: Comparison) -> tuple[float, float, float]:
    low, high = each.spread
    return (each.ratio, low, high) if each.is_more_better else (1 / each.ratio, 1 / high, 1 / low)


def is_close(ratio: float) -> bool:
    return abs(ratio - 1) <= NOISE


def colour(better: float) -> str:
    if is_close(better):
        return CLOSE
    return WON if better > 1 else LOST
