"""One classic group by a clock that the test turns: joins, rebalances, sessions, static members."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from appliance.config import GroupsConfig
from appliance.errors import ApplianceError, TimedOut
from appliance.groups.group import SESSION_GRAIN_MS, Group
from appliance.groups.joins import NEW_MEMBER_JOIN_MS
from appliance.groups.member import NEVER_MS, Join, Joined, Protocols, Stored, Sync, Synced
from appliance.groups.records import GroupMetadataValue
from appliance.groups.states import GroupRefused, State
from appliance.groups.subscription import NO_PARTITIONS
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


@pytest.fixture
def world() -> World:
    return World()


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


# Joining


def test_a_member_alone_is_a_generation(world: World) -> None:
    one = Consumer(world, "a").join()
    (joined,) = one.joined
    assert (joined.error, joined.generation, joined.leader) == (0, 1, one.id)
    assert [(each.member_id, each.metadata) for each in joined.members] == [(one.id, RANGE[0][1])]
    assert world.state is State.COMPLETING_REBALANCE
    one.sync()
    assert world.state is State.STABLE
    assert one.synced == [Synced(0, "consumer", "range", b"a")]


def test_consumers_that_start_together_make_one_rebalance() -> None:
    world = World(delay_ms=DELAY_MS)
    consumers = []
    for i in range(5):
        consumers.append(Consumer(world, f"c{i}").join())
        world.wait(DELAY_MS - 1)  # each newcomer makes it wait again, once
    assert all(not each.joined for each in consumers)
    world.wait(2 * DELAY_MS)
    assert {each.generation for each in consumers} == {1}
    assert [each.is_leader for each in consumers] == [True, False, False, False, False]
    assert len(consumers[0].joined[0].members) == 5


def test_newcomers_cannot_hold_up_the_first_rebalance_for_ever() -> None:
    world = World(delay_ms=1000)
    first, began_ms = Consumer(world, "first").join(), world.now_ms
    while not first.joined:
        Consumer(world, str(world.now_ms)).join()
        world.wait(500)
        assert world.now_ms <= began_ms + REBALANCE_MS


def test_one_consumer_waits_for_the_delay_only_once() -> None:
    world = World(delay_ms=DELAY_MS)
    one = Consumer(world, "a").join()
    world.wait(DELAY_MS - 1)
    assert not one.joined
    world.wait(1)
    assert one.generation == 1


def test_an_id_is_given_first_and_must_be_used_in_time(world: World) -> None:
    one, two = Consumer(world, "a").join(needs_id=True), Consumer(world, "b").join(needs_id=True)
    assert errors(one.joined) == [ErrorCode.MEMBER_ID_REQUIRED]
    assert len(world.group.members) == 0
    one.join(needs_id=True)
    assert len(one.joined) == 1  # waits for b, which is on its way
    world.wait(SESSION_MS)
    assert one.generation == 1
    two.join(needs_id=True)
    assert errors(two.joined) == [ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.UNKNOWN_MEMBER_ID]


def test_an_id_that_was_given_is_no_way_to_be_an_instance_twice(world: World) -> None:
    """Once both were members of the instance, and the second that left took the group with it."""
    static = Consumer(world, "s", instance="i").join().sync()
    new = Consumer(world, "n").join(needs_id=True)
    new.instance = "i"
    assert errors(new.join().joined) == [
        ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.FENCED_INSTANCE_ID
    ]  # fmt: skip
    assert world.group.members.static == {"i": static.id}
    assert static.leave() == 0
    world.wait(SESSION_MS)
    assert (len(world.group.members), world.group.members.static) == (0, {})


def test_who_has_only_an_id_may_leave(world: World) -> None:
    one, two = Consumer(world, "a").join(needs_id=True), Consumer(world, "b").join()
    assert not two.joined
    assert one.leave() == 0
    assert two.generation == 1


def test_the_protocol_with_most_votes_of_those_that_all_know(world: World) -> None:
    lists = ["xr", "rx", "yrx", "zrx"]
    consumers = [Consumer(world, n, protocols=[(p, b"") for p in n]) for n in lists]
    for i, each in enumerate(consumers):
        each.join()
        for other in consumers[:i]:
            other.join()
    assert {each.joined[-1].protocol_name for each in consumers} == {"r"}


def test_a_second_join_of_a_member_answers_the_first(world: World) -> None:
    one, two = stable(world, "a", "b")
    one.join()
    one.join()
    assert errors(one.joined)[-1:] == [ErrorCode.REBALANCE_IN_PROGRESS]
    two.join()
    assert (one.generation, two.generation) == (3, 3)


def test_a_join_that_is_lost_and_repeated_gets_the_generation_again(world: World) -> None:
    one, two = stable(world, "a", "b")
    for each in (one, two):
        each.join()
    assert world.state is State.COMPLETING_REBALANCE
    again = two.join().joined[-1]
    assert (again.generation, again.leader, again.members) == (3, one.id, ())
    assert len(one.join().joined[-1].members) == 2
    assert world.group.generation == 3


def test_a_follower_that_joins_again_as_it_was_changes_nothing(world: World) -> None:
    one, two = stable(world, "a", "b")
    assert (two.join().generation, world.state) == (2, State.STABLE)
    assert two.sync().synced[-1].assignment == b"b"
    one.join()  # the leader, which saw something change
    assert world.state is State.PREPARING_REBALANCE


def test_a_follower_that_wants_something_else_begins_a_rebalance(world: World) -> None:
    one, two = stable(world, "a", "b")
    two.protocols = [("range", subscription("t", "u"))]
    two.join()
    assert world.state is State.PREPARING_REBALANCE
    assert one.join().joined[-1].members[1].metadata == subscription("t", "u")


def test_a_full_group_takes_nobody_in() -> None:
    world = World(max_size=2)
    stable(world, "a", "b")
    assert errors(Consumer(world, "c").join().joined) == [ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert world.state is State.STABLE


# Rebalance


def test_members_hear_of_a_rebalance_by_their_heartbeat(world: World) -> None:
    one, two = stable(world, "a", "b")
    three = Consumer(world, "c").join()
    assert [one.heartbeat(), two.heartbeat()] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    assert one.commit() == 0  # what it read until now
    one.join()
    assert not three.joined
    two.join()
    assert {each.generation for each in (one, two, three)} == {3}
    assert one.commit() == ErrorCode.REBALANCE_IN_PROGRESS
    assert one.heartbeat() == 0


def test_who_does_not_join_in_time_is_out(world: World) -> None:
    one, two = stable(world, "a", "b")
    one.join()
    beat(world, [two], REBALANCE_MS - 1)
    assert len(one.joined) == 2
    world.wait(1)
    assert (one.generation, one.is_leader) == (3, True)
    assert two.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_waits_is_alive(world: World) -> None:
    one, two = stable(world, "a", "b")
    one.join()
    beat(world, [two], 5 * SESSION_MS)
    two.join()
    assert (one.generation, two.generation) == (3, 3)


def test_a_new_member_that_waits_too_long_is_given_up() -> None:
    world = World()
    (one,) = stable(world, "a", session_ms=2 * NEW_MEMBER_JOIN_MS)
    object.__setattr__(world.group.members.find(one.id, None), "rebalance_timeout_ms", 10**9)
    two = Consumer(world, "b").join()
    world.wait(NEW_MEMBER_JOIN_MS - 1)
    assert not two.joined
    world.wait(1)
    assert errors(two.joined) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert one.join().generation == 2


def test_a_rebalance_within_a_rebalance(world: World) -> None:
    one, two = stable(world, "a", "b")
    one.join()
    two.join().sync()
    assert world.state is State.COMPLETING_REBALANCE
    three = Consumer(world, "c").join()
    assert errors(two.synced)[-1:] == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert one.sync(two).synced[-1].error == ErrorCode.REBALANCE_IN_PROGRESS
    one.join()
    two.join()
    assert {each.generation for each in (one, two, three)} == {4}


def test_the_leader_that_died_is_replaced(world: World) -> None:
    one, two = stable(world, "a", "b")
    two.join()
    beat(world, [two], SESSION_MS)
    assert one.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    two.join()
    assert (two.generation, two.is_leader) == (3, True)


def test_members_that_never_ask_for_their_assignment_are_out(world: World) -> None:
    one, two = stable(world, "a", "b")
    for each in (one, two):
        each.join()
    one.sync(two)
    assert world.state is State.STABLE
    beat(world, [one, two], REBALANCE_MS - 1)
    assert world.state is State.STABLE
    world.wait(1)
    assert world.state is State.PREPARING_REBALANCE
    assert two.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert one.join().generation == 4


def test_a_leader_that_never_assigns_is_out(world: World) -> None:
    one, two = stable(world, "a", "b")
    for each in (one, two):
        each.join()
    two.sync()
    beat(world, [one], REBALANCE_MS - 1)
    world.wait(1)
    assert one.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert errors(two.synced)[-1:] == [ErrorCode.REBALANCE_IN_PROGRESS]
    two.join()
    assert (two.generation, two.is_leader) == (4, True)


def test_the_last_member_leaves_an_empty_group(world: World) -> None:
    (one,) = stable(world, "a")
    assert one.leave() == 0
    assert (world.state, world.group.generation) == (State.EMPTY, 2)
    record = world.records[-1]
    assert (record.members, record.leader, record.protocol) == ([], None, None)
    assert (record.protocol_type, record.generation) == ("consumer", 2)
    assert world.group.due_ms == NEVER_MS or world.wait(10 * REBALANCE_MS) is None
    assert Consumer(world, "b").join().generation == 3


def test_leaving_lets_the_others_go_on(world: World) -> None:
    one, two = stable(world, "a", "b")
    one.join()
    assert two.leave() == 0
    assert one.generation == 3
    assert two.leave() == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_leaves_while_it_waits_is_told(world: World) -> None:
    one, two = stable(world, "a", "b")
    two.join()
    assert world.state is State.STABLE
    one.join()
    assert one.leave() == 0
    assert errors(one.joined)[-1:] == [ErrorCode.UNKNOWN_MEMBER_ID]


# Sessions


def test_silence_ends_a_session(world: World) -> None:
    one, two = stable(world, "a", "b")
    beat(world, [one], SESSION_MS - 1)
    assert world.state is State.STABLE
    world.wait(1)
    assert world.state is State.PREPARING_REBALANCE
    assert one.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert two.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("sign", ["heartbeat", "commit"])
def test_signs_of_life_keep_a_session(world: World, sign: str) -> None:
    (one,) = stable(world, "a")
    for _ in range(20):
        world.wait(SESSION_MS - 1)
        assert getattr(one, sign)() == 0
    world.wait(SESSION_MS)
    assert world.state is State.EMPTY


def test_a_heartbeat_rings_no_timer(world: World) -> None:
    consumers = stable(world, *(f"c{i}" for i in range(20)))
    due_ms, rung = world.group.due_ms, 0
    for _ in range(1000):
        world.now_ms += 100
        for each in consumers:
            assert each.heartbeat() == 0
        if world.group.due_ms <= world.now_ms:
            world.group.tick(world.now_ms)
            rung += 1
    assert rung <= 1000 * 100 // SESSION_MS + 1
    assert world.group.due_ms > due_ms


def test_many_members_that_die_together_are_looked_at_a_few_times(world: World) -> None:
    consumers = stable(world, *(f"c{i}" for i in range(50)))
    for each in consumers:
        world.now_ms += 20
        each.heartbeat()
    ticks, end_ms = 0, world.now_ms + SESSION_MS + 2 * SESSION_GRAIN_MS
    while world.group.due_ms <= end_ms:
        world.now_ms = max(world.now_ms, world.group.due_ms)
        world.group.tick(world.now_ms)
        ticks += 1
    assert world.state is State.EMPTY
    assert ticks <= 50 * 20 // SESSION_GRAIN_MS + 3


def test_a_process_that_stood_still_expires_nobody(world: World) -> None:
    one, two = stable(world, "a", "b")
    world.now_ms += 3 * SESSION_MS
    world.group.postpone(2 * SESSION_MS, world.now_ms)
    world.group.tick(world.now_ms)
    assert [one.heartbeat(), two.heartbeat()] == [0, 0]
    beat(world, [one], SESSION_MS)
    assert two.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_is_not_of_the_generation(world: World) -> None:
    one, two = stable(world, "a", "b")
    one.joined.append(one.joined[-1]._replace(generation=1))
    assert [one.heartbeat(), one.commit()] == [ErrorCode.ILLEGAL_GENERATION] * 2
    assert one.sync().synced[-1].error == ErrorCode.ILLEGAL_GENERATION
    two.id = "else"
    assert two.heartbeat() == two.commit() == two.leave() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_protocol_that_is_not_the_groups(world: World) -> None:
    (one,) = stable(world, "a")
    for kind, name in (("connect", None), ("consumer", "roundrobin"), (None, "roundrobin")):
        asked = Sync(one.id, None, one.generation, kind, name, {})
        world.group.sync(asked, world.now_ms, one.synced.append)
        assert one.synced[-1].error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    asked = Sync(one.id, None, one.generation, "consumer", "range", {})
    world.group.sync(asked, world.now_ms, one.synced.append)
    assert one.synced[-1].error == 0


# Static members


def test_a_static_member_comes_back_without_a_rebalance(world: World) -> None:
    one, two = stable(world, "a", "b", instance=None)
    three = Consumer(world, "c", instance="i").join()
    one.join()
    two.join()
    three.sync()
    two.sync()
    one.sync(two, three)
    back = Consumer(world, "d", instance="i").join()
    (joined,) = back.joined
    assert (joined.error, joined.generation, joined.leader) == (0, 3, one.id)
    assert (joined.members, joined.skip_assignment, world.state) == ((), False, State.STABLE)
    assert back.sync().synced[-1].assignment == b"c"
    assert three.heartbeat() == three.commit() == three.leave() == ErrorCode.FENCED_INSTANCE_ID
    assert three.sync().synced[-1].error == ErrorCode.FENCED_INSTANCE_ID
    assert [one.heartbeat(), two.heartbeat(), back.heartbeat()] == [0, 0, 0]
    assert {each.member_id for each in world.records[-1].members} == {one.id, two.id, back.id}


@pytest.mark.parametrize("may_skip", [True, False])
def test_a_static_leader_comes_back_and_need_not_assign(world: World, may_skip: bool) -> None:
    one = Consumer(world, "a", instance="i").join().sync()
    back = Consumer(world, "b", instance="i", may_skip=may_skip).join()
    (joined,) = back.joined
    assert (joined.generation, joined.skip_assignment) == (1, may_skip)
    assert joined.leader == (back.id if may_skip else one.id)
    assert len(joined.members) == (1 if may_skip else 0)
    assert back.sync().synced[-1].assignment == b"a"
    back.join()  # it saw something change, and leads
    assert (back.generation, back.is_leader, len(back.joined[-1].members)) == (2, True, 1)


def test_a_static_member_that_wants_something_else_begins_a_rebalance(world: World) -> None:
    Consumer(world, "a", instance="i").join().sync()
    back = Consumer(world, "b", instance="i", protocols=[("range", subscription("u"))]).join()
    assert (back.generation, world.state) == (2, State.COMPLETING_REBALANCE)


def test_what_a_static_member_owned_is_no_change(world: World) -> None:
    """Consumers tell in their metadata what they own; after a restart that is nothing."""
    owned = [("range", subscription("t") + b"owned")]
    Consumer(world, "a", instance="i", protocols=owned).join().sync()
    assert Consumer(world, "b", instance="i").join().generation == 1


def test_a_static_member_replaced_while_it_waits_is_fenced(world: World) -> None:
    one, two = stable(world, "a", "b")
    three = Consumer(world, "c", instance="i").join()
    back = Consumer(world, "d", instance="i").join()
    assert errors(three.joined) == [ErrorCode.FENCED_INSTANCE_ID]
    one.join()
    two.join()
    assert back.generation == 3
    back.sync()
    third = Consumer(world, "e", instance="i").join()
    assert errors(back.synced) == [ErrorCode.FENCED_INSTANCE_ID]
    assert (world.state, third.joined) == (State.PREPARING_REBALANCE, [])


def test_a_static_member_keeps_its_place_until_its_session_ends(world: World) -> None:
    one = Consumer(world, "a").join().sync()
    two = Consumer(world, "b", instance="i", session_ms=5 * REBALANCE_MS).join()
    one.join()
    two.sync()
    one.sync(two)
    one.join()
    beat(world, [one], REBALANCE_MS)
    assert one.generation == 3  # without two, which is away
    assert {each.instance_id for each in one.joined[-1].members} == {None, "i"}
    one.sync(two)
    back = Consumer(world, "c", instance="i").join()
    assert (back.generation, back.sync().synced[-1].assignment) == (3, b"b")


def test_a_group_of_static_members_that_are_all_away_waits(world: World) -> None:
    one = Consumer(world, "a", instance="i", session_ms=3 * REBALANCE_MS).join().sync()
    two = Consumer(world, "b", instance="j").join()
    assert two.leave() == 0
    world.wait(REBALANCE_MS + 1)
    assert (world.state, world.group.generation) == (State.PREPARING_REBALANCE, 1)
    world.wait(3 * REBALANCE_MS)
    assert world.state is State.EMPTY
    assert one.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_is_removed_by_its_name_alone(world: World) -> None:
    one = Consumer(world, "a", instance="i").join().sync()
    one.id = "wrong"
    assert one.leave() == ErrorCode.FENCED_INSTANCE_ID
    one.id = ""
    assert one.leave() == 0
    assert world.state is State.EMPTY
    assert one.leave() == ErrorCode.UNKNOWN_MEMBER_ID


# Disk


def test_nobody_hears_of_an_assignment_before_it_is_on_disk() -> None:
    world = World(waiting=[])
    one, two = Consumer(world, "a").join(), Consumer(world, "b").join()
    one.join()
    two.sync()
    one.sync(two)
    assert (one.synced, two.synced, world.state) == ([], [], State.COMPLETING_REBALANCE)
    record = world.records[-1]
    assert [each.assignment for each in record.members] == [b"a", b"b"]
    world.stored()
    assert world.state is State.STABLE
    assert (one.synced[-1].assignment, two.synced[-1].assignment) == (b"a", b"b")


def test_a_rebalance_that_overtakes_the_disk_wins() -> None:
    world = World(waiting=[])
    one = Consumer(world, "a").join().sync()
    two = Consumer(world, "b").join()
    assert errors(one.synced) == [ErrorCode.REBALANCE_IN_PROGRESS]
    world.stored()
    assert world.state is State.PREPARING_REBALANCE
    one.join()
    two.sync()
    one.sync(two)
    world.stored()
    assert (one.synced[-1].assignment, two.synced[-1].assignment) == (b"a", b"b")


def test_an_assignment_that_cannot_be_stored_is_told_and_begins_a_rebalance() -> None:
    world = World(waiting=[])
    one = Consumer(world, "a").join().sync()
    world.stored(TimedOut("the disk sleeps"))
    assert errors(one.synced) == [TimedOut.kafka_code]
    assert world.state is State.PREPARING_REBALANCE
    one.join().sync()
    world.stored()
    assert (one.generation, world.state) == (2, State.STABLE)


def test_a_leader_that_asks_twice_is_answered_twice_and_stored_once() -> None:
    world = World(waiting=[])
    one = Consumer(world, "a").join().sync().sync()
    assert len(world.records) == 1
    world.stored()
    assert errors(one.synced) == [ErrorCode.REBALANCE_IN_PROGRESS, 0]


def test_a_static_member_is_back_when_that_is_on_disk(world: World) -> None:
    Consumer(world, "a", instance="i").join().sync()
    world.waiting = []
    back = Consumer(world, "b", instance="i").join()
    assert back.joined == []
    world.stored(TimedOut("the disk sleeps"))
    assert errors(back.joined) == [TimedOut.kafka_code]
    again = Consumer(world, "c", instance="i").join()
    world.stored()
    assert again.generation == 1


def test_after_a_restart_members_go_on_with_their_generation(world: World) -> None:
    one, two = stable(world, "a", "b")
    three = Consumer(world, "c", instance="i").join()
    one.join()
    two.join()
    three.sync()
    two.sync()
    one.sync(two, three)
    world.group = Group("g", world.group.config, world._store)
    world.group.restore(world.records[-1], world.now_ms)
    assert world.state is State.STABLE
    assert [each.heartbeat() for each in (one, two, three)] == [0, 0, 0]
    assert [each.commit() for each in (one, two, three)] == [0, 0, 0]
    assert two.sync().synced[-1].assignment == b"b"
    assert Consumer(world, "d", instance="i").join().generation == 3
    beat(world, [one], SESSION_MS)
    assert two.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    one.join()
    assert one.is_leader


def test_a_restart_of_an_empty_group_goes_on_counting(world: World) -> None:
    (one,) = stable(world, "a")
    one.leave()
    world.group = Group("g", world.group.config, world._store)
    world.group.restore(world.records[-1], world.now_ms)
    assert (world.state, world.group.protocol_type) == (State.EMPTY, "consumer")
    assert Consumer(world, "b").join().generation == 3


def test_a_member_without_assignment_gets_one_that_can_be_read(world: World) -> None:
    one, two = stable(world, "a", "b")
    one.join()
    two.join().sync()
    one.sync()
    assert two.synced[-1].assignment == NO_PARTITIONS


# What members read


def test_topics_that_members_read(world: World) -> None:
    assert world.group.subscribed() is None
    Consumer(world, "a", protocols=[("range", subscription("t", "u"))]).join()
    assert world.group.subscribed() == {"t", "u"}


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\0\xff\xff\xff\xff", b"\0\0\0\0\0\x09ab"])
def test_metadata_that_is_not_a_consumers_tells_nothing(world: World, metadata: bytes) -> None:
    Consumer(world, "a", protocols=[("range", metadata)]).join()
    assert world.group.subscribed() is None


def test_who_waits_is_answered_at_a_stop(world: World) -> None:
    one, two = stable(world, "a", "b")
    one.join()
    world.group.stop()
    assert errors(one.joined)[-1:] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    two.join()
    assert world.state is State.PREPARING_REBALANCE


# Anything at all


def steps(seed: int) -> Iterator[int]:
    """A sequence that looks random and is the same for a seed on any machine."""
    value = seed
    while True:
        value = (value * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        yield value >> 33


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_every_call_is_answered_and_the_group_comes_to_rest(seed: int) -> None:
    world, random = World(delay_ms=DELAY_MS if seed % 2 else 0), steps(seed)
    consumers = [
        Consumer(world, f"c{i}", instance=f"i{i}" if i % 3 == 0 else None) for i in range(6)
    ]
    asked = {each.name: [0, 0] for each in consumers}
    for _ in range(400):
        one, what = consumers[next(random) % 6], next(random) % 8
        if what < 3:
            one.join()
            asked[one.name][0] += 1
            if one.joined and one.joined[-1].error:
                one.id = ""
        elif what < 6 and one.joined and not one.joined[-1].error:
            one.sync(*(each for each in consumers if each is not one and each.id))
            asked[one.name][1] += 1
        elif what == 6 and one.joined:
            one.heartbeat()
            one.commit()
            if next(random) % 4 == 0:
                one.leave()
        else:
            world.wait(next(random) % (SESSION_MS if seed % 3 else 500))
        parked = sum(each.join is not None for each in world.group.members)
        assert parked == world.group.members.joining
        assert world.group.unsynced <= {each.id for each in world.group.members}
        assert (world.group.rebalance is not None) == (world.state is State.PREPARING_REBALANCE)
    world.wait(NEW_MEMBER_JOIN_MS + 10 * REBALANCE_MS)
    assert {each.name: [len(each.joined), len(each.synced)] for each in consumers} == asked
    assert (world.state, len(world.group.members)) == (State.EMPTY, 0)
    assert world.group.due_ms == NEVER_MS
