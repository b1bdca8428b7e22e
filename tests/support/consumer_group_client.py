"""A member of a group of the newer protocol, over the control plane."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from appliance.groups.consumer_protocol import assignment
from appliance.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from appliance.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from appliance.protocol.messages.list_groups import ListGroupsRequest
from appliance.protocol.messages.offset_commit import OffsetCommitRequest
from tests.support.control import Control, Sent
from tests.support.group_client import GroupClient

Topics = ConsumerGroupHeartbeatRequest.TopicPartitions


class Member:
    """Remembers its epoch and its partitions as a consumer does."""

    def __init__(self, control: Control, name: str = "one", **facts: Any) -> None:
        self.control = control
        self.facts = {
            "group_id": "g",
            "member_id": name,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ["t"],
            "topic_partitions": [],
            **facts,
        }
        self.epoch = 0
        self.owned: dict[UUID, list[int]] = {}

    def send(self, epoch: int | None = None, version: int = 1, **facts: Any) -> Any:
        asked = ConsumerGroupHeartbeatRequest(
            **{**self.facts, "member_epoch": self.epoch if epoch is None else epoch, **facts}
        )
        return self.control.ask(asked, version)

    def begin(self, version: int = 1) -> Sent:
        """Joins; what `answer` wants to know."""
        asked = ConsumerGroupHeartbeatRequest(**{**self.facts, "member_epoch": 0})
        return self.control.send(asked, version)

    def beat(self, version: int = 1) -> Any:
        owned = [Topics(*each) for each in self.owned.items()]
        answer = self.send(version=version, topic_partitions=owned)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {e.topic_id: e.partitions for e in answer.assignment.topic_partitions}
        return answer

    def commit(self, *offsets: int, version: int = 9, **facts: Any) -> list[int]:
        row = OffsetCommitRequest.OffsetCommitRequestPartition
        rows = [row(i, offset, -1, "") for i, offset in enumerate(offsets)]
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=rows)
        topic.topic_id = self.control.broker.topics["t"].id
        asked = OffsetCommitRequest(
            **{
                "group_id": "g",
                "generation_id_or_member_epoch": self.epoch,
                "member_id": self.facts["member_id"],
                "topics": [topic],
                **facts,
            }
        )
        (answer,) = self.control.ask(asked, version).topics
        return [each.error_code for each in answer.partitions]


def described(control: Control, group: str = "g", version: int = 1) -> Any:
    (answer,) = control.ask(ConsumerGroupDescribeRequest([group], True), version).groups
    return answer


def listed(control: Control, **asked: Any) -> list[tuple[str, str, str, str]]:
    answer = control.ask(ListGroupsRequest(**asked), 5)
    return [
        (each.group_id, each.protocol_type, each.group_state, each.group_type)
        for each in answer.groups
    ]


def names(*partitions: int) -> bytes:
    """An assignment of the topic t."""
    return assignment(0, {"t": list(partitions)}) if partitions else assignment(0, {})


def rejoin(old: GroupClient) -> bytes:
    """What it is given, as one that gives up everything when it joins again."""
    assert old.join().error_code == 0
    answer = old.sync()
    assert answer.error_code == 0
    return bytes(answer.assignment)
