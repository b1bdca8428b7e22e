"""The share of active users over time, by the names of `--shape`.

ramp       evenly from none to all
spike      a tenth, and all of them for one tenth of each period
soak       all of them after the first twentieth, until the end
sawtooth   evenly from none to all in each period, then none again
"""

from __future__ import annotations

import math
from collections.abc import Callable

TICKS_PER_RAMP = 20  # locust ramps to each step by itself
QUIET = 0.1  # of the users, between two spikes
SPIKE_AT, SPIKE_END = 0.45, 0.55  # of a period
SOAK_RAMP = 0.05  # of the run


def steps(part: float) -> float:
    return math.ceil(part * TICKS_PER_RAMP) / TICKS_PER_RAMP


def ramp(second: float, run_s: float, period_s: float) -> float:
    return steps(second / run_s)


def spike(second: float, run_s: float, period_s: float) -> float:
    part = second % period_s / period_s
    return 1.0 if SPIKE_AT <= part < SPIKE_END else QUIET


def soak(second: float, run_s: float, period_s: float) -> float:
    return min(1.0, steps(second / (run_s * SOAK_RAMP)))


def sawtooth(second: float, run_s: float, period_s: float) -> float:
    return steps(second % period_s / period_s)


SHAPES: dict[str, Callable[[float, float, float], float]] = {
    "ramp": ramp,
    "spike": spike,
    "soak": soak,
    "sawtooth": sawtooth,
}
