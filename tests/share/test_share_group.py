"""One share group by the fake clock: rules one by one, then random histories."""

from __future__ import annotations

import random
from collections.abc import Callable
from uuid import UUID

import pytest

from appliance.errors import ApplianceError, StorageFull
from appliance.groups.consumer_member import JOINING, LEAVING, Beat, Beaten
from appliance.groups.consumer_records import TopicPartitions
from appliance.groups.handover import NOWHERE, Places
from appliance.groups.modern_group import Terms
from appliance.groups.share_records import (
    CurrentValue,
    EpochValue,
    GroupKey,
    MemberKey,
    MemberValue,
    ShareState,
    StateValue,
    StoredShareGroup,
    take,
)
from appliance.groups.states import ConsumerState, GroupRefused
from appliance.protocol import ErrorCode
from appliance.share.group import ShareGroup
from appliance.topics.internal_topic import VERSION, store
from tests.support.consumer_group import SESSION_MS, Disk, Topics


class States:
    """The states of partitions, made when `make` is called, or at once."""

    def __init__(self) -> None:
        self.is_slow = False
        self.broken: Places = NOWHERE
        self.made: Places = NOWHERE
        self.epochs: list[int] = []
        self.gone: list[str] = []  # members
        self.waiting: list[tuple[Places, Callable[[Places], None]]] = []

    def initialize(self, places: Places, epoch: int, done: Callable[[Places], None]) -> None:
        self.epochs.append(epoch)
        self.waiting.append((places, done))
        if not self.is_slow:
            self.make()

    def make(self) -> None:
        waiting, self.waiting = self.waiting, []
        for places, done in waiting:
            self.made |= places - self.broken
            done(places - self.broken)


class World:
    """A group, its topics, its states, its disk and the time."""

    def __init__(self, size_max: int = 100, **partitions: int) -> None:
        self.terms = Terms(SESSION_MS, 5000, size_max, ("simple",))
        self.topics = Topics(partitions or {"t": 4})
        self.disk = Disk()
        self.states = States()
        self.now_ms = 1_000_000
        self.group = self.new_group()

    def new_group(self) -> ShareGroup:
        return ShareGroup(
            "g",
            lambda: self.terms,
            self.topics,
            self.disk.store,
            initialize=self.states.initialize,
            on_silence=self.states.gone.append,
        )

    def stored(self) -> StoredShareGroup:
        found: dict[str, StoredShareGroup] = {}
        for key, value in self.disk.latest.items():
            if value is not None:
                take(found, VERSION.unpack_from(key)[0], key, value)
        return found.get("g", StoredShareGroup())

    def restart(self) -> None:
        self.disk.waiting.clear()
        self.states.waiting.clear()
        self.group = self.new_group()
        self.group.restore(self.stored(), self.now_ms)

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        if self.group.due_ms <= self.now_ms:
            self.group.tick(self.now_ms)

    def assigned(self) -> dict[str, Places]:
        return {each.id: each.now.assigned for each in self.group.all()}


class Client:
    """A member that believes what it is told."""

    def __init__(self, world: World, name: str, *topics: str) -> None:
        self.world, self.id, self.topics = world, name, topics or ("t",)
        self.epoch = JOINING
        self.assigned: Places = NOWHERE
        self.answers: list[Beaten] = []

    def ask(self, epoch: int | None = None, topics: tuple[str, ...] | None = None) -> None:
        sent = self.epoch if epoch is None else epoch
        said = self.topics if sent == JOINING else topics
        asked = Beat(
            self.id, sent, None, "r", "client", "/127.0.0.1", -1, said, None, None, None
        )
        self.world.group.heartbeat(asked, self.world.now_ms, self.answers.append)

    def beat(self, epoch: int | None = None, topics: tuple[str, ...] | None = None) -> Beaten:
        self.ask(epoch, topics)
        return self.hear()

    def hear(self) -> Beaten:
        answer = self.answers.pop()
        if not answer.error:
            self.epoch = answer.epoch
            if answer.assigned is not None:
                self.assigned = answer.assigned
        return answer


def test_the_first_member_gets_everything_at_once() -> None:
    world = World()
    one = Client(world, "one")
    answer = one.beat()
    assert (answer.error, answer.member_id, answer.heartbeat_interval_ms) == (0, "one", 5000)
    assert answer.assigned == world.topics.all("t") == world.states.made
    assert answer.epoch == world.group.epoch == world.group.target_epoch
    assert world.group.state is ConsumerState.STABLE
    assert one.beat().assigned is None, "nothing changed"


