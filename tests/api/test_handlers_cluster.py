"""The broker as clients see it: ApiVersions, DescribeCluster, DescribeLogDirs, DescribeQuorum,
ElectLeaders, UpdateFeatures, ListPartitionReassignments, InitProducerId."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from appliance.api.handlers import SERVED
from appliance.api.handlers.api_versions import Feature, list_features
from appliance.protocol import API
from appliance.protocol.codec import decode
from appliance.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from appliance.protocol.messages.describe_cluster import DescribeClusterRequest
from appliance.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from appliance.protocol.messages.describe_quorum import DescribeQuorumRequest
from appliance.protocol.messages.elect_leaders import ElectLeadersRequest
from appliance.protocol.messages.init_producer_id import InitProducerIdRequest
from appliance.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from appliance.protocol.messages.update_features import UpdateFeaturesRequest
from tests.support.control import Control
from tests.support.logs import NOW, batch
from tests.support.wire_frames import frames

# ApiVersions


def api_versions(control: Control, version: int, name: str = "a", software: str = "1") -> Any:
    return control.ask(ApiVersionsRequest(name, software), version)


@pytest.mark.parametrize("version", range(5))
def test_every_version_tells_what_is_served(control: Control, version: int) -> None:
    answer = api_versions(control, version)
    assert answer.error_code == 0
    keys = [each.api_key for each in answer.api_keys]
    assert keys == sorted(SERVED)
    rows = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert rows == SERVED


def test_ranges_are_those_of_kafka() -> None:
    (captured,) = [
        each for each in frames("captured.tsv") if each.key == 18 and each.direction == "response"
    ]
    answer = decode(ApiVersionsResponse, captured.body, 4)
    kafkas = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert {key: kafkas[key] for key in SERVED} == SERVED


def test_only_versions_with_messages_are_served() -> None:
    for key, (first, last) in SERVED.items():
        lowest, highest = API[key].versions
        assert last <= highest
        assert first >= lowest or key == 0  # Produce 0 to 2 are listed for old clients only


SAFE = ["a", "librdkafka", "a.b-C9", "1.2.3-rc1", "9"]
UNSAFE = ["", "-a", "a-", ".a", "a b", "a\n", "ä", "a/b", "a_b"]


@pytest.mark.parametrize("version", [3, 4])
def test_the_name_of_a_clients_software_is_checked(control: Control, version: int) -> None:
    for name in SAFE:
        assert api_versions(control, version, name, name).error_code == 0
    for name in UNSAFE:
        assert api_versions(control, version, name, "1").error_code == 42
        assert api_versions(control, version, "a", name).error_code == 42


FEATURES = [
    Feature("from.zero", 0, 2, 1),
    Feature("from.seven", 7, 30, 30),
    Feature("off", 0, 1, None),
]


@pytest.mark.parametrize(
    ("version", "supported"), [(3, ["from.seven"]), (4, ["from.zero", "from.seven", "off"])]
)
def test_features_that_can_be_off_are_hidden_from_older_clients(
    version: int, supported: list[str]
) -> None:
    answer = ApiVersionsResponse()
    list_features(answer, FEATURES, version)
    assert [each.name for each in answer.supported_features] == supported
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    assert levels == {"from.zero": 1, "from.seven": 30}
    assert answer.finalized_features_epoch == 0


# DescribeCluster


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_this_broker(control: Control, version: int) -> None:
    answer = control.ask(DescribeClusterRequest(), version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert answer.cluster_id == control.broker.cluster_id
    (row,) = answer.brokers
    assert (row.broker_id, row.port, answer.controller_id) == (
        1,
        control.broker.advertised.port,
        1,
    )
    assert answer.cluster_authorized_operations == -(2**31)
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert control.ask(asked, version).cluster_authorized_operations == 8096


@pytest.mark.parametrize(("kind", "code"), [(2, 114), (3, 115), (0, 115)])
@pytest.mark.parametrize("version", [1, 2])
def test_other_endpoints_are_refused(control: Control, kind: int, code: int, version: int) -> None:
    answer = control.ask(DescribeClusterRequest(endpoint_type=kind), version)
    assert (answer.error_code, answer.endpoint_type) == (code, kind)
    assert (answer.brokers, answer.cluster_id) == ([], "")


# DescribeLogDirs


def log_dirs(control: Control, version: int, topics: Any = None) -> Any:
    (row,) = control.ask(DescribeLogDirsRequest(topics), version).results
    return row


@pytest.mark.parametrize("version", range(1, 6))
def test_the_directory_and_its_partitions_have_sizes(control: Control, version: int) -> None:
    logs = control.create("t", 2).logs
    control.create("u")
    logs[1].append_durable(batch("v" * 100))
    row = log_dirs(control, version)
    assert (row.error_code, row.log_dir) == (0, str(control.broker.log_dir.path))
    sizes = {
        (topic.name, each.partition_index): each.partition_size
        for topic in row.topics
        for each in topic.partitions
    }
    assert sizes == {("t", 0): 0, ("t", 1): logs[1].size, ("u", 0): 0}
    assert logs[1].size > 100
    if version >= 4:
        assert row.total_bytes == shutil.disk_usage(control.broker.log_dir.path).total
        assert 0 < row.usable_bytes < row.total_bytes


def test_only_partitions_that_are_asked_for_and_exist_are_told(control: Control) -> None:
    control.create("t", 2)
    asked = DescribeLogDirsRequest.DescribableLogDirTopic
    row = log_dirs(control, 4, [asked("t", [1, 5, -1]), asked("missing", [0]), asked("t", [1])])
    assert [(each.name, [p.partition_index for p in each.partitions]) for each in row.topics] == [
        ("t", [1])
    ]
    assert log_dirs(control, 4, []).topics == []


# DescribeQuorum


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_is_one_voter(control: Control, version: int) -> None:
    part = DescribeQuorumRequest.PartitionData
    topic = DescribeQuorumRequest.TopicData
    asked = DescribeQuorumRequest(
        topics=[topic("__cluster_metadata", [part(0), part(1)]), topic("t", [part(0)])]
    )
    answer = control.ask(asked, version)
    (metadata, other), (stranger,) = [each.partitions for each in answer.topics]
    assert (metadata.error_code, metadata.leader_id) == (0, 1)
    assert [each.replica_id for each in metadata.current_voters] == [1]
    if version >= 1:
        assert metadata.current_voters[0].last_caught_up_timestamp > NOW
    assert metadata.observers == []
    assert (other.error_code, stranger.error_code) == (3, 3)
    assert len(answer.nodes) == (1 if version >= 2 else 0)


# ElectLeaders


@pytest.mark.parametrize("version", range(3))
def test_no_partition_needs_an_election(control: Control, version: int) -> None:
    control.create("t", 2)
    asked = ElectLeadersRequest(
        topic_partitions=[
            ElectLeadersRequest.TopicPartitions("t", [1, 2]),
            ElectLeadersRequest.TopicPartitions("missing", [0]),
        ]
    )
    answer = control.ask(asked, version)
    codes = [
        (row.topic, each.partition_id, each.error_code)
        for row in answer.replica_election_results
        for each in row.partition_result
    ]
    assert answer.error_code == 0
    assert codes == [("t", 1, 84), ("t", 2, 3), ("missing", 0, 3)]


def test_an_election_of_an_unknown_kind_is_refused(control: Control) -> None:
    assert control.ask(ElectLeadersRequest(election_type=2), 1).error_code == 42


# UpdateFeatures


def update(control: Control, version: int, *names: str) -> Any:
    row = UpdateFeaturesRequest.FeatureUpdateKey
    return control.ask(UpdateFeaturesRequest(feature_updates=[row(n, 1) for n in names]), version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_features_are_refused_together(control: Control, version: int) -> None:
    answer = update(control, version, "metadata.version", "x")
    assert (answer.error_code, answer.results) == (95, [])
    assert "metadata.version: " in answer.error_message
    assert "x: there is no such feature" in answer.error_message
    nothing = update(control, version)
    assert (nothing.error_code, nothing.error_message, nothing.results) == (0, None, [])


# ListPartitionReassignments


def test_nothing_is_being_reassigned(control: Control) -> None:
    control.create("t")
    answer = control.ask(ListPartitionReassignmentsRequest(), 0)
    assert (answer.error_code, answer.error_message, answer.topics) == (0, None, [])


# InitProducerId


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_an_id_of_its_own(control: Control, version: int) -> None:
    answers = [control.ask(InitProducerIdRequest(None, 60_000), version) for _ in range(5)]
    assert {(each.error_code, each.producer_epoch) for each in answers} == {(0, 0)}
    ids = [each.producer_id for each in answers]
    assert len(set(ids)) == 5
    assert min(ids) >= 0


def test_an_idempotent_producer_that_begins_again_gets_a_new_id(control: Control) -> None:
    first = control.ask(InitProducerIdRequest(None, 1), 5)
    again = control.ask(InitProducerIdRequest(None, 1, first.producer_id, 0), 5)
    assert (again.error_code, again.producer_epoch) == (0, 0)
    assert again.producer_id != first.producer_id


@pytest.mark.parametrize(
    "asked",
    [
        InitProducerIdRequest("", 1),
        InitProducerIdRequest(None, 1, 5, -1),
        InitProducerIdRequest(None, 1, -1, 5),
    ],
)
def test_half_a_producer_is_refused(control: Control, asked: InitProducerIdRequest) -> None:
    assert control.ask(asked, 5).error_code == 42


def test_ids_are_not_given_out_again_after_a_restart(tmp_path: Path) -> None:
    ids = []
    for _ in range(3):
        control = Control(tmp_path)
        ids += [control.ask(InitProducerIdRequest(None, 1), 5).producer_id for _ in range(3)]
        control.close()
    assert len(set(ids)) == 9
