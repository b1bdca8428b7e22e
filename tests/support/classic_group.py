"""A classic group by a clock that the test turns, its disk and its consumers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from appliance.config import GroupsConfig
from appliance.errors import ApplianceError
from appliance.groups.group import Group
from appliance.groups.member import Join, Joined, Protocols, Stored, Sync, Synced
from appliance.groups.records import GroupMetadataValue
from appliance.groups.states import GroupRefused, State
from appliance.protocol import ErrorCode
from tests.support.group_client import subscription

SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 300

SERIAL = itertools.count()

RANGE = [("range", subscription("t"))]


@dataclass
class World:
    """A group, its clock and its disk. `now_ms` goes forward by `wait` alone, which rings whatever
    is due on the way, as the coordinator does."""

    delay_ms: int = 0
    now_ms: int = 1_000_000
    records: list[GroupMetadataValue] = field(default_factory=list)
    waiting: list[Stored] | None = None  # a disk that takes its time
    max_size: int = 100

    def __post_init__(self) -> None:
        config = GroupsConfig(initial_rebalance_delay_ms=self.delay_ms, max_size=self.max_size)
        self.group = Group("g", config, self._store)

    def _store(self, value: GroupMetadataValue, done: Stored) -> None:
        self.records.append(value)
        if self.waiting is None:
            done(None, self.now_ms)
        else:
            self.waiting.append(done)

    def stored(self, error: ApplianceError | None = None) -> None:
        assert self.waiting is not None
        done, self.waiting = self.waiting, []
        for each in done:
            each(error, self.now_ms)

    def wait(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while self.group.due_ms <= end_ms:
            assert self.group.due_ms >= self.now_ms
            self.now_ms = self.group.due_ms
            self.group.tick(self.now_ms)
        self.now_ms = end_ms

    @property
    def state(self) -> State:
        return self.group.state


@dataclass
class Consumer:
    world: World
    name: str
    instance: str | None = None
    protocols: Protocols = field(default_factory=lambda: RANGE)
    session_ms: int = SESSION_MS
    may_skip: bool = True
    id: str = ""
    joined: list[Joined] = field(default_factory=list)
    synced: list[Synced] = field(default_factory=list)

    def join(self, needs_id: bool = False) -> Consumer:
        asked = Join(
            self.id, f"{self.name}-{next(SERIAL)}", self.instance, self.name, "/h",
            self.session_ms, REBALANCE_MS, "consumer", self.protocols, needs_id, self.may_skip,
        )  # fmt: skip
        self.world.group.join(asked, self.world.now_ms, self._on_joined)
        return self

    def _on_joined(self, joined: Joined) -> None:
        self.joined.append(joined)
        if not joined.error or joined.error == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = joined.member_id

    @property
    def generation(self) -> int:
        return self.joined[-1].generation

    @property
    def is_leader(self) -> bool:
        return self.joined[-1].leader == self.id

    def sync(self, *others: Consumer) -> Consumer:
        """The leader's, when others are named: each is assigned its own name."""
        assigned = {each.id: each.name.encode() for each in (self, *others)} if others else {}
        if self.is_leader and not others:
            assigned = {self.id: self.name.encode()}
        asked = Sync(self.id, self.instance, self.generation, None, None, assigned)
        self.world.group.sync(asked, self.world.now_ms, self.synced.append)
        return self

    def heartbeat(self) -> int:
        return self._code(
            self.world.group.heartbeat, self.id, self.instance, self.generation, self.world.now_ms
        )

    def leave(self) -> int:
        return self._code(self.world.group.leave, self.id, self.instance, self.world.now_ms)

    def commit(self) -> int:
        return self._code(
            self.world.group.check_commit, self.id, self.instance, self.generation,
            self.world.now_ms,
        )  # fmt: skip

    @staticmethod
    def _code(ask: Callable[..., None], *given: object) -> int:
        try:
            ask(*given)
        except GroupRefused as error:
            return error.kafka_code
        return 0


def stable(world: World, *names: str, **given: object) -> list[Consumer]:
    """A group of these, assigned; the first leads."""
    found = [Consumer(world, each, **given) for each in names]  # type: ignore[arg-type]
    for i, each in enumerate(found):
        each.join()
        for other in found[:i]:
            other.join()
    leader, *others = found
    for each in others:
        each.sync()
    leader.sync(*others)
    assert world.state is State.STABLE
    assert [each.synced[-1] for each in found] == [
        Synced(0, "consumer", "range", each.name.encode()) for each in found
    ]
    return found


def errors(answers: list[Joined] | list[Synced]) -> list[int]:
    return [each.error for each in answers]


def beat(world: World, consumers: list[Consumer], ms: int) -> None:
    """They live on for so long."""
    end_ms = world.now_ms + ms
    while world.now_ms < end_ms:
        world.wait(min(3000, end_ms - world.now_ms))
        assert {each.heartbeat() for each in consumers} <= {0, ErrorCode.REBALANCE_IN_PROGRESS}
