"""Spark's own Kafka connector reads and writes, in batches and as a stream, in the open and over
TLS with a login."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql import DataFrame, SparkSession

from appliance.testing import Login, RunningBroker, running_broker
from tests.interop import kafka_jars
from tests.interop.test_transactions import created
from tests.support.spark_classes import start_flags
from tests.support.spark_data import a_new_jvm
from tests.support.warm_broker import WarmBroker as Broker

PARTITIONS = 3
DEADLINE_S = 60


# Spark's connector is the Java client in a JVM of thirty processor seconds.
pytestmark = pytest.mark.release("tests/interop/test_java_client.py has the client beneath it")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("spark") / "data") as made:
        yield made


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    jars = ",".join(str(each) for each in kafka_jars.of_spark().glob("*.jar"))
    builder = SparkSession.builder.master("local[1]").appName("interop")
    for name, value in {
        "spark.jars": jars,
        "spark.driver.extraJavaOptions": " ".join(start_flags()),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
    }.items():
        builder = builder.config(name, value)
    with a_new_jvm():  # a JVM has its jars from its start on
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


class Kafka:
    """The connector's options for one broker. `security` has the names of the Java client."""

    def __init__(self, spark: SparkSession, address: str, security: dict[str, str]) -> None:
        self.spark = spark
        self.address = address
        given = {"bootstrap.servers": address, **security}
        self.options = {f"kafka.{name}": text for name, text in given.items()}

    def read(self, topic: str, **options: Any) -> DataFrame:
        reader = self.spark.read.format("kafka").options(**self.options, subscribe=topic)
        return reader.options(**options).load()

    def write(self, rows: DataFrame, topic: str) -> None:
        rows.write.format("kafka").options(**self.options, topic=topic).save()

    def copy(self, source: str, target: str, checkpoint: Path) -> int:
        """Copies all records that were not copied before. Returns the number of batches."""
        reader = self.spark.readStream.format("kafka").options(**self.options, subscribe=source)
        rows = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=250).load()
        writer = rows.select("key", "value").writeStream.format("kafka").options(**self.options)
        started = writer.options(topic=target, checkpointLocation=str(checkpoint))
        query = started.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(DEADLINE_S), query.status
            return sum(each["numInputRows"] > 0 for each in query.recentProgress)
        finally:
            query.stop()


@pytest.fixture
def kafka(spark: SparkSession, broker: Broker) -> Kafka:
    return Kafka(spark, broker.kafka, {})


def numbers(spark: SparkSession, first: int, end: int) -> DataFrame:
    words = "cast(id as string) key", "concat('value ', id) value"
    return spark.range(first, end).selectExpr(*words)


def pairs(rows: DataFrame) -> Counter[tuple[str, str]]:
    found = rows.selectExpr("cast(key as string) k", "cast(value as string) v").collect()
    return Counter((each.k, each.v) for each in found)


def expected(first: int, end: int) -> Counter[tuple[str, str]]:
    return Counter((str(each), f"value {each}") for each in range(first, end))


def test_what_spark_writes_it_reads_with_its_place(kafka: Kafka) -> None:
    created(kafka.address, "batch", PARTITIONS)
    kafka.write(numbers(kafka.spark, 0, 1000), "batch")
    rows = kafka.read("batch").cache()
    assert pairs(rows) == expected(0, 1000)
    by_partition = {each.partition: each for each in rows.groupBy("partition").agg(
        {"offset": "max", "*": "count"}).collect()}
    assert set(by_partition) == set(range(PARTITIONS))
    for each in by_partition.values():
        assert each["max(offset)"] == each["count(1)"] - 1


def test_a_range_of_offsets_is_what_is_read(kafka: Kafka) -> None:
    created(kafka.address, "range", PARTITIONS)
    kafka.write(numbers(kafka.spark, 0, 300), "range")
    first = json.dumps({"range": {str(each): 10 for each in range(PARTITIONS)}})
    end = json.dumps({"range": {str(each): 25 for each in range(PARTITIONS)}})
    rows = kafka.read("range", startingOffsets=first, endingOffsets=end)
    places = Counter((each.partition, each.offset) for each in rows.collect())
    assert places == Counter((n, offset) for n in range(PARTITIONS) for offset in range(10, 25))


