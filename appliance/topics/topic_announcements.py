"""What is told of every topic: the data plane and ZooKeeper, by the owner of control state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from appliance._log import Log
from appliance.access.client_quotas import RateTable
from appliance.topics.topic import Topic


class TopicTable(Protocol):
    """What is told of every topic."""

    def put_topic(
        self,
        name: str,
        topic_id: bytes,
        logs: list[Log | None],
        is_internal: bool,
        mirror_source: str,
        leaders: Sequence[tuple[int, int] | None] = (),
    ) -> None: ...

    def remove_topic(self, name: str) -> None: ...


def put(table: TopicTable, topic: Topic) -> None:
    table.put_topic(
        topic.name, topic.id.bytes, [*topic.logs], topic.is_internal, topic.mirror_source,
        topic.leaders,
    )  # fmt: skip


class PlaneTable(TopicTable, RateTable, Protocol):
    """What the data plane is told, so that it answers for a topic by itself and holds clients to
    their quotas."""

    def limit_connections_per_ip(self, most: int) -> None: ...
    def limit_connections(self, most: int, rate: int, listener: int = -1) -> None: ...
