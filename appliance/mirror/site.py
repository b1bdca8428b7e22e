"""One cluster as the mirror sees it: brokers, topics, partition leaders.

One thread uses a site; only `cut` may come from others. Short requests share connections that stay
open; each fetcher and sender has its own connection.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from appliance.client.config import ClientConfig
from appliance.client.connection import Address, Connection
from appliance.client.errors import (
    BrokerRefused,
    BrokerUnavailable,
    ConnectionLost,
    NoBrokers,
    PartitionUnknown,
)
from appliance.protocol.messages.find_coordinator import API as FIND_COORDINATOR
from appliance.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from appliance.protocol.messages.list_offsets import API as LIST_OFFSETS
from appliance.protocol.messages.list_offsets import ListOffsetsRequest
from appliance.protocol.messages.metadata import API as METADATA
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse

EARLIEST, LATEST = -2, -1
UNCOMMITTED, COMMITTED = 0, 1
GROUP, TRANSACTION = 0, 1  # the kinds of a coordinator
COORDINATOR_OF_ONE = 3  # the last version of FindCoordinator with one key per request
NO_LEADER = -1


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Offsets = dict[TopicPartition, int]
Positions = dict[TopicPartition, int | None]  # None: never mirrored
Refusals = dict[TopicPartition, BrokerRefused]


@dataclass(frozen=True)
class Topic:
    name: str
    id: UUID
    leaders: Mapping[int, int]  # broker by partition

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, each) for each in sorted(self.leaders)]


class Site:
    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.cluster_id = ""
        self.brokers: dict[int, Address] = {}
        self.controller = NO_LEADER
        self.topics: dict[str, Topic] = {}
        self._named = [Address.parse(each) for each in config.broker_list.split(",") if each]
        self._connections: dict[Address, Connection] = {}
        self._made: list[Connection] = []  # every connection so far: a site lives for one round
        self._is_cut = False
        self._coordinators: dict[tuple[str, int], int] = {}

    def cut(self) -> None:
        """Makes every wait for this cluster fail at once; any thread may call this."""
        self._is_cut = True
        for each in list(self._made):
            each.cut()

    def close(self) -> None:
        for each in self._connections.values():
            each.close()
        self._connections.clear()

    # connections

    def connect(self, broker: int) -> Connection:
        """A new connection that the caller owns."""
        if broker not in self.brokers:
            raise BrokerUnavailable(f"broker {broker} is not known, there are {[*self.brokers]}")
        return self._connected(self.brokers[broker])

    def _connected(self, address: Address) -> Connection:
        made = Connection(address, self.config)
        self._made.append(made)
        if self._is_cut:  # while connecting
            made.cut()
        return made

    def ask(
        self, api: Any, request: Any, broker: int | None = None, most: int | None = None
    ) -> Any:
        """`broker` None asks any broker that answers."""
        if broker is not None and broker not in self.brokers:
            raise BrokerUnavailable(f"broker {broker} is not known, there are {[*self.brokers]}")
        some = [*self.brokers.values(), *self._named] if broker is None else [self.brokers[broker]]
        failures = []
        for address in dict.fromkeys(some):
            try:
                return self._ask_at(address, api, request, most)
            except BrokerUnavailable as error:
                failures.append(str(error))
        raise NoBrokers("; ".join(failures))

    def _ask_at(self, address: Address, api: Any, request: Any, most: int | None) -> Any:
        connection = self._connections.get(address)
        if connection is not None and connection.is_open:
            try:
                return connection.ask(api, request, version=connection.version(api, most))
            except ConnectionLost:
                pass  # the broker may have closed the idle connection
        if self._is_cut:
            raise ConnectionLost(f"broker {address}: the mirror is stopping")
        connection = self._connections[address] = self._connected(address)
        return connection.ask(api, request, version=connection.version(api, most))

    # metadata

    def refresh(self) -> None:
        """Asks for all topics; skips internal ones and those that cannot be served."""
        answer: MetadataResponse = self.ask(
            METADATA, MetadataRequest(topics=None, allow_auto_topic_creation=False)
        )
        self.cluster_id = answer.cluster_id or ""
        self.brokers = {each.node_id: Address(each.host, each.port) for each in answer.brokers}
        self.controller = answer.controller_id
        self.topics = {
            each.name: Topic(
                each.name,
                each.topic_id,
                {row.partition_index: row.leader_id for row in each.partitions},
            )
            for each in answer.topics
            if each.name and not each.is_internal and not each.error_code
        }

    def leader(self, partition: TopicPartition) -> int:
        topic = self.topics.get(partition.topic)
        broker = NO_LEADER if topic is None else topic.leaders.get(partition.partition, NO_LEADER)
        if broker not in self.brokers:
            raise PartitionUnknown(f"{partition} has no leader now")
        return broker

    def coordinator(self, key: str, kind: int) -> int:
        """Asks once and keeps the result."""
        if (key, kind) not in self._coordinators:
            answer = self.find_coordinator(key, kind)
            if answer.error_code:
                raise BrokerRefused(answer.error_code, f"coordinator of {key}")
            self._coordinators[key, kind] = answer.node_id
        return self._coordinators[key, kind]

    def forget_coordinator(self, key: str, kind: int) -> None:
        self._coordinators.pop((key, kind), None)

    def find_coordinator(self, key: str, kind: int) -> FindCoordinatorResponse:
        answer: FindCoordinatorResponse = self.ask(
            FIND_COORDINATOR,
            FindCoordinatorRequest(key=key, key_type=kind),
            most=COORDINATOR_OF_ONE,
        )
        if not answer.error_code:
            self.brokers[answer.node_id] = Address(answer.host, answer.port)
        return answer

    # offsets

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        when: int,
        isolation: int = UNCOMMITTED,
        refused: Refusals | None = None,
    ) -> Offsets:
        """The earliest or latest offset of each partition. One that is refused goes into `refused`,
        or raises."""
        by_leader: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for partition in partitions:
            by_leader[self.leader(partition)][partition.topic].append(partition.partition)
        offsets = {}
        for leader, topics in by_leader.items():
            request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation)
            for name, numbers in topics.items():
                rows = [
                    ListOffsetsRequest.ListOffsetsPartition(partition_index=each, timestamp=when)
                    for each in numbers
                ]
                request.topics.append(ListOffsetsRequest.ListOffsetsTopic(name, rows))
            for topic in self.ask(LIST_OFFSETS, request, leader).topics:
                for row in topic.partitions:
                    partition = TopicPartition(topic.name, row.partition_index)
                    if not row.error_code:
                        offsets[partition] = row.offset
                        continue
                    error = BrokerRefused(row.error_code, f"offsets of {partition}")
                    if refused is None:
                        raise error
                    refused[partition] = error
        return offsets
