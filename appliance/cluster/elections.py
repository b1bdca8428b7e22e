"""The elections of a round: which are due by what is known, written, and read again where ZooKeeper
knew better."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from appliance.cluster import election, paths, reassignment
from appliance.cluster.election import Voters
from appliance.cluster.forms import NOBODY, ClusterTopic, Key, PartitionState, topic_node
from appliance.cluster.table import TopicNews
from appliance.cluster.term import IN_A_CHANGE, Term
from appliance.cluster.view import View
from appliance.process import event_log
from appliance.protocol.errors import ErrorCode

log = event_log.named("cluster")
TRIES = 20  # each has met a write of somebody else
States = dict[Key, PartitionState]


class Elections:
    """`untold` collects what is to be in the round's notice."""

    def __init__(
        self, view: View, min_insync: Callable[[str, int], int], is_unclean: Callable[[str], bool]
    ) -> None:
        """`is_unclean`: whether a topic is to be led by anybody rather than by nobody."""
        self._view, self._table = view, view.table
        self._min_insync = min_insync  # of a topic with so many replicas
        self._is_unclean = is_unclean
        self.untold: list[TopicNews] = []

    @property
    def voters(self) -> Voters:
        return Voters(self._view.lives, self._view.leaving_now)

    async def first_states(self, term: Term, but: Collection[str]) -> None:
        """Of new partitions, unless their topics are being deleted."""
        voters = self.voters
        due = {
            key: election.first_state(replicas, voters, self._min_insync(key[0], len(replicas)))
            for key, replicas in self._without_state(but)
        }
        if due:
            self._know(await term.create(due, self._table.topic_id))

    def _without_state(self, but: Collection[str]) -> Iterable[tuple[Key, tuple[int, ...]]]:
        for name, topic in self._table.topics.items():
            if name not in but:
                for number, replicas in enumerate(topic.partitions):
                    if (name, number) not in self._table.states:
                        yield (name, number), replicas

    async def elect_in_sync(self, term: Term) -> None:
        """Where the life of the leader is over. What is known may be old: each write says which
        version of the state it knows."""
        voters = self.voters
        await self._write(term, lambda: self._each(
            self._table.states, lambda state, replicas, least:
            election.elected(state, replicas, voters, least)
        ))  # fmt: skip

    async def elect_by_setting(self, term: Term) -> None:
        """Anybody, where nobody in sync lives and a topic's setting says so."""
        wanted = [key for key, state in self._table.states.items()
                  if state.leader == NOBODY and self._is_unclean(key[0])]  # fmt: skip
        await self._elect_anybody(term, wanted, self.voters)

    async def _elect_anybody(self, term: Term, keys: Collection[Key], voters: Voters) -> None:
        """That loses what only the others have, so it was said by a person, or by a setting."""

        def due() -> States:
            return self._each(keys, lambda state, replicas, least: election.elected(
                state, replicas, voters, least, unclean=True))  # fmt: skip

        for (topic, partition), state in due().items():
            log.warning("unclean election: what only others have is lost", topic=topic,
                        partition=partition, leader=state.leader, epoch=state.leader_epoch,
                        isr_was=[*self._table.states[topic, partition].isr])  # fmt: skip
        await self._write(term, due)

    async def rebalance(self, term: Term, percentage: int) -> int:
        """Preferred leaders lead again what more than so much of is led by others; how many."""
        voters = self.voters
        moving = {(topic.name, number) for topic in self._table.topics.values()
                  for number in (*topic.adding, *topic.removing)}  # fmt: skip
        of_broker: dict[int, list[Key]] = {}
        for name, topic in self._table.topics.items():
            for number, replicas in enumerate(topic.partitions):
                of_broker.setdefault(replicas[0], []).append((name, number))
        wanted: list[Key] = []
        for node, keys in of_broker.items():
            away = [key for key in keys if self._is_led_by_another(key, node)]
            if len(away) * 100 > percentage * len(keys):
                wanted += [key for key in away if key not in moving]

        def due() -> States:
            return self._each(wanted, lambda state, replicas, least: election.preferred(
                state, replicas, voters, least))  # fmt: skip

        count = len(due())
        await self._write(term, due)
        return count

    def _is_led_by_another(self, key: Key, node: int) -> bool:
        state = self._table.states.get(key)
        return state is not None and state.leader not in (NOBODY, node)

    async def move_away(self, term: Term) -> None:
        """From those that leave."""
        voters = self.voters
        await self._write(term, lambda: self._each(
            self._table.states, lambda state, replicas, least:
            election.moved_away(state, replicas, voters, least)
        ))  # fmt: skip

    def led_by(self, node_id: int) -> int:
        return sum(state.leader == node_id for state in self._table.states.values())

    async def finish_moves(self, term: Term) -> None:
        """Of partitions whose new replicas are all in sync."""
        moving = [each for each in self._table.topics.values() if each.adding or each.removing]
        for topic in moving:
            for _ in range(TRIES):
                states = self._moved(self._table.topics[topic.name])
                if not states:
                    break
                await self._finish(term, self._table.topics[topic.name], states)

    def _moved(self, topic: ClusterTopic) -> States:
        """Those that can be finished, as they are then."""
        after = {}
        for number in sorted({*topic.adding, *topic.removing}):
            state = self._table.states.get((topic.name, number))
            if state and number < len(topic.partitions):
                then = reassignment.without_removed(topic, number).partitions[number]
                least = self._min_insync(topic.name, len(then))
                moved = reassignment.finished(topic, number, state, self.voters, least)
                if moved:
                    after[topic.name, number] = moved
        return dict([*after.items()][:IN_A_CHANGE])

    async def _finish(self, term: Term, topic: ClusterTopic, states: States) -> None:
        """The states and the topic at once."""
        after = topic
        for _, number in states:
            after = reassignment.without_removed(after, number)
        after = replace(after, version=topic.version + 1)
        change = term.change().check(paths.topic_id(topic.topic_id))
        change.set(paths.topic(topic.name), topic_node(after), topic.version)
        written = await term.write_with(change, states)
        if written:
            news = TopicNews(topic.name, topic.topic_id, after, states={
                number: state for (_, number), state in written.items()})  # fmt: skip
            self.untold.append(news)
            self._table.apply(news)
            return
        found = await self._view.reading.topic(topic.name)
        if found:
            self.untold.append(found)
            self._table.apply(found)

    async def by_word(
        self, term: Term, keys: Collection[Key], unclean: bool
    ) -> dict[Key, ErrorCode]:
        """What became of each."""
        voters = self.voters
        before = {key: self._code_before(key, voters, unclean) for key in keys}
        wanted = [key for key, code in before.items() if code == ErrorCode.NONE]

        def due() -> States:
            return self._each(wanted, lambda state, replicas, least: election.preferred(
                state, replicas, voters, least))  # fmt: skip

        if unclean:
            await self._elect_anybody(term, wanted, voters)
        else:
            await self._write(term, due)
        return {key: code or self._code_after(key, unclean) for key, code in before.items()}

    def _code_before(self, key: Key, voters: Voters, unclean: bool) -> ErrorCode:
        known = self._known(key)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        state, topic = known
        first = topic.partitions[key[1]][0]
        if not election.is_over(state, voters) and (unclean or state.leader == first):
            return ErrorCode.ELECTION_NOT_NEEDED
        return ErrorCode.NONE

    def _code_after(self, key: Key, unclean: bool) -> ErrorCode:
        known = self._known(key)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        state, topic = known
        if unclean:
            is_done = state.leader != NOBODY
            return ErrorCode.NONE if is_done else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        is_done = state.leader == topic.partitions[key[1]][0]
        return ErrorCode.NONE if is_done else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE

    def _known(self, key: Key) -> tuple[PartitionState, ClusterTopic] | None:
        state, topic = self._table.states.get(key), self._table.topics.get(key[0])
        return (state, topic) if state and topic else None

    def _each(
        self,
        keys: Iterable[Key],
        rule: Callable[[PartitionState, tuple[int, ...], int], PartitionState | None],
    ) -> States:
        after = {}
        for key in keys:
            known = self._known(key)
            if known:
                state, topic = known
                replicas = topic.partitions[key[1]]
                count = len(reassignment.before(topic, key[1]))
                changed = rule(state, replicas, self._min_insync(key[0], count))
                if changed:
                    after[key] = changed
        return after

    async def _write(self, term: Term, due: Callable[[], States]) -> None:
        for _ in range(TRIES):
            states = due()
            if not states:
                return
            written, unwritten = await term.write(states, self._table.topic_id)
            self._know(written)
            await self._read_again(unwritten)

    async def _read_again(self, keys: Collection[Key]) -> None:
        found = await self._view.reading.states(keys)
        self._know({key: state for key, state in found.items() if state})
        for key in found:
            if found[key] is None:
                self._table.forget_state(key)

    def _know(self, states: Mapping[Key, PartitionState]) -> None:
        news = self._table.news_of(states)
        self.untold += news
        for each in news:
            self._table.apply(each)
