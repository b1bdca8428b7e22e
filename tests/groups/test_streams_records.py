"""The records of groups of Kafka Streams, byte for byte: Apache Kafka 4.3.1 has read such ones
(`tests/interop/test_kafka_streams_groups.py`)."""

from __future__ import annotations

import pytest

from appliance.groups.handover import Assignment, MemberState
from appliance.groups.streams import records
from appliance.groups.streams.member import Endpoint, Said
from appliance.groups.streams.records import StoredStreamsGroup, take
from appliance.groups.streams.task import Role, Task
from appliance.groups.streams.topology import Topology
from appliance.topics.internal_topic import VERSION, Record
from tests.support.streams_group import internal, subtopology

KEPT, COPY, LOST = (
    Task(Role.ACTIVE, "1", 0), Task(Role.STANDBY, "0", 1), Task(Role.ACTIVE, "1", 2))  # fmt: skip
SAID = Said("r", "client", "/127.0.0.1", 60_000, 0, "p", Endpoint("here", 65_535),
            (("zone", "a"),))  # fmt: skip
TOPOLOGY = Topology(3, (subtopology(
    "1", "a", changelogs=(internal("c", 0, ("k", "v")),), repartition_sinks=("s",),
    repartition_sources=(internal("r", 2),), copartitioned=(frozenset({"a", "r"}),)),))  # fmt: skip
NOW = Assignment(
    7, 6, MemberState.UNREVOKED, frozenset({KEPT, COPY}), frozenset({LOST}))  # fmt: skip
SINCE = {KEPT: 7, LOST: 5}

WRITTEN = {
    "group": (
        records.group_record("g", 7, -1, 3, {"num.standby.replicas": "1"}),
        "0011000167",
        "000000000007ffffffffffffffff02000400000003011902156e756d2e7374616e6462792e7265706c69636173"
        "023100",
    ),
    "member": (
        records.member_record("g", "m", SAID),
        "001300016700016d",
        "000000027207636c69656e740b2f3132372e302e302e310000ea60000000000270010568657265ffff0002057a"
        "6f6e6502610000",
    ),
    "target epoch": (records.target_epoch_record("g", 7), "0014000167", "00000000000700"),
    "target": (
        records.target_record("g", "m", frozenset({KEPT, COPY, LOST})),
        "001500016700016d",
        "0000020231030000000000000002000202300200000001000100",
    ),
    "present": (
        records.current_record("g", "m", NOW, SINCE),
        "001600016700016d",
        "000000000007000000060202023102000000000100050200000007020230020000000100010202310200000002"
        "0100050200000005010100",
    ),
    "topology": (
        records.topology_record("g", TOPOLOGY),
        "0017000167",
        "0000000000030202310202610102026300000000000002026b0276000002027302027200000002000001000202"
        "000001020000000000",
    ),
}


@pytest.mark.parametrize("what", WRITTEN)
def test_a_record_is_as_kafka_writes_it(what: str) -> None:
    record, key, value = WRITTEN[what]
    assert record.value is not None
    assert (record.key.hex(), record.value.hex()) == (key, value)


def read(*written: Record) -> StoredStreamsGroup:
    found: dict[str, StoredStreamsGroup] = {}
    for key, value in written:
        assert value is not None
        take(found, VERSION.unpack_from(key)[0], key, value)
    return found["g"]


def test_all_of_it_comes_back() -> None:
    group = read(*(record for record, _, _ in WRITTEN.values()))
    assert (group.epoch, group.target_epoch, group.metadata_hash, group.validated_epoch) == (
        7, 7, -1, 3)
    assert (group.configs, group.topology) == ({"num.standby.replicas": "1"}, TOPOLOGY)
    assert (group.members, group.now, group.since) == ({"m": SAID}, {"m": NOW}, {"m": SINCE})
    assert group.targets == {"m": frozenset({KEPT, COPY, LOST})}


def test_a_kafka_without_epochs_of_tasks_gave_them_long_ago() -> None:
    row = records.TaskIdsWithEpochs("1", [0])
    value = records.store(records.CurrentValue(7, 6, 1, active_tasks=[row]), 0)
    key = records.current_record("g", "m", NOW, SINCE).key
    assert read(Record(key, value)).since == {"m": {KEPT: 0}}


def test_what_another_version_lists_of_topics_is_passed_over() -> None:
    found: dict[str, StoredStreamsGroup] = {}
    take(found, records.TOPICS_KEY, b"\0\x12\0\1g", b"whatever it is")
    assert found == {}
