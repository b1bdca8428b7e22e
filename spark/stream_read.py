"""A stream: batch after batch of unread offsets, with its position in Spark's checkpoint.

An offset of the stream is the one of Spark's Kafka connector, the next offset of each partition,
with the topic's id: {"t": {"0": 17, "1": 4, "id": "7gxDFHLZRl-H1PzvcVlmdA"}}. A new topic of the
same name starts at 0 again, and the old topic's offsets do not apply to it: the batch is refused. A
checkpoint of an older version has no ids; the next batch adds them.

Since PySpark 4.2 a source knows the start and the limit of a batch. Earlier, a source can only
return its end, so the options that limit a batch are refused there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from appliance_spark.batch_read import read_split, source_of
from appliance_spark.bounds import ID, LATEST, Bound, starting
from appliance_spark.options import READ_FROM_START, REFUSE, Given, OptionInvalid
from appliance_spark.planning import (
    DataLost,
    Offsets,
    PlannedRange,
    Planner,
    Split,
    TopicMadeAnew,
    settings_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

BOUNDS_OF_BATCH = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger")
TO_LATEST = Bound("endingOffsets", LATEST)

WAYS_ON = ("Begin with a new checkpoint, or set topicMadeAnew=readFromStart, which reads the new "
           "topic from its first record on and gives up what was not read of the old one")

log = logging.getLogger("appliance_spark")


class StreamReader(DataSourceStreamReader):
    """For PySpark 4.0 and 4.1."""

    def __init__(self, given: Given, schema: StructType) -> None:
        self.settings = settings_of(given)
        self.source = source_of(self.settings, schema)
        self.first = starting(given, LATEST)
        self.planner = Planner(self.settings)
        self.takes_new_topic = (
            given.choice("topicMadeAnew", REFUSE, READ_FROM_START) == READ_FROM_START
        )
        self.check(given)

    def check(self, given: Given) -> None:
        for name in BOUNDS_OF_BATCH:
            if given.text(name):
                raise OptionInvalid(f"option {name}: needs PySpark 4.2 or newer")

    def initialOffset(self) -> Offsets:
        made: Offsets = {}
        for each in self.planner.resolve(self.first, TO_LATEST):
            made.setdefault(each.topic, {ID: each.topic_id})[str(each.partition)] = each.start
        return made

    def latestOffset(self) -> Offsets:  # type: ignore[override]
        return self.reach()

    def reach(self) -> Offsets:
        """The end of every partition, with the topic's id."""
        return self.planner.ends()

    def partitions(self, start: Offsets, end: Offsets) -> list[Split]:
        for topic in end:
            self._check_same(topic, start, end)
        start = {topic: offsets_of(start, end, topic) for topic in start}
        self._check_gone(start, end)
        end = self._without_replaced(end)
        ranges = [
            self._range(topic, int(number), start.get(topic, {}).get(number), to, of.get(ID, ""))
            for topic, of in end.items()
            for number, to in offsets_of(end, end, topic).items()
        ]
        self._check_backwards(ranges)
        try:
            return self.planner.splits(ranges)
        except TopicMadeAnew as error:
            raise TopicMadeAnew(f"{error}. {WAYS_ON}") from error

    def _without_replaced(self, end: Offsets) -> Offsets:
        """Spark plans a batch once, and may ask for it again much later. If its topic was replaced
        by then, its records are lost; the next batch starts with the new topic."""
        if not self.takes_new_topic:
            return end
        ids = {topic: self.planner.topic_id(topic) for topic in end}
        return {topic: of for topic, of in end.items() if of.get(ID, ids[topic]) == ids[topic]}

    def _check_same(self, topic: str, start: Offsets, end: Offsets) -> None:
        was, now = start.get(topic, {}).get(ID), end[topic].get(ID)
        if topic in start and now and not was:
            log.warning(
                "topic %s: the checkpoint, of an older version, does not say which topic of that "
                "name it is of; from this batch on it is the one with id %s", topic, now,
            )  # fmt: skip
        if not was or was == now:
            return
        there = self.planner.topic_id(topic)  # Spark asks again for the start of a first batch
        planned, gone = (end, now) if was == there else (start, was)
        what = (f"topic {topic} was deleted and made anew: this stream has read the one with id "
                f"{gone}, and the one of that name has id {there} now")  # fmt: skip
        if not self.takes_new_topic:
            raise TopicMadeAnew(
                f"{what}, where the offsets {offsets_of(planned, planned, topic)} mean nothing. "
                f"{WAYS_ON}"
            )
        log.warning("%s, which is read from its first record on (topicMadeAnew)", what)

    def _range(
        self, topic: str, partition: int, start: int | None, end: int, topic_id: str
    ) -> PlannedRange:
        """A partition added after the last batch is read from its first record."""
        if start is None:
            start = self.planner.log_start(topic, partition)
        return PlannedRange(topic, partition, 0, end, start, end, topic_id)

    def _check_gone(self, start: Offsets, end: Offsets) -> None:
        gone = [(t, n) for t, of in start.items() for n in of if n not in end.get(t, {})]
        if gone and self.settings.fail_on_data_loss:
            raise DataLost(
                f"partitions {gone} are there no more (failOnDataLoss=false goes on without)"
            )

    def _check_backwards(self, ranges: list[PlannedRange]) -> None:
        for each in ranges:
            if each.start > each.end and self.settings.fail_on_data_loss:
                raise DataLost(
                    f"{each.topic}-{each.partition}: was read to offset {each.start}, and now ends "
                    f"at {each.end}: its log was cut, or taken back to an older copy "
                    "(failOnDataLoss=false goes on from there)"
                )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(self.source, partition)

    def commit(self, end: Offsets) -> None:
        """Nothing to do: the position is in Spark's checkpoint."""


