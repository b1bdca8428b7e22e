"""The admin clients of confluent-kafka, kafka-python and aiokafka against `appliance serve`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.admin
import kafka.errors
import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete

from appliance.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from appliance.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from tests.interop.clients import AioKafka, Client, Confluent, KafkaPython, Record
from tests.support.logs import batch
from tests.support.warm_broker import WarmBroker as Broker
from tests.support.wire_client import WireClient, frame_of, with_length

DEADLINE_S = 30.0
THEN_MS = 1_600_000_000_000
COUNT = 50


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Broker(tmp_path_factory.mktemp("admins")) as broker:
        yield broker.kafka


def filled(client: Client, bootstrap: str) -> str:
    """A topic whose record i is i seconds younger than THEN."""
    topic = f"{client.name}-records"
    client.produce(bootstrap, topic, [Record(None, b"v", (), THEN_MS + 1000 * i)
                                      for i in range(COUNT)])
    return topic


# confluent-kafka


def test_confluent_kafka_topics(bootstrap: str) -> None:
    module = confluent_kafka.admin
    admin = module.AdminClient({"bootstrap.servers": bootstrap})
    new = module.NewTopic("confluent-made", 3, 1)
    admin.create_topics([new])["confluent-made"].result(DEADLINE_S)
    with pytest.raises(confluent_kafka.KafkaException, match="topic confluent-made exists already"):
        admin.create_topics([new])["confluent-made"].result(DEADLINE_S)
    admin.create_partitions([module.NewPartitions("confluent-made", 5)])[
        "confluent-made"].result(DEADLINE_S)
    asked = confluent_kafka.TopicCollection(["confluent-made"])
    described = admin.describe_topics(asked)["confluent-made"].result(DEADLINE_S)
    assert [(each.id, each.leader.id) for each in described.partitions] == [
        (number, 1) for number in range(5)]
    where = confluent_kafka.TopicPartition("confluent-made", 0)
    elected = admin.elect_leaders(confluent_kafka.ElectionType.PREFERRED, [where])
    (error,) = elected.result(DEADLINE_S).values()
    assert (error.code(), error.str()) == (
        confluent_kafka.KafkaError.ELECTION_NOT_NEEDED, "broker 1 leads already")
    nodes = admin.describe_cluster().result(DEADLINE_S).nodes
    assert [f"{each.host}:{each.port}" for each in nodes] == [bootstrap]
    admin.delete_topics(["confluent-made"])["confluent-made"].result(DEADLINE_S)
    assert "confluent-made" not in admin.list_topics(timeout=DEADLINE_S).topics


def test_confluent_kafka_configs(bootstrap: str) -> None:
    module = confluent_kafka.admin
    admin = module.AdminClient({"bootstrap.servers": bootstrap})
    new = module.NewTopic("confluent-configs", 1, 1, config={"retention.ms": "60000"})
    admin.create_topics([new])["confluent-configs"].result(DEADLINE_S)

    def own() -> dict[str, str]:
        resource = module.ConfigResource("topic", "confluent-configs")
        configs = admin.describe_configs([resource])[resource].result(DEADLINE_S).values()
        own_source = module.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {each.name: each.value for each in configs if each.source == own_source}

    def change(value: str) -> None:
        entry = module.ConfigEntry("segment.ms", value,
                                   incremental_operation=module.AlterConfigOpType.SET)
        change = module.ConfigResource("topic", "confluent-configs", incremental_configs=[entry])
        admin.incremental_alter_configs([change])[change].result(DEADLINE_S)

    assert own() == {"retention.ms": "60000"}
    change("5000")
    assert own() == {"retention.ms": "60000", "segment.ms": "5000"}
    with pytest.raises(confluent_kafka.KafkaException, match=r"segment\.ms: got '-5', wanted"):
        change("-5")
    whole = module.ConfigResource("topic", "confluent-configs", set_config={"flush.ms": "7000"})
    with pytest.warns(DeprecationWarning, match="alter_configs has been deprecated"):
        altered = admin.alter_configs([whole])
    altered[whole].result(DEADLINE_S)
    assert own() == {"flush.ms": "7000"}


def test_confluent_kafka_records(bootstrap: str) -> None:
    where = confluent_kafka.TopicPartition(filled(Confluent(), bootstrap), 0, 20)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})
    (deleted,) = admin.delete_records([where]).values()
    assert deleted.result(DEADLINE_S).low_watermark == 20
    spec = confluent_kafka.admin.OffsetSpec
    for asked, wanted in ((spec.earliest(), 20), (spec.latest(), COUNT),
                          (spec.max_timestamp(), COUNT - 1),
                          (spec.for_timestamp(THEN_MS + 30_000), 30)):
        (found,) = admin.list_offsets({where: asked}).values()
        assert found.result(DEADLINE_S).offset == wanted


def test_confluent_kafka_deletes_what_was_just_acknowledged(bootstrap: str) -> None:
    """With acks=1, before the flush. The log start is requested after the response: librdkafka may
    send simultaneous requests in any order over two connections."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "acks": 1})
    where = confluent_kafka.TopicPartition("confluent-acknowledged", 0, 3)
    for _ in range(3):
        producer.produce(where.topic, b"v", partition=0)
    assert producer.flush(DEADLINE_S) == 0
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})
    (deleted,) = admin.delete_records([where]).values()
    assert deleted.result(DEADLINE_S).low_watermark == 3
    (found,) = admin.list_offsets({where: confluent_kafka.admin.OffsetSpec.earliest()}).values()
    assert found.result(DEADLINE_S).offset == 3


