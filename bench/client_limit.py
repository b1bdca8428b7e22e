"""Whether the client limits a rate, and not the broker: its share of the processor while it ran.

A client with one thread is the limit when it leaves its core no rest. One with several threads is
when no core has any rest left, and most of what ran was the client.
"""

from __future__ import annotations

import statistics

from bench.results import EXPLAINING, MORE_IS_BETTER, Comparison, Run

ONE_THREAD, THREADS, BROKER = EXPLAINING  # of one core; the sums of their threads
FULL = 0.95


def figures(client_cpu: float, broker_cpu: float, seconds: float,
            is_one_thread: bool) -> dict[str, float]:
    return {ONE_THREAD if is_one_thread else THREADS: client_cpu / seconds,
            BROKER: broker_cpu / seconds}


def reason(each: Comparison, run: Run) -> str | None:
    """Why the client limits this rate with ours. None: it does not, or nobody measured it."""
    if each.figure not in MORE_IS_BETTER:
        return None
    had = {row.figure: statistics.median(row.ours) for row in run.comparisons
           if (row.suite, row.case) == (each.suite, each.case) and row.is_explaining
           and row.ours}
    one, threads, broker = (had.get(name, 0) for name in EXPLAINING)
    if one >= FULL:
        return f"The client is the limit: it has one thread, which had {one:.2f} of a core."
    cores = int(run.machine["cores"])
    if threads > broker and threads + broker >= FULL * cores:
        return (f"The client is the limit: of {cores} cores it had {threads:.2f}, "
                f"the broker {broker:.2f}.")
    return None

