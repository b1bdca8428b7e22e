"""What the state topic holds and what memory holds stay one, whatever becomes of the caller."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from appliance._log import Log
from appliance.config import ShareStateConfig
from appliance.share.partition import SharePartition
from appliance.share.state_log import SharePartitionKey, Stored, replay
from appliance.share.state_store import StateStore
from tests.support.logs import one_log

FIRST, SECOND = SharePartitionKey("grp", UUID(int=5), 0), SharePartitionKey("grp", UUID(int=5), 1)


class OneLog:
    def __init__(self, log: Log) -> None:
        self.logs = [log]

    def share_state_logs(self) -> list[Log]:
        return self.logs

    async def make_share_state_topic(self) -> Sequence[Log | None]:
        return self.logs


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with one_log(tmp_path) as each:
        yield each


def new() -> Stored:
    return Stored(SharePartition(7))


async def cancelled_while_written(store: StateStore, log: Log) -> None:
    """The record of the first one is written; the caller was cancelled before it heard."""
    asking = asyncio.create_task(store.begin(FIRST, new()))
    await asyncio.sleep(0)  # it has asked
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking
    await store.begin(SECOND, new())
    assert log.log_end_offset == 2


def test_a_caller_that_was_cancelled_costs_no_state(log: Log) -> None:
    async def run() -> None:
        store = StateStore(ShareStateConfig(), OneLog(log), lambda: 1_000)
        await cancelled_while_written(store, log)
        assert {place for place, _ in store.all()} == {FIRST, SECOND}
        await store.prune()
        await store.close()

    asyncio.run(run())
    assert replay([log]).stored.keys() == {FIRST, SECOND}
