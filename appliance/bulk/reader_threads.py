"""Bulk reading: on threads of its own that come last at the disk, at one pace for all.

The pace is a debt: what was read must be paid for in time before the next read. A stream that is
not taken away reads nothing, holds one frame, and no thread.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from appliance.bulk._bulk_page_cache import lower_io_priority
from appliance.config import ExportConfig
from appliance.errors import ApplianceError
from appliance.process import event_log

log = event_log.named("export")

BURST_SECONDS = 0.1  # of the pace, that may be read at once after a pause

Result = TypeVar("Result")


class StreamsExhausted(ApplianceError):
    """As many bulk reads are under way as the setting allows."""

    kafka_code = 89


class Pace:
    """So many bytes a second, shared by all that take from it; another rate beside commits."""

    def __init__(self, config: ExportConfig) -> None:
        self._rate = config.bytes_per_second or math.inf
        beside_commits = config.beside_commits_bytes_per_second or math.inf
        self._rate_beside_commits = min(self._rate, beside_commits)
        self._paid_until = 0.0  # of time.monotonic()

    async def took(self, size: int, is_quiet: bool) -> None:
        rate = self._rate if is_quiet else self._rate_beside_commits
        now = time.monotonic()
        self._paid_until = max(self._paid_until, now - BURST_SECONDS) + size / rate
        if self._paid_until > now:
            await asyncio.sleep(self._paid_until - now)


class Reading:
    def __init__(self, config: ExportConfig) -> None:
        self.config = config
        self.pace = Pace(config)
        self.streams = 0  # open now
        self.decoded_streams = 0  # of these
        self.bytes = 0  # of batches sent, as are the next two
        self.passed_bytes = 0  # of those, dropped from the page cache again
        self.streams_ended = {"complete": 0, "cut": 0}
        self._threads = ThreadPoolExecutor(config.threads, "export", _come_last)

    async def on_thread(self, job: Callable[[], Result]) -> Result:
        """Whoever is cancelled waits for the end of it: it uses what is his."""
        future = asyncio.get_running_loop().run_in_executor(self._threads, job)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise

    def begin(self, is_decoded: bool) -> None:
        if self.streams >= self.config.streams_max:
            raise StreamsExhausted(
                f"{self.streams} bulk reads are under way, wanted at most "
                f"{self.config.streams_max} (export.streams.max); ask again later"
            )
        if is_decoded and self.decoded_streams >= self.config.decoded_streams_max:
            raise StreamsExhausted(
                f"{self.decoded_streams} bulk reads are decoded here, wanted at most "
                f"{self.config.decoded_streams_max} (export.decoded.streams.max); ask again later, "
                "or for batches"
            )
        self.streams += 1
        self.decoded_streams += is_decoded

    def end(self, is_complete: bool, is_decoded: bool) -> None:
        self.streams -= 1
        self.decoded_streams -= is_decoded
        self.streams_ended["complete" if is_complete else "cut"] += 1

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)


def _come_last() -> None:
    refused = lower_io_priority()
    if refused:
        # A hardened service may forbid it; the pace still holds.
        log.info("exports read with the priority of all others", error=os.strerror(refused))
