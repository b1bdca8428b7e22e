"""Jobs that go on while something else is tried."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def beside(*jobs: Callable[[], object]) -> Iterator[None]:
    """Each again and again on a thread of its own; what one of them raises fails the test."""
    is_over = threading.Event()

    def run(job: Callable[[], object]) -> None:
        while not is_over.is_set():
            job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        running = [pool.submit(run, each) for each in jobs]
        try:
            yield
        finally:
            is_over.set()
            for each in running:
                each.result()
