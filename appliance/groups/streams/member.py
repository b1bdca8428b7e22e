"""One member of a streams group: what it says of itself, what it asks, and what it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from appliance.groups.consumer_member import JOINING, PLACE_BYTES
from appliance.groups.handover import NOTHING, Assignment
from appliance.groups.member import NEVER_MS, size_of_member
from appliance.groups.streams.task import Task, Tasks
from appliance.groups.streams.topics_of_topology import NewTopic, Status
from appliance.groups.streams.topology import Topology

Tags = tuple[tuple[str, str], ...]  # sorted by key


class Endpoint(NamedTuple):
    """Where the application answers queries about its state."""

    host: str
    port: int


class Places(NamedTuple):
    """The partitions whose state an application has, by topic."""

    endpoint: Endpoint
    active: dict[str, list[int]]
    standby: dict[str, list[int]]


class Beat(NamedTuple):
    """A StreamsGroupHeartbeat request. None: as it was."""

    member_id: str
    epoch: int
    endpoint_epoch: int
    client_id: str
    client_host: str
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1  # -1: as it was
    topology: Topology | None = None
    owned: Tasks | None = None
    process_id: str | None = None
    endpoint: Endpoint | None = None
    tags: Tags | None = None
    shuts_down: bool = False

    @property
    def size(self) -> int:
        """What there will be in memory of it, beside tasks."""
        names = (self.member_id, self.rack_id or "", self.client_id, self.process_id or "",
                 self.endpoint.host if self.endpoint else "")  # fmt: skip
        said = size_of_member(names) + size_of_tags(self.tags or ())
        return said + (self.topology.size if self.topology else 0)

    @property
    def is_joining(self) -> bool:
        return self.epoch == JOINING


class Beaten(NamedTuple):
    """The answer to it."""

    error: int = 0
    message: str | None = None
    member_id: str = ""
    epoch: int = 0
    heartbeat_interval_ms: int = 0
    statuses: Sequence[Status] = ()
    missing: Sequence[NewTopic] = ()  # topics that are to be made
    assigned: Tasks | None = None  # None: as it was
    endpoint_epoch: int = 0
    endpoints: Sequence[Places] | None = None  # None: as they were


class Said(NamedTuple):
    """What a member says of itself."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    tags: Tags = ()
    instance_id: str | None = None  # of a newer Kafka's records

    def after(self, asked: Beat) -> Said:
        timeout_ms = asked.rebalance_timeout_ms
        return self._replace(
            rack_id=asked.rack_id or self.rack_id,
            client_id=asked.client_id,
            client_host=asked.client_host,
            rebalance_timeout_ms=timeout_ms if timeout_ms >= 0 else self.rebalance_timeout_ms,
            topology_epoch=asked.topology.epoch if asked.topology else self.topology_epoch,
            process_id=self.process_id if asked.process_id is None else asked.process_id,
            endpoint=asked.endpoint or self.endpoint,
            tags=self.tags if asked.tags is None else asked.tags,
        )

    @property
    def of_assignment(self) -> tuple[object, ...]:
        """What a target depends on."""
        return self.topology_epoch, self.process_id, self.rack_id, self.tags


UNSAID = Said()


def size_of_tags(tags: Tags) -> int:
    return sum(len(text) + PLACE_BYTES for pair in tags for text in pair)


@dataclass(slots=True)
class StreamsMember:
    id: str
    said: Said = UNSAID
    now: Assignment[Task] = NOTHING
    deadline_ms: int = NEVER_MS  # of its session
    revoke_deadline_ms: int = NEVER_MS  # until when it must have given up tasks
    since: dict[Task, int] = field(default_factory=dict)  # the epoch in which it got active tasks

    @property
    def process(self) -> str:
        """On whose disk its state is."""
        return self.said.process_id or self.id

    @property
    def size(self) -> int:
        """As `Beat.size`."""
        said = self.said
        names = (self.id, said.rack_id or "", said.client_id, said.process_id,
                 said.endpoint.host if said.endpoint else "")  # fmt: skip
        return size_of_member(names) + size_of_tags(said.tags)
