"""What leaders of share partitions tell the share coordinator."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from appliance.protocol import ErrorCode
from appliance.share.acquisition import Asked, Extent, Limits
from appliance.share.led_states import LedStates
from appliance.share.partition import SharePartition
from appliance.share.runs import StateBatch
from appliance.share.state_coordinator import State
from appliance.share.state_log import SharePartitionKey, Stored
from appliance.share.states import RecordState, ShareRefused

KEY = SharePartitionKey("g", UUID(int=7), 0)
LOG: Any = SimpleNamespace(election=5)


@dataclass
class Told:
    """A share coordinator that answers as long as it is there."""

    is_there: bool = True
    changes: list[State] = field(default_factory=list)

    async def write(self, key: SharePartitionKey, leader_epoch: int, change: State) -> None:
        if not self.is_there:
            raise ShareRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no answer")
        self.changes.append(change)


def after_a_cut() -> Stored:
    """A group that was at 20 begins at 15, where the log ends now, and a member has 15 to 16."""
    own = Stored(SharePartition(0), 1, 5)
    own.partition.restore(0, [StateBatch(0, 19, RecordState.ACKNOWLEDGED, 1)])
    assert own.partition.restart_at(15)
    own.must_snapshot = True
    own.partition.acquire(Asked("m", 10, 10), 15, [Extent(15, 16)], Limits(), 0)
    return own


def test_that_a_log_was_cut_is_said_before_what_became_of_its_records() -> None:
    told, own = Told(), after_a_cut()
    persister: Any = told
    states = LedStates(persister, lambda key: LOG)
    told.is_there = False
    with pytest.raises(ShareRefused):
        asyncio.run(states.store(KEY, own))
    told.is_there = True
    asyncio.run(states.store(KEY, own))
    asyncio.run(states.store(KEY, own))
    batch = StateBatch(15, 15, RecordState.AVAILABLE, 0)
    assert told.changes == [
        State(1, 15, [], is_anew=True), State(1, 15, [batch]), State(1, 15, []),
    ]  # fmt: skip
