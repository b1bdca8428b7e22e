"""One group of the newer protocol by a fake clock, its topics, its disk and its members."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from appliance.errors import ApplianceError
from appliance.groups.consumer_group import ConsumerGroup
from appliance.groups.consumer_member import JOINING, Beat, Beaten
from appliance.groups.consumer_records import StoredConsumerGroup, take
from appliance.groups.handover import NOWHERE, Places
from appliance.groups.modern_group import Terms, TopicFacts
from appliance.topics.internal_topic import VERSION, Record

SESSION_MS, REBALANCE_MS = 45_000, 60_000


@dataclass
class Topics:
    partitions: dict[str, int]
    topics_version: int = 0
    ids: dict[str, UUID] = field(default_factory=dict)

    def topic_names(self) -> list[str]:
        return list(self.partitions)

    def topic_facts(self, name: str) -> TopicFacts | None:
        if name not in self.partitions:
            return None
        found = self.ids.setdefault(name, uuid.uuid5(uuid.NAMESPACE_DNS, name))
        return TopicFacts(found, self.partitions[name])

    def topic_name(self, topic_id: UUID) -> str | None:
        return next((name for name, each in self.ids.items() if each == topic_id), None)

    def change(self, **partitions: int) -> None:
        """0 deletes."""
        self.partitions = {k: n for k, n in {**self.partitions, **partitions}.items() if n}
        self.topics_version += 1

    def all(self, *names: str) -> Places:
        facts = [self.topic_facts(each) for each in names]
        return frozenset((each.id, i) for each in facts if each for i in range(each.partitions))


@dataclass
class Disk:
    """What is written when `sync` is called, or at once."""

    is_slow: bool = False
    fault: ApplianceError | None = None
    latest: dict[bytes, bytes | None] = field(default_factory=dict)
    waiting: list[tuple[list[Record], Callable[[ApplianceError | None], None]]] = field(
        default_factory=list
    )

    def store(self, records: list[Record], done: Callable[[ApplianceError | None], None]) -> None:
        self.waiting.append((records, done))
        if not self.is_slow:
            self.sync()

    def sync(self) -> None:
        waiting, self.waiting = self.waiting, []
        for records, done in waiting:
            if self.fault is None:
                self.latest.update(records)
            done(self.fault)

    def stored(self) -> StoredConsumerGroup:
        found: dict[str, StoredConsumerGroup] = {}
        for key, value in self.latest.items():
            if value is not None:
                take(found, VERSION.unpack_from(key)[0], key, value)
        return found.get("g", StoredConsumerGroup())


class World:
    """A group, its topics, its disk and the time."""

    def __init__(self, size_max: int = 100, **partitions: int) -> None:
        self.terms = Terms(SESSION_MS, 5000, size_max, ("uniform", "range"))
        self.topics = Topics(partitions or {"t": 4})
        self.disk = Disk()
        self.now_ms = 1_000_000
        self.group = self.new_group()

    def new_group(self) -> ConsumerGroup:
        return ConsumerGroup("g", lambda: self.terms, self.topics, self.disk.store)

    def restart(self) -> None:
        self.disk.waiting.clear()
        self.group = self.new_group()
        self.group.restore(self.disk.stored(), self.now_ms)

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        if self.group.due_ms <= self.now_ms:
            self.group.tick(self.now_ms)

    def held(self) -> dict[str, Places]:
        return {each.id: each.now.assigned for each in self.group.all()}


class Client:
    """A member that does as it is told, when it is told to beat."""

    def __init__(self, world: World, name: str, *topics: str, **facts: Any) -> None:
        self.world, self.id = world, name
        self.facts = {"topics": topics or ("t",), "pattern": None, "instance": None, **facts}
        self.epoch = JOINING
        self.owned: Places = NOWHERE
        self.answers: list[Beaten] = []
        self.is_unsure = False  # an answer was lost: it says all of itself, to be told all

    def ask(self, epoch: int | None = None, **said: Any) -> None:
        sent = self.epoch if epoch is None else epoch
        is_full = sent == JOINING or self.is_unsure
        full = self.facts if is_full else {}
        asked = Beat(
            self.id,
            sent,
            self.facts["instance"],
            None,
            "client",
            "/127.0.0.1",
            REBALANCE_MS if is_full else -1,
            said.get("topics", full.get("topics")),
            said.get("pattern", full.get("pattern")),
            said.get("assignor", full.get("assignor")),
            said.get("owned", NOWHERE if sent == JOINING else self.owned),
        )
        self.world.group.beat(asked, self.world.now_ms, self.answers.append)

    def beat(self, epoch: int | None = None, **said: Any) -> Beaten:
        self.ask(epoch, **said)
        return self.hear()

    def hear(self) -> Beaten:
        """Gives up and takes on what the answer says."""
        answer = self.answers.pop()
        self.is_unsure = False
        if not answer.error:
            self.epoch = answer.epoch
            if answer.assigned is not None:
                self.owned = answer.assigned
        return answer


def settle(*clients: Client) -> None:
    for _ in range(4):
        for each in clients:
            assert each.beat().error == 0