def test_a_partition_has_several_readers_at_once() -> None:
    world = World(t=1)
    clients = [Client(world, name) for name in ("one", "two", "three")]
    for each in clients:
        assert each.beat().assigned == world.topics.all("t")
    assert clients[0].beat().epoch == world.group.epoch
    assert clients[0].assigned == world.topics.all("t")


def test_nothing_is_given_out_before_it_has_a_state() -> None:
    world = World()
    world.states.is_slow = True
    one, two = Client(world, "one"), Client(world, "two")
    one.ask()
    two.ask()
    assert not one.answers
    assert world.stored().state == ShareState(initializing=world.topics.all("t"))
    world.states.make()
    assert one.hear().assigned
    assert two.hear().assigned
    assert one.assigned | two.assigned == world.topics.all("t")
    assert world.stored().state == ShareState(initialized=world.topics.all("t"))


def test_what_could_not_be_initialized_is_tried_again_with_the_next_heartbeat() -> None:
    world = World(t=2)
    bad, good = sorted(world.topics.all("t"))
    world.states.broken = frozenset({bad})
    one = Client(world, "one")
    assert one.beat().assigned == {good}
    assert one.beat().assigned is None
    world.states.broken = NOWHERE
    assert one.beat().assigned == {good, bad}
    assert world.group.shared == ShareState(initialized=frozenset({good, bad}))


def test_what_is_not_on_disk_is_not_initialized() -> None:
    world = World()
    world.disk.fault = StorageFull("no space")
    one = Client(world, "one")
    assert one.beat().error == StorageFull.kafka_code
    assert world.states.epochs == []
    world.disk.fault = None
    assert one.beat(JOINING).assigned == world.topics.all("t")
    assert world.stored().state.initialized == world.states.made == world.topics.all("t")


def test_new_partitions_and_topics_are_given_out_with_the_next_heartbeat() -> None:
    world = World(t=1)
    one = Client(world, "one", "t", "u")
    assert one.beat().assigned == world.topics.all("t")
    epoch = one.epoch
    world.topics.change(t=3, u=1)
    assert one.beat().assigned == world.topics.all("t", "u")
    assert one.epoch > epoch
    world.topics.change(u=0)
    assert one.beat().assigned == world.topics.all("t")


def test_a_changed_subscription_counts_at_once() -> None:
    world = World(t=2, u=2)
    one = Client(world, "one")
    one.beat()
    assert one.beat(topics=("u",)).assigned == world.topics.all("u")
    assert world.group.subscribed() == {"u"}
    assert world.group.shared.initialized == world.topics.all("t", "u"), "its place in t stays"


def test_a_lost_answer_does_no_harm() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    before = one.epoch
    two.beat()
    one.ask()
    one.answers.clear()
    again = one.beat(before)
    assert (again.error, again.epoch) == (0, world.group.epoch)
    assert again.assigned == world.assigned()["one"]


@pytest.mark.parametrize("epoch", [1, 99])
def test_another_epoch_is_fenced_and_may_join_again(epoch: int) -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    for each in (one, two, one, two):
        each.beat()
    assert one.beat(epoch).error == ErrorCode.FENCED_MEMBER_EPOCH
    answer = one.beat(JOINING)
    assert (answer.error, answer.assigned) == (0, world.assigned()["one"])


def test_who_leaves_or_is_silent_makes_room_for_others() -> None:
    world = World()
    one, two, three = (Client(world, name) for name in ("one", "two", "three"))
    for each in (one, two, three):
        each.beat()
    assert three.beat(LEAVING) == Beaten(member_id="three", epoch=LEAVING)
    assert world.states.gone == [], "its last acknowledgements may still come"
    assert three.beat(1).error == ErrorCode.UNKNOWN_MEMBER_ID
    world.wait(SESSION_MS - 1)
    one.beat()
    world.wait(1)
    assert world.states.gone == ["two"]
    assert world.assigned().keys() == {"one"}
    assert one.beat().assigned == world.topics.all("t")
    world.wait(SESSION_MS)
    assert world.group.is_empty
    assert world.group.state is ConsumerState.EMPTY
    assert world.stored().members == {}


