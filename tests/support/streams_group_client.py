"""A member of a group of Kafka Streams, over the control plane."""

from __future__ import annotations

from typing import Any

from appliance.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from appliance.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tests.support.control import Control

Request = StreamsGroupHeartbeatRequest


def internal(name: str, partitions: int = 0, factor: int = 0, **configs: str) -> Request.TopicInfo:
    rows = [Request.KeyValue(key.replace("_", "."), text) for key, text in configs.items()]
    return Request.TopicInfo(name, partitions, factor, rows)


def counting(source: str = "t", words: str = "g-words", counts: str = "g-counts") -> Any:
    """Splits lines of a topic into words, sends these by word, and counts them."""
    changelog = internal(counts, cleanup_policy="compact")
    return Request.Topology(0, [
        Request.Subtopology("0", [source], repartition_sink_topics=[words]),
        Request.Subtopology("1", state_changelog_topics=[changelog],
                            repartition_source_topics=[internal(words)]),
    ])  # fmt: skip


def reading(*sources: str) -> Any:
    """Without state."""
    return Request.Topology(0, [Request.Subtopology("0", [*sources])])


class Member:
    """Remembers its epoch and its tasks as an application does."""

    def __init__(
        self, control: Control, name: str = "one", topology: Any = None, **facts: Any
    ) -> None:
        self.control = control
        self.joining = {
            "group_id": "g",
            "member_id": name,
            "endpoint_information_epoch": -1,
            "rebalance_timeout_ms": 60_000,
            "topology": topology or reading("t"),
            "process_id": f"process-{name}",
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "client_tags": [],
            **facts,
        }
        self.epoch = 0
        self.tasks: dict[str, dict[str, list[int]]] = {
            "active_tasks": {}, "standby_tasks": {}, "warmup_tasks": {}}

    def send(self, epoch: int | None = None, **facts: Any) -> Any:
        """As it is asked for, whatever becomes of it."""
        sent = self.epoch if epoch is None else epoch
        said: dict[str, Any] = dict(self.joining)
        if sent:
            owned = {role: [Request.TaskIds(*each) for each in own.items()]
                     for role, own in self.tasks.items()}  # fmt: skip
            said = {"group_id": said["group_id"], "member_id": said["member_id"],
                    "endpoint_information_epoch": -1, **owned}  # fmt: skip
        return self.control.ask(Request(**{**said, "member_epoch": sent, **facts}), 0)

    def beat(self, **facts: Any) -> Any:
        answer = self.send(**facts)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            for role in self.tasks:
                rows = getattr(answer, role)
                self.tasks[role] = {each.subtopology_id: each.partitions for each in rows}
        return answer


def statuses(answer: Any) -> dict[int, str]:
    return {each.status_code: each.status_detail for each in answer.status}


def described(control: Control, group: str = "g") -> Any:
    (answer,) = control.ask(StreamsGroupDescribeRequest([group], True), 0).groups
    return answer
