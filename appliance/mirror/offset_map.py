"""Positions and the offset map in the target: the format of their records, and reading them.

    mirror.NAME.positions   key `topic/partition`, value {"source": "CLUSTER/TOPIC-ID", "offset": n}
                            the next offset of the source; compacted, one partition
    mirror.NAME.offsets     the same key, value {"runs": [[source, target, length], ...]}
                            the offsets of a run's records rise together in both clusters

JSON, so that any consumer can read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from appliance.client.errors import BrokerRefused
from appliance.mirror.errors import OffsetNotMapped
from appliance.mirror.site import COMMITTED, EARLIEST, LATEST, Site, TopicPartition
from appliance.protocol.messages.fetch import API as FETCH
from appliance.protocol.messages.fetch import FetchRequest
from appliance.record import _batch, _mirror_batches, _records

BY_NAME = 12
NO_SESSION = -1
READ_BYTES = 4 << 20
READ_WAIT_MS = 100


class Run(NamedTuple):
    source: int
    target: int
    length: int

    @property
    def end(self) -> int:
        return self.source + self.length


class Position(NamedTuple):
    source: str
    offset: int


class Row(NamedTuple):
    """A record: timestamp, key, value."""

    timestamp: int
    key: bytes
    value: bytes


def key_of(partition: TopicPartition) -> bytes:
    return f"{partition.topic}/{partition.partition}".encode()


def partition_of(key: bytes | None) -> TopicPartition:
    topic, _, partition = (key or b"").decode().rpartition("/")
    return TopicPartition(topic, int(partition))


def position_row(partition: TopicPartition, position: Position, now_ms: int) -> Row:
    return Row(now_ms, key_of(partition), json.dumps(position._asdict()).encode())


def runs_row(partition: TopicPartition, runs: Iterable[Run], now_ms: int) -> Row:
    return Row(now_ms, key_of(partition), json.dumps({"runs": list(runs)}).encode())


def add_run(runs: list[Run], source: int, target: int, length: int) -> None:
    """Extends the last run if this one continues it in both clusters."""
    if runs and (runs[-1].end, runs[-1].target + runs[-1].length) == (source, target):
        runs[-1] = runs[-1]._replace(length=runs[-1].length + length)
    else:
        runs.append(Run(source, target, length))


# reading


def read(site: Site, topic: str) -> Iterator[_records.Record]:
    """Every committed record of the topic's only partition, up to now."""
    partition = TopicPartition(topic, 0)
    offset = site.offsets([partition], EARLIEST)[partition]
    end_offset = site.offsets([partition], LATEST, COMMITTED)[partition]
    with site.connect(site.leader(partition)) as connection:
        version = connection.version(FETCH, BY_NAME)
        while offset < end_offset:
            part = FetchRequest.FetchPartition(partition=0, fetch_offset=offset)
            part.partition_max_bytes = READ_BYTES
            request = FetchRequest(
                max_wait_ms=READ_WAIT_MS,
                min_bytes=1,
                max_bytes=READ_BYTES,
                isolation_level=COMMITTED,
                session_epoch=NO_SESSION,
                topics=[FetchRequest.FetchTopic(topic=topic, partitions=[part])],
            )
            (row,) = connection.ask(FETCH, request, version=version).responses[0].partitions
            if row.error_code:
                raise BrokerRefused(row.error_code, f"fetch of {partition} at offset {offset}")
            if not row.records:
                return  # compaction removed the records at the end
            aborted = [(e.producer_id, e.first_offset) for e in row.aborted_transactions or ()]
            batches, offset = _mirror_batches.committed(row.records, offset, aborted)
            for each in batches:
                yield from _batch.records(each.data)


def positions(site: Site, topic: str) -> dict[TopicPartition, Position]:
    by_partition = {}
    for record in read(site, topic):
        by_partition[partition_of(record.key)] = Position(**json.loads(record.value or b"null"))
    return by_partition


@dataclass(frozen=True)
class Translation:
    source: int
    target: int
    is_exact: bool  # False: no record at that offset; this is the next one


def translate(site: Site, topic: str, partition: TopicPartition, offset: int) -> Translation:
    """The target offset for an offset of the source: a consumer with this next offset in the source
    continues there in the target."""
    key, last = key_of(partition), None
    for record in read(site, topic):
        if record.key != key:
            continue
        for run in map(Run._make, json.loads(record.value or b"")["runs"]):
            if run.source <= offset < run.end:
                return Translation(offset, run.target + offset - run.source, True)
            if run.source > offset and last is None:
                raise OffsetNotMapped(
                    f"{partition}: offset {offset} is older than the map, which begins at "
                    f"{run.source}"
                )
            if run.source > offset:
                return Translation(offset, run.target, False)
            last = run
    if last is None:
        raise OffsetNotMapped(f"{partition}: the map {topic} has no entry of it")
    return Translation(offset, last.target + last.length, False)