def test_a_member_that_goes_while_it_waits_is_told() -> None:
    world = World()
    world.states.is_slow = True
    one = Client(world, "one")
    one.ask()
    world.wait(SESSION_MS)
    world.states.make()
    assert one.hear().error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_lets_in_nobody_new() -> None:
    world = World(size_max=1)
    one, two = Client(world, "one"), Client(world, "two")
    one.beat()
    refused = two.beat()
    assert refused.error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "group.share.max.size" in (refused.message or "")
    assert one.beat(JOINING).error == 0


def test_a_restart_finds_members_where_they_were() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    for each in (one, two, one):
        each.beat()
    assigned, epoch = world.assigned(), world.group.epoch
    world.restart()
    assert (world.assigned(), world.group.epoch) == (assigned, epoch)
    for each in (one, two):
        answer = each.beat()
        assert (answer.error, answer.epoch, answer.assigned) == (0, epoch, None)
    world.wait(SESSION_MS)
    assert world.group.is_empty


def test_a_restart_ends_what_was_being_initialized() -> None:
    world = World()
    world.states.is_slow = True
    one = Client(world, "one")
    one.ask()
    world.restart()
    world.states.is_slow = False
    assert one.beat(JOINING).assigned == world.topics.all("t")
    assert world.group.shared == ShareState(initialized=world.topics.all("t"))


# Administrators


def change(world: World, note: Callable[[ShareState], ShareState]) -> list[ApplianceError | None]:
    errors: list[ApplianceError | None] = []
    world.group.begin_change(note, errors.append)
    return errors


def test_states_change_only_while_nobody_is_there() -> None:
    world = World()
    one = Client(world, "one")
    one.beat()
    with pytest.raises(GroupRefused, match="Stable with 1 members") as caught:
        change(world, lambda state: state)
    assert caught.value.kafka_code == ErrorCode.NON_EMPTY_GROUP
    with pytest.raises(GroupRefused):
        world.group.delete()
    one.beat(LEAVING)
    assert change(world, lambda state: state) == [None]
    with pytest.raises(GroupRefused, match="being changed"):
        world.group.delete()


def test_who_joins_meanwhile_waits_until_it_is_known_where_to_begin() -> None:
    world = World(t=1)
    one = Client(world, "one")
    one.beat()
    one.beat(LEAVING)
    (topic,) = {place[0] for place in world.topics.all("t")}
    assert change(world, lambda state: state.gave_up({topic})) == [None]
    assert world.stored().state == ShareState(deleting=frozenset({topic}))
    one.ask(JOINING)
    assert not one.answers
    world.states.made = NOWHERE
    world.group.end_change(lambda state: state.lost({topic}), lambda error: None)
    assert one.hear().assigned == world.topics.all("t") == world.states.made


def test_a_group_may_begin_with_its_offsets() -> None:
    world = World(t=2)
    there = world.topics.all("t")
    assert change(world, lambda state: state.began(there)) == [None]
    world.group.end_change(lambda state: state.made(there), lambda error: None)
    assert (world.stored().epoch, world.stored().state) == (1, ShareState(initialized=there))
    world.restart()
    assert Client(world, "one").beat().assigned == there
    assert world.states.epochs == [], "it has its states"


def test_a_deleted_topic_is_forgotten() -> None:
    world = World(t=1, u=1)
    one = Client(world, "one", "t", "u")
    one.beat()
    (topic,) = {place[0] for place in world.topics.all("u")}
    world.topics.change(u=0)
    world.group.forget_topics({topic})
    assert world.stored().state == ShareState(initialized=world.topics.all("t"))


# Bytes


TOPIC = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")
TOPIC_HEX = TOPIC.bytes.hex()


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (store(GroupKey("g"), 11), "000b 0001 67"),
        (store(MemberKey("g", "mm"), 14), "000e 0001 67 0002 6d6d"),
        (
            store(MemberValue(None, "c", "/h", ["t"]), 0),
            "0000 00 02 63 03 2f68 02 02 74 00",
        ),
        (store(EpochValue(7, -2), 0), "0000 00000007 fffffffffffffffe 00"),
        (
            store(CurrentValue(2, 1, 0, [TopicPartitions(TOPIC, [3])]), 0),
            f"0000 00000002 00000001 00 02 {TOPIC_HEX} 02 00000003 00 00",
        ),
        (
            store(
                StateValue(
                    [],
                    [StateValue.TopicPartitionsInfo(TOPIC, "t", [0])],
                    [StateValue.TopicInfo(TOPIC, "u")],
                ),
                0,
            ),
            f"0000 01 02 {TOPIC_HEX} 02 74 02 00000000 00 02 {TOPIC_HEX} 02 75 00 00",
        ),
    ],
)
def test_records_have_kafkas_bytes(made: bytes, wanted: str) -> None:
    assert made.hex() == wanted.replace(" ", "")


