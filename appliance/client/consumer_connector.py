"""The consumer of a group: streams of messages from the partitions that are assigned to it.

    connector = ConsumerConnector(ConsumerConfig(zk_connect="box:2181", group_id="counters"))
    streams = connector.create_message_streams({"clicks": 2})
    for message in streams["clicks"][0]: ...          # one thread for each stream

Rebalancing is a comparison, made in rounds by one thread: who is in the group, which partitions
there are, what the algorithm gives us of them against what we have. A round begins when a watch of
ZooKeeper fires, a session begins, or the last one could not claim everything. So a lost session, a
broker that comes or goes, and a consumer that joins or leaves are all the same case.

    let go    what is no longer ours: nothing more is handed out, then its offset is committed,
              then its owner's node goes. Whoever owns it next begins there
    claim     what is ours now. While its former owner has not let go, other partitions go on, and
              the next round tries again
    fetch     a thread for each broker that leads one of ours

A session that is over took our nodes along: another may own what we had, so nothing is handed out
or committed from then on. While ZooKeeper is merely away we read on.
"""

from __future__ import annotations

import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping

from kazoo.client import KazooState
from kazoo.exceptions import KazooException
from kazoo.protocol.states import WatchedEvent

from appliance.client.assignment import StreamId, Table, TopicPartition, assign
from appliance.client.cluster import Cluster
from appliance.client.consumer_config import ZOOKEEPER, ConsumerConfig
from appliance.client.errors import (
    BrokerRefused,
    BrokerUnavailable,
    CommitFailed,
    ConfigInvalid,
    PartitionUnknown,
    TopicUnknown,
)
from appliance.client.fetcher import Fetcher
from appliance.client.group_nodes import GroupNodes
from appliance.client.offset_storage import offset_storage
from appliance.client.partition import NO_BROKER
from appliance.client.stream import Claim, Stream
from appliance.client.subscription import Filter, Subscription, Topics
from appliance.errors import ApplianceError
from appliance.process import event_log

log = event_log.named("consumer")

STOP_S = 5.0  # how long a stop waits for threads, which may hang at a dead broker


