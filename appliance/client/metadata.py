"""The metadata of brokers: ids, topics, partition leaders.

Addresses are asked one after the other; those with the same cluster id are one cluster, and one of
its responses is enough. Each appliance has its own cluster id, so each of them is asked.

A cluster is replicated if its response names more than one broker, as member or as replica. The
last response of a cluster stays valid until the next one: whoever connects notices that it cannot
be reached.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from appliance.client.broker_partition import NO_BROKER, BrokerPartition
from appliance.client.config import ClientConfig
from appliance.client.connection import CLOSE_S, Address, Connection
from appliance.client.errors import (
    BrokerRefused,
    BrokerUnavailable,
    ConfigInvalid,
    NoBrokers,
    PartitionUnknown,
    TopicUnknown,
)
from appliance.process import event_log
from appliance.protocol import ErrorCode
from appliance.protocol.messages.metadata import API as METADATA
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse

log = event_log.named("client")

Asked = MetadataRequest.MetadataRequestTopic

# A topic that is being created: ask again. Other codes are final.
UNKNOWN = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
NOT_YET = {ErrorCode.LEADER_NOT_AVAILABLE, *UNKNOWN}
CREATED_S = 5.0  # a broker that makes it tells that it is being made, or has it, within this
NO_ID = UUID(int=0)
AGAIN_S = 0.1  # between two requests for a topic that is being created
FRESH_S = 0.5  # an older negative answer is asked again


@dataclass
class Topic:
    leaders: dict[BrokerPartition, int]  # broker ids; NO_BROKER without a leader
    asked_at: float  # by time.monotonic
    refusal: int = 0  # the error code of a response


@dataclass
class Known:
    """One cluster."""

    id: str
    brokers: dict[int, Address]
    is_replicated: bool = False
    topics: dict[str, Topic] = field(default_factory=dict)

    def name_of(self, broker_id: int, partition: int) -> BrokerPartition:
        return BrokerPartition(NO_BROKER if self.is_replicated else broker_id, partition)


class Metadata:
    """Any thread may use it. `addresses` returns the addresses to ask, which may change."""

    def __init__(self, config: ClientConfig, addresses: Callable[[], Collection[Address]]) -> None:
        self.config, self._addresses = config, addresses
        self._clusters: dict[str, Known] = {}
        self._cluster_of: dict[Address, str] = {}
        self._connections: dict[Address, Connection] = {}
        self._asked_again_at: dict[str, float] = {}  # by topic, whether or not somebody answered
        self._asking = threading.RLock()  # held while a request waits for its response
        self._is_closed = False

    def close(self) -> None:
        """A thread that still asks fails, and closes what it has: it may just connect."""
        self._is_closed = True
        for each in [*self._connections.values()]:
            each.cut()
        if self._asking.acquire(timeout=CLOSE_S):
            self._close_all()
            self._asking.release()

    def _close_all(self) -> None:
        for each in self._connections.values():
            each.close()

    # state

    def brokers(self) -> dict[int, Address]:
        if not self._clusters:
            self.refresh([])
        known = [*self._clusters.values()]
        return {number: where for each in known for number, where in each.brokers.items()}

    def topics(self) -> list[str]:
        """The topics of all clusters, freshly requested, without internal ones."""
        self.refresh(None)
        known = [*self._clusters.values()]
        return sorted({name for each in known for name, t in [*each.topics.items()] if t.leaders})

    def leaders(self, topic: str, may_create: bool = False) -> dict[BrokerPartition, int]:
        """The broker that leads each partition of a topic, of all clusters that have it."""
        leaders, age_s = self._known(topic)
        if not leaders and (age_s > FRESH_S or may_create):
            self.refresh([topic], may_create)
        elif age_s * 1000 > self.config.metadata_max_age_ms:
            self._refresh_if_possible(topic)
        began = time.monotonic()
        while True:
            leaders, _ = self._known(topic)
            if leaders:
                return leaders
            waited_s = time.monotonic() - began
            self._must_come(topic, may_create and waited_s < self._patience_s(topic))
            time.sleep(AGAIN_S)
            self.refresh([topic], may_create)

    def _is_fresh(self, known: Topic) -> bool:
        return (time.monotonic() - known.asked_at) * 1000 <= self.config.metadata_max_age_ms

    def _known(self, topic: str) -> tuple[dict[BrokerPartition, int], float]:
        """With the age of its oldest part."""
        parts = self._parts(topic)
        leaders = {bp: broker for part in parts for bp, broker in part.leaders.items()}
        oldest = min((part.asked_at for part in parts), default=float("-inf"))
        return dict(sorted(leaders.items())), time.monotonic() - oldest

    def _patience_s(self, topic: str) -> float:
        """A broker that makes no topics by itself says the same as one that has just begun to."""
        is_coming = any(part.refusal not in (0, *UNKNOWN) for part in self._parts(topic))
        patience_s = self.config.socket_timeout_ms / 1000
        return patience_s if is_coming else min(CREATED_S, patience_s)

    def _parts(self, topic: str) -> list[Topic]:
        return [each.topics[topic] for each in [*self._clusters.values()] if topic in each.topics]

    def _must_come(self, topic: str, may_come: bool) -> None:
        """Raises, unless this topic is being created."""
        parts = self._parts(topic)
        for code in {part.refusal for part in parts} - NOT_YET - {0}:
            raise BrokerRefused(code, f"topic {topic!r}").at(topic=topic)
        if not may_come:
            asked = ", ".join(map(str, self.brokers().values()))
            why = f"topic {topic!r} is at none of the brokers {asked}"
            raise TopicUnknown(why).at(topic=topic)

    def leader(self, topic: str, partition: BrokerPartition) -> int:
        for each in [*self._clusters.values()]:  # the fast path: runs for each request
            known = each.topics.get(topic)
            if known and self._is_fresh(known) and known.leaders.get(partition, NO_BROKER) >= 0:
                return known.leaders[partition]
        leaders = self.leaders(topic)
        if leaders.get(partition, NO_BROKER) == NO_BROKER and self._ask_again(topic):
            leaders = self.leaders(topic)
        if partition not in leaders:
            names = ", ".join(map(str, leaders))
            why = f"{topic}: no partition {partition}, there are {names}"
            raise PartitionUnknown(why).at(topic=topic, partition=partition)
        if leaders[partition] == NO_BROKER:
            why = f"{topic} partition {partition} has no leader now"
            raise PartitionUnknown(why).at(topic=topic, partition=partition)
        return leaders[partition]

    # requests

    def ask(self, address: Address, api: Any, request: Any) -> Any:
        """A short request, over a connection that stays open."""
        with self._asking:
            try:
                return self._ask(address, api, request)
            finally:
                if self._is_closed:
                    self._close_all()

    def _ask(self, address: Address, api: Any, request: Any) -> Any:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            return self._connect(address).ask(api, request)
        try:
            return connection.ask(api, request)
        except BrokerUnavailable:  # the broker may have closed the idle connection
            return self._connect(address).ask(api, request)

    def _connect(self, address: Address) -> Connection:
        if self._is_closed:
            raise BrokerUnavailable(f"broker {address}: this client was closed")
        made = self._connections[address] = Connection(address, self.config)
        return made

    def topic_id(self, address: Address, topic: str) -> UUID | None:
        """The id of the broker's present topic of this name; None if topics have none."""
        request = MetadataRequest(topics=[Asked(name=topic)], allow_auto_topic_creation=False)
        (row,) = self.ask(address, METADATA, request).topics
        if row.error_code:
            raise BrokerRefused(row.error_code, f"topic {topic!r}").at(topic=topic, broker=address)
        id_: UUID = row.topic_id
        return None if id_ == NO_ID else id_

    def _ask_again(self, topic: str) -> bool:
        """An election takes moments, and partitions are added at any time. Whoever waits for it
        asks often, so only once in FRESH_S a request is made of it."""
        now = time.monotonic()
        _, age_s = self._known(topic)
        if min(age_s, now - self._asked_again_at.get(topic, float("-inf"))) <= FRESH_S:
            return False
        self._refresh_if_possible(topic)
        self._asked_again_at[topic] = time.monotonic()
        return True

    def _refresh_if_possible(self, topic: str) -> None:
        try:
            self.refresh([topic])
        except NoBrokers as error:
            log.warning("old metadata stays in use", topic=topic, error=error)

    def refresh(self, topics: Sequence[str] | None, may_create: bool = False) -> None:
        """Requests these topics, or all, from every cluster; NoBrokers if none answers."""
        asked = None if topics is None else [Asked(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=may_create)
        with self._asking:
            done: set[str] = set()
            failures: list[str] = []
            for address in self._where():
                if self._cluster_of.get(address) in done:
                    continue
                try:
                    answer = self.ask(address, METADATA, request)
                except BrokerUnavailable as error:
                    failures.append(str(error))
                    continue
                done.add(self._take(address, answer, topics))
            if not done:
                raise NoBrokers("; ".join(failures) or "no broker is registered")
            for failure in failures:
                log.warning("metadata request failed", error=failure)

    def _where(self) -> Iterator[Address]:
        """First the configured addresses, then those that they named."""
        named = list(dict.fromkeys(self._addresses()))
        yield from named
        for each in [*self._clusters.values()]:
            yield from (address for address in each.brokers.values() if address not in named)

    def _take(
        self, address: Address, answer: MetadataResponse, topics: Sequence[str] | None
    ) -> str:
        """Stores the response for its cluster, and returns the cluster's id."""
        cluster_id = answer.cluster_id or str(address)
        brokers = {each.node_id: Address(each.host, each.port) for each in answer.brokers}
        before = self._clusters.get(cluster_id)
        known = Known(cluster_id, brokers)
        known.is_replicated = is_replicated(answer) or bool(before and before.is_replicated)
        if before and topics is not None and known.is_replicated == before.is_replicated:
            known.topics = {**before.topics}
        known.topics.update(topics_of(answer, known))
        self._refuse_doubles(known)
        self._clusters = {**self._clusters, cluster_id: known}
        for each in (address, *brokers.values()):
            self._cluster_of[each] = cluster_id
        return cluster_id

    def _refuse_doubles(self, known: Known) -> None:
        others = [each for each in self._clusters.values() if each.id != known.id]
        for other in others:
            for number in known.brokers.keys() & other.brokers.keys():
                raise ConfigInvalid(
                    f"two brokers have the id {number}: {known.brokers[number]} and "
                    f"{other.brokers[number]}. Give one of them another node.id"
                )
            if known.is_replicated and other.is_replicated:
                raise ConfigInvalid(
                    f"brokers of two replicated clusters, {known.id} and {other.id}: names of "
                    "their partitions would be ambiguous. Use one client for each"
                )


def is_replicated(answer: MetadataResponse) -> bool:
    ids = {each.node_id for each in answer.brokers}
    rows = (row for topic in answer.topics for row in topic.partitions)
    return len(ids.union(*(row.replica_nodes for row in rows))) > 1


def topics_of(answer: MetadataResponse, known: Known) -> Mapping[str, Topic]:
    now, topics = time.monotonic(), {}
    for row in answer.topics:
        if row.name is not None and not row.is_internal:
            leaders = dict(leaders_of(row.partitions, known))
            topics[row.name] = Topic(leaders, now, row.error_code)
    return topics


def leaders_of(
    rows: Iterable[MetadataResponse.MetadataResponsePartition], known: Known
) -> Iterator[tuple[BrokerPartition, int]]:
    for row in rows:
        leader = row.leader_id if row.leader_id in known.brokers else NO_BROKER
        yield known.name_of(next(iter(known.brokers), NO_BROKER), row.partition_index), leader
