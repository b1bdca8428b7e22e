"""This broker as one of a cluster: what the cluster says becomes topics, roles and fetchers here.

    ClusterTopics    topics, and which of their partitions are here
    ReplicaRoles     who leads them
    ReplicaFetchers  a thread for each leader that is followed
    InSyncReplicas   the ISR of what is led here
    UncleanCuts      the ledger, before records are cut that may have counted
    FailedReplicas   what a disk takes away while the broker runs
    SharedFacts      users, rules and settings of all
    ClusterSettings  settings of this broker that change while it runs
    ToldToClients    what clients are told of the others
    hand_over        before a stop others lead what it led
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any

from appliance.broker.broker import Broker
from appliance.broker.cluster_settings import ClusterSettings, topic_defaults
from appliance.broker.cluster_topics import ClusterTopics
from appliance.broker.failed_replicas import FailedReplicas
from appliance.broker.handing_over import hand_over
from appliance.broker.health_of_replicas import reasons_of
from appliance.broker.in_sync_replicas import InSyncReplicas
from appliance.broker.inter_broker_security import InterBrokerSecurity
from appliance.broker.kept_lives import KeptLives
from appliance.broker.leaders_ends import LeadersEnds
from appliance.broker.members import ClusterMembers
from appliance.broker.peers import Peers
from appliance.broker.replaced_replicas import ReplacedReplicas
from appliance.broker.replica_fetchers import ReplicaFetchers, address_of
from appliance.broker.replica_roles import Coordinators, ReplicaRoles
from appliance.broker.share_peers import SharePeers
from appliance.broker.shared_facts import SharedFacts
from appliance.broker.told_to_clients import ToldToClients
from appliance.broker.transaction_peers import TransactionPeers
from appliance.broker.unclean_cuts import UncleanCuts
from appliance.cluster.cluster import Cluster
from appliance.cluster.controller import Rebalance
from appliance.cluster.forms import LivingBroker
from appliance.cluster.lives import Member
from appliance.cluster.reading import woken
from appliance.config import Address
from appliance.data_dir.partition_names import Key
from appliance.errors import ListenFailed
from appliance.process import event_log
from appliance.topics import empty_replicas
from appliance.topics.replicated_topics import ReplicatedTopics
from appliance.topics.topic import OFFSETS, SHARE_STATE, TRANSACTIONS
from appliance.zookeeper.cluster_health import RegisteredBroker
from appliance.zookeeper.consumer_nodes import ConsumerNodes

log = event_log.named("replication")

AGAIN_S = 1.0


class InCluster:
    """Lives on the event loop. `join` lets clients in, and `leave` is before they are put out."""

    def __init__(self, broker: Broker) -> None:
        config, topics = broker.config, broker.topics
        self.broker = broker
        self.security = InterBrokerSecurity(config)
        self.fetchers = ReplicaFetchers(config.node_id, config.replication, self.security)
        coordinators: dict[str, Coordinators] = {
            OFFSETS: broker.groups, TRANSACTIONS: broker.transactions,
            SHARE_STATE: broker.share_partitions.state_coordinator,
        }  # fmt: skip
        self.roles = ReplicaRoles(topics, self.fetchers, coordinators)
        self.cluster = Cluster(
            config.zookeeper, self._member(), self, topic_defaults(broker.configs.in_force),
            rebalance=Rebalance(
                config.replication.is_rebalanced, config.replication.imbalance_interval_s,
                config.replication.imbalance_percentage,
            ),
        )  # fmt: skip
        self._told = ToldToClients(broker, self.cluster)
        self.topics = ClusterTopics(
            self.cluster, topics, ReplicatedTopics(topics, broker.change, self._told.show),
            broker.forget_topic, self._told.show,
            config.replication.factor,
        )  # fmt: skip
        self.in_sync = InSyncReplicas(
            self.cluster, topics, self.roles, config.replication.lag_max_ms
        )
        self.facts = SharedFacts(broker, self.cluster, self.roles.may_lead_now)
        self._cuts = UncleanCuts(self.roles, self.fetchers, broker.ledger)
        self._replaced = ReplacedReplicas(broker, self.cluster, self.roles, self.fetchers)
        self._failed = FailedReplicas(self.cluster, topics)
        self._tasks: list[asyncio.Task[Any]] = []
        self._kept_lives = KeptLives(broker.log_dir)
        self._has_lived = False  # in the cluster, since it started
        self._brokers: dict[int, LivingBroker] | None = None  # that were told of
        self.cluster.keep_lives_by(self._kept_lives.keep)
        self._peers = Peers(self._where, f"broker-{config.node_id}", self.security)
        self._bulk_peers = Peers(self._where, f"broker-{config.node_id}-bulk", self.security)
        self.roles.cluster = self.cluster
        self.roles.may_lead = False  # before it is known who may do what
        self._attach(broker)

    def _attach(self, broker: Broker) -> None:
        """From now on the broker tells these what changes, and asks them."""
        topics, members, peers = broker.topics, ClusterMembers(broker, self.cluster), self._peers
        share_state = broker.share_partitions.state_coordinator
        broker.facts.cluster = self.facts
        broker.reopening.may_reopen = self._failed.may_reopen
        broker.reopening.directories.begin_another_life = self._begin_another_life
        broker.reopening.directories.is_over = self._failed.is_over
        topics.tell(self.roles)
        topics.cluster = self.topics
        ClusterSettings(broker, self.cluster, self.roles, self.fetchers)
        broker.members, broker.peers, broker.bulk_peers = members, peers, self._bulk_peers
        broker.lag.elsewhere = self._ends = LeadersEnds(broker, broker.config.groups.lag_interval_s)
        broker.lag.ask_where_groups_are = broker.share_groups.ask_where_groups_are
        broker.transactions.join(
            TransactionPeers(broker.node_id, members, peers, broker.transactions)
        )
        broker.share_partitions.join(
            SharePeers(broker.node_id, members, peers, broker.group_places, share_state)
        )
        broker.producer_ids.take_from(self.cluster.producer_ids)

    def _member(self) -> Member:
        """As clients are told: at ports that are known by now."""
        config = self.broker.configs.in_force.config
        return Member(
            config.node_id, self.broker.cluster_id, config.advertised_listeners, config.protocols,
            config.rack, config.data_dir,
        )  # fmt: skip

    def _where(self, node_id: int) -> Address | None:
        """A broker listens for the others."""
        found = self.cluster.brokers.get(node_id)
        return None if found is None else address_of(found, self.security.listener)

    async def join(self, let_in: Callable[[], None]) -> None:
        self._tasks = [asyncio.create_task(kept(self.facts.keep))]
        await self.cluster.start()
        if self.cluster.life:
            await woken(self.facts.was_looked_at, self._start_s)
        self.on_topics([*self.cluster.topics, *self.broker.topics])
        jobs = (
            self.topics.run, self.in_sync.run, self.roles.watch_session, self._cuts.run,
            self.fetchers.watch, self._failed.run, self._replaced.run, self._tell_reasons,
            self._kept_lives.run,
        )  # fmt: skip
        self._tasks += [asyncio.create_task(kept(each)) for each in jobs]
        agreed = asyncio.create_task(self.topics.were_agreed.wait())
        self._tasks.append(agreed)
        if self.cluster.life:
            await asyncio.wait([agreed], timeout=self._start_s)
        if agreed.done():
            let_in()
        else:  # ZooKeeper is away, and nobody knows for how long; or the disk is slow
            self._tasks.append(asyncio.create_task(self._let_in(agreed, let_in)))

    @property
    def _start_s(self) -> float:
        return self.broker.config.zookeeper.connection_timeout_ms / 1000

    async def _let_in(self, agreed: Awaitable[object], let_in: Callable[[], None]) -> None:
        await agreed
        while True:
            try:
                let_in()
                return
            except ListenFailed as error:
                log.error("clients cannot come in", error=error)
            await asyncio.sleep(AGAIN_S)

    async def leave(self) -> None:
        """Others lead what this one led, and have all of it, before it ends its session."""
        await hand_over(self.cluster, self.roles)
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.cluster.close()
        await self._peers.close()
        await self._bulk_peers.close()
        await self._ends.close()
        await asyncio.to_thread(self.fetchers.close)

    @property
    def consumers(self) -> ConsumerNodes:
        """Groups that live in ZooKeeper, below our path and in our session. Partitions have no
        broker's name there."""
        config, session = self.broker.config.zookeeper, self.cluster.facts.session
        timeout_s = config.session_timeout_ms / 1000
        return ConsumerNodes(session.client, session.root, self.broker.node_id, True, timeout_s)

    @property
    def status(self) -> str:
        return self.cluster.status

    @property
    def refusal(self) -> Exception | None:
        return self.cluster.refusal

    def brokers(self) -> list[RegisteredBroker]:
        """All of the cluster, each with the partitions that it leads. Any thread may ask."""
        led: dict[int, dict[str, int]] = {each: {} for each in dict(self.cluster.brokers)}
        for (topic, _), state in dict(self.cluster.states).items():
            if state.leader in led:
                of_broker = led[state.leader]
                of_broker[topic] = of_broker.get(topic, 0) + 1
        return [
            RegisteredBroker(node_id, str(each.listeners.all[0].address), led.get(node_id, {}))
            for node_id, each in sorted(dict(self.cluster.brokers).items())
        ]

    # Told by the cluster

    def on_change(self, keys: Collection[Key]) -> None:
        self.roles.apply(keys)
        self._told.on_change(keys)

    def on_topics(self, names: Collection[str]) -> None:
        self.topics.heard(names)

    def on_brokers(self) -> None:
        """Also told of who leaves and of the controller, while others wait for elections."""
        brokers = self.cluster.brokers
        if brokers == self._brokers:
            return
        self._brokers = dict(brokers)
        self.fetchers.brokers_are(brokers)
        self._told.on_brokers()
        self.roles.apply_all()

    def on_session(self) -> None:
        """A life has begun, or ended."""
        self.broker.log_dir.made.clear()
        if self.cluster.life:
            self._has_lived = True
            self._kept_lives.begun(self.cluster.life)
        self.fetchers.life_is(self.cluster.life)
        self.facts.on_session()
        self.topics.heard([])  # there may be none
        self.broker.cluster_id = self.cluster.cluster_id or self.broker.cluster_id
        self.roles.apply_all()

    async def _tell_reasons(self) -> None:
        while True:
            await asyncio.sleep(AGAIN_S)
            if self.cluster.life:
                await self.cluster.reasons.tell(reasons_of(self))

    def _begin_another_life(self, lost: Collection[Key]) -> None:
        """In which it resigns from those of these that others count on."""
        log_dir, logs = self.broker.log_dir, self.broker.log_dir.logs()
        self.roles.hollow.update(
            key for key in lost if key in logs and empty_replicas.lacks_records(logs[key])
        )
        counted, life = [key for key in lost if self._counts(key)], self.cluster.life
        if counted or not life or self._kept_lives.is_behind(life):
            self.cluster.begin_another_life()  # one that is just being begun has not seen this
        for name, number in counted:
            log_dir.made.note(name, [number])  # with the former life all were forgotten

    def _counts(self, key: Key) -> bool:
        """Others on what we have of it, or perhaps by now."""
        state = self.cluster.states.get(key)
        if state is None:
            return not self.cluster.has_read_all
        return self.broker.node_id in (*state.isr, *state.eligible) or not self.cluster.has_session

    def lost_replicas(self) -> Collection[Key]:
        made = self.broker.log_dir.made.keys()
        lost = {*self.roles.lost(self.broker.node_id), *self._kept_lives.lost(), *made}
        if not self._has_lived:
            return lost
        # Without us it would never have a leader, and nobody else can have more of it.
        return {each for each in lost if not self.roles.is_alone(each)}


async def kept(job: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """For good: a fault of ours ends no broker, nor leaves it behind its cluster."""
    while True:
        try:
            await job()
        except Exception:
            log.exception("following the cluster failed unexpectedly")
        await asyncio.sleep(AGAIN_S)
