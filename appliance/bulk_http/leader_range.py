"""A range of a partition that this broker does not have, or has not all of: read from its leader,
as a consumer reads it, and handed on in the same frames.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from appliance._crc import crc32c
from appliance.broker.partition_leaders import (
    COMMITTED,
    EARLIEST,
    LATEST,
    UNCOMMITTED,
    PartitionLeaders,
)
from appliance.bulk.bounds import Bound
from appliance.bulk.plan import PlannedPartition
from appliance.errors import NotLeader
from appliance.record.batch_bounds import BatchBounds, batches_in
from appliance.topics.topic import Topic

LENGTH_SIZE = 4
Data = bytes
SAMPLE_BYTES = 64 << 10  # by which the size of a range is guessed
ASK_S = 60.0


@dataclass(frozen=True)
class LeaderFrame:
    """Whole batches, behind their length."""

    whole: memoryview

    @property
    def batches(self) -> memoryview:
        return self.whole[LENGTH_SIZE:]

    def __len__(self) -> int:
        return max(0, len(self.whole) - LENGTH_SIZE)


@dataclass
class LeaderRange:
    """`read` blocks, and is for a thread."""

    leaders: PartitionLeaders
    loop: asyncio.AbstractEventLoop
    topic: Topic
    partition: int
    next_offset: int
    end_offset: int
    is_committed: bool
    crc: int = 0
    bytes: int = 0
    aborted: dict[tuple[int, int], None] = field(default_factory=dict)  # in order
    holes: tuple[tuple[int, int], ...] = ()  # a leader that has one refuses to read there
    passed_bytes: int = 0
    is_quiet: bool = True

    def read(self, max_bytes: int) -> LeaderFrame:
        """Empty: that was all. Of less who asks would take the rest for lost."""
        while self.next_offset < self.end_offset:
            isolation = COMMITTED if self.is_committed else UNCOMMITTED
            asked = self.leaders.fetch(
                self.topic, self.partition, self.next_offset, max_bytes, isolation
            )
            found = asyncio.run_coroutine_threadsafe(asked, self.loop).result(ASK_S)
            data = bytes(found.records or b"")
            for each in found.aborted_transactions or ():
                self.aborted[each.producer_id, each.first_offset] = None
            if not data:
                shown = found.last_stable_offset if self.is_committed else found.high_watermark
                if shown < self.end_offset:
                    raise NotLeader(
                        f"{self.topic.name}-{self.partition}: its leader knows what counts up to "
                        f"{shown}, wanted {self.end_offset}: it is new; ask again"
                    )
                self.next_offset = self.end_offset  # compaction has taken the rest
            elif kept := self._kept(data):
                return self._frame(data[: kept[-1].end], kept[-1].next_offset)
            else:
                self.next_offset = self.end_offset  # all that is left begins behind the end
        return LeaderFrame(memoryview(b""))

    def _kept(self, data: Data) -> list[BatchBounds]:
        return [each for each in batches_in(data)
                if each.end <= len(data) and each.base_offset < self.end_offset]  # fmt: skip

    def _frame(self, data: Data, next_offset: int) -> LeaderFrame:
        self.crc = crc32c(data, self.crc)
        self.bytes += len(data)
        self.next_offset = next_offset
        return LeaderFrame(memoryview(len(data).to_bytes(LENGTH_SIZE, "big") + data))


# Plans


async def partitions_at_leaders(
    leaders: PartitionLeaders, topic: Topic, first: Mapping[int, Bound],
    last: Mapping[int, Bound], isolation: int,
) -> list[PlannedPartition]:  # fmt: skip
    """As `plan.partitions_of`, of what the leaders say."""
    numbers = [*first]
    starts = await leaders.offsets(topic, dict.fromkeys(numbers, EARLIEST))
    ends = await leaders.offsets(topic, dict.fromkeys(numbers, LATEST), isolation)
    asked = await _asked(leaders, topic, first, starts, ends)
    until = await _asked(leaders, topic, last, starts, ends)
    found: list[PlannedPartition] = []
    for each in numbers:
        end_offset, log_start = ends[each], starts[each]
        start = min(max(asked[each], log_start), max(end_offset, log_start))
        planned: PlannedPartition = {
            "partition": each,
            "log_start_offset": log_start,
            "end_offset": end_offset,
            "start": start,
            "end": max(start, min(until[each], end_offset)),
        }
        if asked[each] < log_start:
            planned["lost"] = log_start - asked[each]
        found.append(planned)
    return found


async def _asked(
    leaders: PartitionLeaders, topic: Topic, bounds: Mapping[int, Bound],
    starts: Mapping[int, int], ends: Mapping[int, int],
) -> dict[int, int]:  # fmt: skip
    times = {each: bound.value for each, bound in bounds.items() if bound.kind == "time"}
    at = await leaders.offsets(topic, times)
    known = {"earliest": starts, "latest": ends}
    return {
        each: bound.value if bound.kind == "offset"
        else known[bound.kind][each] if bound.kind in known
        else ends[each] if at[each] < 0 else min(at[each], ends[each])
        for each, bound in bounds.items()
    }  # fmt: skip


async def sizes_at_leaders(
    leaders: PartitionLeaders, topic: Topic, partitions: list[PlannedPartition]
) -> dict[int, int]:
    """About so many bytes: by the first batches of each range."""
    found = {}
    for each in partitions:
        number, start, end = each["partition"], each["start"], each["end"]
        found[number] = 0
        if start < end:
            told = await leaders.fetch(topic, number, start, SAMPLE_BYTES, UNCOMMITTED)
            data = bytes(told.records or b"")
            batches = [one for one in batches_in(data) if one.end <= len(data)]
            if batches:
                span = batches[-1].next_offset - batches[0].base_offset
                found[number] = batches[-1].end * (end - start) // max(1, span)
    return found
