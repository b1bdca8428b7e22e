"""One box becomes a cluster, and the last broker of a cluster one box again: records, offsets of
groups, users and rules stay, and a start that was killed in the middle goes on."""

from __future__ import annotations

import shutil

import pytest
from click.testing import CliRunner
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
)

from appliance.catalog.fact_rows import BEFORE
from appliance.cli.main import main
from appliance.cluster.taking_in import NamesTaken
from appliance.config import SettingInvalid
from appliance.errors import ApplianceError
from appliance.process.exit_codes import REFUSED
from appliance.record import _batch
from appliance.topics.topic_rows import TopicRows
from loadtest.ports import lasting_port
from tests.support.embedded_cluster import (
    DEADLINE_S,
    EmbeddedCluster,
    eventually,
)
from tests.support.rest import Rest

LATER = (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR,
         KafkaError.COORDINATOR_NOT_AVAILABLE)  # fmt: skip


def take(consumer: Consumer, count: int) -> list[str]:
    found: list[str] = []

    def is_enough() -> bool:
        found.extend(each.value().decode() for each in consumer.consume(count - len(found), 0.2)
                     if each.error() is None)  # fmt: skip
        return len(found) >= count

    eventually(is_enough)
    return found


def committed(cluster: EmbeddedCluster, node: int) -> int:
    """Who coordinates the group may be reading it still."""
    admin, found = cluster.admin(node), []

    def is_told() -> bool:
        (done,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")]).values()
        try:
            found[:] = done.result(DEADLINE_S).topic_partitions
        except KafkaException as error:
            if error.args[0].code() not in LATER:
                raise
        return bool(found)

    eventually(is_told)
    return int(found[0].offset)


def topic_ids(cluster: EmbeddedCluster, node: int) -> dict[str, str]:
    admin = cluster.admin(node)
    names = [*admin.list_topics(timeout=DEADLINE_S).topics]
    found = admin.describe_topics(TopicCollection(names))
    ids = {name: str(done.result(DEADLINE_S).topic_id) for name, done in found.items()}
    return {name: each.replace("/", "_").replace("+", "-") for name, each in ids.items()}


def transact(cluster: EmbeddedCluster, node: int, topic: str, value: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.running[node].bootstrap,
                         "transactional.id": "writer"})  # fmt: skip
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, value)
    producer.commit_transaction(DEADLINE_S)


def epochs(cluster: EmbeddedCluster, node: int) -> list[int]:
    """Of the batches of t, in their order."""
    files = sorted((cluster.folder / str(node) / "t-0").glob("*.log"))
    return [each.leader_epoch for file in files for each in _batch.headers(file.read_bytes())]


def leave(cluster: EmbeddedCluster, node: int, *more: str) -> tuple[int, str]:
    settings = {**cluster.in_cluster(), "node.id": str(node), "storage.reserve.bytes": "0"}
    pairs = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    path = str(cluster.folder / str(node))
    found = CliRunner().invoke(main, ["leave-cluster", "--data-dir", path, *pairs, *more])
    return found.exit_code, found.output


def test_one_box_becomes_a_cluster_and_one_box_again(cluster: EmbeddedCluster) -> None:
    cluster.start(1, is_one_box=True)
    cluster.create(1, "t")
    cluster.make_user(1, "ann", "ann's password")
    assert cluster.produce(1, "t", ["a", "b"], **{"enable.idempotence": True}) == []
    member = cluster.consumer(1, "g")  # one client for all that the broker becomes
    member.subscribe(["t"])
    assert take(member, 2) == ["a", "b"]
    member.commit(asynchronous=False)
    assert cluster.produce(1, "t", ["c"]) == []
    transact(cluster, 1, "transacted", "x")
    ids = topic_ids(cluster, 1)
    assert {*ids} == {"t", "transacted", "__consumer_offsets", "__transaction_state"}
    cluster.stop(1)

    cluster.start(1)
    cluster.start(2)
    assert topic_ids(cluster, 1) == ids
    assert committed(cluster, 1) == 2
    assert take(member, 1) == ["c"]
    member.commit(asynchronous=False)
    assert cluster.produce(2, "t", ["d"], **{"enable.idempotence": True}) == []
    eventually(lambda: cluster.iterations(2, "ann") == [4096])
    assert cluster.may_log_in(2, "ann", "ann's password")
    cluster.make_user(2, "bob", "bob's password")
    cluster.create(2, "of-two", factor=2)
    cluster.stop(2, 1)

    code, said = leave(cluster, 1)
    assert code == REFUSED
    assert "0 are not in this directory, and 3 have replicas elsewhere" in said
    for grown in ("__consumer_offsets-0", "__transaction_state-0"):  # by themselves
        assert f"{grown} on [1, 2]" in said
    assert "of-two-0" in said
    with pytest.raises(ApplianceError, match="5 topics of a cluster"):
        cluster.start(1, is_one_box=True)
    code, said = leave(cluster, 1, "--keep-what-is-here")
    assert code == 0, said
    assert "5 topics of the cluster are this broker's own now" in said

    cluster.start(1, is_one_box=True)
    assert {name: topic_ids(cluster, 1)[name] for name in ids} == ids
    assert committed(cluster, 1) == 3
    assert take(member, 1) == ["d"]
    member.close()
    assert cluster.produce(1, "t", ["e"], **{"enable.idempotence": True}) == []
    assert cluster.values(1, "t", 5) == ["a", "b", "c", "d", "e"]
    transact(cluster, 1, "transacted", "y")
    assert cluster.values(1, "transacted", 2) == ["x", "y"]
    first, *_, in_cluster, last = epochs(cluster, 1)
    assert first < in_cluster <= last
    assert cluster.may_log_in(1, "ann", "ann's password")
    assert cluster.may_log_in(1, "bob", "bob's password")


