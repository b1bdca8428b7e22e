"""What a transfer over TLS is measured with: where time went, and how far a reader has come."""

from __future__ import annotations

import subprocess
import sys

from bench.busy_threads import BusyThreads
from bench.encrypted_client import end_of
from tests.support.logs import batch

SPUN_S = 0.3
SLEEP = f"time.sleep({SPUN_S})"
SPIN = f"""
begin = time.process_time()
while time.process_time() < begin + {SPUN_S}:
    pass
"""
# It begins when it is told to, and is there until somebody has looked.
PROGRAM = """
import time
input()
{}
print(flush=True)
input()
"""


def started(job: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(job)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1, text=True,
    )  # fmt: skip


def test_a_thread_that_ran_is_told_from_one_that_slept() -> None:
    with started(SPIN) as spinning, started(SLEEP) as sleeping:
        with BusyThreads([spinning.pid]) as ran, BusyThreads([sleeping.pid]) as slept:
            for each in (spinning, sleeping):
                assert each.stdin is not None
                each.stdin.write("\n")
            for each in (spinning, sleeping):
                assert each.stdout is not None
                assert each.stdout.readline() == "\n"
        for each in (spinning, sleeping):
            each.communicate("\n", 60)
    assert ran.busiest().run_s > SPUN_S / 2 > slept.busiest().run_s
    assert slept.busiest().sleeps > ran.busiest().sleeps


def test_a_reader_goes_on_behind_the_last_whole_batch() -> None:
    first, second = batch("a", "b", "c"), batch("d", "e", base_offset=3)
    assert end_of(first + second, 0) == 5
    assert end_of(first + second[:-1], 0) == 3
    assert end_of(first[:-1], 7) == end_of(b"", 7) == 7