def test_what_is_asked_behind_a_deletion_on_one_connection_sees_it(bootstrap: str) -> None:
    """Two planes respond: the control plane deletes, a network thread knows the log start."""
    host, _, port = bootstrap.rpartition(":")
    row = DeleteRecordsRequest.DeleteRecordsTopic
    place = DeleteRecordsRequest.DeleteRecordsPartition
    asked = ListOffsetsRequest.ListOffsetsTopic
    earliest = ListOffsetsRequest.ListOffsetsPartition(0, -1, -2)
    with WireClient((host, int(port))) as client:
        for number in range(20):
            name = f"behind-{number}"
            client.create_topic(name)
            client.produce(batch("a", "b", "c"), topic=name, acks=1)
            deletion = DeleteRecordsRequest([row(name, [place(0, 3)])], 5000)
            start = ListOffsetsRequest(-1, 0, [asked(name, [earliest])], 5000)
            both = [frame_of(deletion, 21, 2), frame_of(start, 2, 6)]
            client.socket.sendall(b"".join(map(with_length, both)))
            deleted = client.answer(DeleteRecordsResponse, 21, 2).topics[0].partitions[0]
            found = client.answer(ListOffsetsResponse, 2, 6).topics[0].partitions[0]
            assert (deleted.low_watermark, found.offset) == (3, 3)


def test_confluent_kafka_acls(bootstrap: str) -> None:
    module = confluent_kafka.admin
    admin = module.AdminClient({"bootstrap.servers": bootstrap})
    kinds, patterns = module.ResourceType, module.ResourcePatternType
    operation, permission = module.AclOperation, module.AclPermissionType

    def bindings(name: str, pattern: Any, principal: str | None = None) -> Any:
        asked = module.AclBindingFilter(kinds.TOPIC, name, pattern, principal, None,
                                        operation.ANY, permission.ANY)
        return set(admin.describe_acls(asked).result(DEADLINE_S))

    exact = module.AclBinding(kinds.TOPIC, "orders", patterns.LITERAL, "User:ann", "*",
                              operation.READ, permission.ALLOW)
    prefix = module.AclBinding(kinds.TOPIC, "ord", patterns.PREFIXED, "User:bob", "10.0.0.1",
                               operation.WRITE, permission.DENY)
    for acls in ([exact, prefix], [exact]):
        for made in admin.create_acls(acls).values():
            made.result(DEADLINE_S)
    assert bindings("orders", patterns.LITERAL) == {exact}
    assert bindings("orders", patterns.MATCH) == {exact, prefix}
    assert bindings("orders", patterns.MATCH, "User:bob") == {prefix}
    wrong = module.AclBinding(kinds.TOPIC, "orders", patterns.LITERAL, "ann", "*",
                              operation.READ, permission.ALLOW)
    with pytest.raises(confluent_kafka.KafkaException, match="wanted TYPE:NAME"):
        admin.create_acls([wrong])[wrong].result(DEADLINE_S)
    asked = module.AclBindingFilter(kinds.ANY, None, patterns.ANY, "User:bob", None,
                                    operation.ANY, permission.ANY)
    assert set(admin.delete_acls([asked])[asked].result(DEADLINE_S)) == {prefix}
    assert bindings("orders", patterns.MATCH) == {exact}


