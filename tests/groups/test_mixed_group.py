"""Random histories of a group that is being upgraded: members of both protocols, by fake time."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.groups.consumer_member import LEAVING, Beaten
from appliance.groups.consumer_protocol import Subscription, TopicPartitions, assigned
from appliance.groups.handover import NOWHERE, Places
from appliance.groups.member import Join, Joined, Sync, Synced
from appliance.groups.mixed_group import MixedGroup
from appliance.groups.states import GroupRefused
from appliance.protocol import ErrorCode
from appliance.protocol.codec import encode
from tests.support.consumer_group import REBALANCE_MS, SESSION_MS, Client, World
from tests.support.consumer_group_history import History, run

LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


class MixedWorld(World):
    def new_group(self) -> MixedGroup:
        return MixedGroup("g", lambda: self.terms, self.topics, self.disk.store)


class ClassicClient(Client):
    """Of the older protocol, with the face of one of the newer."""

    def __init__(self, world: World, name: str, *, is_eager: bool, topics: tuple[str, ...]) -> None:
        super().__init__(world, name, topics=topics)
        self.is_eager = is_eager

    @property
    def group(self) -> MixedGroup:
        assert isinstance(self.world.group, MixedGroup)
        return self.world.group

    def ask(self, epoch: int | None = None, **said: Any) -> None:
        """Joins, and does not hear the answer."""
        self.join()

    def beat(self, epoch: int | None = None, **said: Any) -> Beaten:
        try:
            if epoch == LEAVING:
                self.group.leave(self.id, None, self.world.now_ms)
                return Beaten()
            self.group.heartbeat(self.id, None, self.epoch, self.world.now_ms)
        except GroupRefused as error:
            if error.kafka_code in LOST:
                self.owned, self.epoch = NOWHERE, 0
            elif error.kafka_code != ErrorCode.REBALANCE_IN_PROGRESS:
                raise
        else:
            if not said:
                return Beaten()
        if epoch != LEAVING:
            self.step()
        return Beaten()

    def join(self) -> Joined:
        answers: list[Joined] = []
        self.group.join(self.asked(), self.world.now_ms, answers.append)
        return answers.pop()

    def asked(self) -> Join:
        if self.is_eager:
            self.owned = NOWHERE
        names = {self.world.topics.ids[n]: n for n in self.world.topics.ids}
        rows = [TopicPartitions(names[t], [i]) for t, i in sorted(self.owned) if t in names]
        of_topic: dict[str, list[int]] = {}
        for row in rows:
            of_topic.setdefault(row.topic, []).extend(row.partitions)
        has = [TopicPartitions(*each) for each in of_topic.items()]
        metadata = encode(Subscription(1, list(self.facts["topics"]), None, has), 1)
        return Join(
            self.id, "new", None, "client", "/127.0.0.1", SESSION_MS, REBALANCE_MS,
            "consumer", [("range", metadata)],
        )  # fmt: skip

    def step(self) -> None:
        """Joins again, and takes what it is given."""
        joined = self.join()
        assert joined.error == 0
        self.epoch = joined.generation
        answers: list[Synced] = []
        asked = Sync(self.id, None, self.epoch, "consumer", "range", {})
        self.group.sync(asked, self.world.now_ms, answers.append)
        synced = answers.pop()
        assert synced.error in (0, ErrorCode.REBALANCE_IN_PROGRESS)
        if not synced.error:
            self.owned = self.places(assigned(synced.assignment))

    def places(self, by_name: dict[str, list[int]]) -> Places:
        ids = self.world.topics.ids
        return frozenset((ids[name], i) for name, own in by_name.items() for i in own)


class MixedHistory(History):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.world = MixedWorld(a=5, b=3, c=8)

    def join(self) -> None:
        if self.random.random() < 0.5:
            super().join()
        elif len(self.clients) < 7:
            self.count += 1
            topics = tuple(self.random.sample("abcd", self.random.randint(1, 3)))
            is_eager = self.random.random() < 0.5
            client = ClassicClient(self.world, f"o{self.count}", is_eager=is_eager, topics=topics)
            self.clients[client.id] = client
            client.step()

    def want(self) -> None:
        client = self.some()
        if isinstance(client, ClassicClient):
            client.facts["topics"] = tuple(self.random.sample("abcd", self.random.randint(1, 3)))
            self.heard(client, is_other=True)
        elif client:
            wishes = self.wishes()
            client.facts.update(wishes)
            self.heard(client, **wishes)


@pytest.mark.parametrize("seed", range(100))
def test_random_histories_end_in_the_target(seed: int) -> None:
    history = MixedHistory(seed)
    run(history)
    group, topics = history.world.group, history.world.topics
    assert group.members.keys() == history.clients.keys()
    wanted = group.subscribed() & topics.partitions.keys()
    owned = [place for each in history.clients.values() for place in each.owned]
    assert sorted(owned) == sorted(topics.all(*wanted)), "everything, once"
    for each in group.all():
        assert each.now.assigned == group.targets[each.id] == history.clients[each.id].owned
