"""A Spark session, and what a foreign client reads of the topics that Spark reads or wrote."""

from __future__ import annotations

import os
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from appliance_spark import register
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_session import RESULTS_BY_FILE, import_as_installed
from appliance_spark.stream_read import may_bound_batches
from tests.interop.kafka_jars import CACHE
from tests.support.spark_classes import JAVA_FLAGS
from tests.support.warm_broker import WarmBroker as Broker

DEADLINE_S = 180.0  # a driver starts, on a machine where much else does
SETTINGS = {
    "spark.driver.extraJavaOptions": " ".join(JAVA_FLAGS),
    "spark.executor.extraJavaOptions": " ".join(JAVA_FLAGS),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.warehouse.dir": str(CACHE / "spark-warehouse"),  # it makes one, if only to be empty
}

# partition, offset, timestamp in ms, key, value, headers
Place = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
Header = tuple[str, str | bytes | None]


# A worker is a `python3` of the path unless it is named: that one need not have our packages
os.environ["PYSPARK_PYTHON"] = sys.executable


def shared_session(master: str = "local[2]", **settings: str) -> SparkSession:
    """The one of this process, once it is there: whoever makes it with settings that others must
    not have stops it."""
    builder = SparkSession.builder.master(master).appName("tests")
    as_exports = (*import_as_installed(), RESULTS_BY_FILE)
    of_exports = dict(pair.split("=", 1) for pair in as_exports)
    for name, value in (SETTINGS | of_exports | settings).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    return session


@contextmanager
def spark_session(master: str = "local[2]", **settings: str) -> Iterator[SparkSession]:
    session = shared_session(master, **settings)
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def a_new_jvm() -> Iterator[None]:
    """A session of other files has left its JVM, which has the environment of that time."""
    end_jvm()
    yield
    end_jvm()


def end_jvm() -> None:
    """Killed: a JVM that is asked to exit waits for its shutdown hooks, which once took longer than
    any deadline."""
    if (session := SparkSession._instantiatedSession) is not None:
        session.stop()
    if (gateway := SparkContext._gateway) is not None:
        gateway.shutdown()
        gateway.proc.kill()
        gateway.proc.wait(DEADLINE_S)
        gateway.proc.stdin.close()
        SparkContext._gateway = SparkContext._jvm = None


def bounded(rows: int) -> dict[str, int]:
    """A stream's option for batches of so many, where this PySpark can have them."""
    return {"maxOffsetsPerTrigger": rows} if may_bound_batches() else {}


def few_commands() -> dict[str, str]:
    """Hadoop starts `chmod` for a file that has a checksum, and `readlink` for a checkpoint's: 25
    processes for a stream of one batch."""
    manager = "org.apache.spark.sql.execution.streaming.checkpointing"
    manager += ".FileSystemBasedCheckpointFileManager"
    settings = {"spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem"}
    if may_bound_batches():  # older ones have the class elsewhere
        settings["spark.sql.streaming.checkpointFileManagerClass"] = manager
    return settings


class Sending:
    """Topics of the appliance of these tests, written and read by a foreign client."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        settings = {"bootstrap.servers": broker.kafka, "linger.ms": 20, "log_level": 0}
        self.producer = ck.Producer(settings)

    def create(self, topic: str, partitions: int = 1, **config: str) -> str:
        admin = AdminClient({"bootstrap.servers": self.broker.kafka})
        named = {name.replace("_", "."): value for name, value in config.items()}
        made = admin.create_topics([NewTopic(topic, partitions, 1, config=named)])
        made[topic].result(DEADLINE_S)
        return topic

    def send(
        self, topic: str, values: list[bytes | None], partition: int = 0, codec: str = "none",
        **record: Any,
    ) -> None:  # fmt: skip
        producer = ck.Producer({
            "bootstrap.servers": self.broker.kafka, "compression.type": codec, "linger.ms": 20,
            "log_level": 0,
            "queue.buffering.max.messages": 1_000_000, "message.max.bytes": 4_000_000,
        })  # fmt: skip
        for value in values:
            producer.produce(topic, value, partition=partition, **record)
        assert producer.flush(DEADLINE_S) == 0

    def send_later(
        self, topic: str, partition: int, time_ms: int, value: bytes, **record: Any
    ) -> None:
        """On its way with the next flush."""
        self.producer.produce(topic, value, partition=partition, timestamp=time_ms, **record)

    def flush(self) -> None:
        assert self.producer.flush(DEADLINE_S) == 0

    def delete_before(self, topic: str, offset: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.kafka})
        for gone in admin.delete_records([ck.TopicPartition(topic, 0, offset)]).values():
            gone.result(DEADLINE_S)

    def delete(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.kafka})
        admin.delete_topics([topic])[topic].result(DEADLINE_S)

    def topic_id(self, topic: str) -> str:
        plan: dict[str, str] = AdminPort(self.broker.admin).plan(
            topic, "latest", "latest", 0, "read_committed")
        return plan["topic_id"]

    def log_of(self, topic: str) -> Counter[Place]:
        return log_of(self.broker.kafka, topic)


class Topics(Sending):
    """The same, and Spark reads them as its users have it."""

    def __init__(self, spark: SparkSession, broker: Broker) -> None:
        super().__init__(broker)
        self.spark = spark
        self.options = {"url": f"http://{broker.admin}"}

    def read(self, topic: str, **options: Any) -> DataFrame:
        return self.reader(subscribe=topic, **options)

    def reader(self, **options: Any) -> DataFrame:
        reader = self.spark.read.format("appliance").options(**self.options)
        return reader.options(**options).load()


def log_of(address: str, topic: str) -> Counter[Place]:
    """Every record that a consumer sees, from the first to the end."""
    consumer = ck.Consumer({
        "bootstrap.servers": address, "group.id": uuid.uuid4().hex, "enable.auto.commit": False,
        "enable.partition.eof": True, "isolation.level": "read_committed",
    })  # fmt: skip
    partitions = consumer.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions
    consumer.assign([ck.TopicPartition(topic, number, 0) for number in partitions])
    found: Counter[Place] = Counter()
    open_ends = set(partitions)
    while open_ends:
        for message in consumer.consume(1000, timeout=0.2):
            error = message.error()
            if error and error.code() == ck.KafkaError._PARTITION_EOF:
                open_ends.discard(message.partition())
                continue
            assert not error, error
            found[place_of(message)] += 1
    consumer.close()
    return found


def place_of(message: Any) -> Place:
    headers = tuple(message.headers() or ())
    return (message.partition(), message.offset(), message.timestamp()[1], message.key(),
            message.value(), headers)  # fmt: skip


def rows_of(frame: DataFrame) -> Counter[Place]:
    """The same of what Spark read."""
    has_headers = "headers" in frame.columns
    found: Counter[Place] = Counter()
    words = ["partition", "offset", "unix_millis(timestamp) ms", "key", "value"]
    for row in frame.selectExpr(*words, *["headers"] * has_headers).collect():
        headers = tuple(
            (each.key, None if each.value is None else bytes(each.value))
            for each in (row.headers or () if has_headers else ())
        )
        octets = [None if each is None else bytes(each) for each in (row.key, row.value)]
        found[(row.partition, row.offset, row.ms, octets[0], octets[1], headers)] += 1
    return found
