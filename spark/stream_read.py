"""A stream: batch after batch of offsets that nobody has read yet, kept in Spark's checkpoint.

An offset of the stream is what Spark's Kafka connector has too: {"topic": {"0": 17, "1": 4}}, the
next offset to read of each partition.

PySpark 4.2 began to tell a source where a batch begins and how much it may take. Before, a source
can only say how far it reaches, so the options that bound a batch are refused there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from appliance_spark.batch_read import read_split, source_of
from appliance_spark.bounds import LATEST, Bound, starting
from appliance_spark.options import Given, OptionInvalid
from appliance_spark.planning import DataLost, Found, Offsets, Planner, Split, settings_of

if TYPE_CHECKING:
    import pyarrow as pa

BOUNDS_OF_BATCH = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger")
TO_LATEST = Bound("endingOffsets", LATEST)


class StreamReader(DataSourceStreamReader):
    """For PySpark 4.0 and 4.1."""

    def __init__(self, given: Given, schema: StructType) -> None:
        self.settings = settings_of(given)
        self.source = source_of(self.settings, schema)
        self.first = starting(given, LATEST)
        self.planner = Planner(self.settings)
        self.check(given)

    def check(self, given: Given) -> None:
        for name in BOUNDS_OF_BATCH:
            if given.text(name):
                raise OptionInvalid(f"option {name}: needs PySpark 4.2 or newer")

    def initialOffset(self) -> Offsets:
        made: Offsets = {}
        for each in self.planner.resolve(self.first, TO_LATEST):
            made.setdefault(each.topic, {})[str(each.partition)] = each.start
        return made

    def latestOffset(self) -> Offsets:  # type: ignore[override]
        return self.reach()

    def reach(self) -> Offsets:
        """The end of every partition."""
        return self.planner.ends()

    def partitions(self, start: Offsets, end: Offsets) -> list[Split]:
        self._check_gone(start, end)
        ranges = [
            self._range(topic, int(number), start.get(topic, {}).get(number), to)
            for topic, of in end.items()
            for number, to in of.items()
        ]
        self._check_backwards(ranges)
        return self.planner.splits(ranges)

    def _range(self, topic: str, partition: int, start: int | None, end: int) -> Found:
        """A partition that came after the last batch is read from its first record on."""
        if start is None:
            start = self.planner.log_start(topic, partition)
        return Found(topic, partition, 0, end, start, end)

    def _check_gone(self, start: Offsets, end: Offsets) -> None:
        gone = [(t, n) for t, of in start.items() for n in of if n not in end.get(t, {})]
        if gone and self.settings.fail_on_data_loss:
            raise DataLost(
                f"partitions {gone} are there no more (failOnDataLoss=false goes on without)"
            )

    def _check_backwards(self, ranges: list[Found]) -> None:
        for each in ranges:
            if each.start > each.end and self.settings.fail_on_data_loss:
                raise DataLost(
                    f"{each.topic}-{each.partition}: was read to offset {each.start}, and now ends "
                    f"at {each.end}: the topic was made anew (failOnDataLoss=false goes on)"
                )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(self.source, partition)

    def commit(self, end: Offsets) -> None:
        """The checkpoint is Spark's; the appliance keeps nothing of a stream."""


class Admission:
    """How far the next batch goes, of what there is."""

    def __init__(self, given: Given) -> None:
        self.rows_max = given.int("maxOffsetsPerTrigger", 1)
        self.rows_min = given.int("minOffsetsPerTrigger", 1)
        self.delay_s = given.seconds("maxTriggerDelay")
        self._last = time.monotonic()

    def admitted(self, start: Offsets, end: Offsets, rows_max: int | None) -> Offsets:
        self._last = time.monotonic()
        return end if rows_max is None else shared_out(start, end, rows_max)

    def is_early(self, start: Offsets, end: Offsets) -> bool:
        """Too little yet, and nobody has waited for long."""
        if self.rows_min is None or time.monotonic() - self._last >= self.delay_s:
            return False
        return sum(sizes_of(start, end).values()) < self.rows_min


def sizes_of(start: Offsets, end: Offsets) -> dict[tuple[str, str], int]:
    return {
        (topic, number): max(0, to - start.get(topic, {}).get(number, 0))
        for topic, of in end.items()
        for number, to in of.items()
    }


def shared_out(start: Offsets, end: Offsets, rows_max: int) -> Offsets:
    """In proportion to what each partition has; one offset at least, where there are any."""
    sizes = sizes_of(start, end)
    total = sum(sizes.values())
    if total <= rows_max:
        return end
    made: Offsets = {}
    for (topic, number), size in sizes.items():
        first = end[topic][number] - size
        made.setdefault(topic, {})[number] = first + min(size, -(-size * rows_max // total))
    return made


def may_bound_batches() -> bool:
    """Whether this PySpark asks how far a batch goes."""
    try:
        from pyspark.sql.streaming import datasource
    except ImportError:
        return False
    return hasattr(datasource, "SupportsTriggerAvailableNow")


def reader_of(given: Given, schema: StructType) -> StreamReader:
    """What this PySpark knows to use."""
    if not may_bound_batches():
        return StreamReader(given, schema)
    from appliance_spark.stream_admission import AdmittingReader

    return AdmittingReader(given, schema)
