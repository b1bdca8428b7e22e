"""What a share fetch reads of a log: whole batches as they stand there, no record is touched.

It is read in growing steps until there are as many records as were asked for, since a member asks
for few records and many bytes. Blocks: for a thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from appliance._log import Log
from appliance.errors import ApplianceError, OffsetInHole
from appliance.record import _batch
from appliance.share.acquisition import Acquired, Extent
from appliance.topics.known_end import check_end_is_known

STEP_BYTES = 64 << 10


class Job(NamedTuple):
    log: Log
    offset: int
    bytes_max: int
    records_max: int
    is_committed: bool


@dataclass(frozen=True)
class ReadBatches:
    data: bytes
    infos: Sequence[_batch.BatchInfo]
    extents: Sequence[Extent]

    def slice(self, acquired: Sequence[Acquired]) -> bytes:
        """The batches that have something of it."""
        wanted = [each for each in self.infos if _has(each, acquired)]
        if len(wanted) == len(self.infos):
            return self.data
        return b"".join(self.data[each.position : each.position + each.size] for each in wanted)


    @property
    def is_hole(self) -> bool:
        return bool(self.extents) and not self.data


NOTHING = ReadBatches(b"", (), ())


def _has(info: _batch.BatchInfo, acquired: Sequence[Acquired]) -> bool:
    i = bisect_left(acquired, info.base_offset, key=attrgetter("last"))
    return i < len(acquired) and acquired[i].first <= info.last_offset


def read_all(jobs: Iterable[Job]) -> list[ReadBatches | ApplianceError]:
    return [_read_or_error(each) for each in jobs]


def _read_or_error(job: Job) -> ReadBatches | ApplianceError:
    try:
        return read(job)
    except ApplianceError as error:
        return error


def read(job: Job) -> ReadBatches:
    try:
        data = b"".join(_parts(job))
    except OffsetInHole:
        return _hole(job)
    if not data:
        return NOTHING
    infos = _batch.headers(data)
    aborted = _aborted(job, infos)
    return ReadBatches(data, infos, [_extent(each, aborted) for each in infos])


def _hole(job: Job) -> ReadBatches:
    """What the disk lost: the group goes on behind it."""
    for first, end in job.log.holes():
        if first <= job.offset < end:
            return ReadBatches(b"", (), [Extent(job.offset, end - 1, False)])
    return NOTHING


def _parts(job: Job) -> Iterable[bytes]:
    limit = "stable" if job.is_committed else "visible"
    offset, left, step = job.offset, job.bytes_max, STEP_BYTES
    while True:
        try:
            part = job.log.read(offset, max(1, min(step, left)), limit)
        except OffsetInHole:
            if offset == job.offset:
                raise
            return  # what is before it comes first
        if not part or (offset > job.offset and len(part) > left):
            return
        yield part
        left -= len(part)
        offset = _batch.headers(part)[-1].last_offset + 1
        step *= 2
        if left <= 0 or offset - job.offset >= job.records_max:
            return


Aborted = dict[int, list[tuple[int, int]]]  # by producer id: from the first offset to the marker


def _aborted(job: Job, infos: Sequence[_batch.BatchInfo]) -> Aborted:
    aborted: Aborted = {}
    if job.is_committed:
        end_offset = infos[-1].last_offset + 1
        rows = job.log.aborted_transactions(infos[0].base_offset, end_offset)
        for producer_id, first, last in rows:
            aborted.setdefault(producer_id, []).append((first, last))
    return aborted


def _extent(info: _batch.BatchInfo, aborted: Aborted) -> Extent:
    first = info.base_offset
    is_aborted = info.is_transactional and any(
        begin <= first <= end for begin, end in aborted.get(info.producer_id, ())
    )
    is_deliverable = not info.is_control and not is_aborted
    return Extent(first, info.last_offset, is_deliverable)


def reset_offset(log: Log, strategy: str, duration_ms: int, now_ms: int) -> int:
    """Where a group begins that has not read this partition before."""
    if strategy == "earliest":
        return log.log_start_offset
    check_end_is_known(log)
    if strategy == "latest":
        return log.high_watermark
    offset_and_time = log.offset_for_timestamp(now_ms - duration_ms)
    return log.high_watermark if offset_and_time is None else offset_and_time[0]