def test_confluent_kafka_scram_credentials(bootstrap: str) -> None:
    module = confluent_kafka.admin
    admin = module.AdminClient({"bootstrap.servers": bootstrap})
    mechanism = module.ScramMechanism

    def alter(change: Any) -> None:
        for each in admin.alter_user_scram_credentials([change]).values():
            each.result(DEADLINE_S)

    def put(user: str, iterations: int, kind: Any = mechanism.SCRAM_SHA_256) -> None:
        info = module.ScramCredentialInfo(kind, iterations)
        alter(module.UserScramCredentialUpsertion(user, info, b"secret"))

    def known() -> dict[str, list[tuple[Any, int]]]:
        users = admin.describe_user_scram_credentials().result(DEADLINE_S)
        return {name: [(each.mechanism, each.iterations)
                       for each in found.scram_credential_infos] for name, found in users.items()}

    put("ann", 8192)
    put("ann", 4096, mechanism.SCRAM_SHA_512)
    assert known() == {
        "ann": [(mechanism.SCRAM_SHA_256, 8192), (mechanism.SCRAM_SHA_512, 4096)]}
    with pytest.raises(confluent_kafka.KafkaException, match="wanted 4096 to 16384"):
        put("ann", 20_000)
    described = admin.describe_user_scram_credentials(["ann", "bob"])
    assert described["ann"].result(DEADLINE_S).user == "ann"
    with pytest.raises(confluent_kafka.KafkaException, match="'bob' has no credential"):
        described["bob"].result(DEADLINE_S)
    alter(module.UserScramCredentialDeletion("ann", mechanism.SCRAM_SHA_256))
    assert known() == {"ann": [(mechanism.SCRAM_SHA_512, 4096)]}
    with pytest.raises(confluent_kafka.KafkaException, match="no credential of mechanism 1"):
        alter(module.UserScramCredentialDeletion("ann", mechanism.SCRAM_SHA_256))


# kafka-python


