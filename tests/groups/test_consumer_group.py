"""One group of the newer protocol by the fake clock: rules one by one, then random histories."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from appliance.errors import ApplianceError
from appliance.groups.consumer_group import ConsumerGroup
from appliance.groups.consumer_member import (
    AWAY,
    JOINING,
    LEAVING,
    NOWHERE,
    Beat,
    Beaten,
    Places,
    next_assignment,
)
from appliance.groups.consumer_records import StoredConsumerGroup, take
from appliance.groups.modern_group import Terms, TopicFacts
from appliance.groups.records import Partition
from appliance.groups.states import ConsumerState, GroupRefused
from appliance.protocol import ErrorCode
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
        self.world.group.consumer_heartbeat(asked, self.world.now_ms, self.answers.append)

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


def test_the_first_member_gets_everything_at_once() -> None:
    world = World()
    one = Client(world, "one")
    answer = one.beat()
    assert (answer.error, answer.member_id, answer.epoch) == (0, "one", 1)
    assert answer.heartbeat_interval_ms == 5000
    assert answer.assigned == world.topics.all("t")
    assert world.group.state is ConsumerState.STABLE
    assert one.beat().assigned is None, "nothing changed"


def test_a_member_that_becomes_another_instance_can_leave_and_time_out() -> None:
    """Once the group had it under the old name alone: it could neither leave nor time out."""
    for before in (None, "a"):
        world = World()
        one = Client(world, "one", instance=before)
        one.beat()
        one.facts["instance"] = "b"
        assert one.beat(JOINING).error == 0
        assert world.group.static == {"b": "one"}
        if before is None:
            assert one.beat(LEAVING).error == 0
        else:
            world.wait(SESSION_MS + 1)
        assert (world.group.members, world.group.static, world.group.owners) == ({}, {}, {})


def test_an_instance_that_comes_back_under_the_id_of_another_member() -> None:
    """Who had that id is no more, and its partitions are free."""
    world = World(t=4)
    one, two = Client(world, "one", instance="i"), Client(world, "two")
    settle(one, two)
    one.beat(AWAY)
    back = Client(world, "two", instance="i")
    assert back.beat().error == 0
    settle(back)
    assert world.held() == {"two": world.topics.all("t")}
    assert back.beat(LEAVING).error == 0
    assert (world.group.members, world.group.static, world.group.owners) == ({}, {}, {})


def test_a_partition_moves_only_after_its_owner_let_go() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    answer = two.beat()
    assert (answer.epoch, answer.assigned) == (2, NOWHERE)
    assert world.group.state is ConsumerState.RECONCILING
    told = one.beat()
    assert (told.epoch, len(told.assigned or ())) == (1, 2), "told to let go, in its old epoch"
    assert two.beat().assigned is None, "not yet let go"
    done = one.beat()
    assert (done.epoch, done.assigned) == (2, None)
    assert len(two.beat().assigned or ()) == 2
    assert one.owned | two.owned == world.topics.all("t")
    assert world.group.state is ConsumerState.STABLE


def test_members_that_come_during_a_write_share_an_epoch_and_a_target() -> None:
    world = World(t=50)
    world.disk.is_slow = True
    first = Client(world, "first")
    others = [Client(world, f"other {n}") for n in range(49)]
    for each in (first, *others):
        each.ask()
    assert world.group.epoch == 1, "the others wait as they are"
    world.disk.sync()
    assert first.hear().epoch == 1
    assert world.group.epoch == 2
    assert not any(each.answers for each in others), "not on disk"
    world.disk.sync()
    assert {each.hear().epoch for each in others} == {2}
    world.disk.is_slow = False
    settle(first, *others)
    assert {len(each.owned) for each in (first, *others)} == {1}


def test_who_comes_and_goes_during_a_write_has_nothing() -> None:
    world = World()
    world.disk.is_slow = True
    one, two = Client(world, "one"), Client(world, "two")
    one.ask()
    two.ask()
    two.ask(LEAVING)
    one.ask(LEAVING)
    assert world.group.is_empty is False
    world.disk.sync()
    world.disk.sync()
    assert [each.error for each in two.answers] == [ErrorCode.UNKNOWN_MEMBER_ID, 0]
    assert [each.error for each in one.answers] == [0, 0]
    assert not world.group.owners
    assert world.group.is_empty


def test_a_group_is_not_deleted_while_somebody_waits_to_join() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    world.disk.is_slow = True
    one.ask(LEAVING)
    two.ask()
    with pytest.raises(GroupRefused):
        world.group.delete()
    world.disk.sync()
    world.disk.sync()
    assert two.hear().assigned == world.topics.all("t")


def test_a_heartbeat_that_waits_for_the_disk_is_a_sign_of_life() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    world.disk.is_slow = True
    two.ask()
    world.now_ms += SESSION_MS - 1
    one.ask()
    world.wait(SESSION_MS - 1)
    assert "one" in world.group.members


def test_a_member_that_does_not_say_what_it_has_has_not_let_go() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    two.beat()
    one.beat()
    assert one.beat(owned=None).epoch == 1
    assert one.beat().epoch == 2


@pytest.mark.parametrize(
    ("epoch", "said"),
    [(5, {}), (1, {"owned": None})],
    ids=["an epoch that never was", "the epoch before, and it may have more than it should"],
)
def test_epochs_that_are_fenced(epoch: int, said: dict[str, Any]) -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    settle(one, two)
    assert (one.epoch, world.group.epoch) == (2, 2)
    assert one.beat(epoch, **said).error == ErrorCode.FENCED_MEMBER_EPOCH
    had, one.owned = one.owned, NOWHERE
    again = one.beat(JOINING)
    assert (again.error, again.epoch, again.assigned) == (0, 2, had)


def test_a_lost_answer_is_asked_for_again() -> None:
    world = World()
    one = Client(world, "one")
    one.ask()
    one.answers.clear()
    answer = one.beat(JOINING)
    assert (answer.error, answer.epoch, answer.assigned) == (0, 1, world.topics.all("t"))
    two = Client(world, "two")
    two.beat()
    one.beat()
    one.ask()
    one.answers.clear()
    assert world.group.members["one"].now.epoch == 2
    assert (one.epoch, one.beat().epoch) == (1, 2)


def test_an_unknown_member_is_told_so() -> None:
    world = World()
    assert Client(world, "one").beat(3).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert Client(world, "one").beat(LEAVING).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_assignor_that_does_not_exist() -> None:
    world = World()
    answer = Client(world, "one", assignor="best").beat()
    assert answer.error == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in (answer.message or "")
    assert not world.group.members


def test_the_assignor_that_most_ask_for() -> None:
    world = World()
    one, two, three = (Client(world, each) for each in ("one", "two", "three"))
    two.facts["assignor"] = three.facts["assignor"] = "range"
    one.beat()
    assert world.group.assignor == "uniform"
    two.beat()
    three.beat()
    assert world.group.assignor == "range"


@pytest.mark.parametrize("pattern", ["(", "*", "(?=a)", r"(a)\1", "a{1000}{1000}"])
def test_a_pattern_that_is_none(pattern: str) -> None:
    world = World()
    answer = Client(world, "one", topics=None, pattern=pattern).beat()
    assert answer.error == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert repr(pattern) in (answer.message or "")
    assert not world.group.members


def test_a_pattern_follows_topics_as_they_come_and_go() -> None:
    world = World(a1=1, a2=2, ba=1)
    one = Client(world, "one", topics=None, pattern="a.*")
    assert one.beat().assigned == world.topics.all("a1", "a2")
    world.topics.change(a3=1, b=1)
    one.beat()
    assert one.owned == world.topics.all("a1", "a2", "a3")
    world.topics.change(a1=0)
    one.beat()
    assert one.owned == world.topics.all("a2", "a3")
    assert world.disk.stored().patterns == {"a.*": frozenset({"a2", "a3"})}
    one.beat(pattern="", topics=("b",))
    settle(one)
    assert one.owned == world.topics.all("b")
    assert world.disk.stored().patterns == {}


def test_a_pattern_that_would_take_forever_elsewhere() -> None:
    world = World(**{"a" * 200: 1})
    one = Client(world, "one", topics=None, pattern="(a+)+b")
    assert one.beat().assigned == NOWHERE


def test_new_partitions_are_given_out() -> None:
    world = World()
    one = Client(world, "one")
    one.beat()
    world.topics.change(t=7, other=1)
    assert one.beat().assigned == world.topics.all("t")
    assert (one.epoch, len(one.owned)) == (2, 7)
    world.topics.change(other=0)
    assert (one.beat().assigned, one.epoch) == (None, 2), "none of its topics"


def test_a_silent_member_is_out() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    settle(one, two)
    world.wait(SESSION_MS - 1)
    one.beat()
    world.wait(1)
    assert list(world.group.members) == ["one"]
    assert one.beat().assigned == world.topics.all("t")
    assert two.beat().error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_let_go_is_out() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    two.beat()
    one.beat()
    for _ in range(4):
        world.wait(REBALANCE_MS // 4 - 1)
        one.beat(owned=world.topics.all("t"))
        two.beat()
    assert len(world.group.members) == 2
    world.wait(4)
    assert list(world.group.members) == ["two"]
    assert two.beat().assigned == world.topics.all("t")


def test_a_process_that_stood_still_blames_nobody() -> None:
    world = World()
    one = Client(world, "one")
    one.beat()
    world.now_ms += 10 * SESSION_MS
    world.group.postpone(10 * SESSION_MS, world.now_ms)
    world.group.tick(world.now_ms)
    assert one.beat().error == 0
    world.wait(SESSION_MS)
    assert not world.group.members


def test_leaving_gives_all_to_the_others() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    settle(one, two)
    answer = one.beat(LEAVING)
    assert (answer.error, answer.epoch) == (0, LEAVING)
    assert two.beat().assigned == world.topics.all("t")
    two.beat(LEAVING)
    assert world.group.state is ConsumerState.EMPTY
    assert world.disk.stored().members == {}


# Static members


def test_a_static_member_comes_back_to_what_it_had() -> None:
    world = World()
    one, two = Client(world, "one", instance="i"), Client(world, "two")
    settle(one, two)
    had, epoch = one.owned, world.group.epoch
    assert one.beat(AWAY).epoch == AWAY
    again = Client(world, "one-again", instance="i")
    answer = again.beat()
    assert (answer.error, answer.epoch, answer.assigned) == (0, epoch, had)
    assert world.group.epoch == epoch, "nobody else noticed"
    assert one.beat(epoch).error == ErrorCode.FENCED_INSTANCE_ID
    world.restart()
    assert (again.beat().error, again.owned) == (0, had)


def test_an_instance_in_use_is_not_released() -> None:
    world = World()
    Client(world, "one", instance="i").beat()
    answer = Client(world, "two", instance="i").beat()
    assert answer.error == ErrorCode.UNRELEASED_INSTANCE_ID
    assert Client(world, "one", instance="j").beat(1).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_stays_away_is_out() -> None:
    world = World()
    one, two = Client(world, "one", instance="i"), Client(world, "two")
    settle(one, two)
    one.beat(AWAY)
    assert one.beat(2).error == ErrorCode.FENCED_MEMBER_EPOCH
    world.wait(SESSION_MS - 1)
    two.beat()
    world.wait(1)
    assert two.beat().assigned == world.topics.all("t")


# Limits, offsets, deletion


def test_a_full_group_takes_nobody() -> None:
    world = World(size_max=1)
    one = Client(world, "one", instance="i")
    one.beat()
    assert Client(world, "two").beat().error == ErrorCode.GROUP_MAX_SIZE_REACHED
    one.beat(AWAY)
    assert Client(world, "again", instance="i").beat().error == 0


def test_who_may_commit() -> None:
    world = World()
    group = world.group
    group.check_commit("", -1, [])
    Client(world, "one").beat()
    group.check_commit("one", 1, [])
    group.check_fetch("one", 1)
    group.check_fetch(None, -1)
    group.check_transactional_commit("", None, -1)
    for member, epoch, code in (
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("two", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("one", 0, ErrorCode.STALE_MEMBER_EPOCH),
        ("one", 2, ErrorCode.STALE_MEMBER_EPOCH),
    ):
        instance = "i" if epoch < 0 else None
        for check in (
            lambda: group.check_commit(member, epoch, []),  # noqa: B023
            lambda: group.check_transactional_commit(member, instance, epoch),  # noqa: B023
            lambda: group.check_fetch(member, epoch),  # noqa: B023
        ):
            with pytest.raises(GroupRefused) as caught:
                check()
            assert caught.value.kafka_code == code


def test_a_commit_that_a_new_epoch_overtakes() -> None:
    world = World(t=2)
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    settle(one, two)
    assert (one.epoch, len(one.owned)) == (2, 1)
    ((_, kept),) = one.owned
    world.group.check_commit("one", 1, [Partition("t", kept)])
    two.beat(LEAVING)
    one.beat()
    assert (one.epoch, len(one.owned)) == (3, 2)
    world.group.check_commit("one", 1, [Partition("t", kept)])
    for epoch, places in (
        (2, [Partition("t", 1 - kept)]),
        (1, [Partition("t", kept), Partition("t", 1 - kept)]),
        (2, [Partition("gone", 0)]),
        (4, [Partition("t", kept)]),
    ):
        with pytest.raises(GroupRefused) as caught:
            world.group.check_commit("one", epoch, places)
        assert caught.value.kafka_code == ErrorCode.STALE_MEMBER_EPOCH
    world.restart()
    with pytest.raises(GroupRefused):
        world.group.check_commit("one", 1, [Partition("t", kept)])


def test_a_group_with_members_is_not_deleted() -> None:
    world = World()
    one = Client(world, "one", topics=(), pattern="t")
    one.beat()
    with pytest.raises(GroupRefused) as caught:
        world.group.delete()
    assert caught.value.kafka_code == ErrorCode.NON_EMPTY_GROUP
    one.beat(LEAVING)
    world.group.delete()
    world.disk.latest.update(world.group.tombstones())
    assert set(world.disk.latest.values()) == {None}


# Disk


def test_nobody_hears_what_is_not_on_disk() -> None:
    world = World()
    world.disk.is_slow = True
    one, two = Client(world, "one"), Client(world, "two")
    one.ask()
    two.ask()
    one.ask(JOINING)
    assert (one.answers, two.answers) == ([], [])
    world.disk.sync()
    assert (len(one.answers), len(two.answers)) == (1, 0)
    world.disk.sync()
    assert (len(one.answers), len(two.answers)) == (2, 1)


def test_what_the_disk_refused_is_written_with_the_next_change() -> None:
    world = World()
    one = Client(world, "one")
    world.disk.fault = GroupRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the disk is full")
    answer = one.beat()
    assert (answer.error, answer.message) == (15, "the disk is full")
    assert one.beat().error == 15, "also who changes nothing hears nothing that is not on disk"
    world.disk.fault = None
    assert one.beat().assigned == world.topics.all("t")
    stored = world.disk.stored()
    assert stored.now["one"].assigned == stored.targets["one"] == world.topics.all("t")


def test_a_restart_changes_nothing_for_members() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two", topics=None, pattern="t")
    settle(one, two)
    epoch = world.group.epoch
    world.restart()
    assert (one.beat().assigned, two.beat().assigned) == (None, None)
    assert (world.group.epoch, world.group.target_epoch) == (epoch, epoch)
    world.wait(SESSION_MS)
    assert not world.group.members


# Random histories


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


def test_random_histories_find_a_broker_that_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(*given: Any) -> Any:
        return next_assignment(*given[:4], lambda place: True)

    monkeypatch.setattr("appliance.groups.consumer_group.next_assignment", hasty)
    with pytest.raises(AssertionError, match="not m"):
        run(History(0))


@pytest.mark.parametrize("seed", range(150))
def test_random_histories_end_in_the_target(seed: int) -> None:
    history = History(seed)
    run(history)
    group, topics = history.world.group, history.world.topics
    assert group.members.keys() == history.clients.keys()
    assert group.state is (ConsumerState.STABLE if group.members else ConsumerState.EMPTY)
    wanted = group.subscribed() & topics.partitions.keys()
    owned = [place for each in history.clients.values() for place in each.owned]
    assert sorted(owned) == sorted(topics.all(*wanted)), "everything, once"
    for each in group.all():
        assert each.now.assigned == group.targets[each.id] == history.clients[each.id].owned
        names = group.wanted_by(each) & topics.partitions.keys()
        assert each.now.assigned <= topics.all(*names)
    history.world.restart()
    assert {each.id: each.now for each in history.world.group.all()} == {
        each.id: each.now for each in group.all()
    }