class Admission:
    """The end of the next batch, within the present ends."""

    def __init__(self, given: Given) -> None:
        self.rows_max = given.int("maxOffsetsPerTrigger", 1)
        self.rows_min = given.int("minOffsetsPerTrigger", 1)
        self.delay_s = given.seconds("maxTriggerDelay")
        self._last = time.monotonic()

    def admitted(self, start: Offsets, end: Offsets, rows_max: int | None) -> Offsets:
        self._last = time.monotonic()
        return end if rows_max is None else shared_out(start, end, rows_max)

    def is_early(self, start: Offsets, end: Offsets) -> bool:
        """Too few offsets yet, and the wait was short."""
        if self.rows_min is None or time.monotonic() - self._last >= self.delay_s:
            return False
        return sum(sizes_of(start, end).values()) < self.rows_min


def sizes_of(start: Offsets, end: Offsets) -> dict[tuple[str, str], int]:
    return {
        (topic, number): max(0, to - offsets_of(start, end, topic).get(number, 0))
        for topic in end
        for number, to in offsets_of(end, end, topic).items()
    }


def offsets_of(offsets: Offsets, end: Offsets, topic: str) -> dict[str, int]:
    """By partition; empty if they are of another topic than those of `end`."""
    of = offsets.get(topic, {})
    was, now = of.get(ID), end.get(topic, {}).get(ID)
    is_other = was and now and was != now
    return {} if is_other else {number: at for number, at in of.items() if number != ID}


def shared_out(start: Offsets, end: Offsets, rows_max: int) -> Offsets:
    """In proportion to the rest of each partition; at least one offset if there are any."""
    sizes = sizes_of(start, end)
    total = sum(sizes.values())
    if total <= rows_max:
        return end
    made: Offsets = {topic: {n: at for n, at in of.items() if n == ID} for topic, of in end.items()}
    for (topic, number), size in sizes.items():
        first = end[topic][number] - size
        made[topic][number] = first + min(size, -(-size * rows_max // total))
    return made


def may_bound_batches() -> bool:
    """Whether this PySpark limits a batch."""
    try:
        from pyspark.sql.streaming import datasource
    except ImportError:
        return False
    return hasattr(datasource, "SupportsTriggerAvailableNow")


def reader_of(given: Given, schema: StructType) -> StreamReader:
    """The supported options for this PySpark."""
    if not may_bound_batches():
        return StreamReader(given, schema)
    from appliance_spark.stream_admission import AdmittingReader

    return AdmittingReader(given, schema)
