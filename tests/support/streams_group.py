"""One group of Kafka Streams by a fake clock, its topics, its disk and its members."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from appliance.config import StreamsGroupsConfig
from appliance.groups.consumer_member import JOINING
from appliance.groups.modern_group import Terms
from appliance.groups.streams.group import StreamsGroup
from appliance.groups.streams.member import Beat, Beaten
from appliance.groups.streams.records import StoredStreamsGroup, take
from appliance.groups.streams.task import NO_TASKS, Role, Tasks
from appliance.groups.streams.topology import InternalTopic, Subtopology, Topology
from appliance.topics.internal_topic import VERSION
from tests.support.consumer_group import Disk as OtherDisk
from tests.support.consumer_group import Topics

SESSION_MS, REBALANCE_MS = 45_000, 60_000
NO_DELAY = StreamsGroupsConfig(initial_rebalance_delay_ms=0)


def internal(name: str, partitions: int = 0, *configs: tuple[str, str]) -> InternalTopic:
    return InternalTopic(name, partitions, 0, configs)


def subtopology(name: str, *sources: str, **facts: Any) -> Subtopology:
    row = Subtopology(name, sources, (), (), (), ())
    return row._replace(**facts)


# Reads `t`, without state.
STATELESS = Topology(0, (subtopology("0", "t"),))
# As a word count: `t` is split into words, these are sent by word, and counted.
COUNTING = Topology(0, (
    subtopology("0", "t", repartition_sinks=("words",)),
    subtopology("1", changelogs=(internal("counts"),), repartition_sources=(internal("words"),)),
))  # fmt: skip


@dataclass
class Disk(OtherDisk):
    def stored_streams(self) -> StoredStreamsGroup:
        found: dict[str, StoredStreamsGroup] = {}
        for key, value in self.latest.items():
            if value is not None:
                take(found, VERSION.unpack_from(key)[0], key, value)
        return found.get("g", StoredStreamsGroup())


class World:
    """A group, its topics, its disk and the time."""

    def __init__(self, config: StreamsGroupsConfig = NO_DELAY, **partitions: int) -> None:
        self.config = config
        self.topics = Topics(partitions or {"t": 4})
        self.disk = Disk()
        self.now_ms = 1_000_000
        self.group = self.new_group()

    def new_group(self) -> StreamsGroup:
        def terms() -> Terms:
            own = self.config
            return Terms(
                own.session_timeout_ms, own.heartbeat_interval_ms, own.max_size, ("sticky",)
            )

        store = self.disk.store
        return StreamsGroup("g", terms, self.topics, store, config=lambda: self.config)

    def set(self, **settings: Any) -> None:
        self.config = replace(self.config, **settings)

    def restart(self) -> None:
        self.disk.waiting.clear()
        self.group = self.new_group()
        self.group.restore(self.disk.stored_streams(), self.now_ms)

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        if self.group.due_ms <= self.now_ms:
            self.group.tick(self.now_ms)

    def held(self) -> dict[str, Tasks]:
        return {each.id: each.now.assigned for each in self.group.all()}


class Client:
    """A member that does as it is told, when it is told to beat."""

    def __init__(
        self, world: World, name: str, topology: Topology = STATELESS, **facts: Any
    ) -> None:
        self.world, self.id = world, name
        self.said = Beat(
            name, JOINING, -1, "client", "/127.0.0.1", None, REBALANCE_MS, topology, NO_TASKS,
            f"process of {name}", tags=(),
        )._replace(**facts)  # fmt: skip
        self.epoch = JOINING
        self.owned: Tasks = NO_TASKS
        self.answers: list[Beaten] = []

    def ask(self, epoch: int | None = None, **said: Any) -> None:
        sent = self.epoch if epoch is None else epoch
        if sent == JOINING:
            asked = self.said
        else:
            asked = Beat(self.id, sent, self.said.endpoint_epoch, "client", "/127.0.0.1",
                         owned=self.owned)  # fmt: skip
        self.world.group.beat(
            asked._replace(**said), self.world.now_ms, self.answers.append)

    def beat(self, epoch: int | None = None, **said: Any) -> Beaten:
        self.ask(epoch, **said)
        return self.hear()

    def hear(self) -> Beaten:
        """Gives up and takes on what the answer says."""
        answer = self.answers.pop()
        if not answer.error:
            self.epoch = answer.epoch
            if answer.assigned is not None:
                self.owned = answer.assigned
        return answer

    def numbers(self, role: Role = Role.ACTIVE) -> list[str]:
        return sorted(f"{each.subtopology}_{each.number}" for each in self.owned
                      if each.role is role)  # fmt: skip


def settle(*clients: Client) -> None:
    for _ in range(4):
        for each in clients:
            assert each.beat().error == 0
