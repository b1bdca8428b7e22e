"""Objects that clients make the broker keep across restarts: ever more, and ever larger ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from appliance.protocol import API
from appliance.protocol.messages.alter_client_quotas import AlterClientQuotasRequest as Quotas
from appliance.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest as ShareOffsets,
)
from appliance.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest as Scram,
)
from appliance.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from appliance.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest as Heartbeat,
)
from appliance.protocol.messages.create_acls import CreateAclsRequest as CreateAcls
from appliance.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest as Alter,
)
from appliance.protocol.messages.init_producer_id import InitProducerIdRequest
from appliance.protocol.messages.join_group import JoinGroupRequest as Join
from appliance.protocol.messages.metadata import MetadataRequest
from appliance.protocol.messages.offset_commit import OffsetCommitRequest as Commit
from appliance.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest as ShareHeartbeat,
)
from appliance.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest as StreamsHeartbeat,
)
from tests.support.serving import Serving
from tests.support.wire_client import WireClient, frame_of

MIB = 1 << 20
LIMITS = {
    "max.groups.total": 100,
    "max.groups.bytes": 2 * MIB,
    "group.member.max.bytes": 100_000,
    "max.transactional.ids.total": 100,
    "max.transactional.ids.bytes": MIB,
    "max.entities.total": 100,
    "max.entities.bytes": MIB,
    "offset.metadata.max.bytes": 30_000,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": "false",
}
SHARE = 50  # percent per address
TOO_MUCH, INVALID_REQUEST, INVALID_GROUP_ID = 44, 42, 24
METADATA_TOO_LARGE, UNACCEPTABLE = 12, 93
LONG = "x" * 30_000
API_VERSIONS = 18
ATTACKER, OTHER = "127.0.200.1", "127.0.200.2"


class Kind(NamedTuple):
    """How one more object of a kind is created, and the error field of its response."""

    key: int
    version: int
    make: Callable[[str], Any]
    code: Callable[[Any], int]
    too_long: int = INVALID_REQUEST  # the error for a name that is


def commit(group: str, metadata: str = "") -> Any:
    part = Commit.OffsetCommitRequestPartition(0, 5, committed_metadata=metadata)
    return Commit(group, topics=[Commit.OffsetCommitRequestTopic("kept", partitions=[part])],
                  generation_id_or_member_epoch=-1)  # fmt: skip


def joining(group: str, metadata: bytes = b"m" * 100) -> Any:
    protocols = [Join.JoinGroupRequestProtocol("range", metadata)]
    return Join(group, 300_000, 300_000, "", None, "consumer", protocols)


def quota(name: str) -> Any:
    entry = Quotas.EntryData(
        [Quotas.EntityData("client-id", name)], [Quotas.OpData("producer_byte_rate", 1e9)]
    )
    return Quotas([entry])


def acl(name: str) -> Any:
    return CreateAcls([CreateAcls.AclCreation(2, name, 3, "User:a", "*", 3, 3)])


def credential(user: str, salt: bytes = b"salt") -> Any:
    return Scram(upsertions=[Scram.ScramCredentialUpsertion(user, 1, 4096, salt, b"p" * 32)])


def configured(kind: int, key: str, value: str) -> Callable[[str], Any]:
    def make(name: str) -> Any:
        change = Alter.AlterableConfig(key, 0, value)
        return Alter([Alter.AlterConfigsResource(kind, name, [change])])

    return make


def first(name: str) -> Callable[[Any], int]:
    return lambda answer: getattr(answer, name)[0].error_code


def committed(answer: Any) -> int:
    return int(answer.topics[0].partitions[0].error_code)


def of_itself(answer: Any) -> int:
    return int(answer.error_code)


KINDS = {
    "groups by commits": Kind(8, 8, commit, committed, INVALID_GROUP_ID),
    "groups by members": Kind(11, 3, joining, of_itself, INVALID_GROUP_ID),
    "groups of the newer protocol": Kind(
        68, 1, lambda name: Heartbeat(name, "m", rebalance_timeout_ms=1000, topic_partitions=[],
                                      subscribed_topic_names=["kept"]),
        of_itself, INVALID_GROUP_ID),
    "share groups": Kind(
        76, 1, lambda name: ShareHeartbeat(name, "m", subscribed_topic_names=["kept"]),
        of_itself, INVALID_GROUP_ID),
    "share groups by offsets": Kind(
        91, 0, lambda name: ShareOffsets(name, [ShareOffsets.AlterShareGroupOffsetsRequestTopic(
            "kept", [ShareOffsets.AlterShareGroupOffsetsRequestPartition(0, 0)])]),
        of_itself, INVALID_GROUP_ID),
    "groups of Kafka Streams": Kind(
        88, 0, lambda name: StreamsHeartbeat(
            name, "m", rebalance_timeout_ms=1000, active_tasks=[], standby_tasks=[],
            warmup_tasks=[], topology=StreamsHeartbeat.Topology(
                0, [StreamsHeartbeat.Subtopology("0", ["kept"])])),
        of_itself, INVALID_GROUP_ID),
    "transactional ids": Kind(22, 4, lambda name: InitProducerIdRequest(name, 1000), of_itself),
    "quotas": Kind(49, 1, quota, first("entries")),
    "ACLs": Kind(30, 3, acl, first("results")),
    "credentials": Kind(51, 0, credential, first("results")),
    "configs of groups": Kind(
        44, 1, configured(32, "consumer.session.timeout.ms", "50000"), first("responses")),
    "subscriptions to metrics": Kind(
        44, 1, configured(16, "metrics", "org.apache"), first("responses")),
}  # fmt: skip


def ask(client: WireClient, kind: Kind, request: Any) -> int:
    client.send(frame_of(request, kind.key, kind.version))
    return kind.code(client.answer(API[kind.key].response, kind.key, kind.version))


@pytest.fixture
def keeping(tmp_path: Path) -> Iterator[Serving]:
    made = Serving(tmp_path, **LIMITS)
    with WireClient(made.kafka) as client:
        client.create_topic("kept")
    yield made
    assert made.stop() == 0, made.log[-3000:]
    assert "Traceback" not in made.log, made.log[-3000:]


FAMILIES = {  # the shared limits
    "groups": [
        "groups by commits", "groups by members", "groups of the newer protocol", "share groups",
        "share groups by offsets",
    ],
    "transactional ids": ["transactional ids"],
    "entities": [
        "quotas", "ACLs", "credentials", "configs of groups", "subscriptions to metrics"
    ],
}  # fmt: skip


def flood(client: WireClient, family: str, name: str, count: int) -> list[int]:
    """The error codes of this many objects, of all kinds in turn."""
    kinds = [KINDS[each] for each in FAMILIES[family]]
    chosen = [kinds[i % len(kinds)] for i in range(count)]
    return [ask(client, kind, kind.make(f"{name}-{i}")) for i, kind in enumerate(chosen)]


def test_ever_more_things(keeping: Serving, tmp_path: Path) -> None:
    """One address gets its share, another one the rest; existing objects can be changed all the
    time, and count after a restart."""
    for family, kinds in FAMILIES.items():
        made = []
        for source in (ATTACKER, OTHER, "127.0.200.3"):
            with WireClient(keeping.kafka, source=source) as client:
                codes = flood(client, family, f"{family}-{source}", 60)
                assert set(codes) <= {0, TOO_MUCH}
                made.append(codes.count(0))
                if source == ATTACKER:
                    kind = KINDS[kinds[0]]
                    assert ask(client, kind, kind.make(f"{family}-{source}-0")) == 0
        assert made == [SHARE, SHARE, 0], family
    assert keeping.stop() == 0
    again = Serving(tmp_path, data=tmp_path / "data", **LIMITS)
    again.wait_for_log("groups loaded")
    with WireClient(again.kafka, source="127.0.200.4") as client:
        left = {family: flood(client, family, "new", 30).count(0) for family in FAMILIES}
    assert again.stop() == 0
    # members that only started to join are not kept: two of ten in each round of kinds
    assert left == {"groups": 20, "transactional ids": 0, "entities": 0}


@pytest.mark.parametrize("what", KINDS)
def test_names_without_end(broker: Serving, what: str) -> None:
    kind = KINDS[what]
    with WireClient(broker.kafka) as client:
        topic = MetadataRequest.MetadataRequestTopic(name="kept")
        client.send(frame_of(MetadataRequest([topic]), 3, 9))
        client.receive()  # creates the topic
        assert ask(client, kind, kind.make(LONG)) == kind.too_long
        assert ask(client, kind, kind.make(what.ljust(1024, "x"))) == 0


def test_much_of_few_things(keeping: Serving) -> None:
    """Metadata of offsets and of members, up to the limit for all groups."""
    commits, joins = KINDS["groups by commits"], KINDS["groups by members"]
    with WireClient(keeping.kafka, source=ATTACKER) as client:
        codes = [ask(client, commits, commit(f"g{i}", "m" * 29_000)) for i in range(45)]
        assert 30 <= codes.count(0) < 40
        assert set(codes) == {0, TOO_MUCH}
        assert ask(client, commits, commit("g0", "m" * 29_000)) == 0
        assert ask(client, commits, commit("g0", "m" * 31_000)) == METADATA_TOO_LARGE
        assert ask(client, joins, joining("j", b"m" * 60_000)) == TOO_MUCH
    with WireClient(keeping.kafka, source=OTHER) as client:
        assert ask(client, joins, joining("j", b"m" * 101_000)) == INVALID_REQUEST
        codes = [ask(client, joins, joining(f"j{i}", b"m" * 90_000)) for i in range(20)]
        assert 9 <= codes.count(0) < 12
        assert set(codes) == {0, TOO_MUCH}
    with WireClient(keeping.kafka) as client:
        assert ask(client, KINDS["credentials"], credential("a", b"s" * 2000)) == UNACCEPTABLE


def test_what_clients_say_of_themselves_is_cut(broker: Serving) -> None:
    """64,000 characters once stayed in memory for each connection."""
    name = "a" * 32_000
    before = broker.resident_bytes
    with ExitStack() as stack:
        for _ in range(280):
            client = stack.enter_context(WireClient(broker.kafka, source=ATTACKER))
            client.send(frame_of(ApiVersionsRequest(name, name), API_VERSIONS, 3))
            assert client.answer(ApiVersionsResponse, API_VERSIONS, 3).error_code == 0
        assert broker.resident_bytes - before < 10 * MIB


def test_configs_without_end(broker: Serving) -> None:
    places = "1:1" + ",1:1" * 2000
    change = Alter.AlterableConfig("leader.replication.throttled.replicas", 0, places)
    with WireClient(broker.kafka) as client:
        client.create_topic("much-configured")
        resource = Alter.AlterConfigsResource(2, "much-configured", [change])
        client.send(frame_of(Alter([resource]), 44, 1))
        (found,) = client.answer(API[44].response, 44, 1).responses
    assert (found.error_code, "wanted at most 4096 bytes" in found.error_message) == (40, True)