class ConsumerConnector:
    def __init__(self, config: ConsumerConfig) -> None:
        if not config.zk_connect or not config.group_id:
            raise ConfigInvalid("a ConsumerConnector needs zk_connect and group_id")
        self.config = config
        self.id = config.consumer_id or f"{socket.gethostname()}:{uuid.uuid4()}"
        self.cluster = Cluster(config)
        assert self.cluster.zookeeper is not None
        self.zookeeper = self.cluster.zookeeper
        self.nodes = GroupNodes(self.zookeeper, config.group_id, self.id)
        self.storage = offset_storage(self.cluster, config, self.nodes)
        self.rounds = 0  # how often the comparison was made
        self._wanted: Subscription | None = None
        self._streams: dict[tuple[str, int], Stream] = {}
        self._claims: dict[TopicPartition, Claim] = {}
        self._owed: set[TopicPartition] = set()  # released, but maybe still in ZooKeeper
        self._fetchers: dict[int, Fetcher] = {}
        self._stopped: list[Fetcher] = []
        self._session: int | None = None  # the one in which we are registered
        self._lock = threading.RLock()  # a round, a commit or the shutdown, one at a time
        self._woken = threading.Event()
        self._settled = threading.Event()  # a first round has ended
        self._is_closing = False
        self._thread = threading.Thread(target=self._keep, name="rebalance", daemon=True)

    def __enter__(self) -> ConsumerConnector:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    # streams

    def create_message_streams(self, counts: Mapping[str, int]) -> dict[str, list[Stream]]:
        """Makes the given number of streams for each topic. They end with `shutdown`."""
        wanted = Topics(dict(counts))
        made = {topic: self._make_streams(topic, count) for topic, count in counts.items()}
        self._start(wanted)
        return made

    def create_message_streams_by_filter(
        self, regex: str, count: int = 1, *, is_blacklist: bool = False
    ) -> list[Stream]:
        """Makes `count` streams for all topics whose whole name matches the regex, or does not
        match it, and for later topics too."""
        wanted = Filter(regex, count, is_blacklist)
        made = self._make_streams("", count)
        self._start(wanted)
        return made

    def _make_streams(self, topic: str, count: int) -> list[Stream]:
        config = self.config
        return [
            self._streams.setdefault(
                (topic, number),
                Stream(
                    StreamId(self.id, number),
                    config.queuedchunks_max,
                    config.consumer_timeout_ms,
                    self._on_room,
                ),
            )
            for number in range(count)
        ]

    def _start(self, wanted: Subscription) -> None:
        if self._wanted:
            raise RuntimeError(f"{self.id} has its streams already: {self._wanted.text()}")
        self._wanted = wanted
        self.zookeeper.add_listener(self._on_state)
        self.cluster.watch(self._wake)
        self._woken.set()
        self._thread.start()
        self._settled.wait(self.config.zk_connection_timeout_ms / 1000)

    @property
    def owned(self) -> dict[TopicPartition, StreamId]:
        """The partitions that we own now, and the stream that reads each."""
        return {of: claim.stream.id for of, claim in [*self._claims.items()] if not claim.is_over}

    # offsets

    def commit_offsets(self) -> None:
        """Stores how far each partition is, all messages handed out included: before they are
        worked on that means at most once, after it at least once. CommitFailed says what was not
        stored."""
        with self._lock:
            self._commit(self._claims.values(), lambda claim: claim.progress.next_offset)

    def _commit(self, claims: Iterable[Claim], position: Callable[[Claim], int]) -> None:
        moved = {
            claim: position(claim)
            for claim in claims
            if claim.offset is not None and not (claim.has_lost_session or claim.is_of_old_topic)
        }
        moved = {claim: offset for claim, offset in moved.items() if offset != claim.committed}
        if not moved:
            return
        if self.config.offsets_storage == ZOOKEEPER and not self.zookeeper.connected:
            raise CommitFailed(f"{len(moved)} offsets: ZooKeeper is away")
        self.storage.commit({claim.of: offset for claim, offset in moved.items()})
        for claim, offset in moved.items():
            claim.committed = offset

    def _commit_what_is_done(self, claims: Iterable[Claim]) -> None:
        """The last delivered message may still be in work, so it does not count as done."""
        if not self.config.autocommit_enable:
            return
        try:
            # a commit by hand counts: it may be one message ahead
            self._commit(claims, lambda claim: max(claim.progress.done, claim.committed))
        except CommitFailed as error:
            log.warning("not committed", error=error)

    # the end

    def shutdown(self) -> None:
        """Ends the streams, commits what is done if that is automatic, and leaves the group."""
        if self._is_closing:
            return
        self._is_closing = True
        self._woken.set()
        if self._wanted:
            self._thread.join(STOP_S)
        if not self._thread.is_alive():
            with self._lock:
                self._leave()
        for fetcher in (*self._fetchers.values(), *self._stopped):
            fetcher.stop()
        for stream in self._streams.values():
            stream.close()
        self.cluster.close()
        self.storage.close()
        for fetcher in (*self._fetchers.values(), *self._stopped):
            fetcher.join(STOP_S)

    def _leave(self) -> None:
        if not self.zookeeper.connected:
            self._drop([*self._claims])
            return
        try:
            self._let_go([*self._claims])
            self.nodes.deregister()
        except KazooException as error:
            log.warning("our nodes go at the end of the session", error=repr(error))

    # called by others' threads

    def _wake(self) -> None:
        self._woken.set()

    def _on_node(self, event: WatchedEvent) -> None:
        self._woken.set()

    def _on_state(self, state: str) -> None:
        if state == KazooState.LOST:
            for claim in [*self._claims.values()]:
                claim.has_lost_session = claim.progress.is_over = True
        self._woken.set()

    def _on_room(self) -> None:
        for fetcher in [*self._fetchers.values()]:
            fetcher.wake()

    # on our thread

    def _keep(self) -> None:
        interval_s = self.config.autocommit_interval_ms / 1000
        commit_at, is_complete = time.monotonic() + interval_s, True
        while True:
            patience_s = commit_at - time.monotonic()
            if not is_complete:
                patience_s = min(patience_s, self.config.rebalance_backoff_ms / 1000)
            is_woken = self._woken.wait(max(0, patience_s))
            if is_woken:  # only then: a later wake-up is for the next wait
                self._woken.clear()
            if self._is_closing:
                return
            if is_woken or not is_complete:
                is_complete = self._rebalanced()
            if time.monotonic() >= commit_at:
                with self._lock:
                    self._commit_what_is_done(self._claims.values())
                commit_at = time.monotonic() + interval_s

    def _rebalanced(self) -> bool:
        """Whether there is nothing to do until the next wake-up."""
        if not self.zookeeper.connected:
            return True
        try:
            with self._lock:
                return self._round()
        except (KazooException, ApplianceError) as error:
            if not self._is_closing:
                log.warning("rebalance is tried again", error=repr(error))
        except Exception:
            log.exception("rebalance failed in a way that was not foreseen")
        finally:
            self._settled.set()
        return False

    def _round(self) -> bool:
        """Whether all our partitions are claimed."""
        assert self._wanted
        identity = self.zookeeper.client_id
        if identity is None:
            return False
        if identity[0] != self._session:
            self._forget_session()
            self.nodes.register(self._wanted)
            self._session = identity[0]
        table = self._table()
        ours = {of: stream for of, stream in table.items() if stream.consumer == self.id}
        self._let_go([of for of, claim in self._claims.items() if ours.get(of) != claim.stream.id])
        missing = [of for of, stream in ours.items() if not self._has_claimed(of, stream)]
        has_placed_all = self._place()
        self.rounds += 1
        return has_placed_all and not missing

    def _forget_session(self) -> None:
        for claim in self._claims.values():
            claim.has_lost_session = claim.progress.is_over = True
        self._drop([*self._claims])
        self._owed.clear()

    def _table(self) -> Table:
        """The table of all our topics for the whole group."""
        assert self._wanted
        group = self.nodes.members(self._on_node)
        if self.id not in group:  # somebody has removed our node
            self.nodes.register(self._wanted)
            group = self.nodes.members(self._on_node)
        topics = self._wanted.streams(self.cluster.topics())
        partitions = {}
        for topic in topics:
            try:
                partitions[topic] = self.cluster.partitions(topic)
            except TopicUnknown:  # it went in between, and that wakes us
                continue
        return assign(partitions, {name: each.streams(topics) for name, each in group.items()})

    def _drop(self, gone: Iterable[TopicPartition]) -> list[Claim]:
        """Stops the delivery and the fetching of these partitions."""
        dropped = [self._claims.pop(of) for of in gone]
        for claim in dropped:
            claim.progress.is_over = True
            what = "lost with its session" if claim.has_lost_session else "let go"
            log.info(what, partition=claim.of, stream=claim.stream.id)
        if dropped:
            self._place()
            for stream in self._streams.values():
                stream.forget_what_is_over()
        return dropped

    def _let_go(self, gone: Iterable[TopicPartition]) -> None:
        dropped = self._drop(gone)
        self._owed |= {claim.of for claim in dropped}
        self._commit_what_is_done(dropped)
        for of in sorted(self._owed):
            self.nodes.release(of)
            self._owed.discard(of)

    def _has_claimed(self, of: TopicPartition, by: StreamId) -> bool:
        if of in self._claims:
            return True
        if not self.nodes.claim(of, by, self._on_node):
            return False
        assert self._wanted
        stream = self._streams["" if self._wanted.has_filter else of.topic, by.number]
        self._claims[of] = Claim(of, stream, self.config.fetch_size)
        log.info("claimed", partition=of, stream=stream.id)
        return True

    def _leader(self, of: TopicPartition) -> int:
        try:
            return self.cluster.leader(*of)
        except (PartitionUnknown, TopicUnknown, BrokerUnavailable, BrokerRefused) as error:
            log.warning("nobody to fetch from", partition=of, error=error)
            return NO_BROKER

    def _place(self) -> bool:
        """Gives each claim to the fetcher of the partition's leader, if it has one."""
        by_leader: dict[int, list[Claim]] = {}
        for claim in self._claims.values():
            by_leader.setdefault(self._leader(claim.of), []).append(claim)
        has_placed_all = NO_BROKER not in by_leader
        by_leader.pop(NO_BROKER, None)
        for broker in by_leader.keys() - self._fetchers.keys():
            self._fetchers[broker] = Fetcher(
                broker, self.cluster, self.config, self.storage, self._wake
            )
        for broker in self._fetchers.keys() - by_leader.keys():
            self._fetchers[broker].stop()
            self._stopped.append(self._fetchers.pop(broker))
        for broker, claims in by_leader.items():
            self._fetchers[broker].set_claims(claims)
        self._stopped = [each for each in self._stopped if each.is_alive]
        return has_placed_all
