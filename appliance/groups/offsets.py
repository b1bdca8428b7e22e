"""What groups committed, and what they will have committed once a transaction ends.

    put    a commit, or its removal, that is on disk
    hold   the same within a transaction: nobody sees it yet
    end    the transaction's marker is on disk: what it held counts, or never was

What was held of an offset that is removed goes with it. An offset that was committed outside of the
transaction, but later, stays: the order in which the records stand in the log decides, as it does
for compaction and for a restart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from appliance.groups.records import OffsetCommitValue, Partition

Values = Mapping[Partition, OffsetCommitValue | None]  # None: removed


Name = TypeVar("Name")

OFFSET_BYTES = 500  # of a committed offset's objects


def size_of(value: OffsetCommitValue | None) -> int:
    return 0 if value is None else OFFSET_BYTES + len(value.metadata)


class Committed(NamedTuple):
    value: OffsetCommitValue
    log_offset: int  # where its record stands; all of a group stand in one partition


class Held(NamedTuple):
    value: OffsetCommitValue | None
    log_offset: int


NONE: Mapping[Partition, Committed] = MappingProxyType({})


class Offsets:
    def __init__(self) -> None:
        self._bytes: Counter[str] = Counter()  # by group
        self._committed: dict[str, dict[Partition, Committed]] = {}
        self._held: dict[int, dict[tuple[str, Partition], Held]] = {}  # by producer id
        self._unstable: Counter[tuple[str, Partition]] = Counter()  # how many transactions hold it
        self._holding: Counter[str] = Counter()  # of them, by group

    def take(self, other: Offsets) -> None:
        """What was read of other groups. A transaction may have offsets of both."""
        self._committed |= other._committed
        self._bytes += other._bytes
        self._unstable += other._unstable
        self._holding += other._holding
        for producer_id, held in other._held.items():
            self._held.setdefault(producer_id, {}).update(held)

    def forget(self, groups: Collection[str]) -> None:
        """They are another broker's. A transaction may have offsets of others, too."""
        for group in groups:
            self._committed.pop(group, None)
            self._bytes.pop(group, None)
        if self._holding.keys().isdisjoint(groups):
            return
        for producer_id, held in list(self._held.items()):
            kept = {place: each for place, each in held.items() if place[0] not in groups}
            for place in held.keys() - kept.keys():
                _count_down(self._unstable, place)
                _count_down(self._holding, place[0])
            self._held[producer_id] = kept
            if not kept:
                del self._held[producer_id]

    def of_group(self, group: str) -> Mapping[Partition, Committed]:
        return self._committed.get(group, NONE)

    def bytes_of(self, group: str) -> int:
        """In memory, of what it committed and what transactions hold for it."""
        return self._bytes[group]

    def groups(self) -> Collection[str]:
        return self._committed.keys()

    def is_unstable(self, group: str, partition: Partition) -> bool:
        """Whether a transaction that is still open may change it."""
        return (group, partition) in self._unstable

    def all_held(self) -> Collection[str]:
        """Groups of which a transaction that is still open may change something."""
        return self._holding.keys()

    def is_held(self, group: str) -> bool:
        return group in self._holding

    def put(self, group: str, values: Values, first_offset: int) -> bool:
        """The records stand one after the other from `first_offset` on. Returns whether the group
        has more or less of it now."""
        own = self._committed.setdefault(group, {})
        is_other = False
        for log_offset, (partition, value) in enumerate(values.items(), first_offset):
            if value is None:
                is_other |= self._count(group, None, own.pop(partition, None))
                is_other |= self._let_go(group, partition, log_offset)
                continue
            before = own.get(partition)
            if before is None or len(before.value.metadata) != len(value.metadata):
                is_other |= self._count(group, value, before)
            own[partition] = Committed(value, log_offset)
        if not own:
            del self._committed[group]
        return is_other

    def _let_go(self, group: str, partition: Partition, log_offset: int) -> bool:
        """What transactions held of it before `log_offset`."""
        place, is_other = (group, partition), False
        if place not in self._unstable:
            return False
        for producer_id, held in list(self._held.items()):
            if place in held and held[place].log_offset < log_offset:
                is_other |= self._count(group, None, held.pop(place))
                _count_down(self._unstable, place)
                _count_down(self._holding, group)
                if not held:
                    del self._held[producer_id]
        return is_other

    def _count(
        self, group: str, value: OffsetCommitValue | None, before: Committed | Held | None
    ) -> bool:
        more = size_of(value) - size_of(None if before is None else before.value)
        if more:
            self._bytes[group] += more
            if not self._bytes[group]:
                del self._bytes[group]
        return more != 0

    def hold(self, producer_id: int, group: str, values: Values, first_offset: int) -> None:
        held = self._held.setdefault(producer_id, {})
        for log_offset, (partition, value) in enumerate(values.items(), first_offset):
            if (group, partition) not in held:
                self._unstable[group, partition] += 1
                self._holding[group] += 1
            self._count(group, value, held.get((group, partition)))
            held[group, partition] = Held(value, log_offset)

    def end(
        self, producer_id: int, is_commit: bool, groups: Collection[str] | None = None
    ) -> None:
        """Of these groups alone, if some are named."""
        held = self._held.pop(producer_id, {})
        if groups is not None:
            kept = {place: each for place, each in held.items() if place[0] not in groups}
            if kept:
                self._held[producer_id] = kept
                held = {place: each for place, each in held.items() if place[0] in groups}
        for (group, partition), (value, log_offset) in held.items():
            self._count(group, None, Held(value, log_offset))
            _count_down(self._unstable, (group, partition))
            _count_down(self._holding, group)
            now = self.of_group(group).get(partition)
            if is_commit and (now is None or now.log_offset < log_offset):
                self.put(group, {partition: value}, log_offset)

    def held_groups(self, producer_id: int) -> set[str]:
        """Whose partitions of the topic need the transaction's marker."""
        return {group for group, _ in self._held.get(producer_id, ())}

    def newest(self, group: str, partition: Partition) -> int:
        """Where the last record stands that it has of it, or that a transaction holds; -1: none."""
        place, own = (group, partition), self.of_group(group).get(partition)
        offset = -1 if own is None else own.log_offset
        if place not in self._unstable:
            return offset
        held = (each[place].log_offset for each in self._held.values() if place in each)
        return max((offset, *held))

    def places_of_topics(self, topics: Collection[str]) -> dict[tuple[str, str], list[Partition]]:
        """By topic and group, where it has an offset, or a transaction holds one for it."""
        found: defaultdict[tuple[str, str], list[Partition]] = defaultdict(list)
        for group, own in self._committed.items():
            for each in own:
                if each.topic in topics:
                    found[each.topic, group].append(each)
        for group, partition in self._unstable:
            if partition.topic in topics and partition not in self.of_group(group):
                found[partition.topic, group].append(partition)
        return found


def _count_down(counter: Counter[Name], name: Name) -> None:
    counter[name] -= 1
    if not counter[name]:
        del counter[name]
