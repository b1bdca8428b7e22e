"""Commits of many groups that come together: one batch, one look at the clock, one giving of all
answers; and what they keep of the broker's memory is still known to the byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.access.kept_per_address import THING_BYTES
from appliance.groups.offsets import OFFSET_BYTES
from appliance.machine.believed_time import WallClock
from appliance.protocol.messages.offset_commit import OffsetCommitRequest
from appliance.topics.topic import OFFSETS
from tests.support.control import Control, Sent
from tests.support.group_client import GroupClient
from tests.support.logs import everything

GROUPS = 20


def send(control: Control, group: str, offset: int, metadata: str = "", at: int = 1) -> Sent:
    row = OffsetCommitRequest.OffsetCommitRequestTopic(name="t")
    row.partitions = [
        OffsetCommitRequest.OffsetCommitRequestPartition(0, offset, -1, metadata)
    ]
    return control.send(OffsetCommitRequest(group, -1, "", topics=[row]), 8, connection=at)


def codes(control: Control, sent: list[Sent]) -> list[int]:
    return [control.answer(each).topics[0].partitions[0].error_code for each in sent]


@pytest.fixture
def committing(tmp_path: Path) -> Iterator[Control]:
    """With a first commit of each group, which makes it."""
    control = Control(tmp_path)
    control.create("t")
    sent = [send(control, f"g{i}", 1, at=i + 1) for i in range(GROUPS)]
    assert codes(control, sent) == [0] * GROUPS
    yield control
    control.close()


def test_one_batch_one_look_at_the_clock_and_one_giving(
    committing: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = committing
    (log,) = control.broker.topics[OFFSETS].open_logs
    batches, looks, givings = len(everything(log)), 0, []
    look, reply_all = WallClock.look, control.queue.reply_all

    def looked(self: WallClock) -> Any:
        nonlocal looks
        looks += 1
        return look(self)

    def replied(answers: list[Any]) -> None:
        givings.append(len(answers))
        reply_all(answers)

    monkeypatch.setattr(WallClock, "look", looked)
    monkeypatch.setattr(control.queue, "reply_all", replied)
    sent = [send(control, f"g{i}", 2, at=i + 1) for i in range(GROUPS)]
    assert codes(control, sent) == [0] * GROUPS
    assert len(everything(log)) == batches + 1
    assert looks == 1, "when the turn began"
    assert givings == [GROUPS]
    offsets = control.broker.groups.offsets
    assert {
        each.value.offset for i in range(GROUPS) for each in offsets.of_group(f"g{i}").values()
    } == {2}


def test_what_a_group_keeps_is_known_whatever_it_commits(committing: Control) -> None:
    kept = committing.broker.groups.table.weights._kept

    def weight() -> int:
        return kept._things["g0"][0] - THING_BYTES - len("g0")

    assert weight() == OFFSET_BYTES
    for metadata in ("", "abc", "xyz", "a longer one", ""):
        assert codes(committing, [send(committing, "g0", 3, metadata)]) == [0]
        assert weight() == OFFSET_BYTES + len(metadata)
        assert committing.broker.groups.offsets.bytes_of("g0") == weight()


def test_a_group_that_commits_behind_another_s_in_one_turn_is_told_in_that_order(
    committing: Control,
) -> None:
    first = [send(committing, "g0", offset, at=offset) for offset in (5, 6, 7)]
    assert codes(committing, first) == [0, 0, 0]
    (own,) = committing.broker.groups.offsets.of_group("g0").values()
    assert own.value.offset == 7


def test_a_commit_while_the_disk_is_busy_is_in_the_next_round(committing: Control) -> None:
    (log,) = committing.broker.topics[OFFSETS].open_logs
    batches = len(everything(log))
    sent = []
    for round_ in range(4):
        sent += [send(committing, f"g{i}", 10 + round_, at=i + 1) for i in range(GROUPS)]
    assert codes(committing, sent) == [0] * len(sent)
    assert batches < len(everything(log)) <= batches + len(sent) // GROUPS + 1
    client = GroupClient(committing, "g3")
    assert client.commit(99) == [0]
