"""A random history of one group of the newer protocol."""

from __future__ import annotations

import random
from typing import Any

from appliance.groups.consumer_member import JOINING, LEAVING
from appliance.groups.handover import NOWHERE
from appliance.protocol import ErrorCode
from tests.support.consumer_group import Client, World


class History:
    """Members come, go, crash and change their minds; answers and records get lost; the broker is
    killed. All of it by one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(a=5, b=3, c=8)
        self.clients: dict[str, Client] = {}
        self.count = 0

    def step(self) -> None:
        chances = {self.beat: 12, self.join: 2, self.leave: 1, self.crash: 1, self.want: 2,
                   self.lose: 2, self.topic: 1, self.restart: 1, self.wait: 3}
        (do,) = self.random.choices(list(chances), list(chances.values()))
        do()
        self.check()

    def some(self) -> Client | None:
        return self.random.choice([*self.clients.values()]) if self.clients else None

    def wishes(self) -> dict[str, Any]:
        if self.random.random() < 0.3:
            return {"topics": (), "pattern": self.random.choice(["[ab]", ".*", "c|d"])}
        names = self.random.sample(["a", "b", "c", "d"], self.random.randint(1, 3))
        return {"topics": tuple(names), "pattern": ""}

    def join(self) -> None:
        if len(self.clients) < 7:
            self.count += 1
            client = Client(self.world, f"m{self.count}", **self.wishes())
            self.clients[client.id] = client
            client.facts["assignor"] = self.random.choice([None, "uniform", "range"])
            self.heard(client)

    def heard(self, client: Client, **said: Any) -> None:
        answer = client.beat(**said)
        if answer.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            client.epoch, client.owned = JOINING, NOWHERE
        else:
            assert answer.error == 0, answer

    def beat(self) -> None:
        if client := self.some():
            self.heard(client)

    def leave(self) -> None:
        if client := self.some():
            del self.clients[client.id]
            client.beat(LEAVING)

    def crash(self) -> None:
        if client := self.some():
            del self.clients[client.id]

    def want(self) -> None:
        if client := self.some():
            wishes = self.wishes()
            client.facts.update(wishes)
            self.heard(client, **wishes)

    def lose(self) -> None:
        """An answer."""
        if client := self.some():
            client.ask()
            client.answers.clear()
            client.is_unsure = True

    def topic(self) -> None:
        name = self.random.choice("abcd")
        before = self.world.topics.partitions.get(name, 0)
        self.world.topics.change(**{name: before + 2 if self.random.random() < 0.7 else 0})
        if not self.world.topics.partitions.get(name):
            self.world.topics.ids.pop(name, None)

    def restart(self) -> None:
        self.world.restart()

    def wait(self) -> None:
        self.world.wait(self.random.choice([1000, 20_000]))

    def check(self) -> None:
        held: list[Any] = []
        for client in self.clients.values():
            held += client.owned
        known = [place for each in self.world.group.all() for place in each.now.held]
        assert len(known) == len(set(known)), "two owners, as the group sees it"
        mine = [
            place
            for each in self.clients.values()
            if each.id in self.world.group.members and each.epoch > 0
            for place in each.owned
        ]
        assert len(mine) == len(set(mine)), "two owners, as the members see it"
        assert set(known) == self.world.group.owners.keys()

    def settle(self) -> None:
        """Everybody who is left beats; the crashed time out."""
        for _ in range(12):
            self.world.wait(5000)
            for each in list(self.clients.values()):
                self.heard(each)
            self.check()


def run(history: History, steps: int = 120) -> None:
    for _ in range(steps):
        history.step()
    history.settle()
