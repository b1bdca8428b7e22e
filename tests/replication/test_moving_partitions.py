"""Partitions move between real brokers while clients write: what was acknowledged is on all of the
replicas that it has in the end, and on no other broker."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import kafka
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from appliance.client.config import ClientConfig
from appliance.client.connection import Address, Connection
from appliance.protocol import ErrorCode
from appliance.protocol.messages.alter_partition_reassignments import API as ALTER
from appliance.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.acknowledged import Acknowledged, producing, until
from tests.support.three_brokers import DEADLINE_S, Brokers, brokers


@pytest.fixture
def three(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Brokers]:
    root = "/tests/" + re.sub(r"\W", "-", request.node.name)
    with brokers(server, root, tmp_path) as found:
        found.start(1, 2, 3)
        yield found


def check(cluster: Brokers, writer: Acknowledged, replicas: list[int], topic: str = "t") -> None:
    """All that was acknowledged is there, in order, and the replicas are equal; nobody else has
    a folder of it."""
    acked = writer.end()
    cluster.until(topic, lambda each: sorted(each.isrs) == sorted(replicas))
    found = cluster.everything(topic)
    places = {value: number for number, value in enumerate(found)}
    assert [value for value in acked if value not in places] == []
    assert sorted(map(places.__getitem__, acked)) == [places[value] for value in acked]
    first, *others = (cluster.files(node, topic) for node in replicas)
    assert first != b""
    assert all(each == first for each in others)
    for node in {*cluster.running} - {*replicas}:
        folder = cluster.folder(node) / "data" / f"{topic}-0"
        until(lambda folder=folder: not folder.exists(), f"the folder is gone at {node}")


def moved(cluster: Brokers, replicas: list[int], topic: str = "t") -> None:
    cluster.until(topic, lambda each: [*each.replicas] == replicas)
    cluster.until(topic, lambda each: sorted(each.isrs) == sorted(replicas))
    until(lambda: cluster.moving() == {}, "nothing moves")


def test_a_partition_grows_moves_and_shrinks_under_a_producer(three: Brokers) -> None:
    three.create("t", factor=1)
    first = three.until("t", lambda each: each.leader != -1).leader
    second, third = sorted({1, 2, 3} - {first})
    with producing(three.bootstrap, "t") as writer:
        writer.until_more()
        assert three.reassign("t", {0: [first, second]}) == {}
        moved(three, [first, second])
        writer.until_more()
        assert three.reassign("t", {0: [third, second]}) == {}
        moved(three, [third, second])
        assert three.until("t", lambda each: each.leader == third)
        writer.until_more()
        assert three.reassign("t", {0: [second]}) == {}
        moved(three, [second])
        writer.until_more()
        check(three, writer, [second])
    where = kafka.TopicPartition("t", 0)
    with closing(kafka.KafkaAdminClient(bootstrap_servers=three.address(first))) as admin:
        assert admin.alter_partition_reassignments({where: [first]}) == {where: None}
    moved(three, [first])
    assert three.reassign("t", {0: [9], 7: [1]}) == {
        0: ErrorCode.INVALID_REPLICA_ASSIGNMENT, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert three.reassign("t", {0: None}) == {0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
    assert factor_refused(three, second) == ErrorCode.INVALID_REPLICATION_FACTOR


def factor_refused(cluster: Brokers, node: int) -> int:
    """Of a request that forbids another number of replicas, as kafka-reassign-partitions can."""
    alter = AlterPartitionReassignmentsRequest
    topic = alter.ReassignableTopic("t", [alter.ReassignablePartition(0, [1, 2])])
    request = alter(allow_replication_factor_change=False, topics=[topic])
    address = Address.parse(cluster.address(node))
    with Connection(address, ClientConfig(broker_list=str(address))) as client:
        (found,) = client.ask(ALTER, request).responses
    code: int = found.partitions[0].error_code
    return code


@pytest.mark.release("three brokers for each kind of end; the rules are in tests/cluster")
class TestInTheMiddle:
    def test_the_leader_is_killed(self, three: Brokers) -> None:
        three.create("t", factor=2)
        three.until("t", lambda each: len(each.isrs) == 2)
        with producing(three.bootstrap, "t") as writer:
            writer.until_more()
            found = three.partition("t")
            leader = found.leader
            (follower,) = {*found.replicas} - {leader}
            (added,) = {1, 2, 3} - {leader, follower}
            assert three.reassign("t", {0: [added, follower]}) == {}
            three.stop(leader, signal.SIGKILL)
            writer.until_more()
            moved(three, [added, follower])
            three.start(leader)
            writer.until_more()
            check(three, writer, [added, follower])

    def test_the_controller_is_killed(self, three: Brokers) -> None:
        controller = controller_of(three)
        others = sorted({1, 2, 3} - {controller})
        three.create("t", factor=1)
        with producing(three.bootstrap, "t") as writer:
            writer.until_more()
            assert three.reassign("t", {0: [others[0]]}) == {}
            moved(three, [others[0]])
            assert three.reassign("t", {0: [others[1]]}) == {}
            three.stop(controller, signal.SIGKILL)
            moved(three, [others[1]])
            three.start(controller)
            writer.until_more()
            check(three, writer, [others[1]])

    def test_the_added_broker_is_killed_and_returns(self, three: Brokers) -> None:
        three.create("t", factor=2)
        found = three.until("t", lambda each: len(each.isrs) == 2)
        (added,) = {1, 2, 3} - {*found.replicas}
        with producing(three.bootstrap, "t") as writer:
            writer.until_more()
            wanted = [added, found.replicas[1]]
            assert three.reassign("t", {0: wanted}) == {}
            three.stop(added, signal.SIGKILL)
            writer.until_more()
            three.start(added)
            moved(three, wanted)
            writer.until_more()
            check(three, writer, wanted)

    def test_the_topic_is_deleted(self, three: Brokers) -> None:
        three.create("t", factor=1)
        first = three.partition("t").leader
        others = sorted({1, 2, 3} - {first})
        three.produce("t", ["former"] * 100)
        assert three.reassign("t", {0: others}) == {}
        three.delete("t")
        three.create("t", factor=3)
        assert three.moving() == {}
        with producing(three.bootstrap, "t") as writer:
            writer.until_more()
            check(three, writer, [1, 2, 3])
            assert "former" not in three.everything("t")

    def test_it_is_cancelled(self, three: Brokers) -> None:
        three.create("t", factor=2)
        found = three.until("t", lambda each: len(each.isrs) == 2)
        replicas = [*found.replicas]
        (added,) = {1, 2, 3} - {*replicas}
        with producing(three.bootstrap, "t") as writer:
            writer.until_more()
            three.stop(replicas[1], signal.SIGKILL)  # so that it does not end: one is out of sync
            three.until("t", lambda each: [*each.isrs] == [replicas[0]])
            assert three.reassign("t", {0: [added, replicas[1]]}) == {}
            three.until("t", lambda each: {*each.isrs} == {replicas[0], added})
            assert {each.adding_replicas[0] for each in three.moving().values()} == {added}
            assert {*three.partition("t").replicas} == {1, 2, 3}, "as Metadata of Kafka has it"
            assert three.reassign("t", {0: None}) == {}
            moving = three.moving()
            three.start(replicas[1])
            moved(three, [replicas[1], replicas[0]])  # as in Kafka: who stays, in the new order
            assert all(each.adding_replicas == [] for each in moving.values())
            writer.until_more()
            check(three, writer, replicas)

    def test_a_broker_returns_from_which_all_was_moved(self, three: Brokers) -> None:
        """It was away all the while, and has its folder still."""
        three.create("t", factor=2)
        found = three.until("t", lambda each: len(each.isrs) == 2)
        gone, stays = found.replicas
        (added,) = {1, 2, 3} - {gone, stays}
        with producing(three.bootstrap, "t") as writer:
            writer.until_more()
            three.stop(gone, signal.SIGKILL)
            assert three.reassign("t", {0: [added, stays]}) == {}
            moved(three, [added, stays])
            three.start(gone)
            until(lambda: not three.files(gone, "t"), "its folder is gone")
            assert three.reassign("t", {0: [gone, stays]}) == {}
            moved(three, [gone, stays])
            writer.until_more()
            check(three, writer, [gone, stays])


@pytest.mark.release("three brokers; that coordinators follow elections is seen in the gate")
def test_groups_go_on_when_their_partition_moves(three: Brokers) -> None:
    three.create("t", factor=3)
    three.until("t", lambda each: len(each.isrs) == 3)
    three.produce("t", [f"{each}" for each in range(10)])
    member = three.member("g", "t")
    assert len(member.take(5)) == 5
    member.commit()
    number = three.place_of("g")
    for node in (1, 2, 3):
        assert three.reassign("__consumer_offsets", {number: [node]}) == {}
        three.until("__consumer_offsets", lambda each, node=node: [*each.isrs] == [node], number)
        assert three.coordinator("g") == node
        assert len(member.take(1)) == 1
        member.commit()
    member.close()
    again = three.member("g", "t")
    assert [each.value().decode() for each in again.take(2)] == ["8", "9"]
    again.close()


def controller_of(cluster: Brokers) -> int:
    for node in cluster.running:
        with suppress(KafkaException):
            admin = AdminClient({"bootstrap.servers": cluster.address(node)})
            return int(admin.list_topics(timeout=DEADLINE_S).controller_id)
    raise AssertionError("no broker answers")
