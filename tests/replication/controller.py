"""Steps of ZooKeeper and of the controller: sessions, lives, elections, and what brokers hear."""

from __future__ import annotations

from tests.replication.invariants import check_begins_to_lead
from tests.replication.replica import Steps, become, settle
from tests.replication.state import (
    BROKERS,
    LEADER,
    NOBODY,
    NONE,
    Broker,
    Election,
    News,
    State,
    Tree,
    eligible_after,
    members,
    replaced,
)

# What brokers hear


def news_for(number: int, tree: Tree) -> News:
    return News(
        tree.topic, number, tree.version, tree.leader, tree.life, tree.epoch, tree.isr,
        tree.eligible,
    )  # fmt: skip


def is_news(bug: str, state: State, news: News) -> bool:
    broker = state.brokers[news.receiver]
    if not broker.is_up:
        return False
    if news.topic != broker.topic:
        return news.topic > broker.topic
    if news.epoch == broker.epoch and broker.role == LEADER:
        return news.version > broker.version or bug == "news go back"
    if news.epoch == broker.epoch and broker.role == NONE:
        return news.leader != NOBODY
    return news.epoch > broker.epoch


def hear(bug: str, state: State, number: int) -> Steps:
    """A broker reads the state. Or it is told later, what was true when that was sent."""
    if state.tree.live[number] != state.brokers[number].life:
        return
    news = news_for(number, state.tree)
    yield from take_news(bug, state, news)
    if state.budget.late and is_news(bug, state, news):
        yield f"{number} is told of the state, late", state.with_message(news)


def take_news(bug: str, state: State, news: News) -> Steps:
    """A write under way comes first, for its outcome says more; only another epoch ends it."""
    broker = state.brokers[news.receiver]
    is_of_now = (news.topic, news.epoch) == (broker.topic, broker.epoch)
    if not is_news(bug, state, news) or (broker.write and is_of_now):
        return
    after = state.copy()
    _learn(bug, after, news)
    yield f"{news.receiver} learns of epoch {news.epoch}, version {news.version}", after


def read(bug: str, state: State, number: int) -> None:
    """As part of another step."""
    news = news_for(number, state.tree)
    if is_news(bug, state, news):
        _learn(bug, state, news)
    else:
        settle(bug, state, number)


def _learn(bug: str, state: State, news: News) -> None:
    number = news.receiver
    broker = state.change(number)
    if news.topic > broker.topic:
        _set_aside(broker, news.topic)
    if news.epoch > broker.epoch or broker.role != LEADER:
        _turn(bug, state, news)
    if broker.role == LEADER:
        broker.version, broker.isr, broker.eligible = news.version, news.isr, news.eligible
        broker.proposed = 0
    settle(bug, state, number)


def _set_aside(broker: Broker, topic: int) -> None:
    """What is in the log belongs to a topic that was deleted."""
    broker.topic, broker.epoch, broker.role = topic, 0, NONE
    broker.cut(0)


def _turn(bug: str, state: State, news: News) -> None:
    number = news.receiver
    broker = state.brokers[number]
    if news.leader != number:
        become(bug, state, number, news.leader, news.epoch)
    elif news.life == broker.life or bug == "epoch is led again":
        become(bug, state, number, number, news.epoch)
        broker.role, broker.start = LEADER, len(broker.log)
        broker.min_insync = state.tree.min_insync
        check_begins_to_lead(state, number)
        state.led |= 1 << news.epoch
    else:
        become(bug, state, number, NOBODY, news.epoch)


# Sessions and lives


def lose_session(state: State, number: int) -> Steps:
    """Of a broker that runs, or of one that is dead, which costs nothing more."""
    broker, tree = state.brokers[number], state.tree
    if tree.live[number] and (state.budget.lost_sessions or not broker.is_up):
        after = state.copy("lost_sessions" if broker.is_up else "")
        after.tree = tree._replace(live=replaced(tree.live, number, 0))
        yield f"the session of {number} ends", after


def resign_at_once(state: State, number: int) -> Steps:
    """Of a broker that runs on without the disk. That it takes itself out proves nothing for later,
    because its leader may put it back as long as its life is the same."""
    broker, tree = state.brokers[number], state.tree
    has_session = tree.live[number] == broker.life and not broker.is_registering
    if broker.is_empty and has_session and (tree.isr | tree.eligible) >> number & 1:
        after = state.copy()
        _resign(after, number)
        yield f"{number} resigns", after


def register(bug: str, state: State, number: int) -> Steps:
    """A broker starts, or hears that its session is over: it raises its life, and registers. One
    that lost its disk resigns in between, and others may write after each of these."""
    broker, tree = state.brokers[number], state.tree
    if broker.is_up and tree.live[number] == broker.life:
        return
    after = state.copy()
    if not broker.is_empty:
        _raise_life(after, number)
        _register(after, number)
    elif bug == "lost disk in the same life" and tree.live[number] == broker.life:
        _resign(after, number)
        _register(after, number)
    elif not broker.is_registering:
        after.change(number).is_registering = True
        if bug == "resigns in its former life":
            _resign(after, number)
        else:
            _raise_life(after, number)
    else:
        if bug == "resigns in its former life":
            _raise_life(after, number)
        elif bug != "lost disk stays in the ISR":
            _resign(after, number)
        _register(after, number)
    what = "registers" if after.brokers[number].is_up else "begins to register"
    yield f"{number} {what}", after