def test_a_start_that_is_killed_in_the_middle_goes_on(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.start(1, is_one_box=True)
    cluster.create(1, "t")
    assert cluster.produce(1, "t", ["a"]) == []
    cluster.stop(1)
    with monkeypatch.context() as patched:

        def killed(*_: object) -> None:
            raise RuntimeError("killed")

        patched.setattr(TopicRows, "replicate", killed)
        with pytest.raises(RuntimeError):
            cluster.start(1)
    cluster.start(1)
    assert cluster.produce(1, "t", ["b"]) == []
    assert cluster.values(1, "t", 2) == ["a", "b"]


def test_a_box_has_the_id_of_one_that_is_gone(cluster: EmbeddedCluster) -> None:
    """What it has is no older copy of the other's disk."""
    cluster.start(1)
    cluster.stop(1)
    shutil.rmtree(cluster.folder / "1")
    cluster.start(1, is_one_box=True)
    cluster.create(1, "t")
    assert cluster.produce(1, "t", ["a"]) == []
    cluster.stop(1)
    cluster.start(1)
    assert cluster.produce(1, "t", ["b"]) == []
    assert cluster.values(1, "t", 2) == ["a", "b"]


def test_a_copy_from_before_it_was_a_cluster_is_not_taken_for_the_disk(
    cluster: EmbeddedCluster,
) -> None:
    cluster.start(1, is_one_box=True)
    cluster.create(1, "t")
    assert cluster.produce(1, "t", ["a"]) == []
    cluster.stop(1)
    copy, disk = cluster.folder / "copy", cluster.folder / "1"
    shutil.copytree(disk, copy)
    cluster.start(1)
    assert cluster.produce(1, "t", ["b"]) == []
    cluster.stop(1)
    shutil.rmtree(disk)
    copy.rename(disk)
    one = cluster.start(1)
    admin = cluster.admin(1)

    def is_left_to_a_person() -> bool:
        """Who may begin without b."""
        found = admin.list_topics("t", DEADLINE_S).topics["t"].partitions.get(0)
        return found is not None and (found.leader, found.isrs) == (-1, [])

    eventually(is_left_to_a_person)
    one.stop()
    del cluster.running[1]


def test_a_name_that_the_cluster_has_is_refused_with_both_ids(cluster: EmbeddedCluster) -> None:
    cluster.start(1)
    cluster.create(1, "t")
    cluster.start(2, is_one_box=True)
    cluster.create(2, "own")
    cluster.create(2, "t")
    assert cluster.produce(2, "t", ["a"]) == []
    ours, theirs = topic_ids(cluster, 2)["t"], topic_ids(cluster, 1)["t"]
    cluster.stop(2)
    with pytest.raises(NamesTaken, match=f"t is {ours} here and {theirs} in the cluster"):
        cluster.start(2)
    assert {*topic_ids(cluster, 1)} == {"t"}
    cluster.start(2, is_one_box=True)
    assert cluster.values(2, "t", 1) == ["a"]


@pytest.mark.parametrize("form", ["original", "json"])
def test_what_a_registration_left_is_in_nobodys_way(cluster: EmbeddedCluster, form: str) -> None:
    """A broker that was only to be found in ZooKeeper, and becomes one of a cluster there."""
    found_there = {"zookeeper.connect": cluster.zookeeper, "zookeeper.format": form}
    cluster.start(1, is_one_box=True, **found_there)
    cluster.create(1, "t")
    assert cluster.produce(1, "t", ["a"]) == []
    cluster.stop(1)
    cluster.logs_in = False
    one = cluster.start(1)
    assert cluster.values(1, "t", 1) == ["a"]
    assert "passed over" not in str(Rest(one.admin).raw("GET", "/healthz").body)


def test_without_zookeeper_it_serves_as_one_box(cluster: EmbeddedCluster) -> None:
    cluster.start(1, is_one_box=True)
    cluster.create(1, "t")
    assert cluster.produce(1, "t", ["a"]) == []
    cluster.stop(1)
    place, cluster.zookeeper = cluster.zookeeper, f"127.0.0.1:{lasting_port()}"
    one = cluster.start(1, **{"zookeeper.connection.timeout.ms": "100"})
    assert "It serves as one box" in str(Rest(one.admin).raw("GET", "/healthz").body)
    assert cluster.produce(1, "t", ["b"]) == []
    cluster.stop(1)
    cluster.zookeeper = place
    cluster.start(1)
    assert cluster.values(1, "t", 2) == ["a", "b"]


def test_whose_users_and_rules_are_the_clusters(cluster: EmbeddedCluster) -> None:
    """Those of the first broker that has any; a later one's own are kept aside."""
    for node, name in ((2, "bob"), (3, "carl")):
        cluster.start(node, is_one_box=True)
        cluster.make_user(node, name, f"{name}'s password")
        cluster.stop(node)
    cluster.start(1)
    cluster.logs_in = False
    with pytest.raises(SettingInvalid, match=r"zookeeper\.auth\.file: got none, and 1 users"):
        cluster.start(2)
    cluster.logs_in = True
    cluster.start(2)
    eventually(lambda: cluster.iterations(1, "bob") == [4096])
    assert cluster.may_log_in(1, "bob", "bob's password")
    cluster.start(3)
    assert cluster.iterations(3, "carl") == []
    assert cluster.may_log_in(3, "bob", "bob's password")
    kept = {node: (cluster.folder / str(node) / BEFORE).exists() for node in (1, 2, 3)}
    assert kept == {1: False, 2: False, 3: True}