def test_headers_and_times_of_another_client_are_read(kafka: Kafka) -> None:
    created(kafka.address, "foreign", 1)
    producer = ck.Producer({"bootstrap.servers": kafka.address, "compression.type": "zstd"})
    for index in range(10):
        time_ms = 1_700_000_000_000 + index * 1000
        producer.produce("foreign", b"%d" % index, timestamp=time_ms, headers=[("n", b"h")])
    assert producer.flush(DEADLINE_S) == 0
    begin = json.dumps({"foreign": {"0": 1_700_000_000_000 + 4500}})
    rows = kafka.read("foreign", startingOffsetsByTimestamp=begin, includeHeaders="true").collect()
    assert [bytes(each.value) for each in rows] == [b"5", b"6", b"7", b"8", b"9"]
    assert {(each.headers[0].key, bytes(each.headers[0].value)) for each in rows} == {("n", b"h")}
    assert rows[0].timestamp.timestamp() == 1_700_000_005


def test_only_what_was_committed_is_read(kafka: Kafka) -> None:
    created(kafka.address, "transactions", 1)
    producer = ck.Producer({"bootstrap.servers": kafka.address, "transactional.id": "to spark"})
    producer.init_transactions(DEADLINE_S)
    for index in range(6):
        producer.begin_transaction()
        for _ in range(10):
            producer.produce("transactions", b"%d" % index)
        end = producer.abort_transaction if index % 2 else producer.commit_transaction
        end(DEADLINE_S)
    rows = kafka.read("transactions", **{"kafka.isolation.level": "read_committed"}).collect()
    assert Counter(bytes(each.value) for each in rows) == {b"0": 10, b"2": 10, b"4": 10}


def test_a_stream_goes_on_where_it_was(kafka: Kafka, tmp_path: Path) -> None:
    for topic in ("in", "out"):
        created(kafka.address, topic, PARTITIONS)
    kafka.write(numbers(kafka.spark, 0, 1000), "in")
    assert kafka.copy("in", "out", tmp_path / "checkpoint") >= 4
    assert pairs(kafka.read("out")) == expected(0, 1000)
    assert kafka.copy("in", "out", tmp_path / "checkpoint") == 0
    kafka.write(numbers(kafka.spark, 1000, 1100), "in")
    kafka.copy("in", "out", tmp_path / "checkpoint")
    assert pairs(kafka.read("out")) == expected(0, 1100)


# Over TLS with a login

ADA = Login("ada", "correct horse battery")
FEED = Login("feed", "battery horse correct", "none")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Where feed may write and read the topics that begin with "own"."""
    folder = tmp_path_factory.mktemp("secured") / "data"
    with running_broker(folder, logins=[ADA, FEED], tls=True) as made:
        admin = AdminClient(made.client_settings("ada"))
        rules = [
            AclBinding(ResourceType.TOPIC, "own", ResourcePatternType.PREFIXED, "User:feed", "*",
                       operation, AclPermissionType.ALLOW)
            for operation in (AclOperation.READ, AclOperation.WRITE)
        ]
        topics = [NewTopic(name, PARTITIONS) for name in ("own-in", "own-out", "other")]
        for each in (*admin.create_acls(rules).values(), *admin.create_topics(topics).values()):
            each.result(DEADLINE_S)
        yield made


def logged_in(spark: SparkSession, broker: RunningBroker, password: str) -> Kafka:
    """As docs/security.md says it."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return Kafka(spark, broker.bootstrap, {
        "security.protocol": "SASL_SSL", "ssl.truststore.type": "PEM",
        "ssl.truststore.location": broker.ca_file, "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{module} required username="feed" password="{password}";',
    })  # fmt: skip


def test_batches_and_a_stream_go_over_tls_with_a_login(
    spark: SparkSession, secured: RunningBroker, tmp_path: Path
) -> None:
    kafka = logged_in(spark, secured, FEED.password)
    kafka.write(numbers(spark, 0, 1000), "own-in")
    assert pairs(kafka.read("own-in")) == expected(0, 1000)
    assert kafka.copy("own-in", "own-out", tmp_path / "checkpoint") >= 4
    assert pairs(kafka.read("own-out")) == expected(0, 1000)


def test_a_wrong_password_and_a_missing_right_are_told(
    spark: SparkSession, secured: RunningBroker
) -> None:
    with pytest.raises(Exception, match="SaslAuthenticationException"):
        logged_in(spark, secured, "not the one of feed").read("own-in").collect()
    with pytest.raises(Exception, match="TopicAuthorizationException"):
        logged_in(spark, secured, FEED.password).write(numbers(spark, 0, 10), "other")