def _raise_life(state: State, number: int) -> None:
    tree = state.tree
    state.tree = tree._replace(lives=replaced(tree.lives, number, tree.lives[number] + 1))


def _resign(state: State, number: int) -> None:
    tree, bit = state.tree, 1 << number
    if (tree.isr | tree.eligible) & bit:
        state.tree = tree._replace(
            version=tree.version + 1, isr=tree.isr & ~bit, eligible=tree.eligible & ~bit
        )


def _register(state: State, number: int) -> None:
    tree, broker = state.tree, state.change(number)
    state.tree = tree._replace(live=replaced(tree.live, number, tree.lives[number]))
    broker.life = tree.lives[number]
    broker.is_up, broker.is_empty, broker.is_registering = True, False, False
    broker.role, broker.leader, broker.write = NONE, NOBODY, None
    broker.forget_leading()


# Elections


def elect(bug: str, state: State) -> Steps:
    tree = state.tree
    if not state.budget.elections or not _may_elect(bug, tree):
        return
    living = sum(1 << each for each in range(BROKERS) if tree.live[each])
    for leader in _choice(bug, tree, living):
        begun = state.copy("elections")
        election = _election(tree, leader, living)
        yield f"{leader} is elected", _elected(begun.copy(), election)
        if begun.budget.late:
            yield f"{leader} is elected, late", begun.with_message(election)


def _may_elect(bug: str, tree: Tree) -> bool:
    """Where the leader's life is over, or it resigned."""
    if tree.leader == NOBODY:
        return True
    if bug == "epoch is led again" and tree.live[tree.leader]:
        return False  # it came back, and nobody sees that it was away
    return tree.live[tree.leader] != tree.life or not tree.isr >> tree.leader & 1


def _choice(bug: str, tree: Tree, living: int) -> tuple[int, ...]:
    """Out of the ISR, else out of the eligible, else nobody, which is said once."""
    choice = living if bug == "elects anybody" else tree.isr & living or tree.eligible & living
    if not choice:
        return () if tree.leader == NOBODY else (NOBODY,)
    return members(choice)


def _election(tree: Tree, leader: int, living: int) -> Election:
    if leader == NOBODY:
        life, isr, eligible = 0, tree.isr, tree.eligible
    else:
        life = tree.live[leader]
        isr = tree.isr & living if tree.isr >> leader & 1 else 1 << leader
        eligible = eligible_after(tree.eligible, tree.isr & ~isr, isr, tree.min_insync)
    return Election(
        tree.topic, tree.controller_epoch, tree.version, leader, life, tree.epoch + 1, isr,
        eligible,
    )  # fmt: skip


def take_election(bug: str, state: State, election: Election) -> Steps:
    """That comes late. A refused one is decided anew, which is another election."""
    tree = state.tree
    if tree.controller_epoch != election.controller_epoch and bug != "controller is not fenced":
        return
    if tree.topic != election.topic and bug != "topic is known by its name":
        return
    if tree.version == election.version or bug == "old election is written":
        yield f"ZooKeeper takes the election of {election.leader}", _elected(
            state.copy(), election
        )


def _elected(state: State, election: Election) -> State:
    state.tree = state.tree._replace(
        version=state.tree.version + 1, leader=election.leader, life=election.life,
        epoch=election.epoch, isr=election.isr, eligible=election.eligible,
    )  # fmt: skip
    return state


def take_over(state: State) -> Steps:
    """Another broker becomes controller. Only what the former one still has under way sees it."""
    if state.budget.controllers and any(isinstance(each, Election) for each in state.network):
        after = state.copy("controllers")
        after.tree = state.tree._replace(controller_epoch=state.tree.controller_epoch + 1)
        yield "another controller takes over", after


def make_again(state: State) -> Steps:
    """The topic is deleted, and another one of that name is made for those who live."""
    tree = state.tree
    living = sum(1 << each for each in range(BROKERS) if tree.live[each])
    for leader in members(living) if state.budget.topics else ():
        after = state.copy("topics")
        after.tree = tree._replace(
            topic=tree.topic + 1, version=1, leader=leader, life=tree.live[leader], epoch=1,
            isr=living, eligible=0,
        )  # fmt: skip
        after.committed, after.led = (), 0
        yield f"the topic is made again, {leader} is elected", after


# Settings


def set_min_insync(state: State) -> Steps:
    if state.budget.configs:
        after = state.copy("configs")
        after.tree = state.tree._replace(min_insync=3 - state.tree.min_insync)
        yield f"min.insync.replicas is {after.tree.min_insync}", after


def read_min_insync(bug: str, state: State, number: int) -> Steps:
    leader, min_insync = state.brokers[number], state.tree.min_insync
    if leader.role == LEADER and leader.min_insync != min_insync:
        after = state.copy()
        after.change(number).min_insync = min_insync
        settle(bug, after, number)
        yield f"{number} reads min.insync.replicas", after