@pytest.fixture
def python_admin(bootstrap: str) -> Iterator[kafka.KafkaAdminClient]:
    with closing(kafka.KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        yield admin


def test_kafka_python_topics(python_admin: kafka.KafkaAdminClient, bootstrap: str) -> None:
    new = kafka.admin.NewTopic("python-made", num_partitions=3, replication_factor=1)
    python_admin.create_topics([new])
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        python_admin.create_topics([new])
    python_admin.create_partitions({"python-made": kafka.admin.NewPartitions(5)})
    (topic,) = python_admin.describe_topics(["python-made"])
    assert [each["leader_id"] for each in topic["partitions"]] == [1] * 5
    (topic,) = python_admin.describe_topic_partitions(["python-made"])["topics"]
    assert [each["isr_nodes"] for each in topic["partitions"]] == [[1]] * 5
    (broker,) = python_admin.describe_cluster()["brokers"]
    assert f"{broker['host']}:{broker['port']}" == bootstrap
    (quorum,) = python_admin.describe_metadata_quorum()["topics"]
    assert quorum["partitions"][0]["leader_id"] == 1
    assert python_admin.list_partition_reassignments() == {}
    with pytest.raises(kafka.errors.InvalidUpdateVersionError):
        python_admin.update_features({"kraft.version": 1})
    python_admin.delete_topics(["python-made"])
    assert "python-made" not in python_admin.list_topics()


def test_kafka_python_configs(python_admin: kafka.KafkaAdminClient) -> None:
    python_admin.create_topics([kafka.admin.NewTopic(
        "python-configs", num_partitions=1, replication_factor=1,
        topic_configs={"retention.ms": "60000"})])

    def resource(configs: dict[str, Any] | None = None) -> kafka.admin.ConfigResource:
        return kafka.admin.ConfigResource(
            kafka.admin.ConfigResourceType.TOPIC, "python-configs", configs)

    def own() -> dict[str, str]:
        rows = python_admin.describe_configs([resource()])["topic"]["python-configs"]
        return {name: row["value"] for name, row in rows.items()}

    assert own() == {"retention.ms": "60000"}
    python_admin.alter_configs([resource({"segment.ms": "5000"})])
    assert own() == {"retention.ms": "60000", "segment.ms": "5000"}
    python_admin.reset_configs([resource({"segment.ms": None})])
    assert own() == {"retention.ms": "60000"}
    said = python_admin.alter_configs([resource({"retention.ms": "-5"})])
    assert "retention.ms: got '-5', wanted" in said["topic"]["python-configs"]


def test_kafka_python_records(python_admin: kafka.KafkaAdminClient, bootstrap: str) -> None:
    where = kafka.TopicPartition(filled(KafkaPython(), bootstrap), 0)
    assert python_admin.delete_records({where: 20})[where]["low_watermark"] == 20
    spec = kafka.admin.OffsetSpec
    for asked, wanted in ((spec.EARLIEST, 20), (spec.LATEST, COUNT),
                          (spec.MAX_TIMESTAMP, COUNT - 1)):
        assert python_admin.list_partition_offsets({where: asked})[where].offset == wanted
    (told,) = python_admin.describe_log_dirs()
    (folder,) = told["log_dirs"]
    sizes = {each["name"]: each["partitions"][0]["partition_size"] for each in folder["topics"]}
    assert sizes[where.topic] > 61 + COUNT
    assert 0 < folder["usable_bytes"] <= folder["total_bytes"]


def test_kafka_python_acls(python_admin: kafka.KafkaAdminClient) -> None:
    module = kafka.admin
    pattern = module.ResourcePattern(module.ResourceType.TOPIC, "python-")
    prefixed = module.ResourcePattern(module.ResourceType.TOPIC, "python-",
                                      module.ACLResourcePatternType.PREFIXED)
    acls = [module.ACL("User:cid", "*", operation, module.ACLPermissionType.ALLOW, each)
            for each, operation in ((pattern, module.ACLOperation.READ),
                                    (prefixed, module.ACLOperation.WRITE))]
    made = python_admin.create_acls(acls)
    assert (len(made["succeeded"]), made["failed"]) == (2, [])
    asked = module.ACLFilter(
        "User:cid", "*", module.ACLOperation.ANY, module.ACLPermissionType.ANY,
        module.ResourcePatternFilter(module.ResourceType.TOPIC, "python-x",
                                     module.ACLResourcePatternType.MATCH))
    found, error = python_admin.describe_acls(asked)
    assert (error.errno, found) == (0, acls[1:])
    ((_, deleted, error),) = python_admin.delete_acls([asked])
    assert (error.errno, deleted) == (0, acls[1:])
    assert python_admin.describe_acls(asked)[0] == []


def test_kafka_python_users(python_admin: kafka.KafkaAdminClient) -> None:
    module = kafka.admin
    sha_256 = module.ScramMechanism.SCRAM_SHA_256
    told = python_admin.alter_user_scram_credentials([
        module.UserScramCredentialUpsertion("cid", sha_256, "secret", iterations=4096),
        module.UserScramCredentialDeletion("nobody", sha_256)])
    assert told["cid"] is None
    assert "'nobody' has no credential" in told["nobody"]
    (found,) = python_admin.describe_user_scram_credentials(["cid"]).values()
    assert found["credential_infos"] == [{"mechanism": sha_256, "iterations": 4096}]


def test_kafka_python_moves(python_admin: kafka.KafkaAdminClient) -> None:
    python_admin.create_topics([kafka.admin.NewTopic(
        "python-moves", num_partitions=1, replication_factor=1)])
    where = kafka.TopicPartition("python-moves", 0)
    assert python_admin.alter_partition_reassignments({where: [1]}) == {where: None}
    told = python_admin.alter_partition_reassignments({where: [2]})
    assert told == {where: kafka.errors.InvalidReplicationAssignmentError}
    asked = {kafka.TopicPartitionReplica("python-moves", 0, 1): "/elsewhere"}
    (error,) = python_admin.alter_replica_log_dirs(asked).values()
    assert error is kafka.errors.LogDirNotFoundError


# aiokafka


def test_aiokafka_admin(bootstrap: str) -> None:
    asyncio.run(asyncio.wait_for(administer(bootstrap), DEADLINE_S))


async def administer(bootstrap: str) -> None:
    admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await topics(admin)
        await configs(admin)
        (broker,) = (await admin.describe_cluster())["brokers"]
        assert f"{broker['host']}:{broker['port']}" == bootstrap
        where = aiokafka.TopicPartition(
            await asyncio.to_thread(filled, AioKafka(), bootstrap), 0)
        deleted = await admin.delete_records({where: RecordsToDelete(before_offset=20)})
        assert deleted == {where: 20}
    finally:
        await admin.close()


async def topics(admin: aiokafka.admin.AIOKafkaAdminClient) -> None:
    new = aiokafka.admin.NewTopic("aio-made", 3, 1)
    for code in (0, 36):  # TOPIC_ALREADY_EXISTS
        ((_, found, _),) = (await admin.create_topics([new])).topic_errors
        assert found == code
    await admin.create_partitions({"aio-made": aiokafka.admin.NewPartitions(5)})
    (topic,) = await admin.describe_topics(["aio-made"])
    assert [each["leader"] for each in topic["partitions"]] == [1] * 5
    await admin.delete_topics(["aio-made"])
    assert "aio-made" not in await admin.list_topics()


async def configs(admin: aiokafka.admin.AIOKafkaAdminClient) -> None:
    await admin.create_topics([aiokafka.admin.NewTopic("aio-configs", 1, 1)])
    for value, code in (("6000", 0), ("-6", 40)):  # INVALID_CONFIG
        resource = ConfigResource(
            ConfigResourceType.TOPIC, "aio-configs", {"retention.ms": value})
        (altered,) = await admin.alter_configs([resource])
        assert altered.resources[0][0] == code
        (described,) = await admin.describe_configs([resource])
        (row,) = described.resources[0][4]
        assert row[:2] == ("retention.ms", "6000")
