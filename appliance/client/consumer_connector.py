"""The consumer of a group: streams of messages from the partitions assigned to it.

    connector = ConsumerConnector(ConsumerConfig(zk_connect="box:2181", group_id="counters"))
    streams = connector.create_message_streams({"clicks": 2})
    for message in streams["clicks"][0]: ...          # one thread per stream

A rebalance compares, in rounds on one thread: the consumers of the group, the partitions, the
partitions that the algorithm assigns to us, and those we have. A round begins when a watch of
ZooKeeper fires, when a session begins, or when the last round could not claim everything. So a lost
session, a broker that starts or stops, and a consumer that joins or leaves are all the same case.

    release   partitions that are no longer ours: delivery stops, then the offset is committed,
              then the owner's node is removed. The next owner starts at that offset
    claim     partitions that are ours now. While the former owner still has one, others continue,
              and the next round tries again
    fetch     a thread for each broker that leads one of our partitions

The end of a session removes our nodes: others may own our partitions, so delivery and commits stop.
While ZooKeeper is only away, reading continues.
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

from appliance.client.broker_partition import NO_BROKER
from appliance.client.cluster import Cluster
from appliance.client.consumer_config import ZOOKEEPER, ConsumerConfig
from appliance.client.errors import (
    AccessFailed,
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
from appliance.client.range_assignor import StreamId, Table, TopicPartition, assign
from appliance.client.stream import Claim, Stream
from appliance.client.subscription import Filter, Subscription, Topics
from appliance.errors import ApplianceError
from appliance.process import event_log

log = event_log.named("consumer")

STOP_S = 5.0  # how long a stop waits for threads, which may hang at a dead broker


class ConsumerConnector:
    def __init__(self, config: ConsumerConfig) -> None:
        if not config.zk_connect or not config.group_id:
            raise ConfigInvalid(
                f"a ConsumerConnector needs zk_connect and group_id: got zk_connect="
                f"{config.zk_connect!r}, group_id={config.group_id!r}. Without a ZooKeeper read "
                "with a SimpleConsumer, or in a group with any client of Kafka"
            )
        self.config = config
        self.id = config.consumer_id or f"{socket.gethostname()}:{uuid.uuid4()}"
        self.cluster = Cluster(config)
        assert self.cluster.zookeeper is not None
        self.zookeeper = self.cluster.zookeeper
        self.nodes = GroupNodes(self.zookeeper, config.group_id, self.id)
        self.storage = offset_storage(self.cluster, config, self.nodes)
        self.rounds = 0  # number of comparisons
        self._wanted: Subscription | None = None
        self._streams: dict[tuple[str, int], Stream] = {}
        self._claims: dict[TopicPartition, Claim] = {}
        self._owed: set[TopicPartition] = set()  # released, but maybe still in ZooKeeper
        self._fetchers: dict[int, Fetcher] = {}
        self._stopped: list[Fetcher] = []
        self._session: int | None = None  # the session of our registration
        self._lock = threading.RLock()  # one round, commit or shutdown at a time
        self._woken = threading.Event()
        self._settled = threading.Event()  # set after the first round
        self._is_closing = False
        self._thread = threading.Thread(target=self._keep, name="rebalance", daemon=True)

    def __enter__(self) -> ConsumerConnector:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    # streams

    def create_message_streams(self, counts: Mapping[str, int]) -> dict[str, list[Stream]]:
        """Creates the given number of streams for each topic. They end with `shutdown`."""
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
            raise RuntimeError(f"{self.id} already has streams: {self._wanted.text()}")
        self._wanted = wanted
        self.zookeeper.add_listener(self._on_state)
        self.cluster.watch(self._wake)
        self._woken.set()
        self._thread.start()
        self._settled.wait(self.config.zk_connection_timeout_ms / 1000)

    @property
    def owned(self) -> dict[TopicPartition, StreamId]:
        """The partitions that we own now, each with the stream that reads it."""
        return {of: claim.stream.id for of, claim in [*self._claims.items()] if not claim.is_over}

    # offsets

    def commit_offsets(self) -> None:
        """Commits the offsets, including all delivered messages. A commit before they are processed
        means at most once, a commit afterwards at least once. CommitFailed has the partitions that
        were not stored."""
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
            raise CommitFailed(f"{len(moved)} offsets: ZooKeeper is unreachable")
        self.storage.commit({claim.of: offset for claim, offset in moved.items()})
        for claim, offset in moved.items():
            claim.committed = offset

    def _commit_what_is_done(self, claims: Iterable[Claim]) -> None:
        """The application may still process the last delivered message: it does not count."""
        if not self.config.autocommit_enable:
            return
        try:
            # a commit by hand counts: it may be one message ahead
            self._commit(claims, lambda claim: max(claim.progress.done, claim.committed))
        except CommitFailed as error:
            log.warning("not committed", error=error)
        except Exception:  # the rebalance goes on, so that others get what is no longer ours
            log.exception("committing failed unexpectedly")

    # shutdown

    def shutdown(self) -> None:
        """Ends the streams, commits what is done if that is automatic, and leaves the group."""
        if self._is_closing:
            return
        self._is_closing = True
        self._woken.set()
        if self._wanted:
            self._thread.join(STOP_S)
        try:
            if not self._thread.is_alive():
                with self._lock:
                    self._leave()
        finally:  # whatever happened, nobody waits for a stream any more
            self._end_streams()

    def _end_streams(self) -> None:
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
            log.warning("our nodes stay until the session times out", error=repr(error))

    # called by other threads

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
        except (AccessFailed, ConfigInvalid) as error:
            for stream in self._streams.values():
                stream.fail(error)
            return True
        except (KazooException, ApplianceError) as error:
            if not self._is_closing:
                log.warning("rebalance will be retried", error=repr(error))
        except Exception:
            log.exception("rebalance failed unexpectedly")
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
        table, is_complete = self._table()
        ours = {of: stream for of, stream in table.items() if stream.consumer == self.id}
        self._let_go([of for of, claim in self._claims.items() if ours.get(of) != claim.stream.id])
        missing = [of for of, stream in ours.items() if not self._has_claimed(of, stream)]
        has_placed_all = self._place()
        self.rounds += 1
        return is_complete and has_placed_all and not missing

    def _forget_session(self) -> None:
        for claim in self._claims.values():
            claim.has_lost_session = claim.progress.is_over = True
        self._drop([*self._claims])
        self._owed.clear()

    def _table(self) -> tuple[Table, bool]:
        """The table of all our topics for the whole group, and whether it has all of them."""
        assert self._wanted
        group = self.nodes.members(self._on_node)
        if self.id not in group:  # somebody has removed our node
            self.nodes.register(self._wanted)
            group = self.nodes.members(self._on_node)
        topics = self._wanted.streams(self.cluster.topics())
        partitions, is_complete = {}, True
        for topic in topics:
            try:
                partitions[topic] = self.cluster.partitions(topic)
            except TopicUnknown:  # deleted meanwhile, which wakes us; or made, which does not
                is_complete = is_complete and not self.cluster.is_to_come(topic)
        streams = {name: each.streams(topics) for name, each in group.items()}
        return assign(partitions, streams), is_complete

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
            log.warning("no broker to fetch from", partition=of, error=error)
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
