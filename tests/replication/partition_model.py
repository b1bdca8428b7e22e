"""The protocol of one replicated partition as a state machine: three brokers, ZooKeeper, a network.

It is `docs/replication.md` in code, and nothing of the broker's own code: each rule of that page is
a few lines in `replica`, `in_sync_replicas` or `controller`, and can be broken on purpose (`bugs`).
`explorer` tries every order of steps, and `invariants` says what none of them may break.
"""

from __future__ import annotations

from tests.replication.bugs import BUGS
from tests.replication.controller import (
    elect,
    hear,
    is_news,
    lose_session,
    make_again,
    read_min_insync,
    register,
    resign_at_once,
    set_min_insync,
    take_election,
    take_news,
    take_over,
)
from tests.replication.in_sync_replicas import decide, doubt, hear_of_write, propose
from tests.replication.replica import Steps, answer, append, crash, fetch, sync, take
from tests.replication.state import LEADER, Answer, Election, Fetch, Message, News, State


class Model:
    """All steps from a state. `bug` is one of `BUGS`, or nothing."""

    def __init__(self, bug: str = "") -> None:
        assert not bug or bug in BUGS, bug
        self.bug = bug

    def steps(self, state: State) -> Steps:
        for label, after in self._steps(state):
            if after.network:
                after.network = self._without_what_is_over(after)
            yield label, after

    def _steps(self, state: State) -> Steps:
        for number in range(len(state.brokers)):
            yield from self._steps_of(state, number)
        yield from elect(self.bug, state)
        yield from take_over(state)
        yield from make_again(state)
        yield from set_min_insync(state)
        for message in dict.fromkeys(state.network):
            for label, after in self._arrive(state, message):
                yield f"late: {label}", after

    def _steps_of(self, state: State, number: int) -> Steps:
        bug, broker = self.bug, state.brokers[number]
        if broker.is_up:
            yield from append(bug, state, number)
            yield from sync(bug, state, number)
            yield from fetch(bug, state, number)
            yield from propose(bug, state, number)
            yield from doubt(bug, state, number)
            yield from hear(bug, state, number)
            yield from read_min_insync(bug, state, number)
            yield from crash(bug, state, number)
        if broker.write:
            yield from self._outcome(state, number)
        yield from lose_session(state, number)
        yield from resign_at_once(state, number)
        yield from register(bug, state, number)

    def _outcome(self, state: State, number: int) -> Steps:
        write = state.brokers[number].write
        assert write
        if write.is_taken:
            outcome = hear_of_write(self.bug, state, number, write)
        else:
            outcome = decide(self.bug, state, number)
        for label, after in outcome:
            yield f"{number}'s write, late: {label}", after

    def _arrive(self, state: State, message: Message) -> Steps:
        network = list(state.network)
        network.remove(message)
        rest = state.copy()
        rest.network = tuple(network)
        if isinstance(message, Fetch):
            return answer(self.bug, rest, message)
        if isinstance(message, Answer):
            return take(self.bug, rest, message)
        if isinstance(message, News):
            return take_news(self.bug, rest, message)
        return take_election(self.bug, rest, message)

    def _without_what_is_over(self, state: State) -> tuple[Message, ...]:
        """The messages that somebody may still take, so that states which behave alike are one."""
        return tuple(each for each in state.network if self._may_matter(state, each))

    def _may_matter(self, state: State, message: Message) -> bool:
        """Epochs, lives and versions never go back, so nobody takes a message of an earlier one."""
        if isinstance(message, News):
            return is_news(self.bug, state, message) or not state.brokers[message.receiver].is_up
        if message.topic < state.tree.topic and self.bug != "topic is known by its name":
            return False
        if isinstance(message, Election):
            is_old = message.version != state.tree.version
            return not is_old or self.bug == "old election is written"
        if isinstance(message, Answer):
            follower = state.brokers[message.follower]
            is_same_life = message.life == follower.life
            is_same_life |= self.bug == "former self's answers are taken"
            is_late = follower.epoch > message.epoch and self.bug != "older answers are taken"
            return follower.is_up and is_same_life and not is_late
        leader = state.brokers[message.leader]
        if self.bug == "older epochs are answered" or leader.topic < message.topic:
            return True
        is_of_now = leader.epoch == message.epoch and leader.role == LEADER
        return is_of_now or leader.epoch < message.epoch
