"""`__consumer_offsets` back into memory, at a start.

The last record of each key counts, and only those are decoded. What belongs to a transaction counts
from its marker on; what has no marker yet is still open, and held. Records that cannot be read are
left out and told: one of them must not keep every group from its offsets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from appliance._log import Log
from appliance.groups import consumer_records, share_records
from appliance.groups.consumer_records import StoredConsumerGroup
from appliance.groups.offsets import Offsets
from appliance.groups.records import (
    GROUP_KEY,
    OFFSET_KEYS,
    PARTITION_SIZE,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    Partition,
    load_offset,
)
from appliance.groups.share_records import StoredShareGroup
from appliance.groups.streams import records as streams_records
from appliance.groups.streams.records import StoredStreamsGroup
from appliance.protocol import MalformedMessage, VersionUnsupported
from appliance.record import _batch
from appliance.topics.internal_topic import VERSION, load, load_value, read_all


class Latest(NamedTuple):
    value: bytes | None
    log_offset: int


@dataclass
class ReplayedGroups:
    offsets: Offsets = field(default_factory=Offsets)
    groups: dict[str, GroupMetadataValue] = field(default_factory=dict)
    consumer_groups: dict[str, StoredConsumerGroup] = field(default_factory=dict)
    share_groups: dict[str, StoredShareGroup] = field(default_factory=dict)
    streams_groups: dict[str, StoredStreamsGroup] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    doubtful: dict[str, list[str]] = field(default_factory=dict)  # groups, by damaged partition


def replay(logs: Iterable[Log]) -> ReplayedGroups:
    replayed = ReplayedGroups()
    for log in logs:
        _Partition(log, replayed).read()
    return replayed


class _Partition:
    """All records of a group stand in one partition, so partitions know nothing of each other."""

    def __init__(self, log: Log, replayed: ReplayedGroups) -> None:
        self._log = log
        self._replayed = replayed
        self._latest: dict[bytes, Latest] = {}
        self._open: dict[int, dict[bytes, Latest]] = {}  # by producer id
        self._is_damaged = False
        self._names: dict[bytes, tuple[str, str]] = {}  # group and topic, by the start of a key

    def read(self) -> None:
        read_all(self._log, self._take, self._lose)
        for key, latest in self._latest.items():
            self._decode(key, latest, None)
        for producer_id, held in self._open.items():
            for key, latest in held.items():
                if not self._is_removed(key, latest):
                    self._decode(key, latest, producer_id)
        if self._is_damaged:
            groups = {group for group, _ in self._names.values()}
            self._replayed.doubtful[self._log.name] = sorted(groups)

    def _take(self, data: bytes) -> None:
        infos = _batch.headers(data)
        if any(each.is_transactional for each in infos):
            for info in infos:
                self._take_batch(info, data[info.position : info.position + info.size])
        else:
            self._note(self._latest, data)

    def _take_batch(self, info: _batch.BatchInfo, batch: bytes) -> None:
        ended = _batch.control(batch) if info.is_control else None
        if ended is not None:
            self._end(info.producer_id, ended[0] == "commit")
        elif info.is_transactional and not info.is_control:
            self._note(self._open.setdefault(info.producer_id, {}), batch)
        elif not info.is_control:
            self._note(self._latest, batch)

    @staticmethod
    def _note(into: dict[bytes, Latest], data: bytes) -> None:
        for record in _batch.records(data):
            if record.key is not None:
                into[record.key] = Latest(record.value, record.offset)

    def _end(self, producer_id: int, is_commit: bool) -> None:
        for key, held in self._open.pop(producer_id, {}).items():
            now = self._latest.get(key)
            if is_commit and (now is None or now.log_offset < held.log_offset):
                self._latest[key] = held

    def _is_removed(self, key: bytes, held: Latest) -> bool:
        """After the transaction held it, which does not count then."""
        now = self._latest.get(key)
        return now is not None and now.value is None and now.log_offset > held.log_offset

    def _decode(self, key: bytes, latest: Latest, producer_id: int | None) -> None:
        try:
            (kind,) = VERSION.unpack_from(key.ljust(VERSION.size, b"\xff"))
            if kind in OFFSET_KEYS:
                self._offset(key, latest, producer_id)
            elif kind == GROUP_KEY:
                self._group(load(GroupMetadataKey, key).group, latest.value)
            elif kind in consumer_records.KEYS:
                if latest.value is not None:
                    consumer_records.take(
                        self._replayed.consumer_groups, kind, key, latest.value
                    )
            elif kind in share_records.KEYS:
                if latest.value is not None:
                    share_records.take(self._replayed.share_groups, kind, key, latest.value)
            elif kind in streams_records.KEYS:
                if latest.value is not None:
                    streams_records.take(self._replayed.streams_groups, kind, key, latest.value)
            else:
                self._fault(f"record {latest.log_offset} has a key of version {kind}, not served")
        except (MalformedMessage, VersionUnsupported, ValueError) as error:
            self._fault(f"record {latest.log_offset} cannot be read: {error}")

    def _offset(self, key: bytes, latest: Latest, producer_id: int | None) -> None:
        stored, log_offset = latest
        value = None if stored is None else load_offset(stored)
        if producer_id is None and value is None:
            return
        # a key ends with the partition, so all of a topic begin alike, and share their names
        names = self._names.get(key[:-PARTITION_SIZE])
        if names is None:
            names_key: OffsetCommitKey = load(OffsetCommitKey, key)
            names = self._names[key[:-PARTITION_SIZE]] = names_key.group, names_key.topic
        group, topic = names
        partition = Partition(topic, int.from_bytes(key[-PARTITION_SIZE:], "big"))
        if producer_id is not None:
            self._replayed.offsets.hold(producer_id, group, {partition: value}, log_offset)
        else:
            self._replayed.offsets.put(group, {partition: value}, log_offset)

    def _group(self, group: str, stored: bytes | None) -> None:
        if stored is not None:
            self._replayed.groups[group] = load_value(GroupMetadataValue, stored)

    def _fault(self, text: str) -> None:
        self._replayed.faults.append(f"{self._log.name}: {text}")

    def _lose(self, text: str) -> None:
        """Commits may be among what is gone: each group of this partition may go on too early."""
        self._is_damaged = True
        self._fault(text)
