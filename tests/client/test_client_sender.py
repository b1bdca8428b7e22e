"""What the client library's sender makes of a broker's answer about a batch."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytest

from appliance.client.batch import Batch, Group, Identity, batches_of
from appliance.client.broker_partition import BrokerPartition
from appliance.client.cluster import Cluster
from appliance.client.lane import Track
from appliance.client.outcome import DeliveryTimedOut, Outcome, Records
from appliance.client.producer_config import ProducerConfig
from appliance.client.sender import Answer, Sender
from appliance.protocol import ErrorCode

PLACE = BrokerPartition(1, 0)


class Told:
    """A sender without brokers, and what it says became of the batches."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        config = ProducerConfig(broker_list="b:1", idempotence=True)
        self.sender = Sender(cast(Cluster, None), config, self.outcomes.append, lambda batch: None)
        self.track = self.sender._tracks["t", PLACE] = Track("t", PLACE)

    def sent(self, *values: bytes, may_be_written: bool = False) -> Batch:
        group = Group("t", PLACE, Records("t", [*values]), [*values], None, 0)
        (batch,) = batches_of(group, 0, 1 << 20, itertools.count(), float("inf"))
        assert isinstance(batch, Batch)
        if self.track.identity is None:
            self.track.identity = Identity(7, 0)
        batch.take_identity(self.track.identity)
        batch.may_be_written = may_be_written
        self.sender.add(batch)
        self.track.waiting.clear()  # it is under way
        self.sender._settle(self.track)
        return batch

    def answer(self, batch: Batch, code: int, **given: Any) -> None:
        self.sender._take(self.track, batch, Answer(error_code=code, **given))


@pytest.fixture
def told() -> Told:
    return Told()


def test_success_has_the_offset(told: Told) -> None:
    told.answer(told.sent(b"a", b"b"), 0, base_offset=41)
    (outcome,) = told.outcomes
    assert (outcome.is_acknowledged, outcome.base_offset) == (True, 41)


@pytest.mark.parametrize("may_be_written", [False, True])
def test_a_number_that_is_no_longer_new_does_not_show_that_the_records_are_there(
    may_be_written: bool, told: Told
) -> None:
    """Other records may have had it: an older version of our broker answered every one so."""
    batch = told.sent(b"a", may_be_written=may_be_written)
    told.answer(batch, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    (outcome,) = told.outcomes
    assert not outcome.is_acknowledged
    assert "DUPLICATE_SEQUENCE_NUMBER" in str(outcome.error)
    assert outcome.may_be_written is may_be_written


@pytest.mark.parametrize(
    ("code", "may_be_written"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, True),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, True),
        (ErrorCode.KAFKA_STORAGE_ERROR, True),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, False),
        (ErrorCode.NOT_ENOUGH_REPLICAS, False),
    ],
)
def test_a_batch_that_times_out_after_an_open_answer_may_be_written(
    code: int, may_be_written: bool, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(told.sender, "_ask_who_leads", lambda topic: None)
    batch = told.sent(b"a")
    told.answer(batch, code)
    assert told.outcomes == []  # it is tried again
    batch.deadline = 0
    told.sender._expire()
    (outcome,) = told.outcomes
    assert isinstance(outcome.error, DeliveryTimedOut)
    assert outcome.may_be_written is may_be_written
