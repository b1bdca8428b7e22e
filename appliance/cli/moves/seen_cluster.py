"""A cluster from outside: who is registered in ZooKeeper, and what the brokers say and take by
Kafka's protocol. Whichever broker answers is asked; for its own bytes each is."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from appliance.cli.moves.registered import HOW, Seen, Way, registered
from appliance.client.config import ClientConfig
from appliance.client.connection import Address, Connection
from appliance.client.errors import AccessFailed, BrokerUnavailable
from appliance.client.security_config import SecurityConfig
from appliance.cluster.forms import Key, Replicas
from appliance.cluster.plans import Move, Placed
from appliance.config import Ensemble
from appliance.errors import ApplianceError
from appliance.process.exit_codes import REFUSED, UNREACHABLE, Failed
from appliance.process.spoken import some
from appliance.protocol import ErrorCode
from appliance.protocol.messages.alter_partition_reassignments import API as ALTER
from appliance.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from appliance.protocol.messages.describe_configs import API as DESCRIBE_CONFIGS
from appliance.protocol.messages.describe_configs import DescribeConfigsRequest
from appliance.protocol.messages.describe_log_dirs import API as DESCRIBE_LOG_DIRS
from appliance.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from appliance.protocol.messages.elect_leaders import API as ELECT
from appliance.protocol.messages.elect_leaders import ElectLeadersRequest
from appliance.protocol.messages.incremental_alter_configs import API as ALTER_CONFIGS
from appliance.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from appliance.protocol.messages.list_partition_reassignments import API as LIST
from appliance.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from appliance.protocol.messages.metadata import API as METADATA
from appliance.protocol.messages.metadata import MetadataRequest
from appliance.zookeeper.cluster_health import ClusterUnread

HEARD_S, LOOK_S = 5.0, 0.2  # so long brokers may not have heard of a topic
AT_ONCE = 500  # partitions of a request
TOPIC, BROKER = 2, 4  # kinds of resources with configs
PREFERRED, UNCLEAN = 0, 1
MIN_INSYNC = "min.insync.replicas"
NO_RIGHT = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
RIGHTS = ("wanted DESCRIBE, ALTER and ALTER_CONFIGS on the cluster, DESCRIBE and DESCRIBE_CONFIGS "
          "on topics")  # fmt: skip
Values = Mapping[str, str | None]
Sizes = dict[tuple[int, str, int], int]  # by broker, topic and partition


@dataclass
class Picture:
    controller: int
    brokers: dict[int, Seen]
    partitions: list[Placed]
    sizes: Sizes = field(default_factory=dict)
    unasked: dict[int, str] = field(default_factory=dict)  # who did not tell its sizes, and why
    unseen: list[str] = field(default_factory=list)  # topics in ZooKeeper that nobody told of

    @property
    def racks(self) -> dict[int, str]:
        return {each.id: each.rack for each in self.brokers.values()}

    def of(self, node: int) -> list[Placed]:
        return [each for each in self.partitions if node in each.replicas]


class SeenCluster:
    def __init__(
        self, ensemble: Ensemble, security: SecurityConfig, listener: str = ""
    ) -> None:
        """`listener`: by which one to come, if several speak the protocol."""
        self._ensemble, self._security = ensemble, security
        self._way = Way(security.security_protocol, listener)
        self._connections: dict[Address, Connection] = {}
        self._brokers: dict[int, Seen] = {}
        self._topics: set[str] = set()  # in ZooKeeper

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._connections.values():
            each.close()

    # Who is there

    def brokers(self) -> dict[int, Seen]:
        self._brokers, self._topics = registered(self._ensemble, self._way)
        return self._brokers

    @property
    def known(self) -> dict[int, Seen]:
        """As they were read last."""
        return self._brokers

    # Asking

    def ask(self, api: Any, request: Any) -> Any:
        """Whoever answers."""
        why: ApplianceError | None = None
        for each in (self._brokers or self.brokers()).values():
            try:
                return self.ask_one(each, api, request)
            except BrokerUnavailable as error:
                why = error
        raise Failed(f"no broker answers: {why} ({HOW})", UNREACHABLE)

    def ask_one(self, broker: Seen, api: Any, request: Any) -> Any:
        connection = self._connections.get(broker.address)
        if connection is None or not connection.is_open:
            config = ClientConfig.secured(
                self._security, broker_list=str(broker.address), client_id="appliance-cluster"
            )
            connection = self._connections[broker.address] = Connection(broker.address, config)
        return connection.ask(api, request)

    def picture(self, with_sizes: bool = True, may_be_part: bool = False) -> Picture:
        """Refused where brokers do not tell of a topic that ZooKeeper has: who may not see all
        would be told that there is nothing more. `may_be_part`: the picture says so itself."""
        end = time.monotonic() + HEARD_S
        found = self._picture(with_sizes)
        while found.unseen and time.monotonic() < end:  # made or deleted just now
            time.sleep(LOOK_S)
            found = self._picture(with_sizes)
        if found.unseen and not may_be_part:
            raise Failed(
                f"brokers tell nothing of {some(len(found.unseen), 'topic')} that ZooKeeper has, "
                f"{found.unseen[0]} among them: the login needs DESCRIBE on all topics", REFUSED,
            )  # fmt: skip
        return found

    def _picture(self, with_sizes: bool) -> Picture:
        brokers = self.brokers()
        answer = self.ask(METADATA, MetadataRequest(topics=None, allow_auto_topic_creation=False))
        partitions = [
            Placed(topic.name, each.partition_index, (*each.replica_nodes,), 0, each.leader_id,
                   (*each.isr_nodes,))
            for topic in answer.topics
            for each in topic.partitions
        ]  # fmt: skip
        found = Picture(answer.controller_id, brokers, partitions)
        found.unseen = sorted(self._topics - {topic.name for topic in answer.topics})
        if with_sizes:
            self._measure(found)
        return found

    def _measure(self, picture: Picture) -> None:
        for broker in picture.brokers.values():
            try:
                picture.sizes |= self.sizes_at(broker)
            except ApplianceError as error:
                picture.unasked[broker.id] = str(error)
        largest: dict[Key, int] = {}
        for (_, topic, partition), size in picture.sizes.items():
            largest[topic, partition] = max(size, largest.get((topic, partition), 0))
        picture.partitions = [
            Placed(each.topic, each.partition, each.replicas,
                   picture.sizes.get((each.leader, *each.key), largest.get(each.key, 0)),
                   each.leader, each.isr)
            for each in picture.partitions
        ]  # fmt: skip

    def sizes_at(self, broker: Seen) -> Sizes:
        answer = self.ask_one(broker, DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None))
        if answer.error_code:
            raise refused(answer.error_code, f"DescribeLogDirs of broker {broker.id}")
        return {
            (broker.id, topic.name, each.partition_index): each.partition_size
            for directory in answer.results for topic in directory.topics
            for each in topic.partitions if not each.is_future_key
        }  # fmt: skip

    def moving(self) -> dict[Key, tuple[Replicas, Replicas]]:
        """The replicas that each is to have, and which of them are new."""
        answer = self.ask(LIST, ListPartitionReassignmentsRequest(topics=None))
        if answer.error_code:
            raise refused(answer.error_code, "ListPartitionReassignments", answer.error_message)
        return {
            (topic.name, each.partition_index): (
                tuple(one for one in each.replicas if one not in each.removing_replicas),
                (*each.adding_replicas,),
            )
            for topic in answer.topics for each in topic.partitions
        }  # fmt: skip

    def min_insync(self, topics: Iterable[str]) -> dict[str, int]:
        asked = [DescribeConfigsRequest.DescribeConfigsResource(TOPIC, each, [MIN_INSYNC])
                 for each in topics]  # fmt: skip
        found = {}
        for first in range(0, len(asked), AT_ONCE):
            some = asked[first:][:AT_ONCE]
            answer = self.ask(DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=some))
            for each in answer.results:
                values = [one.value for one in each.configs if one.name == MIN_INSYNC]
                found[each.resource_name] = int(values[0]) if values and values[0] else 1
        return found

    # Changing

    def reassign(self, moves: Sequence[Move]) -> list[str]:
        """What was refused, in words."""
        faults: list[str] = []
        for first in range(0, len(moves), AT_ONCE):
            topics: dict[str, dict[int, list[int]]] = {}
            for each in moves[first:][:AT_ONCE]:
                topics.setdefault(each.of.topic, {})[each.of.partition] = [*each.replicas]
            answer = self.ask(ALTER, _request(topics))
            if answer.error_code:
                raise refused(answer.error_code, "AlterPartitionReassignments",
                              answer.error_message)  # fmt: skip
            faults += [
                f"{topic.name}-{each.partition_index}: {each.error_message or each.error_code}"
                for topic in answer.responses for each in topic.partitions if each.error_code
            ]  # fmt: skip
        return faults

    def elect(self, keys: Iterable[Key], kind: int) -> dict[Key, int]:
        """Codes of those that were refused."""
        topics: dict[str, list[int]] = {}
        for topic, partition in keys:
            topics.setdefault(topic, []).append(partition)
        asked = [ElectLeadersRequest.TopicPartitions(*each) for each in topics.items()]
        if not asked:
            return {}
        answer = self.ask(ELECT, ElectLeadersRequest(election_type=kind, topic_partitions=asked))
        if answer.error_code:
            raise refused(answer.error_code, "ElectLeaders")
        return {
            (topic.topic, each.partition_id): each.error_code
            for topic in answer.replica_election_results
            for each in topic.partition_result
            if each.error_code not in (0, ErrorCode.ELECTION_NOT_NEEDED)
        }

    def configure_topics(self, wanted: Mapping[str, Values]) -> None:
        resources = [_resource(TOPIC, name, values) for name, values in wanted.items()]
        request = IncrementalAlterConfigsRequest(resources=resources)
        _check(self.ask(ALTER_CONFIGS, request))

    def configure_broker(self, node: int, values: Values) -> None:
        """Its own settings are told to itself, as in Kafka."""
        request = IncrementalAlterConfigsRequest(resources=[_resource(BROKER, str(node), values)])
        _check(self.ask_one(self._brokers[node], ALTER_CONFIGS, request))


def _resource(kind: int, name: str, values: Values) -> Any:
    """A value of None: as if it had not been set."""
    alter = IncrementalAlterConfigsRequest
    configs = [
        alter.AlterableConfig(key, int(value is None), value) for key, value in values.items()
    ]
    return alter.AlterConfigsResource(kind, name, configs)


def _check(answer: Any) -> None:
    for each in answer.responses:
        if each.error_code:
            what = f"settings of {each.resource_name}"
            raise refused(each.error_code, what, each.error_message)


def _request(topics: Mapping[str, Mapping[int, list[int]]]) -> AlterPartitionReassignmentsRequest:
    alter = AlterPartitionReassignmentsRequest
    return alter(topics=[
        alter.ReassignableTopic(name, [
            alter.ReassignablePartition(number, replicas)
            for number, replicas in partitions.items()
        ])
        for name, partitions in topics.items()
    ])  # fmt: skip


def refused(code: int, what: str, words: str | None = None) -> Failed:
    name = ErrorCode(code).name if code in [*ErrorCode] else f"error {code}"
    told = f"{what}: {name}{f', {words}' if words else ''}"
    return Failed(f"{told}: {RIGHTS} ({HOW})" if code in NO_RIGHT else told, REFUSED)


@contextmanager
def explaining() -> Iterator[None]:
    """Errors of ZooKeeper and of connections as those of a command."""
    try:
        yield
    except ClusterUnread as error:
        raise Failed(str(error), UNREACHABLE) from error
    except AccessFailed as error:
        raise Failed(f"{error}: {HOW}", REFUSED) from error
    except BrokerUnavailable as error:
        raise Failed(f"{error} ({HOW})", UNREACHABLE) from error
