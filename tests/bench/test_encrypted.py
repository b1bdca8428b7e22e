"""What a transfer over TLS is measured with: where time went, and how far a reader has come."""

from __future__ import annotations

import subprocess
import sys

from bench.busy_threads import BusyThreads
from bench.encrypted_client import end_of
from tests.support.logs import batch

SPUN_S = 0.3
SPIN = f"import time\nwhile time.process_time() < {SPUN_S}: pass"


def test_a_thread_that_ran_is_told_from_one_that_slept() -> None:
    spinning = subprocess.Popen([sys.executable, "-c", SPIN])
    sleeping = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({SPUN_S})"])
    with BusyThreads([spinning.pid]) as ran, BusyThreads([sleeping.pid]) as slept:
        assert [spinning.wait(60), sleeping.wait(60)] == [0, 0]
    assert ran.busiest().run_s > SPUN_S / 2 > slept.busiest().run_s
    assert slept.busiest().sleeps > ran.busiest().sleeps


def test_a_reader_goes_on_behind_the_last_whole_batch() -> None:
    first, second = batch("a", "b", "c"), batch("d", "e", base_offset=3)
    assert end_of(first + second, 0) == 5
    assert end_of(first + second[:-1], 0) == 3
    assert end_of(first[:-1], 7) == end_of(b"", 7) == 7
