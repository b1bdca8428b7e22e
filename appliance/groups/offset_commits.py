"""Offsets that groups commit: checked, written, and then seen, in the order of the log.

Those of a deleted topic go with it. In a cluster its name is free at once: what could not be
deleted in the log is left out here, and tried again. A commit to the next topic of that name stands
behind it in the log, and stays.

`commit` calls back, since it is the most frequent request of all (docs/decisions/
control-plane-cost.md). All else is awaited.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import partial

from appliance.errors import ApplianceError
from appliance.groups.group import Group
from appliance.groups.group_table import GroupTable, of_consumers
from appliance.groups.modern_group import Done
from appliance.groups.offsets import size_of
from appliance.groups.offsets_topic import refusal
from appliance.groups.records import OffsetCommitValue, Partition, offset_record
from appliance.groups.states import GroupRefused
from appliance.groups.streams.group import StreamsGroup
from appliance.process import event_log
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import Transaction

logger = event_log.named("groups")

Values = Mapping[Partition, OffsetCommitValue]
Places = Mapping[tuple[str, str], list[Partition]]  # by topic and group
Last = Mapping[Partition, int]  # where the last record of each stands
NO_EPOCHS: Mapping[int, int] = {}
MemberKey = tuple[str, str | None, int]  # id, instance id and generation; -1 is nobody's

AGAIN_S = 5.0  # after offsets of a deleted topic that could not be deleted


class OffsetCommits:
    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._offsets = table.offsets
        self._topic = table.topic
        self._weights = table.weights
        self._availability = table.availability
        # by partition: before its offsets were known
        self._deleted_topics: defaultdict[int, set[str]] = defaultdict(set)
        # in a cluster, by partition: while nobody led it, and the epoch of that
        self._deleted_unled: dict[int, dict[str, int]] = {}
        # in a cluster, by group: offsets of deleted topics that the log has still
        self._undeleted: dict[str, dict[Partition, int]] = {}
        self._again: asyncio.TimerHandle | None = None

    def stop(self) -> None:
        """After groups are refused."""
        if self._again is not None:
            self._again.cancel()

    @property
    def fault(self) -> str:
        """What is tried again; for people."""
        topics = sorted({each.topic for last in self._undeleted.values() for each in last})
        if not topics:
            return ""
        return (
            f"offsets of {len(self._undeleted)} groups in deleted topics ({topics[0]} is the first "
            f"of {len(topics)}) cannot be deleted: another coordinator would take them for those "
            "of the next topic of that name"
        )

    def commit(
        self,
        group_id: str,
        member: MemberKey,
        values: Values,
        now_ms: int,
        done: Done,
        wall_ms: int | None = None,
    ) -> None:
        """`done` is called when the offsets are on disk, and everybody sees them, or with why
        not. `now_ms` is of the clock of sessions, `wall_ms` of the records."""
        self._availability.check(group_id)
        group = self._table.groups.get(group_id)
        if group is None and member[2] >= 0:
            raise GroupRefused(
                ErrorCode.ILLEGAL_GENERATION, f"there is no group {group_id}: no generation"
            )
        self._check_size(group_id, values)
        if group is None:
            group = self._table.make(group_id)
        group = of_consumers(group)
        if isinstance(group, Group):
            group.check_commit(*member, now_ms)
        else:
            group.check_commit(member[0], member[2], values)

        def stored(error: ApplianceError | None, first_offset: int) -> None:
            if error is None:
                if self._offsets.put(group_id, values, first_offset):
                    self._weights.weigh(group_id)  # most commits take the place of one as large
                done(None)
            else:
                done(refusal(error))

        records = [
            offset_record(group_id, partition, value) for partition, value in values.items()
        ]
        self._topic.write(group_id, records, stored, None, wall_ms)

    def _check_size(self, group_id: str, values: Values) -> None:
        own = self._offsets.of_group(group_id)
        more = 0
        for partition, value in values.items():
            before = own.get(partition)
            more += size_of(value)
            if before is not None:
                more -= size_of(before.value)
        if more > 0:  # else the group has all of it, and is kept with it
            self._weights.check(group_id, more)

    def commit_in_transaction(
        self, group_id: str, member: MemberKey, values: Values, transaction: Transaction
    ) -> asyncio.Future[None]:
        """On disk when it is done; nobody sees the offsets before `end_transaction`."""
        self._availability.check(group_id)
        self._weights.check(group_id, sum(map(size_of, values.values())))
        group = of_consumers(self._table.groups.get(group_id) or self._table.make(group_id))
        if isinstance(group, StreamsGroup):
            group.check_transactional_commit(*member, values)
        else:
            group.check_transactional_commit(*member)

        def stored(error: ApplianceError | None, first_offset: int) -> None:
            if error is None:
                self._offsets.hold(transaction.producer_id, group_id, values, first_offset)
                self._weights.weigh(group_id)

        records = [offset_record(group_id, *each) for each in values.items()]
        return self._topic.stored(group_id, records, stored, transaction)

    def end_transaction(
        self, producer_id: int, is_commit: bool, partition: int | None = None
    ) -> None:
        """Its marker is on disk: what it committed counts, or never was. A group that was deleted
        meanwhile is there again with what it has now, as it would be after a start. In a cluster
        a marker is for the groups of its partition alone."""
        held = self._offsets.held_groups(producer_id)
        if partition is not None:
            held = self._availability.of_partition(held, partition)
        self._offsets.end(producer_id, is_commit, None if partition is None else held)
        for group_id in held:
            if group_id not in self._table.groups and self._offsets.of_group(group_id):
                self._table.make(group_id)
            self._weights.weigh(group_id)

    def delete(self, group_id: str, partitions: list[Partition]) -> asyncio.Future[None]:
        """On disk when it is done."""

        def stored(error: ApplianceError | None, first_offset: int) -> None:
            if error is None:
                self._offsets.put(group_id, dict.fromkeys(partitions), first_offset)
                self._weights.weigh(group_id)

        records = [offset_record(group_id, each, None) for each in partitions]
        return self._topic.stored(group_id, records, stored)

    async def forget_topics(
        self, topics: Collection[str], unled: Mapping[int, int] = NO_EPOCHS
    ) -> dict[str, ApplianceError]:
        """Their offsets mean nothing in new topics of the same names. Why some stay, by topic.
        `unled`: partitions that nobody leads now, and the leader epoch of each."""
        self._deleted_unled = {
            each: self._deleted_unled.get(each, {}) | dict.fromkeys(topics, epoch)
            for each, epoch in unled.items()
        }
        for each in self._availability.unread:
            self._deleted_topics[each].update(topics)  # once they are known
        if not self._topic.is_used:
            return {}
        self._availability.check_loaded()
        await self._topic.all_settled()  # commits that are on their way
        return await self._delete_of_topics(self._offsets.places_of_topics(topics))

    def was_elected(self, partition: int, epoch: int) -> None:
        """What was deleted while nobody led it goes once it is read, if nobody led it in between:
        who did may have offsets in a new topic of that name."""
        for topic, before in self._deleted_unled.pop(partition, {}).items():
            if epoch == before + 1:
                self._deleted_topics[partition].add(topic)

    def forget_deleted_topics(self, groups: Collection[str], partitions: Iterable[int]) -> None:
        """Of groups that were read just now; the others may know a new topic of that name."""
        for each in self._undeleted.keys() & {*groups}:
            self._leave_out(each, self._undeleted[each])
        if topics := self.deleted_before(partitions):
            places = self._offsets.places_of_topics(topics)
            self._begin_deletions({each: places[each] for each in places if each[1] in groups})

    def deleted_before(self, partitions: Iterable[int]) -> set[str]:
        """Topics that went before these were read. That is forgotten."""
        return set[str]().union(*(self._deleted_topics.pop(each, ()) for each in partitions))

    async def _delete_of_topics(self, places: Places) -> dict[str, ApplianceError]:
        deletions = self._begin_deletions(places)
        outcomes = await asyncio.gather(*deletions, return_exceptions=True)
        failures: dict[str, ApplianceError] = {}
        for (topic, _), error in zip(places, outcomes, strict=True):
            if isinstance(error, ApplianceError):
                failures.setdefault(topic, error)
            elif error is not None:
                raise error
        return failures

    def _begin_deletions(self, places: Places) -> list[asyncio.Future[None]]:
        newest = self._offsets.newest
        return [
            self._begin_deletion(group_id, {each: newest(group_id, each) for each in partitions})
            for (_, group_id), partitions in places.items()
        ]

    def _begin_deletion(self, group_id: str, last: Last) -> asyncio.Future[None]:
        deletion = self.delete(group_id, [*last])
        deletion.add_done_callback(partial(self._tried, group_id, last))
        return deletion

    def _tried(self, group_id: str, last: Last, deletion: asyncio.Future[None]) -> None:
        error = None if deletion.cancelled() else deletion.exception()
        if error is None:
            self._are_gone(group_id, last)
            return
        if group_id not in self._undeleted:
            topics = sorted({each.topic for each in last})
            logger.warning("offsets of deleted topics stay", group=group_id, topics=topics,
                           error=error)  # fmt: skip
        if self._availability.terms is not None:  # on one box the names are not free
            self._leave_out(group_id, last)
            self._try_again()

    def _are_gone(self, group_id: str, last: Last) -> None:
        """In the log, too. Later ones may be there by now."""
        left = dict(self._undeleted.pop(group_id, {}).items() - last.items())
        if left:
            self._undeleted[group_id] = left

    def _leave_out(self, group_id: str, last: Last) -> None:
        """They count no more, whatever the log has. What was committed since does."""
        old = self._old(group_id, last)
        self._offsets.put(group_id, dict.fromkeys(old), sys.maxsize)
        self._weights.weigh(group_id)
        if old:
            self._undeleted[group_id] = self._undeleted.get(group_id, {}) | old

    def _old(self, group_id: str, last: Last) -> dict[Partition, int]:
        newest = self._offsets.newest
        return {each: offset for each, offset in last.items() if newest(group_id, each) <= offset}

    def _try_again(self) -> None:
        if self._again is None and self._availability.is_loaded:
            self._again = asyncio.get_running_loop().call_later(AGAIN_S, self.delete_again)

    def delete_again(self) -> None:
        """What could not be deleted in the log."""
        self._again = None
        writing = self._topic.writing()  # a commit would be deleted behind its answer
        for group_id, last in list(self._undeleted.items()):
            if group_id not in writing:
                self._delete_again(group_id, last)
        if self._undeleted:
            self._try_again()

    def _delete_again(self, group_id: str, last: Last) -> None:
        try:
            self._availability.check(group_id)
        except GroupRefused as error:
            if error.kafka_code == ErrorCode.NOT_COORDINATOR:
                del self._undeleted[group_id]  # another one has what the log has
            return
        old = self._old(group_id, last)
        self._are_gone(group_id, dict(last.items() - old.items()))  # others are behind them
        if old:
            self._begin_deletion(group_id, old)