# Random histories


class History:
    """Members come, go, are silent and lose answers; topics, states and the disk have their own
    troubles. What must hold holds after every step."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(a=2, b=3)
        self.clients: dict[str, Client] = {}

    def step(self) -> None:
        do = self.random.choices(
            [self.join, self.beat, self.leave, self.time, self.topics, self.trouble, self.restart],
            [4, 12, 2, 3, 2, 3, 1],
        )[0]
        do()
        self.check()

    def join(self) -> None:
        name = f"m{self.random.randrange(8)}"
        topics = tuple(self.random.sample(["a", "b", "c"], self.random.randint(1, 3)))
        self.clients[name] = Client(self.world, name, *topics)
        self.clients[name].ask()

    def beat(self) -> None:
        for each in self.clients.values():
            if self.random.random() < 0.7:
                each.ask()

    def leave(self) -> None:
        if self.clients:
            name = self.random.choice([*self.clients])
            self.clients.pop(name).ask(LEAVING)

    def time(self) -> None:
        self.world.wait(self.random.choice([1000, SESSION_MS // 2, SESSION_MS]))

    def topics(self) -> None:
        name, now = self.random.choice("abc"), self.world.topics.partitions
        self.world.topics.change(**{name: now.get(name, 0) + 1})

    def trouble(self) -> None:
        world = self.world
        world.states.is_slow = self.random.random() < 0.5
        world.disk.is_slow = self.random.random() < 0.5
        world.disk.fault = StorageFull("full") if self.random.random() < 0.3 else None
        broken = self.random.random() < 0.3
        world.states.broken = world.topics.all("a") if broken else NOWHERE
        if not world.states.is_slow:
            world.states.make()
        if not world.disk.is_slow:
            world.disk.sync()

    def restart(self) -> None:
        self.world.restart()
        for each in self.clients.values():
            each.answers.clear()

    def hear(self) -> None:
        for name, client in [*self.clients.items()]:
            while client.answers:
                if client.hear().error in (
                    ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH
                ):
                    self.clients[name] = Client(self.world, name, *client.topics)
                    break

    def check(self) -> None:
        world, group = self.world, self.world.group
        self.hear()
        given = frozenset[tuple[UUID, int]]().union(*world.assigned().values())
        assert given <= world.states.made, "only what has a state is given out"
        assert group.shared.initialized <= world.states.made
        assert not group.shared.initialized & group.shared.initializing
        stored = world.stored()
        for client in self.clients.values():
            now = stored.now.get(client.id)
            if now is not None and JOINING < client.epoch == now.epoch:
                assert now.assigned == client.assigned, "what is told is on disk"

    def settle(self) -> None:
        world = self.world
        world.states.is_slow = world.disk.is_slow = False
        world.disk.fault, world.states.broken = None, NOWHERE
        world.disk.sync()
        world.states.make()
        # whoever writes next also writes what could not be written
        self.clients["last"] = Client(world, "last", "a")
        for _ in range(3):
            self.hear()
            for each in self.clients.values():
                each.ask()
        self.hear()
        world.wait(SESSION_MS - 1)
        for _ in range(3):
            for each in self.clients.values():
                each.ask()
            self.hear()
        world.wait(1)
        for _ in range(3):
            for each in self.clients.values():
                each.ask()
            self.hear()
        assert world.group.members.keys() == self.clients.keys()
        wanted = {name for each in self.clients.values() for name in each.topics}
        there = world.topics.all(*wanted)
        assert there == frozenset().union(*(each.assigned for each in self.clients.values()))
        assert world.assigned() == {each.id: each.assigned for each in self.clients.values()}
        assert {each.now.epoch for each in world.group.all()} <= {world.group.epoch}
        assert world.stored().state == world.group.shared


@pytest.mark.parametrize("seed", range(150))
def test_random_histories(seed: int) -> None:
    history = History(seed)
    for _ in range(80):
        history.step()
    history.settle()
