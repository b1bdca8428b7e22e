"""Share groups whose coordinators, states and partitions are on brokers that are killed: each
record is delivered, and what was acknowledged is not delivered again."""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from appliance.protocol import ErrorCode
from appliance.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from appliance.protocol.messages.share_fetch import ShareFetchRequest
from appliance.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from appliance.record import _batch
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.cluster_control import GROUP, ClusterControl
from tests.support.three_brokers import DEADLINE_S, Brokers, brokers

PARTITIONS = 3
ALL = (1, 2, 3)
ACCEPT = 1
FIRST, FINAL = 0, -1
MEMBER = "11111111-2222-3333-4444-555555555555"
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": PARTITIONS,
    "offsets.topic.num.partitions": PARTITIONS,
    "group.share.record.lock.duration.ms": 15000,
}  # fmt: skip


@pytest.fixture
def three(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Brokers]:
    root = "/tests/" + re.sub(r"\W", "-", request.node.name)
    with brokers(server, root, tmp_path) as found:
        found.start(*ALL, **SETTINGS)
        found.create("t", partitions=PARTITIONS, min_insync_replicas="2")
        for number in range(PARTITIONS):
            found.until("t", lambda each: len(each.isrs) == len(ALL), number)
        yield found


class Sharer:
    """The only member of a group: it asks whoever has the say, and goes on when that changes."""

    def __init__(self, cluster: Brokers, control: ClusterControl) -> None:
        self._cluster, self._control = cluster, control
        self.epoch = 0
        self.taken: Counter[str] = Counter()
        self.acknowledged: set[str] = set()
        self.again: set[str] = set()  # delivered after it was acknowledged
        self._topic = control.topic_id("t")

    def beat(self) -> int:
        names = ["t"] if self.epoch == 0 else None
        asked = ShareGroupHeartbeatRequest("g", MEMBER, self.epoch, None, names)
        at = self._control.at(self._control.coordinator("g", GROUP))
        answer = at.ask(asked, 1)
        if not answer.error_code:
            self.epoch = answer.member_epoch
        elif answer.error_code in (
            ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH,
        ):  # fmt: skip
            self.epoch = 0
        return int(answer.error_code)

    def begin(self) -> None:
        """It reads what comes from now on."""
        end = time.monotonic() + DEADLINE_S
        while self.beat() or any(self.take(number) for number in range(PARTITIONS)):
            assert time.monotonic() < end
            time.sleep(0.1)

    def take(self, partition: int) -> int:
        """All that the partition gives in one fetch; each is acknowledged. The error."""
        with suppress(OSError, EOFError):
            at = self._control.at(self._control.leader("t", partition))
            row = self._asked(partition, FIRST)
            (answer,) = self._rows(at.ask(self._fetch(row, FIRST), 1)) or (None,)
            acks = []
            if answer is not None and answer.error_code:
                return int(answer.error_code)
            if answer is not None:
                found = self._values(answer)
                for first, last in found:
                    acks.append((first, last))
                values = [found[each] for each in acks]
                row = self._asked(partition, FINAL, acks)
                told = self._rows(at.ask(self._acknowledge(row), 1))
                if told and not told[0].error_code:
                    self.acknowledged |= {one for each in values for one in each}
            return 0
        return int(ErrorCode.NETWORK_EXCEPTION)

    def _values(self, answer: Any) -> dict[tuple[int, int], list[str]]:
        by_offset: dict[int, str] = {}
        records = answer.records or b""
        for each in _batch.records(records) if records else ():
            by_offset[each.offset] = (each.value or b"").decode()
        found = {}
        for each in answer.acquired_records:
            offsets = range(each.first_offset, each.last_offset + 1)
            values = [by_offset[offset] for offset in offsets]
            self.again |= self.acknowledged.intersection(values)
            self.taken.update(values)
            found[each.first_offset, each.last_offset] = values
        return found

    def _asked(
        self, partition: int, epoch: int, acks: list[tuple[int, int]] | None = None
    ) -> Any:
        of: Any = ShareFetchRequest if epoch == FIRST else ShareAcknowledgeRequest
        row = (of.FetchPartition(partition) if of is ShareFetchRequest
               else of.AcknowledgePartition(partition))  # fmt: skip
        row.acknowledgement_batches = [
            of.AcknowledgementBatch(first, last, [ACCEPT]) for first, last in acks or ()
        ]
        return row

    def _fetch(self, row: Any, epoch: int) -> ShareFetchRequest:
        asked = ShareFetchRequest(
            group_id="g", member_id=MEMBER, share_session_epoch=epoch, max_wait_ms=200,
            min_bytes=1, max_bytes=1 << 20, max_records=500, batch_size=100,
        )  # fmt: skip
        asked.topics = [ShareFetchRequest.FetchTopic(self._topic, [row])]
        return asked

    def _acknowledge(self, row: Any) -> ShareAcknowledgeRequest:
        topic = ShareAcknowledgeRequest.AcknowledgeTopic(self._topic, [row])
        return ShareAcknowledgeRequest("g", MEMBER, FINAL, topics=[topic])

    def _rows(self, answer: Any) -> list[Any]:
        responses = answer.responses
        return [row for topic in responses for row in topic.partitions]

    def until_all(self, wanted: set[str]) -> None:
        end = time.monotonic() + 2 * DEADLINE_S
        while not wanted <= self.acknowledged:
            missing = wanted - self.acknowledged
            assert time.monotonic() < end, f"{len(missing)} are missing: {sorted(missing)[:5]}"
            with suppress(OSError, EOFError):
                self.beat()
            for number in range(PARTITIONS):
                self.take(number)


@pytest.mark.release("tests/share/test_share_state_coordinator.py has it, without clients")
def test_what_was_acknowledged_stays_so_whoever_is_killed(three: Brokers) -> None:
    control = ClusterControl(three)
    own = Sharer(three, control)
    own.begin()
    wanted: set[str] = set()
    for round_number, who in enumerate((0, *ALL)):
        if who:
            three.stop(who, signal.SIGKILL)
        for number in range(PARTITIONS):
            values = [f"{round_number}-{number}-{each}" for each in range(20)]
            three.produce("t", values, partition=number)
            wanted |= {*values}
        own.until_all(wanted)
        if who:
            three.start(who, **SETTINGS)
            for number in range(PARTITIONS):
                three.until("t", lambda each: len(each.isrs) == len(ALL), number)
                three.until("__share_group_state", lambda each: len(each.isrs) == len(ALL), number)
    assert own.again == set()
    assert own.taken.keys() == wanted
    control.close()
