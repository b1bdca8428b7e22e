"""A target with its own offsets: an Apache Kafka cluster.

Batches are sent with the mirror's producer id and sequence. Kafka accepts one batch of a partition
per request, so small batches are joined up to the topic's limit. Position and map are written at
the end of each stretch: in one transaction with the data, or after it with at-least-once delivery.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from appliance.mirror import offset_map
from appliance.mirror.config import MirrorConfig
from appliance.mirror.errors import Refuse, TopicRefused
from appliance.mirror.inbox import Aborted, Fetched, Octets
from appliance.mirror.offset_map import Position, Row, Run, add_run
from appliance.mirror.pipeline import Answer, Lane, Pipeline
from appliance.mirror.progress import MirrorProgress
from appliance.mirror.refusals import MAPPED_OF_ONE, of_other_source
from appliance.mirror.site import Offsets, Positions, Refusals, Site, TopicPartition
from appliance.mirror.transaction import Producer
from appliance.record import _batch, _batch_builder, _mirror_batches

LINGER_MS = 60_000  # longer than any stretch: the broker must not abort a transaction earlier


@dataclass(slots=True)
class Sent:
    """One batch, and the source offsets of its records."""

    data: bytearray
    records: int
    runs: list[tuple[int, int]]  # first offset in the source, length


@dataclass(slots=True)
class Stretch:
    """What one partition sent since the last commit."""

    next_offset: int
    records: int = 0
    bytes: int = 0
    runs: list[Run] = field(default_factory=list)


class MappedTarget:
    def __init__(
        self,
        site: Site,
        sources: dict[str, str],
        batch_bytes_max: Mapping[str, int],
        progress: MirrorProgress,
        config: MirrorConfig,
    ) -> None:
        """`batch_bytes_max` has the limit of each topic, which may change later."""
        self._site, self._sources, self._progress = site, sources, progress
        self._batch_bytes_max = batch_bytes_max
        self._config = config
        self._positions_partition = TopicPartition(config.positions_topic, 0)
        self._offsets_partition = TopicPartition(config.offsets_topic, 0)
        name = f"mirror.{config.name}" if config.is_exactly_once else None
        timeout_ms = max(LINGER_MS, 10 * config.commit_interval_ms)
        self._producer = Producer(site, name, timeout_ms)
        self._pipeline = Pipeline(site, config, progress, name)
        self._stretches: dict[TopicPartition, Stretch] = {}
        self._began = 0.0  # by time.monotonic

    def close(self) -> None:
        self._pipeline.close()

    # start positions

    def positions(
        self, starts: Offsets, ends: Offsets, refuse: Refuse, unserved: Refusals
    ) -> Positions:
        known = offset_map.positions(self._site, self._config.positions_topic)
        for partition in starts:
            if partition not in known:
                continue
            was, own = known[partition].source, self._sources[partition.topic]
            offset = known[partition].offset
            if was != own:
                why = of_other_source(was, own, MAPPED_OF_ONE)
                refuse(TopicRefused(partition.topic, why))
            elif offset > ends[partition]:
                why = (
                    f"partition {partition.partition} was mirrored up to {offset}, and the source "
                    f"ends at {ends[partition]}: it lost records"
                )
                refuse(TopicRefused(partition.topic, why))
        return {
            partition: known[partition].offset if partition in known else None
            for partition in starts
        }

    def pass_over(self, partition: TopicPartition, offset: int | None, start: int, end: int) -> int:
        """Skips offsets that the source does not have: only the position moves."""
        if offset is not None:
            self._began = time.monotonic()
            self._stretches[partition] = Stretch(start)
        return start

    # sending

    def prepare(
        self, partition: TopicPartition, records: Octets, before: int, aborted: Aborted
    ) -> tuple[list[Sent], int, int, int]:
        join_max = min(
            self._config.request_max_bytes, self._batch_bytes_max.get(partition.topic, 0)
        )
        committed, next_offset = _mirror_batches.committed(records, before, aborted, join_max)
        sent = [
            Sent(each.data, each.records, each.runs)
            if each.is_as_produced
            else rebuilt(each.data, before)
            for each in committed
        ]
        sent = [each for each in sent if each.records]
        count = sum(each.records for each in sent)
        return sent, next_offset, count, sum(len(each.data) for each in sent)

    def send(self, fetched: Sequence[Fetched]) -> None:
        if not fetched:
            return
        if not self._stretches:
            self._began = time.monotonic()
        new = self._producer.add({each.partition for each in fetched if each.payload})
        waiting: dict[Lane, dict[TopicPartition, deque[Sent]]] = defaultdict(
            lambda: defaultdict(deque)
        )
        for each in fetched:
            stretch = self._stretches.setdefault(each.partition, Stretch(each.next_offset))
            stretch.next_offset = each.next_offset
            stretch.records += each.records
            stretch.bytes += each.size
            if each.payload:
                waiting[self._pipeline.lane(each.partition)][each.partition].extend(each.payload)
        self._send_first(waiting, new)
        while waiting:
            for lane in list(waiting):
                if waiting[lane]:
                    self._send_some(lane, waiting[lane])
                else:
                    del waiting[lane]

    def _send_first(
        self, waiting: dict[Lane, dict[TopicPartition, deque[Sent]]], new: list[TopicPartition]
    ) -> None:
        """For the first batch of a partition in a transaction Kafka asks its coordinator, one
        question per producer id at a time; a second batch in that time fails its request. So this
        sends the first batches together and waits for the responses."""
        firsts: dict[int, dict[TopicPartition, deque[Sent]]] = defaultdict(dict)
        for partition in new:
            lane = self._pipeline.lane(partition)
            firsts[lane[0]][partition] = deque([waiting[lane][partition].popleft()])
            if not waiting[lane][partition]:
                del waiting[lane][partition]
        for leader, partitions in firsts.items():
            while partitions:
                self._send_some((leader, 0), partitions)
                self._pipeline.settle()

    def _send_some(self, lane: Lane, partitions: dict[TopicPartition, deque[Sent]]) -> None:
        """Sends the next batch of each partition, as many as fit into one request."""
        taken: dict[TopicPartition, Sent] = {}
        size = 0
        for partition in list(partitions):
            each = partitions[partition][0]
            if taken and size + len(each.data) > self._config.request_max_bytes:
                break
            taken[partition] = partitions[partition].popleft()
            size += len(each.data)
            if not partitions[partition]:
                del partitions[partition]
        for partition, each in taken.items():
            self._number(partition, each)
        batches = {partition: [each.data] for partition, each in taken.items()}
        self._pipeline.send(lane, batches, lambda answers: self._wrote(taken, answers))

    def _number(self, partition: TopicPartition, each: Sent) -> None:
        sequence = self._producer.sequence(partition, each.records)
        _mirror_batches.number(
            each.data,
            self._producer.id,
            self._producer.epoch,
            sequence,
            self._producer.transactional_id is not None,
        )

    def _wrote(
        self, sent: dict[TopicPartition, Sent], answers: dict[TopicPartition, Answer]
    ) -> None:
        for partition, each in sent.items():
            target = answers[partition].base_offset
            for source, length in each.runs:
                add_run(self._stretches[partition].runs, source, target, length)
                target += length

    def settle(self, is_idle: bool) -> None:
        """Ends the stretch when it is long enough."""
        if is_idle:
            self._pipeline.settle()
        age_ms = (time.monotonic() - self._began) * 1000
        if self._stretches and age_ms >= self._config.commit_interval_ms:
            self.commit()

    # commit

    def commit(self) -> None:
        """Writes position and map, and commits them with the data."""
        if not self._stretches:
            return
        self._pipeline.settle()
        rows = self._rows(time.time_ns() // 1_000_000)
        self._producer.add(list(rows))
        waiting: dict[Lane, dict[TopicPartition, deque[Sent]]] = defaultdict(dict)
        for partition, own in rows.items():
            sent = Sent(bytearray(_batch_builder.batch(own)), len(own), [])
            waiting[self._pipeline.lane(partition)][partition] = deque([sent])
        self._send_first(waiting, list(rows))
        if self._producer.is_open:
            self._producer.commit()
            self._progress.transactions += 1
        for partition, each in self._stretches.items():
            self._progress.wrote(partition, each.next_offset, each.records, each.bytes)
        self._stretches.clear()

    def _rows(self, now_ms: int) -> dict[TopicPartition, list[Row]]:
        """The records of position and map for this stretch, by their partitions."""
        rows: dict[TopicPartition, list[Row]] = defaultdict(list)
        for partition, each in self._stretches.items():
            position = Position(self._sources[partition.topic], each.next_offset)
            rows[self._positions_partition].append(
                offset_map.position_row(partition, position, now_ms)
            )
            if each.runs:
                rows[self._offsets_partition].append(
                    offset_map.runs_row(partition, each.runs, now_ms)
                )
        return rows


def rebuilt(data: bytearray, from_offset: int) -> Sent:
    """Rebuilds a batch that no broker accepts as it is, with the same codec: records without gaps,
    with timestamps of their own."""
    (info,) = _batch.headers(data)
    records = [each for each in _batch.records(data) if each.offset >= from_offset]
    runs: list[Run] = []
    for i, each in enumerate(records):
        add_run(runs, each.offset, i, 1)
    made = bytearray(_batch_builder.batch(records, codec=info.codec)) if records else bytearray()
    return Sent(made, len(records), [(run.source, run.length) for run in runs])
