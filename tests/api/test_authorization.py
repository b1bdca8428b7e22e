"""Kafka's table of rights, cell by cell: without the right, with a deny beside it, with just it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import astuple, fields, is_dataclass
from typing import Any

import pytest

from appliance.access.acls import (
    EVERY,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from appliance.access.principal import Principal
from appliance.api.handlers import HANDLERS
from appliance.config import AccessConfig
from appliance.config.access import STANDARD_AUTHORIZER
from appliance.protocol import API
from appliance.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from appliance.protocol.messages.describe_cluster import DescribeClusterRequest
from appliance.protocol.messages.describe_configs import DescribeConfigsRequest
from appliance.protocol.messages.init_producer_id import InitProducerIdRequest
from appliance.protocol.messages.metadata import MetadataRequest
from appliance.protocol.messages.offset_commit import OffsetCommitRequest
from appliance.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support import kafka_rights
from tests.support.control import Control
from tests.support.kafka_rights import (
    HIDDEN,
    REFUSALS,
    TABLE,
    Names,
    Right,
    Row,
    hidden_name,
    resource_of,
)
from tests.support.share_client import ShareClient

ANN = Principal("User", "ann")
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
LITERAL = PatternType.LITERAL

ROWS = [
    pytest.param(row, id=f"{name} v{row.version} {place}")
    for name, rows in TABLE.items()
    for place, row in enumerate(rows)
    if not row.is_native and not row.wants_login  # tokens: interop/test_rights_matrix.py has those
]
NUMBERS = itertools.count()


class Rights:
    """A broker with rules, and Ann, who asks it."""

    def __init__(self, control: Control) -> None:
        self.control = control
        control.broker.logins.principal_of = lambda connection: ANN  # type: ignore[method-assign]
        self.set_rules()

    def set_rules(self, *acls: Acl) -> None:
        """These and no others."""
        of = self.control.broker.acls
        self.control.run(of.delete([EVERY]))
        if acls:
            assert self.control.run(of.create(acls)) == [None] * len(acls)

    def as_administrator(self, is_one: bool = True) -> None:
        self.control.broker.authorizer.set_administrators(["ann"] if is_one else [])

    def ask(self, request: Any, version: int) -> Any:
        return self.control.ask(request, version)


@pytest.fixture(scope="module")
def rights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rights]:
    control = Control(
        tmp_path_factory.mktemp("rights"), access=AccessConfig(authorizer=STANDARD_AUTHORIZER)
    )
    yield Rights(control)
    control.close()


@pytest.fixture
def names(rights: Rights) -> Names:
    """Of things that only this test uses."""
    n = next(NUMBERS)
    topic, group, consumers, sharers = f"topic{n}", f"group{n}", f"consumers{n}", f"sharers{n}"
    rights.set_rules()
    rights.as_administrator()
    topic_id = rights.control.create(topic, 2).id
    producer = rights.ask(InitProducerIdRequest(f"transaction{n}", 60_000), 4)
    part = OffsetCommitRequest.OffsetCommitRequestPartition(0, 1, -1, "")
    row = OffsetCommitRequest.OffsetCommitRequestTopic(topic, partitions=[part])
    rights.ask(OffsetCommitRequest(group, -1, "", None, -1, [row]), 8)
    beat = ConsumerGroupHeartbeatRequest(
        consumers, "M" * 22, 0, None, None, 5000, [topic], None, None, []
    )
    assert rights.ask(beat, 1).error_code == 0
    shared = ShareGroupHeartbeatRequest(sharers, "N" * 22, 0, None, [topic])
    assert rights.ask(shared, 1).error_code == 0
    changed = kafka_rights.alter_share_offsets(topic, f"empty{n}")
    assert rights.ask(changed, 0).error_code == 0
    client = ShareClient(rights.control, "D" * 22, sharers)
    assert rights.ask(client.request(0, topic=topic), 1).error_code == 0
    made = Names(
        topic, topic_id, f"new{n}", group, consumers, sharers, f"empty{n}", f"streamers{n}",
        f"other{n}",
        f"transaction{n}", producer.producer_id, producer.producer_epoch,
        str(rights.control.broker.log_dir.path), owner="", token_id="", token_hmac=b"",
        renewed_hmac=b"",
    )  # fmt: skip
    asked = kafka_rights.join_streamers(made, made.streamers)
    assert rights.ask(asked, 0).error_code == 0
    rights.as_administrator(False)
    return made


def rule(right: Right, row: Row, names: Names, permission: PermissionType = ALLOW) -> Acl:
    name = resource_of(right, row, names)
    return Acl(right.resource_type, name, LITERAL, str(ANN), "*", right.operation, permission)


def codes(answer: Any) -> Iterator[int]:
    """Every error in it."""
    if isinstance(answer, list):
        for each in answer:
            yield from codes(each)
    elif is_dataclass(answer):
        for each in fields(answer):
            value = getattr(answer, each.name)
            if each.name.endswith("error_code") and each.name != "topic_config_error_code":
                yield value
            yield from codes(value)


def check_refused(answer: Any, right: Right, row: Row, names: Names) -> None:
    told = row.needs[right]
    if told == HIDDEN:
        assert hidden_name(right, row, names) not in repr(answer)
    else:
        assert told in set(codes(answer)), answer
        assert set(codes(answer)) & REFUSALS == {told}


@pytest.mark.parametrize("row", ROWS)
def test_without_one_of_the_rights_it_is_refused(rights: Rights, names: Names, row: Row) -> None:
    for missing in row.needs:
        others = [each for each in row.needs if each != missing]
        rights.set_rules(*(rule(each, row, names) for each in others))
        answer = rights.ask(row.make(names), row.version)
        check_refused(answer, missing, row, names)
        if row.by_id and missing.resource_type == kafka_rights.TOPIC:
            assert names.topic not in repr(answer), "the id betrays the name"


@pytest.mark.parametrize("row", ROWS)
def test_with_all_rights_and_one_of_them_denied_it_is_refused(
    rights: Rights, names: Names, row: Row
) -> None:
    own = [rule(each, row, names) for each in row.needs]
    for denied in row.needs:
        rights.set_rules(*own, rule(denied, row, names, DENY))
        check_refused(rights.ask(row.make(names), row.version), denied, row, names)


@pytest.mark.parametrize("row", ROWS)
def test_with_exactly_the_rights_it_is_done(rights: Rights, names: Names, row: Row) -> None:
    rights.set_rules(*(rule(each, row, names) for each in row.needs))
    answer = rights.ask(row.make(names), row.version)
    assert set(codes(answer)) <= row.good, answer
    for right, told in row.needs.items():
        if told == HIDDEN:
            assert hidden_name(right, row, names) in repr(answer)


def test_the_table_has_every_api() -> None:
    served = {API[key].name for key in HANDLERS}
    assert served - kafka_rights.FREE == TABLE.keys()


def test_every_head_says_which_rights_it_wants() -> None:
    """`docs/protocol.md` is made of the heads."""
    silent = [each.__name__ for key, each in HANDLERS.items()
              if API[key].name in TABLE and "\nRights: " not in (each.__doc__ or "")]
    assert silent == []


@pytest.mark.parametrize("name", sorted(kafka_rights.FREE & {API[key].name for key in HANDLERS}))
def test_what_needs_no_right_is_never_refused(rights: Rights, name: str) -> None:
    rights.set_rules()
    (key,) = (key for key in HANDLERS if API[key].name == name)
    answer = rights.ask(API[key].request(), HANDLERS[key].VERSIONS[1])
    assert set(codes(answer)) & REFUSALS == set()


# What answers say of rights


def allow(operation: Operation, kind: ResourceType, name: str) -> Acl:
    return Acl(kind, name, LITERAL, str(ANN), "*", operation, ALLOW)


def bits(*operations: Operation) -> int:
    return sum(1 << each for each in operations)


def test_authorized_operations_are_those_that_rules_allow(rights: Rights, names: Names) -> None:
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert rights.ask(asked, 2).cluster_authorized_operations == 0
    cluster = ResourceType.CLUSTER, "kafka-cluster"
    rights.set_rules(allow(Operation.ALTER, *cluster), allow(Operation.CREATE, *cluster))
    assert rights.ask(asked, 2).cluster_authorized_operations == bits(
        Operation.ALTER, Operation.CREATE, Operation.DESCRIBE
    )
    rights.set_rules(allow(Operation.WRITE, ResourceType.TOPIC, names.topic))
    rows = [MetadataRequest.MetadataRequestTopic(name=names.topic)]
    wanted = MetadataRequest(rows, include_topic_authorized_operations=True)
    found = rights.ask(wanted, 9).topics[0].topic_authorized_operations
    assert found == bits(Operation.WRITE, Operation.DESCRIBE)


def test_a_topic_that_may_not_be_seen_looks_like_one_that_is_not_there(
    rights: Rights, names: Names
) -> None:
    def ask(name: str) -> str:
        row = MetadataRequest.MetadataRequestTopic(name=name)
        answer = rights.ask(MetadataRequest([row], allow_auto_topic_creation=False), 12)
        return repr(answer.topics[0]).replace(name, "x")

    rights.set_rules()
    assert ask(names.topic) == ask(names.new)


def test_an_id_that_nobody_has_is_unknown_to_everybody(rights: Rights, names: Names) -> None:
    rights.set_rules()
    row = MetadataRequest.MetadataRequestTopic(topic_id=kafka_rights.UUID(int=7 << 64), name=None)
    assert rights.ask(MetadataRequest([row]), 12).topics[0].error_code == 100


def test_a_new_topic_tells_its_configs_to_who_may_see_them(rights: Rights, names: Names) -> None:
    create = Operation.CREATE, ResourceType.TOPIC, names.new
    rights.set_rules(allow(*create))
    (topic,) = rights.ask(kafka_rights.create_topics(names), 7).topics
    assert (topic.error_code, topic.topic_config_error_code) == (0, 29)
    assert (topic.num_partitions, topic.replication_factor, topic.configs) == (-1, -1, None)


def test_what_is_no_topic_and_no_group_has_the_clusters_rights(
    rights: Rights, names: Names
) -> None:
    rights.set_rules()
    resource = DescribeConfigsRequest.DescribeConfigsResource(4, "", None)
    assert [each.error_code for each in rights.ask(
        DescribeConfigsRequest([resource]), 4).results] == [31]


def test_a_refused_reassignment_is_refused_at_each_partition(rights: Rights, names: Names) -> None:
    rights.set_rules()
    assert list(codes(rights.ask(kafka_rights.reassign(names), 0))) == [31, 31]


# Regular expressions, and rights that change


def test_a_regular_expression_stands_for_topics_that_may_be_seen(
    rights: Rights, names: Names
) -> None:
    n = names.topic
    other = rights.control.create(f"{n}-other", 1)
    rights.set_rules(
        allow(Operation.DESCRIBE, ResourceType.TOPIC, n),
        allow(Operation.READ, ResourceType.GROUP, names.new_group),
    )

    def beat(epoch: int, pattern: str | None = None) -> Any:
        asked = ConsumerGroupHeartbeatRequest(
            names.new_group, "P" * 22, epoch, rebalance_timeout_ms=5000 if pattern else -1,
            subscribed_topic_regex=pattern, topic_partitions=[] if pattern else None,
        )  # fmt: skip
        answer = rights.ask(asked, 1)
        assert answer.error_code == 0, answer
        return answer

    joined = beat(0, f"{n}.*")
    assert [each.topic_id for each in joined.assignment.topic_partitions] == [names.topic_id]
    rights.control.run(rights.control.broker.acls.create(
        [allow(Operation.DESCRIBE, ResourceType.TOPIC, other.name)]))
    given = beat(joined.member_epoch)
    assert {each.topic_id for each in given.assignment.topic_partitions} == {
        names.topic_id, other.id}


def test_a_share_fetch_that_waits_ends_when_its_right_is_withdrawn(
    rights: Rights, names: Names
) -> None:
    reads = [
        allow(Operation.READ, ResourceType.GROUP, names.sharers),
        allow(Operation.READ, ResourceType.TOPIC, names.topic),
    ]
    rights.set_rules(*reads)
    client = ShareClient(rights.control, "W" * 22, names.sharers)
    sent = rights.control.send(client.request(0, topic=names.topic, wait_ms=20_000), 1)
    assert not rights.control.is_answered(sent)
    of_topic = AclFilter(*astuple(reads[1]))
    rights.control.run(rights.control.broker.acls.delete([of_topic]))
    assert 29 in set(codes(rights.control.answer(sent)))


def test_a_transaction_is_looked_at_at_each_step(rights: Rights, names: Names) -> None:
    own = allow(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, names.transactional_id)
    writes = allow(Operation.WRITE, ResourceType.TOPIC, names.topic)
    rights.set_rules(own, writes)
    produce = kafka_rights.produce(names, is_transactional=True)
    assert set(codes(rights.ask(produce, 12))) == {0}
    rights.set_rules(writes)
    assert set(codes(rights.ask(produce, 12))) == {53}
    end = kafka_rights.EndTxnRequest(
        names.transactional_id, names.producer_id, names.producer_epoch, True
    )
    assert rights.ask(end, 3).error_code == 53
    rights.set_rules(own)
    assert rights.ask(end, 3).error_code == 0
