"""The storage of a group's offsets: ZooKeeper, or the brokers.

In a broker they belong to a simple group of Kafka, without members, so any tool may read and reset
them. Each appliance stores the offsets of its own partitions; a replicated cluster has one
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from kazoo.exceptions import KazooException

from appliance.client.cluster import Cluster
from appliance.client.connection import CLOSE_S, Address, Connection
from appliance.client.consumer_config import KAFKA, ConsumerConfig
from appliance.client.errors import BrokerRefused, BrokerUnavailable, CommitFailed
from appliance.client.group_nodes import GroupNodes
from appliance.client.metadata import NO_ID
from appliance.client.range_assignor import TopicPartition
from appliance.errors import ApplianceError
from appliance.protocol import Api
from appliance.protocol.messages.find_coordinator import API as FIND_COORDINATOR
from appliance.protocol.messages.find_coordinator import FindCoordinatorRequest
from appliance.protocol.messages.offset_commit import API as OFFSET_COMMIT
from appliance.protocol.messages.offset_commit import OffsetCommitRequest
from appliance.protocol.messages.offset_fetch import API as OFFSET_FETCH
from appliance.protocol.messages.offset_fetch import OffsetFetchRequest

Offsets = Mapping[TopicPartition, int]


class Position(NamedTuple):
    offset: int | None  # None: not committed
    topic_id: UUID | None  # of the offset's topic; None: unknown, or the present topic


class OffsetStorage(Protocol):
    def read(self, of: TopicPartition) -> Position: ...

    def begin(self, of: TopicPartition, topic_id: UUID | None, offset: int | None = None) -> None:
        """Later commits are for this topic, and `offset` is its first."""
        ...

    def commit(self, offsets: Offsets) -> None:
        """Raises CommitFailed unless all are stored."""
        ...

    def close(self) -> None: ...


class ZooKeeperOffsets:
    def __init__(self, nodes: GroupNodes, timeout_s: float) -> None:
        self.nodes, self.timeout_s = nodes, timeout_s

    def close(self) -> None:
        """The connector creates and closes the nodes."""

    def read(self, of: TopicPartition) -> Position:
        try:
            offset = self.nodes.offset(of, self.timeout_s)
            return Position(offset, self.nodes.topic_id(of, self.timeout_s))
        except KazooException as error:
            raise BrokerUnavailable(f"ZooKeeper, offset of {of}: {error!r}") from error

    def begin(self, of: TopicPartition, topic_id: UUID | None, offset: int | None = None) -> None:
        """Stores the offset before the id: a reader of only the first takes it for the old topic's,
        and starts with the new topic once more."""
        if offset is not None:
            self.commit({of: offset})
        try:
            if topic_id:
                self.nodes.put_topic_id(of, topic_id, self.timeout_s)
        except KazooException as error:
            raise BrokerUnavailable(f"ZooKeeper, topic id of {of}: {error!r}") from error

    def commit(self, offsets: Offsets) -> None:
        try:
            self.nodes.put_offsets(offsets, self.timeout_s)
        except (KazooException, BrokerUnavailable) as error:
            raise CommitFailed(f"{len(offsets)} offsets, ZooKeeper: {error!r}") from error


class BrokerOffsets:
    """Any thread may use it. A topic's deletion removes its offsets, so a stored offset is of the
    present topic. A commit names the id, so one for a deleted topic fails."""

    FETCH_LAST, FIND_LAST = 7, 3  # versions: topics by name, one group
    COMMIT_LAST_BY_NAME = 9

    def __init__(self, cluster: Cluster, config: ConsumerConfig) -> None:
        self.cluster, self.config = cluster, config
        self._topic_ids: dict[TopicPartition, UUID | None] = {}
        self._coordinators: dict[int, Connection] = {}  # by broker, as in BrokerPartition
        self._lock = threading.Lock()
        self._is_closed = False

    def close(self) -> None:
        """A thread that still asks fails, and closes what it has: it may just connect."""
        self._is_closed = True
        for each in [*self._coordinators.values()]:
            each.cut()
        if self._lock.acquire(timeout=CLOSE_S):
            self._close_all()
            self._lock.release()

    def _close_all(self) -> None:
        for each in self._coordinators.values():
            each.close()

    def read(self, of: TopicPartition) -> Position:
        row = OffsetFetchRequest.OffsetFetchRequestTopic(of.topic, [of.partition.partition])
        request = OffsetFetchRequest(group_id=self.config.group_id, topics=[row])
        answer = self._ask(of.partition.broker, OFFSET_FETCH, request, self.FETCH_LAST)
        parts = [part for topic in answer.topics for part in topic.partitions]
        code = answer.error_code or parts[0].error_code  # of the whole answer: it has no topics
        if code:
            self._ask_who_coordinates(of.partition.broker)
            facts = f"offset of {of} in group {self.config.group_id}"
            raise BrokerRefused(code, facts).at(of)
        found: int = parts[0].committed_offset
        return Position(None, self._topic_ids.get(of)) if found < 0 else Position(found, None)

    def begin(self, of: TopicPartition, topic_id: UUID | None, offset: int | None = None) -> None:
        self._topic_ids[of] = topic_id
        if offset is not None:
            self.commit({of: offset})

    def commit(self, offsets: Offsets) -> None:
        """Commits at each coordinator; one that cannot be reached does not stop others."""
        failures, errors = [], []
        for home in sorted({of.partition.broker for of in offsets}):
            mine = {of: offset for of, offset in offsets.items() if of.partition.broker == home}
            try:
                self._commit_to(home, mine)
            except ApplianceError as error:
                failures.append(f"{len(mine)} offsets: {error}")
                errors.append(error)
        if failures:
            raise CommitFailed("; ".join(failures), errors)

    def _commit_to(self, home: int, offsets: Offsets) -> None:
        rows: dict[tuple[str, UUID], OffsetCommitRequest.OffsetCommitRequestTopic] = {}
        for of, offset in offsets.items():
            key = of.topic, self._topic_ids.get(of) or NO_ID
            row = rows.setdefault(key, OffsetCommitRequest.OffsetCommitRequestTopic(*key))
            part = OffsetCommitRequest.OffsetCommitRequestPartition
            row.partitions.append(part(of.partition.partition, offset, committed_metadata=""))
        most = self.COMMIT_LAST_BY_NAME if any(NO_ID in key for key in rows) else None
        request = OffsetCommitRequest(group_id=self.config.group_id, topics=[*rows.values()])
        answer = self._ask(home, OFFSET_COMMIT, request, most)
        for each in answer.topics:
            for part in (part for part in each.partitions if part.error_code):
                self._ask_who_coordinates(home)
                raise self._refused(offsets, each.name, each.topic_id, part)

    def _refused(self, offsets: Offsets, name: str, id_: UUID, part: Any) -> BrokerRefused:
        where = f"{name or id_}/{part.partition_index}"
        refusal = BrokerRefused(part.error_code, f"group {self.config.group_id}, {where}")
        for of, offset in offsets.items():
            is_topic = of.topic == name or self._topic_ids.get(of) == id_
            if is_topic and of.partition.partition == part.partition_index:
                refusal.at(of, offset=offset)
        return refusal

    def _ask(self, home: int, api: Api, request: Any, most: int | None) -> Any:
        """Retries once, because a broker may have closed an idle connection."""
        with self._lock:
            was_used = home in self._coordinators
            for may_fail in (was_used, False):
                try:
                    connection = self._coordinator(home)
                    return connection.ask(api, request, version=connection.version(api, most))
                except BrokerUnavailable:
                    self._forget(home)
                    if not may_fail:
                        raise
                finally:
                    if self._is_closed:
                        self._close_all()
        raise AssertionError("the second try returns or raises")

    def _ask_who_coordinates(self, home: int) -> None:
        """Before the next request: after a refusal it may be another broker."""
        with self._lock:
            self._forget(home)

    def _forget(self, home: int) -> None:
        connection = self._coordinators.pop(home, None)
        if connection:
            connection.close()

    def _coordinator(self, home: int) -> Connection:
        if self._is_closed:
            raise BrokerUnavailable(f"broker {home}: this client was closed")
        if home in self._coordinators:
            return self._coordinators[home]
        with self.cluster.connect(self.cluster.any_of(home)) as some:
            request = FindCoordinatorRequest(key=self.config.group_id)
            version = some.version(FIND_COORDINATOR, most=self.FIND_LAST)
            answer = some.ask(FIND_COORDINATOR, request, version=version)
        if answer.error_code:
            facts = f"broker {home}: who coordinates group {self.config.group_id}"
            raise BrokerRefused(answer.error_code, facts)
        connection = Connection(Address(answer.host, answer.port), self.config)
        self._coordinators[home] = connection
        return connection


def offset_storage(cluster: Cluster, config: ConsumerConfig, nodes: GroupNodes) -> OffsetStorage:
    if config.offsets_storage == KAFKA:
        return BrokerOffsets(cluster, config)
    return ZooKeeperOffsets(nodes, config.zk_session_timeout_ms / 1000)
