"""Writes rows as records: `key`, `value`, `headers`, `topic`, `partition`, as Spark's Kafka sink.

At least once, as there: a retried task writes its rows again. Within one attempt a batch is resent
under its sequence number, so a broken connection alone duplicates nothing.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from appliance.client.batch import Group, batches_of
from appliance.client.broker_partition import BrokerPartition
from appliance.client.cluster import Cluster
from appliance.client.outcome import Outcome, Records, SendFailed
from appliance.client.producer_config import ProducerConfig
from appliance.client.sender import Sender
from appliance.record._producer_batch_builder import encode_headers, key_hash
from appliance_spark.options import Given, OptionInvalid
from appliance_spark.planning import endpoint_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

ACKS = {"all": -1, "-1": -1, "1": 1}
COLUMNS = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
}
PUMP_S = 0.1  # longest pause before the next check


@dataclass(frozen=True)
class Sink:
    """The settings of a query for each task."""

    config: ProducerConfig
    topic: str  # "": from each row


def sink_of(given: Given, schema: StructType) -> Sink:
    check_columns(schema, given.text("topic"))
    config = ProducerConfig(
        broker_list=given.text("kafka.bootstrap.servers") or endpoint_of(given).kafka_address(),
        acks=ACKS[given.choice("kafka.acks", *ACKS)],
        compression=given.choice("kafka.compression.type", "none", "gzip", "snappy", "lz4", "zstd"),
    )
    return Sink(config, given.text("topic"))


def check_columns(schema: StructType, topic: str) -> None:
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, found in types.items():
        if found not in COLUMNS.get(name, ()):
            wanted = " or ".join(COLUMNS.get(name, ("no such column",)))
            raise OptionInvalid(
                f"column {name}: got {found}, wanted {wanted}; the columns are {', '.join(COLUMNS)}"
            )
    if "value" not in types:
        raise OptionInvalid(f"columns {', '.join(types)}: value is missing")
    if not topic and "topic" not in types:
        raise OptionInvalid("neither an option topic nor a column of that name")


class Writing:
    """The rows of one task in flight."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.cluster = Cluster(sink.config)
        self.sender = Sender(self.cluster, sink.config, self._report, self._never_moves)
        self.failed: list[Outcome] = []
        self.count = 0
        self._orders = itertools.count()

    def __enter__(self) -> Writing:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.sender.close()
        self.cluster.close()

    def _report(self, outcome: Outcome) -> None:
        if outcome.is_acknowledged:
            self.count += len(outcome.records)
        else:
            self.failed.append(outcome)

    def _never_moves(self, batch: Any) -> None:
        raise AssertionError("batches move only where the config says so")

    def write(self, rows: pa.RecordBatch) -> None:
        deadline = time.monotonic() + self.sink.config.delivery_timeout_ms / 1000
        for group in self._groups(rows):
            size_max = self.sink.config.max_message_size
            for made in batches_of(group, self.sender.codec, size_max, self._orders, deadline):
                if isinstance(made, Outcome):
                    self.failed.append(made)
                else:
                    self.sender.add(made)
                    self.sender.pump(0)
                while self.sender.size > self.sink.config.buffer_size:
                    self.sender.pump(PUMP_S)
        self._check()

    def finish(self) -> int:
        while not self.sender.is_idle:
            self.sender.pump(PUMP_S)
        self._check()
        return self.count

    def _check(self) -> None:
        if self.failed:
            raise SendFailed(self.failed)

    def _groups(self, rows: pa.RecordBatch) -> Iterator[Group]:
        """By partition, in the order of the rows."""
        now_ms = time.time_ns() // 1_000_000
        columns = {name: rows.column(name) for name in rows.schema.names}
        for topic, indices in self._by_topic(columns, rows.num_rows):
            partitions = self.cluster.partitions(topic, self.sink.config.create_topics)
            taken = {name: column.take(indices) for name, column in columns.items()}
            yield from groups_of(topic, taken, partitions, now_ms)

    def _by_topic(self, columns: dict[str, Any], count: int) -> Iterator[tuple[str, Any]]:
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.sink.topic:
            yield self.sink.topic, pa.array(range(count))
            return
        if columns["topic"].null_count:
            raise OptionInvalid("column topic: got null, wanted a topic in every row")
        for topic in pc.unique(columns["topic"]).to_pylist():
            yield topic, pc.indices_nonzero(pc.equal(columns["topic"], topic))


def groups_of(
    topic: str, columns: dict[str, Any], partitions: Sequence[BrokerPartition], now_ms: int
) -> Iterator[Group]:
    values = octets(columns["value"])
    keys = octets(columns["key"]) if "key" in columns else None
    headers = headers_of(columns.get("headers"))
    chosen = columns["partition"].to_pylist() if "partition" in columns else [None] * len(values)
    for number, of in split(topic, chosen, keys, len(values), len(partitions)).items():
        here = [values[i] for i in of]
        with_keys = None if keys is None else [keys[i] for i in of]
        yield Group(
            topic, partitions[number], Records(topic, here, with_keys, now_ms), here, with_keys,
            now_ms, None if headers is None else [headers[i] for i in of],
        )  # fmt: skip


def octets(column: Any) -> list[bytes | None]:
    """Text becomes UTF-8."""
    import pyarrow as pa

    found: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return found


def headers_of(column: Any) -> list[bytes | None] | None:
    if column is None:
        return None
    return [
        None if not each else
        encode_headers([(pair["key"].encode(), pair["value"]) for pair in each])
        for each in column.to_pylist()
    ]  # fmt: skip


def split(
    topic: str, chosen: Iterable[int | None], keys: list[bytes | None] | None, count: int,
    partitions: int,
) -> dict[int, list[int]]:  # fmt: skip
    """Row numbers by partition: from the row, from its key, or any."""
    anywhere = random.randrange(partitions)
    made: dict[int, list[int]] = {}
    for i, (number, key) in enumerate(zip(chosen, keys or [None] * count, strict=True)):
        if number is None:
            number = anywhere if key is None else key_hash(key) % partitions
        elif not 0 <= number < partitions:
            raise OptionInvalid(
                f"column partition: got {number}, topic {topic} has 0 to {partitions - 1}"
            )
        made.setdefault(number, []).append(i)
    return made
