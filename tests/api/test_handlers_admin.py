"""What tools ask of a cluster, answered by one broker; subscriptions to clients' metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from appliance.catalog import kafka_uuid
from appliance.protocol.messages.alter_configs import AlterConfigsRequest
from appliance.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from appliance.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from appliance.protocol.messages.api_versions import ApiVersionsRequest
from appliance.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from appliance.protocol.messages.describe_configs import DescribeConfigsRequest
from appliance.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from appliance.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from appliance.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from appliance.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from appliance.protocol.messages.list_config_resources import ListConfigResourcesRequest
from appliance.protocol.messages.push_telemetry import PushTelemetryRequest
from appliance.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from appliance.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.support.control import Control

TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16
SET, DELETE, APPEND = 0, 1, 2


@pytest.fixture
def control(control: Control) -> Control:
    control.create("t", 2)
    return control


# AlterPartitionReassignments


def reassign(control: Control, topic: str, partition: int, replicas: list[int] | None,
             version: int = 1) -> tuple[int, str | None]:
    part = AlterPartitionReassignmentsRequest.ReassignablePartition(partition, replicas)
    asked = AlterPartitionReassignmentsRequest.ReassignableTopic(topic, [part])
    request = AlterPartitionReassignmentsRequest(topics=[asked])
    answer = control.ask(request, version)
    assert (answer.error_code, answer.error_message) == (0, None)
    ((row,),) = [each.partitions for each in answer.responses]
    assert row.partition_index == partition
    return row.error_code, row.error_message


@pytest.mark.parametrize("version", [0, 1])
def test_a_partition_may_be_moved_to_where_it_is(control: Control, version: int) -> None:
    assert reassign(control, "t", 1, [1], version) == (0, None)


@pytest.mark.parametrize(("topic", "partition", "replicas", "code", "text"), [
    ("none", 0, [1], 3, "there is no topic none"),
    ("t", 2, [1], 3, "t has no partition 2, only 2 of them"),
    ("t", 0, None, 85, "the partition is not being moved"),
    ("t", 0, [], 39, "got no replicas, wanted [1]"),
    ("t", 0, [1, 2], 39, "got broker 2, which does not exist, wanted [1]"),
    ("t", 0, [-1], 39, "got broker -1, which does not exist, wanted [1]"),
    ("t", 0, [1, 1], 39, "got broker 1 2 times, wanted [1]"),
])
def test_a_partition_cannot_be_moved_elsewhere(
    control: Control, topic: str, partition: int, replicas: list[int] | None, code: int, text: str
) -> None:
    assert reassign(control, topic, partition, replicas) == (code, text)


# AlterReplicaLogDirs


@pytest.mark.parametrize("version", [1, 2])
def test_there_is_one_directory(control: Control, version: int) -> None:
    topics = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic
    own = str(control.broker.config.data_dir)
    dirs = [
        AlterReplicaLogDirsRequest.AlterReplicaLogDir(own, [topics("t", [0, 2]), topics("u", [0])]),
        AlterReplicaLogDirsRequest.AlterReplicaLogDir("/elsewhere", [topics("t", [1])]),
    ]
    answer = control.ask(AlterReplicaLogDirsRequest(dirs), version)
    found = [(each.topic_name, part.partition_index, part.error_code)
             for each in answer.results for part in each.partitions]
    assert found == [("t", 0, 0), ("t", 2, 3), ("u", 0, 3), ("t", 1, 57)]


def test_a_replica_that_follows_may_be_moved_and_one_that_is_not_here_may_not(
    control: Control,
) -> None:
    topic = control.broker.topics["t"]
    topic.log(0).hold()
    topic.log(0).follow(3, 2)
    topic.here = frozenset({0})
    named = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic("t", [0, 1])
    own = str(control.broker.config.data_dir)
    asked = [AlterReplicaLogDirsRequest.AlterReplicaLogDir(own, [named])]
    (answer,) = control.ask(AlterReplicaLogDirsRequest(asked), 2).results
    assert [each.error_code for each in answer.partitions] == [0, 9]


# UnregisterBroker


@pytest.mark.parametrize(("broker_id", "code"), [(1, 42), (2, 102)])
def test_no_broker_can_leave(control: Control, broker_id: int, code: int) -> None:
    answer = control.ask(UnregisterBrokerRequest(broker_id), 0)
    assert (answer.error_code, "1" in answer.error_message) == (code, True)


# Delegation tokens


def test_there_are_no_delegation_tokens_without_logins(control: Control) -> None:
    for version in (1, 2, 3):
        made = control.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), version)
        assert (made.error_code, made.principal_type, made.principal_name) == (
            64, "User", "ANONYMOUS")
        assert (made.expiry_timestamp_ms, made.hmac) == (-1, b"")
        assert control.ask(DescribeDelegationTokenRequest(None), version).error_code == 64
    for version in (1, 2):
        for kind in (RenewDelegationTokenRequest, ExpireDelegationTokenRequest):
            answer = control.ask(kind(b"x", 1), version)
            assert (answer.error_code, answer.expiry_timestamp_ms) == (64, -1)
    other = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="ann")
    answer = control.ask(other, 3)
    assert (answer.principal_name, answer.token_requester_principal_name) == ("ann", "ANONYMOUS")


# Telemetry


def test_no_metrics_are_wanted(control: Control) -> None:
    answer = control.ask(GetTelemetrySubscriptionsRequest(), 0)
    assert answer.client_instance_id.int > kafka_uuid.RESERVED_MAX
    assert (answer.error_code, answer.requested_metrics) == (0, [])
    assert (answer.push_interval_ms, answer.telemetry_max_bytes) == (300_000, 1 << 20)
    again = control.ask(GetTelemetrySubscriptionsRequest(answer.client_instance_id), 0)
    assert again == answer


@pytest.mark.parametrize(("facts", "code"), [
    ({}, 0),
    ({"client_instance_id": UUID(int=0)}, 42),
    ({"client_instance_id": UUID(int=99)}, 42),
    ({"subscription_id": 7}, 117),
    ({"compression_type": 5}, 76),
    ({"metrics": bytes((1 << 20) + 1)}, 118),
])
def test_a_push_is_checked(control: Control, facts: dict[str, Any], code: int) -> None:
    request = PushTelemetryRequest(**{"client_instance_id": UUID(int=1 << 64), **facts})
    assert control.ask(request, 0).error_code == code


def test_telemetry_is_answered_but_not_listed(control: Control) -> None:
    listed = {each.api_key for each in control.ask(ApiVersionsRequest("a", "1"), 4).api_keys}
    assert {71, 72} & listed == set()
    assert {34, 45, 64, 74} <= listed


# Subscriptions to clients' metrics


def alter(control: Control, name: str, *changes: tuple[str, int, str | None],
          validate_only: bool = False) -> tuple[int, str | None]:
    rows = [IncrementalAlterConfigsRequest.AlterableConfig(*each) for each in changes]
    asked = IncrementalAlterConfigsRequest.AlterConfigsResource(CLIENT_METRICS, name, rows)
    (answer,) = control.ask(
        IncrementalAlterConfigsRequest([asked], validate_only), 1).responses
    return answer.error_code, answer.error_message


def configs(control: Control, name: str) -> dict[str, str]:
    asked = DescribeConfigsRequest.DescribeConfigsResource(CLIENT_METRICS, name, None)
    (answer,) = control.ask(DescribeConfigsRequest([asked]), 4).results
    assert answer.error_code == 0
    assert {each.config_source for each in answer.configs} <= {7}
    return {each.name: each.value for each in answer.configs}


def names(control: Control, version: int = 1, *types: int) -> list[tuple[str, int]]:
    answer = control.ask(ListConfigResourcesRequest(list(types)), version)
    assert answer.error_code == 0
    return [(each.resource_name, each.resource_type) for each in answer.config_resources]


def test_a_subscription_is_kept_until_its_last_config_goes(tmp_path: Path) -> None:
    control = Control(tmp_path)
    assert alter(control, "slow", ("interval.ms", SET, "1000"),
                 ("match", SET, "client_id=a.*,client_software_name=x")) == (0, None)
    assert alter(control, "slow", ("metrics", APPEND, "org.apache.")) == (0, None)
    control.close()
    control = Control(tmp_path)
    assert configs(control, "slow") == {
        "interval.ms": "1000", "metrics": "org.apache.",
        "match": "client_id=a.*,client_software_name=x"}
    assert names(control, 0) == names(control, 1, CLIENT_METRICS) == [("slow", CLIENT_METRICS)]
    assert alter(control, "slow", ("interval.ms", DELETE, None), ("metrics", DELETE, None),
                 ("match", DELETE, None)) == (0, None)
    assert names(control, 0) == []
    assert configs(control, "slow") == {}
    control.close()


@pytest.mark.parametrize(("change", "code", "text"), [
    (("interval.ms", SET, "99"), 40, "from 100 to 3600000"),
    (("interval.ms", SET, "soon"), 40, "wanted a whole number"),
    (("no.such", SET, "1"), 42, "there is no such config"),
    (("match", SET, "client_id"), 40, "wanted NAME=PATTERN"),
    (("match", SET, "color=red"), 40, "wanted NAME=PATTERN"),
    (("match", SET, "client_id=("), 40, "wanted NAME=PATTERN"),
])
def test_a_subscription_is_checked(
    control: Control, change: tuple[str, int, str], code: int, text: str
) -> None:
    found, said = alter(control, "s", change)
    assert (found, text in str(said)) == (code, True), said
    assert names(control, 0) == []


def test_a_subscription_may_be_validated_only(control: Control) -> None:
    assert alter(control, "s", ("interval.ms", SET, "100"), validate_only=True) == (0, None)
    assert alter(control, "", ("interval.ms", SET, "100"))[0] == 42
    assert names(control, 0) == []


def test_all_configs_of_a_subscription_are_set_at_once(control: Control) -> None:
    for name in ("metrics", "interval.ms"):
        row = AlterConfigsRequest.AlterableConfig(name, "500")
        asked = AlterConfigsRequest.AlterConfigsResource(CLIENT_METRICS, "s", [row])
        (answer,) = control.ask(AlterConfigsRequest([asked]), 2).responses
        assert answer.error_code == 0
        assert configs(control, "s") == {name: "500"}


# ListConfigResources


def test_what_has_configs_is_listed(control: Control) -> None:
    alter(control, "s", ("interval.ms", SET, "100"))
    assert names(control) == [("t", TOPIC), ("1", BROKER), ("s", CLIENT_METRICS)]
    assert names(control, 1, BROKER, TOPIC) == [("t", TOPIC), ("1", BROKER)]
    assert names(control, 1, 8, 32) == []
    assert control.ask(ListConfigResourcesRequest([TOPIC, 3]), 1).error_code == 35
