"""Steps of a replica: it appends, syncs, fetches, answers, crashes.

These functions, and those of `in_sync_replicas` and `controller`, yield what happens and the state
after it. A step is atomic, and between any two of them any other may come. So a pause needs no step
of its own: it is a broker that takes none.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.replication.invariants import check_broker
from tests.replication.state import (
    FOLLOWER,
    LEADER,
    NOBODY,
    NONE,
    Answer,
    Broker,
    Fetch,
    State,
    end_of_epoch,
    last_epoch,
    members,
    replaced,
)

Steps = Iterator[tuple[str, State]]


def settle(bug: str, state: State, number: int) -> None:
    """After a change of a broker: a leader's watermark moves, and what all show is checked."""
    broker = state.brokers[number]
    if broker.role == LEADER:
        broker.watermark = max(broker.watermark, _share(bug, number, broker))
    check_broker(state, number, bug)


def _share(bug: str, number: int, leader: Broker) -> int:
    """The smallest durable end of those that count, unless nothing may count now."""
    is_small = leader.isr.bit_count() < leader.min_insync
    if is_small and bug != "watermark moves below min.insync":
        return 0
    if leader.eligible and bug not in ("eligible are kept", "watermark moves below min.insync"):
        return 0
    least = len(leader.log) if bug == "leader's page cache counts" else leader.durable
    for each in members((leader.isr | leader.proposed) & ~(1 << number)):
        least = min(least, leader.ends[each])
    return least


# Clients and disks


def append(bug: str, state: State, number: int) -> Steps:
    if state.brokers[number].role == LEADER and state.budget.appends:
        after = state.copy("appends")
        broker = after.change(number)
        record = (broker.epoch, state.budget.appends)
        broker.log = (*broker.log, record)
        settle(bug, after, number)
        yield f"{number} appends {record}", after


def sync(bug: str, state: State, number: int) -> Steps:
    """Of a leader. A follower syncs when it fetches: before, nobody knows whether it did, and a
    crash may leave all that was not synced."""
    broker = state.brokers[number]
    if broker.role == LEADER and broker.durable < len(broker.log):
        after = state.copy()
        after.change(number).durable = len(broker.log)
        settle(bug, after, number)
        yield f"{number} syncs", after


def crash(bug: str, state: State, number: int) -> Steps:
    """It leaves any number of the records that were not synced, and what it leaves is synced when
    the log is opened again. The watermark may be on disk. The session lives on for a while. Of a
    partition whose disk is lost it makes no difference whether the broker runs on."""
    if not state.budget.crashes:
        return
    broker = state.brokers[number]
    for left in range(broker.durable, len(broker.log) + 1):
        for watermark in {0, min(left, broker.watermark)}:
            after = state.copy("crashes")
            after.brokers[number] = _dead(broker, left, watermark)
            yield f"{number} crashes, {left} left, {watermark} shown", after
    if state.budget.lost_disks:
        after = state.copy("crashes")
        after.budget = after.budget._replace(lost_disks=after.budget.lost_disks - 1)
        dead = after.brokers[number] = _dead(broker, 0, 0)
        dead.is_empty = True
        yield f"the disk of {number} is lost", after


def _dead(broker: Broker, left: int, watermark: int) -> Broker:
    dead = Broker(broker.life)
    dead.is_up, dead.topic = False, broker.topic
    dead.log, dead.durable, dead.watermark = broker.log[:left], left, watermark
    return dead


# Followers


def fetch(bug: str, state: State, number: int) -> Steps:
    """With what was synced until now, and with all that is in the log."""
    broker = state.brokers[number]
    if broker.role != FOLLOWER:
        return
    yield from _fetch(bug, state, number)
    if broker.durable < len(broker.log):
        after = state.copy()
        after.change(number).durable = len(broker.log)
        for label, fetched in _fetch(bug, after, number):
            yield f"{number} syncs, {label}", fetched


def _fetch(bug: str, state: State, number: int) -> Steps:
    broker = state.brokers[number]
    end = len(broker.log)
    durable = end if bug == "page cache counts" else broker.durable
    request = Fetch(
        broker.topic, number, broker.life, broker.leader, broker.epoch, end,
        last_epoch(broker.log), durable,
    )  # fmt: skip
    yield from answer(bug, state, request)
    if state.budget.late:
        yield f"{number} fetches, late", state.with_message(request)


def answer(bug: str, state: State, request: Fetch) -> Steps:
    """What is lost, a request or an answer, is fetched again."""
    leader, number = state.brokers[request.leader], request.follower
    if leader.role != LEADER or not _may_ask(bug, leader, request):
        return
    after = state.copy()
    diverging = _divergence(bug, leader, request)
    if not diverging:
        leader = after.change(request.leader)
        leader.ends = replaced(leader.ends, number, request.durable)
        leader.lives = replaced(leader.lives, number, request.life)
        settle(bug, after, request.leader)
    reply = Answer(
        request.topic, number, request.life, request.leader, leader.epoch, request.offset,
        () if diverging else leader.log[request.offset :], leader.watermark, diverging,
    )  # fmt: skip
    label = f"{request.leader} answers {number}"
    yield f"{label}, which is lost", after
    for taken, both in take(bug, after, reply):
        yield f"{label}, {taken}", both
    if state.budget.late:
        yield f"{label}, late", after.with_message(reply)


def _may_ask(bug: str, leader: Broker, request: Fetch) -> bool:
    if request.topic != leader.topic:
        return False
    if request.life < leader.lives[request.follower] and bug != "former self is answered":
        return False
    if request.epoch < leader.epoch:
        return bug == "older epochs are answered"
    return request.epoch == leader.epoch


def _divergence(bug: str, leader: Broker, request: Fetch) -> tuple[int, ...]:
    epoch, end = end_of_epoch(leader.log, request.last_epoch)
    is_apart = epoch != request.last_epoch or end < request.offset
    return (epoch, end) if is_apart and bug != "logs may diverge" else ()


def take(bug: str, state: State, reply: Answer) -> Steps:
    number = reply.follower
    broker = state.brokers[number]
    if broker.role != FOLLOWER or broker.topic != reply.topic:
        return
    if broker.life != reply.life and bug != "former self's answers are taken":
        return
    if len(broker.log) != reply.offset and bug != "answers are taken anywhere":
        return
    is_of_now = (reply.epoch, reply.leader) == (broker.epoch, broker.leader)
    if not is_of_now and bug != "older answers are taken":
        return
    after = state.copy()
    broker = after.change(number)
    if reply.diverging:
        epoch, end = reply.diverging
        broker.cut(min(end, end_of_epoch(broker.log, epoch)[1]))
    else:
        broker.log += reply.records
        broker.watermark = max(broker.watermark, min(reply.watermark, len(broker.log)))
    settle(bug, after, number)
    yield f"{number} takes it", after


# Who leads and who follows


def become(bug: str, state: State, number: int, leader: int, epoch: int) -> None:
    """By an election that is newer than all that this broker knew."""
    broker = state.brokers[number]
    broker.epoch, broker.write = epoch, None
    broker.forget_leading()
    broker.role, broker.leader = FOLLOWER, leader
    if leader == NOBODY:
        broker.role = NONE
    elif bug == "truncates to the high watermark":
        broker.cut(broker.watermark)
