"""The door of the room: this broker in its cluster. Lives on the event loop, and blocks it never.

    membership  this broker's registration: its life
    view        what is known: brokers, controller, topics, states
    controller  this broker's, when it is the one that decides
    isr_writes, topic_writes, requests   what it writes

While ZooKeeper is away the last view stays, and `away_since_ns` says since when. Whether this
broker may answer as a leader says `has_session`, by its own clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kazoo.exceptions import ConnectionClosedError, KazooException

from appliance.cluster import forms, producer_id_blocks, reassignment, requests
from appliance.cluster.broker_reasons import BrokerReasons
from appliance.cluster.controller import Controller, Rebalance
from appliance.cluster.fact_nodes import FactNodes
from appliance.cluster.forms import (
    NOBODY,
    ClusterTopic,
    Key,
    LivingBroker,
    PartitionState,
    TopicConfig,
)
from appliance.cluster.isr_writes import IsrOutcome, IsrWrites
from appliance.cluster.lives import BeforeLife, Lives, Member, nothing
from appliance.cluster.membership import Membership
from appliance.cluster.requests import Asking
from appliance.cluster.session import Session
from appliance.cluster.telling import Telling
from appliance.cluster.topic_writes import More, TopicWrites
from appliance.cluster.view import Listener, View
from appliance.config import ZooKeeperConfig
from appliance.errors import ApplianceError, Refused
from appliance.process import event_log
from appliance.protocol.errors import ErrorCode
from appliance.zookeeper.nodes import NodeIdTaken
from appliance.zookeeper.tls import trouble_with

log = event_log.named("cluster")
LOOK_S = 0.01  # of a start
TAKEN_TIMEOUTS = 1.5  # an id is a stranger's for good after so many session timeouts
ELECTION_S = 30.0
# Elections of a controlled stop take some 0.1 s. Other requests of a connection wait behind one
# that asks for leaders, so it does not wait for as long as they may take.
HANDED_OVER_S = 0.5
HEARD_S = 0.02  # all hear of the same notice, one a little later than the other
MIN_INSYNC = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"
NO_LIVES: Mapping[int, int] = {}
NO_CONFIGS: Mapping[str, str] = {}
REBALANCE = Rebalance()
T = TypeVar("T")


@dataclass(frozen=True)
class TopicDefaults:
    """Of topics whose configs say nothing."""

    min_insync: int = 1
    is_unclean: bool = False


DEFAULTS = TopicDefaults()


class ClusterClosed(ApplianceError):
    """Nothing is heard of ZooKeeper any more."""


class Cluster:
    def __init__(
        self,
        config: ZooKeeperConfig,
        member: Member,
        listener: Listener,
        defaults: TopicDefaults = DEFAULTS,
        before_life: BeforeLife = nothing,
        rebalance: Rebalance = REBALANCE,
    ) -> None:
        """`before_life` gets the former life and the next one, and keeps that in each directory
        before it is raised."""
        node_id = member.node_id
        self.member = member
        self._config, self.defaults = config, defaults
        self._session = session = Session(config, self._on_state)
        self._view = view = View(session, listener)
        self._telling = Telling(session, view, node_id)
        self._lives = lives = Lives(session, view.reading, member, before_life)
        self._membership = Membership(
            session, lives, self._telling, listener, view.was_read
        )
        self._controller = Controller(
            session, view, lives, self._membership, self.min_insync, self.is_unclean, rebalance
        )
        self._isr_writes = IsrWrites(session, view, self._telling, self._membership, node_id)
        self._topic_writes = TopicWrites(session, view.reading)
        self.reasons = BrokerReasons(session, view.reading, node_id)
        self.facts = FactNodes(session, config.may_show_secrets)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns when this broker is registered and has read everything, or when ZooKeeper does
        not answer in time: then it goes on trying. NodeIdTaken: another broker has the id."""
        self._session.start()
        parts = (self._membership, self._view, self._controller, self._telling)
        self._tasks += [asyncio.create_task(each.keep()) for each in parts]
        began = time.monotonic()
        while not (self._is_seen() and self._view.was_read.is_set()):
            waited_s = time.monotonic() - began
            if waited_s >= self._start_s:
                await self._not_started(waited_s)
                return
            await asyncio.sleep(LOOK_S)

    def _is_seen(self) -> bool:
        """By itself, too: who is asked for a topic counts the brokers that it sees."""
        return self.life > 0 and self._view.lives.get(self.member.node_id) == self.life

    @property
    def _start_s(self) -> float:
        is_taken = isinstance(self.refusal, NodeIdTaken)
        taken_ms = self._config.session_timeout_ms * TAKEN_TIMEOUTS if is_taken else 0
        return max(self._config.connection_timeout_ms, taken_ms) / 1000

    async def _not_started(self, waited_s: float) -> None:
        refusal = self.refusal
        if isinstance(refusal, NodeIdTaken):
            await self.close()
            raise refusal
        why = await asyncio.to_thread(trouble_with, self._config)
        log.warning("away: the broker registers later", waited_s=round(waited_s, 1),
                    **({"error": why} if why else {}))  # fmt: skip

    def keep_lives_by(self, before_life: BeforeLife) -> None:
        """As `before_life`. Before the start."""
        self._lives.before_life = before_life

    async def close(self) -> None:
        """Ends the session: this broker is gone for the others at once."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        self._membership.end()
        await self._session.close()

    async def renew(self) -> None:
        """Begins another life, after a directory of logs was lost while the broker runs."""
        await self._membership.renew()

    def begin_another_life(self) -> None:
        """As soon as ZooKeeper answers; until then nothing is led."""
        self._membership.begin_another()

    async def resign(self, keys: Collection[Key], whole: Collection[Key] = ()) -> None:
        """Of a broker that runs on without these replicas, until its next life: others are elected
        for those that it led, and wait for it no more. `whole`: what counts is in them still, so
        they stay in the ISR where nobody else who lives could lead."""
        await self._now(self._membership.resign(keys, whole, {*self.brokers}))

    async def leave(self, timeout_s: float) -> bool:
        """Before a controlled stop: others lead what this broker led, where one of the ISR lives.
        It is chosen no more until it has stopped. False: nobody has answered."""
        node = requests.leave_node(self.member.node_id, self.life)
        asking = Asking(self._session)
        answer = await asking.ask(node, timeout_s, keep=True)
        return answer is not None

    async def tell_of_stop(self) -> None:
        """Before `leave`, and while this broker leads as before: who asks any broker for the leader
        of what it leads gets its answer when there is another: see `handed_over`."""
        await self._now(self._telling.tell_of_stop(self.life))

    async def handed_over(self, topics: Collection[str] | None) -> None:
        """Waits for the elections of a controlled stop, where others of the ISR can lead these
        topics; None: all. Clients that were refused ask for leaders at once, and believe what they
        are told: with the former leader again, librdkafka asks up to a second later."""
        if not self._view.stopping_now:
            return
        due = [key for key in self.states if topics is None or key[0] in topics]
        if not self._is_any_handed_over(due):
            return
        await self._view.until(lambda: not self._is_any_handed_over(due), HANDED_OVER_S)
        await asyncio.sleep(HEARD_S)

    def _is_any_handed_over(self, keys: Collection[Key]) -> bool:
        stopping = self._view.stopping_now
        staying = {*self.brokers} - stopping
        return bool(stopping) and any(
            state.leader in stopping and not staying.isdisjoint(state.isr)
            for state in map(self.states.get, keys) if state
        )  # fmt: skip

    def _on_state(self) -> None:
        self._membership.wake()
        if self._session.is_connected:
            self._view.look()
            self._controller.wake()
            self.facts.wake()

    # what is known

    @property
    def life(self) -> int:
        """0: not registered."""
        return self._membership.life

    @property
    def refusal(self) -> Exception | None:
        return self._membership.refusal

    @property
    def has_session(self) -> bool:
        return time.monotonic_ns() < self.session_ends_ns

    @property
    def session_ends_ns(self) -> int:
        """Of this life, by `time.monotonic_ns()`; 0: it is over. Any thread may ask."""
        number, ends_ns = self._session.ends
        return ends_ns if self.life and number == self._membership.of_session else 0

    @property
    def has_read_all(self) -> bool:
        """What is not known by now is not there, and not only unread."""
        return self._view.was_read.is_set()

    def was_deleted(self, topic_id: bytes) -> bool:
        """False also of a topic that is gone and of which nobody told why: it may be another
        ZooKeeper, or one that was emptied."""
        return topic_id in self._view.table.deleted

    @property
    def away_since_ns(self) -> int:
        return self._session.away_since_ns

    @property
    def status(self) -> str:
        if self.refusal:
            return "refused"
        if self._session.is_connected:
            return "connected"
        return f"away for {(time.monotonic_ns() - self.away_since_ns) // 1_000_000_000} s"

    @property
    def cluster_id(self) -> str:
        return self._lives.cluster_id

    @property
    def controller_id(self) -> int:
        return self._view.controller_id

    @property
    def controller_epoch(self) -> int:
        return self._view.controller_epoch

    @property
    def is_controller(self) -> bool:
        return self._controller.term is not None

    @property
    def controller_fault(self) -> str:
        """Why this broker's rounds as the controller, or to become it, fail again and again; empty:
        they do not."""
        return self._controller.fault

    def gone_s(self, node: int, life: int) -> float:
        """How long this broker has known that a leader's life is over; 0: it is not."""
        living, now = self._view.brokers.get(node), time.monotonic()
        if living is not None and living.life == life:
            return 0.0
        return now - self._view.ended.get((node, life), now)

    @property
    def brokers(self) -> Mapping[int, LivingBroker]:
        return self._view.brokers

    @property
    def leaving(self) -> frozenset[int]:
        return self._view.leaving_now

    @property
    def topics(self) -> Mapping[str, ClusterTopic]:
        return self._view.table.topics

    @property
    def configs(self) -> Mapping[str, TopicConfig]:
        return self._view.table.configs

    @property
    def states(self) -> Mapping[Key, PartitionState]:
        return self._view.table.states

    @property
    def troubles(self) -> Mapping[str, str]:
        """Nodes that were passed over, and why."""
        return self._view.reading.troubles

    async def hear_of(self, name: str) -> bytes:
        """See `View.hear_of`. It asks ZooKeeper."""
        return await self._now(self._view.hear_of(name))

    async def name_of(self, topic_id: bytes) -> str:
        """See `View.name_of`. It asks ZooKeeper."""
        return await self._now(self._view.name_of(topic_id))

    async def producer_ids(self) -> range:
        """A block that no broker had before."""
        try:
            return await self._now(producer_id_blocks.take(self._session, self.member.node_id))
        except Refused as refused:  # with a code at which clients ask again
            text = f"no producer ids: {refused}"
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, text) from refused

    def leads(self, key: Key) -> bool:
        """In its life of now."""
        state = self.states.get(key)
        if state is None or not self.life:
            return False
        return (state.leader, state.leader_life) == (self.member.node_id, self.life)

    def min_insync(self, topic: str, replicas: int | None = None) -> int:
        """Of a partition with so many replicas (as many as the first has): never more than there
        are, as in KIP-966. A value that is none counts as the default."""
        if replicas is None:
            found = self.topics.get(topic)
            replicas = len(found.partitions[0]) if found else forms.REPLICAS_MAX
        config = self.configs.get(topic)
        text = config.values.get(MIN_INSYNC, "") if config else ""
        is_number = text.isascii() and text.isdecimal() and len(text) < 10
        return min(int(text) if is_number else self.defaults.min_insync, replicas)

    def least_in_sync(self, topic: str, number: int) -> int:
        """Of a partition as it is now: who is only being added is not waited for."""
        found = self.topics.get(topic)
        is_there = found is not None and number < len(found.partitions)
        count = len(reassignment.before(found, number)) if found and is_there else 1
        return self.min_insync(topic, count)

    def is_unclean(self, topic: str) -> bool:
        """Whether anybody is to lead it rather than nobody."""
        config = self.configs.get(topic)
        text = config.values.get(UNCLEAN, "").lower() if config else ""
        return text == "true" if text else self.defaults.is_unclean

    def defaults_are(self, defaults: TopicDefaults) -> None:
        """From now on. Brokers may know different ones for a while: see `docs/decisions/`."""
        self.defaults = defaults
        self._controller.wake()

    async def settled(self, topic: str, timeout_s: float) -> bool:
        """Whether this broker knows a leader of each of its partitions in time."""
        return await self._view.until(lambda: self._is_led(topic), timeout_s)

    async def gone(self, topic: str, timeout_s: float) -> bool:
        return await self._view.until(lambda: topic not in self.topics, timeout_s)

    def _is_led(self, name: str) -> bool:
        topic = self.topics.get(name)
        if topic is None:
            return False
        states = [self.states.get((name, number)) for number in range(len(topic.partitions))]
        return all(state and state.leader != NOBODY for state in states)

    # what is written

    async def create_topic(
        self,
        name: str,
        assignment: Sequence[Sequence[int]],
        configs: Mapping[str, str] = NO_CONFIGS,
        topic_id: bytes | None = None,
        wanted_factor: int = 0,
    ) -> ClusterTopic:
        """The controller gives it leaders: see `settled`; and as many replicas as `wanted_factor`
        says, when so many brokers live. Refused: the name is taken, or wrong."""
        return await self._now(
            self._topic_writes.create(name, assignment, configs, topic_id, wanted_factor)
        )

    async def add_partitions(self, name: str, more: More) -> ClusterTopic:
        """`more` is asked with the topic as ZooKeeper has it."""
        return await self._now(self._topic_writes.extend(name, more))

    async def reassign(
        self, name: str, wanted: Mapping[int, Sequence[int] | None]
    ) -> ClusterTopic:
        """By partition: its replicas, the preferred leader first; None cancels. It is finished
        when `adding` and `removing` of the topic are empty. Who is new must live."""
        return await self._now(self._topic_writes.reassign(name, wanted, {*self.brokers}))

    async def has_heard(self, topic: ClusterTopic, timeout_s: float) -> bool:
        """Whether this broker knows it so, or a later word of that name, in time."""

        def is_known() -> bool:
            known = self.topics.get(topic.name)
            if known is None or known.topic_id != topic.topic_id:
                return True
            return known.version >= topic.version

        return await self._view.until(is_known, timeout_s)

    async def delete_topic(self, name: str, wanted: bytes = b"") -> bytes:
        """Asks the controller for it: see `gone`. The id of what goes: the wanted one, if any."""
        return await self._now(self._topic_writes.ask_to_delete(name, wanted))

    def look_at_everything(self) -> None:
        """Reads all of it again, soon."""
        self._view.look_at_everything()

    async def set_configs(
        self, name: str, values: Mapping[str, str], version: int
    ) -> TopicConfig | None:
        """All of them, where `version` is still that of `configs`. None: it is not."""
        topic_id = self._view.table.topic_id(name)
        if not topic_id:
            return None
        news = await self._now(self._topic_writes.set_configs(name, topic_id, values, version))
        if news is None:
            self._view.look_at_everything()
            return None
        self._view.table.apply(news)
        self._telling.tell(news)
        self._view.tell()
        return news.config

    async def write_isr(
        self,
        key: Key,
        version: int,
        isr: Collection[int],
        joining: Mapping[int, int] = NO_LIVES,
        min_insync: int | None = None,
    ) -> IsrOutcome:
        """As the leader of a partition, with the version of its state, and the lives of who joins.
        Returns when the outcome is known, however long ZooKeeper is away. ClusterClosed: it will
        not be."""
        least = self.min_insync(key[0]) if min_insync is None else min_insync
        try:
            return await self._isr_writes.write(key, version, isr, joining, least)
        except ConnectionClosedError as error:
            raise ClusterClosed("the broker stops") from error

    async def read_state(self, key: Key) -> None:
        """What ZooKeeper has now is known here then, however long it is away. ClusterClosed."""
        try:
            await self._isr_writes.read(key)
        except ConnectionClosedError as error:
            raise ClusterClosed("the broker stops") from error

    async def elect(
        self, keys: Collection[Key], unclean: bool = False, timeout_s: float = ELECTION_S
    ) -> dict[Key, int]:
        """Kafka's codes. Preferred leaders; `unclean`: whoever lives, where nobody leads. That
        loses records, so it is a person's word for each partition."""
        asking, known = Asking(self._session), [*keys]
        codes: dict[Key, int] = {}
        for first in range(0, len(known), requests.KEYS_MAX):
            some = known[first:][: requests.KEYS_MAX]
            answer = await asking.ask(requests.elect_node(some, unclean), timeout_s)
            codes |= requests.codes_in(answer, some)
        return codes

    async def _now(self, work: Coroutine[Any, Any, T]) -> T:
        """Refused, with words, when ZooKeeper is away or refuses."""
        if not self._session.is_connected:
            work.close()
            raise Refused(ErrorCode.REQUEST_TIMED_OUT, f"ZooKeeper is {self.status}")
        try:
            return await work
        except KazooException as error:
            raise Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                f"whether ZooKeeper has taken it is not known: {error!r}",
            ) from error
