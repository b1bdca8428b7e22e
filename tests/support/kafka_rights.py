"""Which right each API wants, from Kafka's documents (Security, Authorization and ACLs: "Operations
and resources on protocols") and, where they are silent, from its source: not from our handlers.

A row is one way to ask: a request, the rights that are enough for it, and what is told to whom one
of them is missing, an error or `HIDDEN`: the thing is left out as if there were none. An API with
alternatives, or with more than one way to name a thing, has several rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from appliance.protocol import API, NO_UUID
from appliance.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from appliance.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from appliance.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from appliance.protocol.messages.alter_configs import AlterConfigsRequest
from appliance.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from appliance.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from appliance.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from appliance.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from appliance.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from appliance.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from appliance.protocol.messages.create_acls import CreateAclsRequest
from appliance.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from appliance.protocol.messages.create_partitions import CreatePartitionsRequest
from appliance.protocol.messages.create_topics import CreateTopicsRequest
from appliance.protocol.messages.delete_acls import DeleteAclsRequest
from appliance.protocol.messages.delete_groups import DeleteGroupsRequest
from appliance.protocol.messages.delete_records import DeleteRecordsRequest
from appliance.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from appliance.protocol.messages.delete_topics import DeleteTopicsRequest
from appliance.protocol.messages.describe_acls import DescribeAclsRequest
from appliance.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from appliance.protocol.messages.describe_cluster import DescribeClusterRequest
from appliance.protocol.messages.describe_configs import DescribeConfigsRequest
from appliance.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from appliance.protocol.messages.describe_groups import DescribeGroupsRequest
from appliance.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from appliance.protocol.messages.describe_producers import DescribeProducersRequest
from appliance.protocol.messages.describe_quorum import DescribeQuorumRequest
from appliance.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
)
from appliance.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from appliance.protocol.messages.describe_transactions import DescribeTransactionsRequest
from appliance.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from appliance.protocol.messages.elect_leaders import ElectLeadersRequest
from appliance.protocol.messages.end_txn import EndTxnRequest
from appliance.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from appliance.protocol.messages.fetch import FetchRequest
from appliance.protocol.messages.find_coordinator import FindCoordinatorRequest
from appliance.protocol.messages.heartbeat import HeartbeatRequest
from appliance.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from appliance.protocol.messages.init_producer_id import InitProducerIdRequest
from appliance.protocol.messages.join_group import JoinGroupRequest
from appliance.protocol.messages.leave_group import LeaveGroupRequest
from appliance.protocol.messages.list_config_resources import ListConfigResourcesRequest
from appliance.protocol.messages.list_groups import ListGroupsRequest
from appliance.protocol.messages.list_offsets import ListOffsetsRequest
from appliance.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from appliance.protocol.messages.list_transactions import ListTransactionsRequest
from appliance.protocol.messages.metadata import MetadataRequest
from appliance.protocol.messages.offset_commit import OffsetCommitRequest
from appliance.protocol.messages.offset_delete import OffsetDeleteRequest
from appliance.protocol.messages.offset_fetch import OffsetFetchRequest
from appliance.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from appliance.protocol.messages.produce import ProduceRequest
from appliance.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from appliance.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from appliance.protocol.messages.share_fetch import ShareFetchRequest
from appliance.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from appliance.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from appliance.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from appliance.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from appliance.protocol.messages.sync_group import SyncGroupRequest
from appliance.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from appliance.protocol.messages.unregister_broker import UnregisterBrokerRequest
from appliance.protocol.messages.update_features import UpdateFeaturesRequest
from appliance.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from appliance.record import _batch_builder

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = range(2, 8)
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = range(3, 10)
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS, DESCRIBE_TOKENS = range(10, 15)

NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTIONAL_ID, NO_TOKEN = 29, 30, 31, 53, 65
REFUSALS = {NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTIONAL_ID, NO_TOKEN}
OWNER_MISMATCH, NO_TOKENS_HERE = 63, 64
UNKNOWN_TOPIC = 3
SHARER = "D" * 22  # a member of a share group whose session has begun
HIDDEN = -2  # no error, and its name does not occur in the answer

# Without rights of any kind: what comes before a login, and what is about the client itself
FREE = {"ApiVersions", "SaslHandshake", "SaslAuthenticate", "GetTelemetrySubscriptions",
        "PushTelemetry"}  # fmt: skip


@dataclass(frozen=True)
class Names:
    """What a request is about. All of it exists, but for `new`."""

    topic: str
    topic_id: UUID
    new: str  # a topic that is not there
    group: str  # of the older protocol, empty, with an offset of the topic
    consumers: str  # of the newer protocol, with one member that has the topic
    sharers: str  # a share group with one member that has the topic
    empty_sharers: str  # the same without a member
    streamers: str  # a group of Kafka Streams with one member that reads the topic
    new_group: str  # one that is not there
    transactional_id: str
    producer_id: int
    producer_epoch: int
    log_dir: str
    owner: str  # somebody else, to whom a delegation token belongs
    token_id: str
    token_hmac: bytes
    renewed_hmac: bytes  # of a token of the same owner, of which who asks is a renewer


@dataclass(frozen=True)
class Right:
    operation: int
    resource_type: int


def hidden_name(right: Right, row: Row, names: Names) -> str:
    """What is left out of the answer."""
    if right.resource_type == USER:
        return names.token_id
    return names.group if right.resource_type == CLUSTER else resource_of(right, row, names)


def resource_of(right: Right, row: Row, names: Names) -> str:
    return {
        TOPIC: str(getattr(names, row.topic)),
        GROUP: str(getattr(names, row.group)),
        CLUSTER: "kafka-cluster",
        TRANSACTIONAL_ID: names.transactional_id,
        DELEGATION_TOKEN: names.token_id,
        USER: f"User:{names.owner}",
    }[right.resource_type]


@dataclass(frozen=True)
class Row:
    version: int
    make: Callable[[Names], Any]
    needs: Mapping[Right, int]  # and what is told without it
    good: frozenset[int] = field(default=frozenset({0}))  # errors of whom it is allowed
    group: str = "group"  # which of the names is asked for
    topic: str = "topic"  # the same
    by_id: bool = False  # the topic is named by its id alone
    is_native: bool = False  # answered by the data plane alone
    useless: tuple[Right, ...] = ()  # which are there too, and open nothing
    wants_login: bool = False  # without one it is not taken, whatever rules say


def on_topic(operation: int) -> dict[Right, int]:
    return {Right(operation, TOPIC): NO_TOPIC}


def on_group(operation: int) -> dict[Right, int]:
    return {Right(operation, GROUP): NO_GROUP}


def on_cluster(operation: int, told: int = NO_CLUSTER) -> dict[Right, int]:
    return {Right(operation, CLUSTER): told}


def on_transactional_id(operation: int) -> dict[Right, int]:
    return {Right(operation, TRANSACTIONAL_ID): NO_TRANSACTIONAL_ID}


def hidden(operation: int, resource_type: int) -> dict[Right, int]:
    return {Right(operation, resource_type): HIDDEN}


def told(*codes: int) -> frozenset[int]:
    return frozenset({0, *codes})


def batch(n: Names, is_transactional: bool = False) -> bytes:
    who = (n.producer_id, n.producer_epoch, 0) if is_transactional else (-1, -1, -1)
    return _batch_builder.batch([(1_700_000_000_000, b"k", b"v")], 0, 0, None, *who,
                                is_transactional)  # fmt: skip


def produce(n: Names, by_id: bool = False, is_transactional: bool = False) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(0, batch(n, is_transactional))
    topic = ProduceRequest.TopicProduceData(
        "" if by_id else n.topic, n.topic_id if by_id else NO_UUID, [data]
    )
    return ProduceRequest(n.transactional_id if is_transactional else None, 1, 5000, [topic])


def fetch(n: Names, by_id: bool = False) -> FetchRequest:
    part = FetchRequest.FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)
    topic = FetchRequest.FetchTopic(
        "" if by_id else n.topic, n.topic_id if by_id else NO_UUID, [part]
    )
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=[topic]
    )


def list_offsets(n: Names) -> ListOffsetsRequest:
    part = ListOffsetsRequest.ListOffsetsPartition(0, -1, -2)
    return ListOffsetsRequest(-1, 0, [ListOffsetsRequest.ListOffsetsTopic(n.topic, [part])])


def metadata(n: Names, name: str | None, topic_id: UUID = NO_UUID) -> MetadataRequest:
    return MetadataRequest([MetadataRequest.MetadataRequestTopic(topic_id, name)], True)


def offset_commit(n: Names, by_id: bool = False) -> OffsetCommitRequest:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(0, 1, -1, "")
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(
        "" if by_id else n.topic, n.topic_id if by_id else NO_UUID, [part]
    )
    return OffsetCommitRequest(n.group, -1, "", None, -1, [topic])


def offset_fetch(n: Names, by_id: bool = False) -> OffsetFetchRequest:
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(
        "" if by_id else n.topic, n.topic_id if by_id else NO_UUID, [0]
    )
    return OffsetFetchRequest(
        groups=[OffsetFetchRequest.OffsetFetchRequestGroup(n.group, None, -1, [topic])]
    )


def all_offsets(n: Names) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        groups=[OffsetFetchRequest.OffsetFetchRequestGroup(n.group, None, -1, None)]
    )


def one_offset(n: Names) -> OffsetFetchRequest:
    return OffsetFetchRequest(n.group, [OffsetFetchRequest.OffsetFetchRequestTopic(n.topic, [0])])


def join_group(n: Names) -> JoinGroupRequest:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"")
    return JoinGroupRequest(n.group, 6000, 6000, "", None, "consumer", [protocol])


def create_topics(n: Names) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(n.new, 1, 1)], 5000)


def delete_topics(n: Names, by_id: bool = False) -> DeleteTopicsRequest:
    state = DeleteTopicsRequest.DeleteTopicState(
        None if by_id else n.topic, n.topic_id if by_id else NO_UUID
    )
    return DeleteTopicsRequest(topics=[state], timeout_ms=5000)


def delete_records(n: Names) -> DeleteRecordsRequest:
    part = DeleteRecordsRequest.DeleteRecordsPartition(0, 0)
    return DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(n.topic, [part])], 5000)


def leader_epoch(n: Names) -> OffsetForLeaderEpochRequest:
    part = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(0, -1, 0)
    return OffsetForLeaderEpochRequest(
        -1, [OffsetForLeaderEpochRequest.OffsetForLeaderTopic(n.topic, [part])]
    )


def add_partitions(n: Names) -> AddPartitionsToTxnRequest:
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(n.topic, [0])
    return AddPartitionsToTxnRequest(
        [], n.transactional_id, n.producer_id, n.producer_epoch, [topic]
    )


def verify_partitions(n: Names) -> AddPartitionsToTxnRequest:
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(n.topic, [0])
    one = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
        n.transactional_id, n.producer_id, n.producer_epoch, True, [topic]
    )
    return AddPartitionsToTxnRequest([one])


def write_markers(n: Names) -> WriteTxnMarkersRequest:
    topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(n.topic, [0])
    return WriteTxnMarkersRequest(
        [WriteTxnMarkersRequest.WritableTxnMarker(n.producer_id, 0, False, [topic], 0)]
    )


def txn_offset_commit(n: Names) -> TxnOffsetCommitRequest:
    part = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(0, 1, -1, "")
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(n.topic, [part])
    return TxnOffsetCommitRequest(
        n.transactional_id, n.group, n.producer_id, n.producer_epoch, topics=[topic]
    )


def configs(n: Names, kind: int) -> tuple[int, str]:
    names = {2: n.topic, 4: "1", 16: "subscription", 32: n.group}
    return kind, names[kind]


def describe_configs(n: Names, kind: int) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        [DescribeConfigsRequest.DescribeConfigsResource(*configs(n, kind), None)]
    )


def alter_configs(n: Names, kind: int) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        [AlterConfigsRequest.AlterConfigsResource(*configs(n, kind), [])], True
    )


def change_configs(n: Names, kind: int) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        [IncrementalAlterConfigsRequest.AlterConfigsResource(*configs(n, kind), [])], True
    )


def reassign(n: Names) -> AlterPartitionReassignmentsRequest:
    part = AlterPartitionReassignmentsRequest.ReassignablePartition(0, [1])
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic(n.topic, [part])
    return AlterPartitionReassignmentsRequest(5000, topics=[topic])


def move_replicas(n: Names) -> AlterReplicaLogDirsRequest:
    topic = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(n.topic, [0])
    return AlterReplicaLogDirsRequest(
        [AlterReplicaLogDirsRequest.AlterReplicaLogDir(n.log_dir, [topic])]
    )


def offset_delete(n: Names) -> OffsetDeleteRequest:
    part = OffsetDeleteRequest.OffsetDeleteRequestPartition(0)
    return OffsetDeleteRequest(
        n.group, [OffsetDeleteRequest.OffsetDeleteRequestTopic(n.topic, [part])]
    )


def alter_quotas(n: Names) -> AlterClientQuotasRequest:
    entity = AlterClientQuotasRequest.EntityData("user", n.group)
    value = AlterClientQuotasRequest.OpData("producer_byte_rate", 1e9, False)
    return AlterClientQuotasRequest([AlterClientQuotasRequest.EntryData([entity], [value])])


def alter_scram(n: Names) -> AlterUserScramCredentialsRequest:
    one = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(n.group, 1, 4096, b"s", b"p")
    return AlterUserScramCredentialsRequest([], [one])


def create_acls(n: Names) -> CreateAclsRequest:
    return CreateAclsRequest(
        [CreateAclsRequest.AclCreation(TOPIC, n.topic, 3, "User:nobody", "*", READ, 3)]
    )


def delete_acls(n: Names) -> DeleteAclsRequest:
    return DeleteAclsRequest(
        [DeleteAclsRequest.DeleteAclsFilter(TOPIC, n.topic, 3, "User:nobody", None, 1, 1)]
    )


def quorum(n: Names) -> DescribeQuorumRequest:
    part = DescribeQuorumRequest.PartitionData(0)
    return DescribeQuorumRequest([DescribeQuorumRequest.TopicData("__cluster_metadata", [part])])


def join_consumers(n: Names, group: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group, "A" * 22, 0, None, None, 5000, [n.topic], None, None, []
    )


def join_sharers(n: Names, group: str) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(group, "B" * 22, 0, None, [n.topic])


def join_streamers(n: Names, group: str) -> StreamsGroupHeartbeatRequest:
    of = StreamsGroupHeartbeatRequest
    return of(
        group, "S" * 22, 0, -1, rebalance_timeout_ms=5000, process_id="process",
        topology=of.Topology(0, [of.Subtopology("0", [n.topic])]),
        active_tasks=[], standby_tasks=[], warmup_tasks=[], client_tags=[],
    )  # fmt: skip


def share_fetch(n: Names, member: str = "C" * 22) -> ShareFetchRequest:
    part = ShareFetchRequest.FetchPartition(0, [])
    return ShareFetchRequest(
        n.sharers, member, 0, 0, 1, 1 << 20, 10, 10,
        topics=[ShareFetchRequest.FetchTopic(n.topic_id, [part])],
    )  # fmt: skip


def share_state(api: str, n: Names) -> Any:
    """What brokers ask of a share coordinator, of one partition."""
    request = next(each.request for each in API.values() if each.name == api)
    topic = next(value for name, value in vars(request).items() if name.endswith("Data")
                 and name != "PartitionData")  # fmt: skip
    fields = request.PartitionData.__dataclass_fields__
    row = request.PartitionData(*[[] if name == "state_batches" else 0 for name in fields])
    return request(n.sharers, [topic(n.topic_id, [row])])


def share_acknowledge(n: Names) -> ShareAcknowledgeRequest:
    """Nothing is acquired."""
    acks = ShareAcknowledgeRequest.AcknowledgementBatch(0, 0, [1])
    part = ShareAcknowledgeRequest.AcknowledgePartition(0, [acks])
    topic = ShareAcknowledgeRequest.AcknowledgeTopic(n.topic_id, [part])
    return ShareAcknowledgeRequest(n.sharers, SHARER, -1, topics=[topic])


def share_offsets(n: Names, is_all: bool = False) -> DescribeShareGroupOffsetsRequest:
    of = DescribeShareGroupOffsetsRequest
    topics = None if is_all else [of.DescribeShareGroupOffsetsRequestTopic(n.topic, [0])]
    return of([of.DescribeShareGroupOffsetsRequestGroup(n.sharers, topics)])


def alter_share_offsets(topic: str, group: str) -> AlterShareGroupOffsetsRequest:
    of = AlterShareGroupOffsetsRequest
    part = of.AlterShareGroupOffsetsRequestPartition(0, 0)
    return of(group, [of.AlterShareGroupOffsetsRequestTopic(topic, [part])])


def delete_share_offsets(n: Names) -> DeleteShareGroupOffsetsRequest:
    of = DeleteShareGroupOffsetsRequest
    return of(n.empty_sharers, [of.DeleteShareGroupOffsetsRequestTopic(n.topic)])


def create_partitions(n: Names) -> CreatePartitionsRequest:
    topic = CreatePartitionsRequest.CreatePartitionsTopic(n.topic, 9, None)
    return CreatePartitionsRequest([topic], 5000, True)


def share_key(n: Names) -> str:
    return f"{n.group}:{'A' * 22}:0"


def create_token(n: Names | None) -> CreateDelegationTokenRequest:
    """None: of who asks."""
    owner = (None, None) if n is None else ("User", n.owner)
    return CreateDelegationTokenRequest(*owner, [], -1)


def describe_tokens(n: Names) -> DescribeDelegationTokenRequest:
    of = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
    return DescribeDelegationTokenRequest([of("User", n.owner)])


ON_OTHERS_TOKENS = (
    Right(DESCRIBE, DELEGATION_TOKEN), Right(DESCRIBE_TOKENS, USER), Right(CREATE_TOKENS, USER)
)  # fmt: skip
PERIOD_MS = 1_000_000

EMPTY = DescribeAclsRequest(1, None, 1, None, None, 1, 1)

TABLE: dict[str, list[Row]] = {
    "Produce": [
        Row(9, produce, on_topic(WRITE)),
        Row(13, lambda n: produce(n, by_id=True), on_topic(WRITE), by_id=True),
        Row(12, lambda n: produce(n, is_transactional=True),
            on_transactional_id(WRITE) | on_topic(WRITE)),
    ],
    "Fetch": [
        Row(12, fetch, on_topic(READ), is_native=True),
        Row(17, lambda n: fetch(n, by_id=True), on_topic(READ), by_id=True, is_native=True),
    ],
    "ListOffsets": [Row(7, list_offsets, on_topic(DESCRIBE))],
    "Metadata": [
        Row(9, lambda n: metadata(n, n.topic), on_topic(DESCRIBE)),
        Row(12, lambda n: metadata(n, None, n.topic_id), on_topic(DESCRIBE), by_id=True),
        Row(9, lambda n: MetadataRequest(None), hidden(DESCRIBE, TOPIC)),
        Row(9, lambda n: metadata(n, n.new), on_topic(DESCRIBE) | on_topic(CREATE), topic="new"),
        Row(9, lambda n: metadata(n, n.new), on_topic(DESCRIBE) | on_cluster(CREATE, NO_TOPIC),
            topic="new"),
    ],
    "OffsetCommit": [
        Row(8, offset_commit, on_group(READ) | on_topic(READ)),
        Row(10, lambda n: offset_commit(n, by_id=True), on_group(READ) | on_topic(READ),
            by_id=True),
    ],
    "OffsetFetch": [
        Row(7, one_offset, on_group(DESCRIBE) | on_topic(DESCRIBE)),
        Row(8, offset_fetch, on_group(DESCRIBE) | on_topic(DESCRIBE)),
        Row(10, lambda n: offset_fetch(n, by_id=True), on_group(DESCRIBE) | on_topic(DESCRIBE),
            by_id=True),
        Row(8, all_offsets, on_group(DESCRIBE) | hidden(DESCRIBE, TOPIC)),
    ],
    "FindCoordinator": [
        Row(3, lambda n: FindCoordinatorRequest(n.group, 0), on_group(DESCRIBE)),
        Row(4, lambda n: FindCoordinatorRequest("", 0, [n.group]), on_group(DESCRIBE)),
        Row(4, lambda n: FindCoordinatorRequest("", 1, [n.transactional_id]),
            on_transactional_id(DESCRIBE)),
        Row(6, lambda n: FindCoordinatorRequest("", 2, [share_key(n)]), on_cluster(CLUSTER_ACTION)),
    ],
    "JoinGroup": [Row(7, join_group, on_group(READ), told(79))],  # MEMBER_ID_REQUIRED
    "Heartbeat": [Row(4, lambda n: HeartbeatRequest(n.group, 1, "m"), on_group(READ), told(25))],
    "LeaveGroup": [
        Row(2, lambda n: LeaveGroupRequest(n.group, "m"), on_group(READ), told(25)),
        Row(4, lambda n: LeaveGroupRequest(
            n.group, members=[LeaveGroupRequest.MemberIdentity("m", None)]
        ), on_group(READ), told(25)),
    ],
    "SyncGroup": [
        Row(4, lambda n: SyncGroupRequest(n.group, 1, "m"), on_group(READ), told(25)),
    ],
    "DescribeGroups": [Row(5, lambda n: DescribeGroupsRequest([n.group]), on_group(DESCRIBE))],
    "ListGroups": [
        Row(4, lambda n: ListGroupsRequest(), hidden(DESCRIBE, GROUP)),
        Row(4, lambda n: ListGroupsRequest(), on_cluster(DESCRIBE, HIDDEN)),
    ],
    "CreateTopics": [
        Row(7, create_topics, on_topic(CREATE), topic="new"),
        Row(7, create_topics, on_cluster(CREATE, NO_TOPIC), topic="new"),
    ],
    "DeleteTopics": [
        Row(6, delete_topics, on_topic(DELETE)),
        Row(6, lambda n: delete_topics(n, by_id=True), on_topic(DELETE), by_id=True),
    ],
    "DeleteRecords": [Row(2, delete_records, on_topic(DELETE))],
    "InitProducerId": [
        Row(4, lambda n: InitProducerIdRequest(n.transactional_id, 5000),
            on_transactional_id(WRITE)),
        Row(4, lambda n: InitProducerIdRequest(None, 5000), on_cluster(IDEMPOTENT_WRITE)),
        Row(4, lambda n: InitProducerIdRequest(None, 5000), {Right(WRITE, TOPIC): NO_CLUSTER}),
    ],
    "OffsetForLeaderEpoch": [
        Row(4, leader_epoch, on_topic(DESCRIBE)),
        Row(4, leader_epoch, on_cluster(CLUSTER_ACTION, NO_TOPIC)),
    ],
    "AddPartitionsToTxn": [
        Row(3, add_partitions, on_transactional_id(WRITE) | on_topic(WRITE)),
        Row(4, verify_partitions, on_cluster(CLUSTER_ACTION), told(48, 120)),
    ],
    "AddOffsetsToTxn": [
        Row(3, lambda n: AddOffsetsToTxnRequest(
            n.transactional_id, n.producer_id, n.producer_epoch, n.group
        ), on_transactional_id(WRITE) | on_group(READ)),
    ],
    "EndTxn": [
        Row(3, lambda n: EndTxnRequest(
            n.transactional_id, n.producer_id, n.producer_epoch, False
        ), on_transactional_id(WRITE), told(48)),
    ],
    "WriteTxnMarkers": [
        Row(1, write_markers, on_cluster(ALTER)),
        Row(1, write_markers, on_cluster(CLUSTER_ACTION)),
    ],
    "InitializeShareGroupState": [
        Row(0, partial(share_state, "InitializeShareGroupState"), on_cluster(CLUSTER_ACTION),
            told(3, 16), by_id=True),
    ],
    "ReadShareGroupState": [
        Row(0, partial(share_state, "ReadShareGroupState"), on_cluster(CLUSTER_ACTION),
            told(3, 16), by_id=True),
    ],
    "WriteShareGroupState": [
        Row(0, partial(share_state, "WriteShareGroupState"), on_cluster(CLUSTER_ACTION),
            told(3, 16), by_id=True),
    ],
    "DeleteShareGroupState": [
        Row(0, partial(share_state, "DeleteShareGroupState"), on_cluster(CLUSTER_ACTION),
            told(3, 16), by_id=True),
    ],
    "ReadShareGroupStateSummary": [
        Row(0, partial(share_state, "ReadShareGroupStateSummary"), on_cluster(CLUSTER_ACTION),
            told(3, 16), by_id=True),
    ],
    "TxnOffsetCommit": [
        Row(5, txn_offset_commit,
            on_transactional_id(WRITE) | on_group(READ) | on_topic(READ)),
    ],
    "DescribeAcls": [Row(3, lambda n: EMPTY, on_cluster(DESCRIBE))],
    "CreateAcls": [Row(3, create_acls, on_cluster(ALTER))],
    "DeleteAcls": [Row(3, delete_acls, on_cluster(ALTER))],
    "DescribeConfigs": [
        Row(4, lambda n: describe_configs(n, 2), on_topic(DESCRIBE_CONFIGS)),
        Row(4, lambda n: describe_configs(n, 4), on_cluster(DESCRIBE_CONFIGS)),
        Row(4, lambda n: describe_configs(n, 16), on_cluster(DESCRIBE_CONFIGS)),
        Row(4, lambda n: describe_configs(n, 32), on_group(DESCRIBE_CONFIGS)),
    ],
    "AlterConfigs": [
        Row(2, lambda n: alter_configs(n, 2), on_topic(ALTER_CONFIGS)),
        Row(2, lambda n: alter_configs(n, 4), on_cluster(ALTER_CONFIGS)),
        Row(2, lambda n: alter_configs(n, 16), on_cluster(ALTER_CONFIGS)),
        Row(2, lambda n: alter_configs(n, 32), on_group(ALTER_CONFIGS)),
    ],
    "IncrementalAlterConfigs": [
        Row(1, lambda n: change_configs(n, 2), on_topic(ALTER_CONFIGS)),
        Row(1, lambda n: change_configs(n, 4), on_cluster(ALTER_CONFIGS)),
        Row(1, lambda n: change_configs(n, 16), on_cluster(ALTER_CONFIGS)),
        Row(1, lambda n: change_configs(n, 32), on_group(ALTER_CONFIGS)),
    ],
    "AlterReplicaLogDirs": [Row(2, move_replicas, on_cluster(ALTER))],
    "DescribeLogDirs": [Row(4, lambda n: DescribeLogDirsRequest(None), on_cluster(DESCRIBE))],
    "CreatePartitions": [Row(3, create_partitions, on_topic(ALTER))],
    "DeleteGroups": [Row(2, lambda n: DeleteGroupsRequest([n.group]), on_group(DELETE))],
    "ElectLeaders": [
        Row(2, lambda n: ElectLeadersRequest(
            0, [ElectLeadersRequest.TopicPartitions(n.topic, [0])], 5000
        ), on_cluster(ALTER), told(84)),  # ELECTION_NOT_NEEDED
    ],
    "AlterPartitionReassignments": [Row(0, reassign, on_cluster(ALTER))],
    "ListPartitionReassignments": [
        Row(0, lambda n: ListPartitionReassignmentsRequest(5000, None), on_cluster(DESCRIBE)),
    ],
    "OffsetDelete": [Row(0, offset_delete, on_group(DELETE) | on_topic(READ))],
    "DescribeClientQuotas": [
        Row(1, lambda n: DescribeClientQuotasRequest([], False), on_cluster(DESCRIBE_CONFIGS)),
    ],
    "AlterClientQuotas": [Row(1, alter_quotas, on_cluster(ALTER_CONFIGS))],
    "DescribeUserScramCredentials": [
        Row(0, lambda n: DescribeUserScramCredentialsRequest([]), on_cluster(DESCRIBE)),
    ],
    "AlterUserScramCredentials": [Row(0, alter_scram, on_cluster(ALTER))],
    "DescribeQuorum": [Row(2, quorum, on_cluster(DESCRIBE))],
    "UpdateFeatures": [Row(1, lambda n: UpdateFeaturesRequest(5000), on_cluster(ALTER))],
    "DescribeProducers": [
        Row(0, lambda n: DescribeProducersRequest(
            [DescribeProducersRequest.TopicRequest(n.topic, [0])]
        ), on_topic(READ)),
    ],
    "UnregisterBroker": [
        Row(0, lambda n: UnregisterBrokerRequest(9), on_cluster(ALTER), told(102)),
    ],
    "DescribeTransactions": [
        Row(0, lambda n: DescribeTransactionsRequest([n.transactional_id]),
            on_transactional_id(DESCRIBE)),
    ],
    "ListTransactions": [
        Row(2, lambda n: ListTransactionsRequest(), hidden(DESCRIBE, TRANSACTIONAL_ID)),
    ],
    "ConsumerGroupHeartbeat": [
        Row(1, lambda n: join_consumers(n, n.new_group), on_group(READ) | on_topic(DESCRIBE),
            group="new_group"),
    ],
    "ConsumerGroupDescribe": [
        Row(1, lambda n: ConsumerGroupDescribeRequest([n.consumers]),
            on_group(DESCRIBE) | on_topic(DESCRIBE), group="consumers"),
    ],
    "ListConfigResources": [
        Row(1, lambda n: ListConfigResourcesRequest([]), on_cluster(DESCRIBE_CONFIGS)),
    ],
    "DescribeTopicPartitions": [
        Row(0, lambda n: DescribeTopicPartitionsRequest(
            [DescribeTopicPartitionsRequest.TopicRequest(n.topic)], 100
        ), on_topic(DESCRIBE)),
        Row(0, lambda n: DescribeTopicPartitionsRequest([], 2000), hidden(DESCRIBE, TOPIC)),
    ],
    "ShareGroupHeartbeat": [
        Row(1, lambda n: join_sharers(n, n.new_group), on_group(READ) | on_topic(DESCRIBE),
            group="new_group"),
    ],
    "ShareGroupDescribe": [
        Row(1, lambda n: ShareGroupDescribeRequest([n.sharers]),
            on_group(DESCRIBE) | on_topic(DESCRIBE), group="sharers"),
    ],
    "ShareFetch": [Row(1, share_fetch, on_group(READ) | on_topic(READ), group="sharers",
                       by_id=True)],
    "ShareAcknowledge": [
        Row(1, share_acknowledge, on_group(READ) | on_topic(READ), told(121), group="sharers",
            by_id=True),
    ],
    "DescribeShareGroupOffsets": [
        Row(1, share_offsets, on_group(DESCRIBE) | on_topic(DESCRIBE), group="sharers"),
        Row(1, lambda n: share_offsets(n, is_all=True),
            on_group(DESCRIBE) | hidden(DESCRIBE, TOPIC), group="sharers"),
    ],
    "AlterShareGroupOffsets": [
        Row(0, lambda n: alter_share_offsets(n.topic, n.new_group),
            on_group(READ) | on_topic(READ), group="new_group"),
    ],
    "DeleteShareGroupOffsets": [
        Row(0, delete_share_offsets, on_group(DELETE) | on_topic(READ),
            group="empty_sharers"),
    ],
    "StreamsGroupHeartbeat": [
        Row(0, lambda n: join_streamers(n, n.new_group), on_group(READ) | on_topic(DESCRIBE),
            group="new_group"),
    ],
    "StreamsGroupDescribe": [
        Row(0, lambda n: StreamsGroupDescribeRequest([n.streamers]),
            on_group(DESCRIBE) | on_topic(DESCRIBE), group="streamers"),
    ],
    "CreateDelegationToken": [
        Row(3, create_token, {Right(CREATE_TOKENS, USER): NO_TOKEN}, wants_login=True),
        Row(3, lambda n: create_token(None), {}, wants_login=True),
    ],
    "RenewDelegationToken": [
        Row(2, lambda n: RenewDelegationTokenRequest(n.token_hmac, PERIOD_MS), {},
            frozenset({OWNER_MISMATCH}), useless=ON_OTHERS_TOKENS, wants_login=True),
        Row(2, lambda n: RenewDelegationTokenRequest(n.renewed_hmac, PERIOD_MS), {},
            wants_login=True),
    ],
    "ExpireDelegationToken": [
        Row(2, lambda n: ExpireDelegationTokenRequest(n.token_hmac, PERIOD_MS), {},
            frozenset({OWNER_MISMATCH}), useless=ON_OTHERS_TOKENS, wants_login=True),
        Row(2, lambda n: ExpireDelegationTokenRequest(n.renewed_hmac, PERIOD_MS), {},
            wants_login=True),
    ],
    "DescribeDelegationToken": [
        Row(3, make, hidden(*right), wants_login=True)
        for make in (describe_tokens, lambda n: DescribeDelegationTokenRequest(None))
        for right in ((DESCRIBE, DELEGATION_TOKEN), (DESCRIBE_TOKENS, USER))
    ],
    "DescribeCluster": [Row(2, lambda n: DescribeClusterRequest(), {})],
}  # fmt: skip
