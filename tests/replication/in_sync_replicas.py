"""Steps of a leader that changes the ISR: it proposes, ZooKeeper decides, it may hear of that."""

from __future__ import annotations

from collections.abc import Iterator

from tests.replication.controller import read
from tests.replication.replica import Steps, settle
from tests.replication.state import (
    EVERYBODY,
    LEADER,
    NO_ENDS,
    NOBODY,
    Broker,
    State,
    Write,
    eligible_after,
    members,
)

OLD_LOOK = "joins by an old look"


def propose(bug: str, state: State, number: int) -> Steps:
    leader = state.brokers[number]
    if leader.role != LEADER or leader.write or not state.budget.isr_writes:
        return
    if bug == OLD_LOOK:
        yield from _look(state, number)
    for what, write in _wishes(bug, number, leader):
        begun = state.copy("isr_writes")
        leader = begun.change(number)
        leader.write = write
        if write.isr & ~leader.isr and bug != "grown before it counts":
            leader.proposed = write.isr
        if leader.isr & ~write.isr and bug == "shrunk before it is written":
            leader.isr = write.isr
        settle(bug, begun, number)
        if not _has_session(bug, begun, number):
            yield f"{number} wants {what}, and has no session", begun
            continue
        for label, after in decide(bug, begun, number):
            yield f"{number} wants {what}, {label}", after
        if begun.budget.late:
            yield f"{number} wants {what}, late", begun.copy("late")


def doubt(bug: str, state: State, number: int) -> Steps:
    """A leader stops while its session may be over, and leads on in its epoch: what its followers
    said is forgotten, and who it proposed must not be."""
    if state.brokers[number].role != LEADER or not state.budget.doubts:
        return
    after = state.copy("doubts")
    leader = after.change(number)
    leader.ends = leader.lives = NO_ENDS
    if bug == "a doubt forgets the proposed":
        leader.proposed = 0
    settle(bug, after, number)
    yield f"{number} doubts its session, and leads on", after


def _look(state: State, number: int) -> Steps:
    leader = state.brokers[number]
    for other in members(EVERYBODY & ~leader.isr & ~leader.looked):
        if _has_caught_up("", leader, other):
            after = state.copy()
            after.change(number).looked |= 1 << other
            yield f"{number} sees that {other} has caught up", after


def _wishes(bug: str, number: int, leader: Broker) -> Iterator[tuple[str, Write]]:
    for other in members(EVERYBODY & ~(1 << number)):
        isr = leader.isr ^ 1 << other
        eligible = eligible_after(leader.eligible, leader.isr & ~isr, isr, leader.min_insync)
        write = Write(leader.topic, leader.version, isr, eligible)
        if leader.isr >> other & 1:
            yield f"{other} out", write
        elif _has_caught_up(bug, leader, other):
            yield f"{other} in", write._replace(added=other, life=leader.lives[other])
    if leader.eligible and leader.isr.bit_count() >= leader.min_insync:
        yield "none eligible", Write(leader.topic, leader.version, leader.isr, 0)


def _has_caught_up(bug: str, leader: Broker, other: int) -> bool:
    if bug == OLD_LOOK:
        return bool(leader.looked >> other & 1)
    least = leader.watermark
    if bug != "joins by watermark alone":
        least = max(least, leader.start)
    return leader.lives[other] > 0 and leader.ends[other] >= least


def decide(bug: str, state: State, number: int) -> Steps:
    """ZooKeeper takes the write or refuses it. Of a write that was taken the leader hears at once,
    late, or never: then it asks what became of it. Without its session it hears no more."""
    write = state.brokers[number].write
    if write is None or not _has_session(bug, state, number):
        return
    if not _is_granted(bug, state, write):
        after = state.copy()
        _refused(bug, after, number)
        yield "ZooKeeper refuses it", after
        return
    taken = state.copy()
    tree = taken.tree
    taken.tree = tree._replace(version=tree.version + 1, isr=write.isr, eligible=write.eligible)
    for label, after in hear_of_write(bug, taken, number, write):
        yield f"ZooKeeper takes it, {label}", after
    if state.budget.late:
        after = taken.copy("late")
        after.change(number).write = write._replace(is_taken=True)
        yield "ZooKeeper takes it, which is heard late", after


def _has_session(bug: str, state: State, number: int) -> bool:
    is_of_its_life = state.tree.live[number] == state.brokers[number].life
    return is_of_its_life or bug == "written in another session"


def _is_granted(bug: str, state: State, write: Write) -> bool:
    tree = state.tree
    is_former = write.added != NOBODY and tree.lives[write.added] != write.life
    if is_former and bug != "former self joins":
        return False
    if tree.topic != write.topic and bug != "topic is known by its name":
        return False
    return tree.version == write.version or bug == "stale version is overwritten"


def hear_of_write(bug: str, state: State, number: int, write: Write) -> Steps:
    if _has_session(bug, state, number):
        yield from _answered(bug, state, number, write)
    elif bug == "unknown outcome is taken for refused":
        yield from _given_up(bug, state, number)


def _answered(bug: str, state: State, number: int, write: Write) -> Steps:
    after = state.copy()
    leader = after.change(number)
    leader.write, leader.proposed = None, 0
    leader.isr, leader.eligible = write.isr, write.eligible
    leader.version = write.version + 1
    if bug == "stale version is overwritten":
        leader.version = state.tree.version
    settle(bug, after, number)
    yield f"{number} hears of it", after
    if bug == "stale read is believed":
        yield from _given_up(bug, state, number)
    else:
        unheard = state.copy()
        _refused(bug, unheard, number)
        yield "the answer is lost", unheard


def _given_up(bug: str, state: State, number: int) -> Steps:
    after = state.copy()
    leader = after.change(number)
    leader.write, leader.proposed = None, 0
    settle(bug, after, number)
    yield "the answer is lost", after


def _refused(bug: str, state: State, number: int) -> None:
    """The state is read again: what was refused may be an own write whose answer was lost."""
    leader = state.change(number)
    if bug == "refused write is tried again" and leader.write:
        leader.write = leader.write._replace(version=state.tree.version)
        return
    leader.write, leader.proposed = None, 0
    read(bug, state, number)
