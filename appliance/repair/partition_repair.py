"""Repair of an open partition: lets readers skip holes, and restores batches that were set aside.

Each act has a plan, which a dry run only returns. A plan is refused for the same reasons as its
act. An act is first in the ledger, then in the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance._log import Log
from appliance.catalog.loss_ledger import Damage, Ledger
from appliance.data_dir.log_dirs import LogDirs
from appliance.errors import ApplianceError
from appliance.record import _batch
from appliance.record._records import Record
from appliance.repair import _hole_repair, set_aside
from appliance.repair._hole_repair import HoleInfo
from appliance.repair.set_aside import Whole


class NothingToRepair(ApplianceError):
    kafka_code = 42


@dataclass(frozen=True)
class Span:
    first_offset: int
    end_offset: int

    @property
    def count(self) -> int:
        return self.end_offset - self.first_offset


@dataclass(frozen=True)
class Skipping:
    spans: list[Span]  # that readers skip from then on


@dataclass(frozen=True)
class Importing:
    path: Path
    batches: list[Whole]  # that are restored
    left_out: int  # good batches whose offsets exist or do not belong to the log
    still_missing: list[Span]

    @property
    def records(self) -> int:
        return sum(each.records for each in self.batches if not each.is_control)

    @property
    def spans(self) -> list[Span]:
        return joined(Span(each.base_offset, each.last_offset + 1) for each in self.batches)


# Skipping


def plan_skip(log: Log) -> Skipping:
    start = log.log_start_offset  # no reader reads below it
    holes = [
        each for each in _hole_repair.holes(log) if not each.is_skipped and each.end_offset > start
    ]
    if not holes:
        raise NothingToRepair(f"{log.name}: there is no damage or loss that readers do not skip")
    return Skipping([Span(each.first_offset, each.end_offset) for each in holes])


def skip(log: Log, plan: Skipping, ledger: Ledger, who: str) -> None:
    ledger.note_act(
        Damage(log.topic, log.partition, each.first_offset, each.end_offset - 1,
               f"{who} lets readers skip", "skipped")
        for each in plan.spans
    )  # fmt: skip
    for each in plan.spans:
        _hole_repair.skip(log, each.first_offset, each.end_offset)
    acknowledge(log, plan.spans, ledger, who)


# Restoring


def plan_import(log_dir: LogDirs, log: Log, file: str) -> Importing:
    path = set_aside.file_named(Path(log.directory).parent, log.name, file)
    holes = _hole_repair.holes(log)
    batches: list[Whole] = []
    left_out, last = 0, -1
    for each in set_aside.whole_batches(path):
        if each.base_offset > last and is_within(each, holes):
            batches.append(each)
            last = each.last_offset
        else:
            left_out += 1
    importing = Importing(path, batches, left_out, missing(holes, batches))
    if batches:
        log_dir.checkpoint()  # only segments that recovery will not read again can be changed
        _fill(log, importing, dry_run=True)
    return importing


def put_back(log_dir: LogDirs, log: Log, plan: Importing, ledger: Ledger, who: str) -> None:
    ledger.note_act([])  # damage must be in the ledger before it is repaired
    _seal(log_dir, log, plan.batches[-1].last_offset)
    _fill(log, plan, dry_run=False)
    acknowledge(log, plan.spans, ledger, who)


def _seal(log_dir: LogDirs, log: Log, last_offset: int) -> None:
    """Seals the segments: only segments that recovery will not read again are rewritten."""
    if log.segments()[-1].base_offset <= last_offset:
        log.roll()
    log.flush()
    log_dir.checkpoint()


def _fill(log: Log, plan: Importing, dry_run: bool) -> None:
    active = log.segments()[-1].base_offset
    if dry_run and active <= plan.batches[-1].last_offset:
        return  # `put_back` seals it first, which a dry run does not do
    with plan.path.open("rb") as file:
        spans = [each.span for each in plan.batches]
        _hole_repair.fill(log, file.fileno(), spans, dry_run=dry_run)


def records_of(plan: Importing, log: Log) -> Iterator[Record]:
    """The records for another topic, with their origin as an additional header."""
    with plan.path.open("rb") as file:
        for each in plan.batches:
            if each.is_control:
                continue
            file.seek(each.position)
            for record in _batch.records(file.read(each.size)):
                origin = f"{log.name}@{record.offset}".encode()
                headers = [*record.headers, ("appliance.set.aside", origin)]
                yield Record(record.timestamp, record.key, record.value, headers)


def plan_copy(log_dir: LogDirs, log: Log, file: str) -> Importing:
    """Plans a copy of all good batches, whatever their offsets."""
    path = set_aside.file_named(Path(log.directory).parent, log.name, file)
    return Importing(path, list(set_aside.whole_batches(path)), 0, [])


# Ranges


def is_within(batch: Whole, holes: Iterable[HoleInfo]) -> bool:
    return any(
        each.first_offset <= batch.base_offset and batch.last_offset < each.end_offset
        for each in holes
    )


def joined(spans: Iterable[Span]) -> list[Span]:
    """Merges adjacent spans."""
    joined: list[Span] = []
    for each in spans:
        if joined and joined[-1].end_offset == each.first_offset:
            joined[-1] = Span(joined[-1].first_offset, each.end_offset)
        else:
            joined.append(each)
    return joined


def missing(holes: Iterable[HoleInfo], batches: Iterable[Whole]) -> list[Span]:
    """The rest of the holes without the batches."""
    spans = []
    own = list(batches)
    for hole in holes:
        first = hole.first_offset
        for each in own:
            if hole.first_offset <= each.base_offset < hole.end_offset:
                if each.base_offset > first:
                    spans.append(Span(first, each.base_offset))
                first = each.last_offset + 1
        if first < hole.end_offset:
            spans.append(Span(first, hole.end_offset))
    return spans


def acknowledge(log: Log, spans: list[Span], ledger: Ledger, who: str) -> None:
    """Acknowledges the entries of the repaired ranges, because the operator has seen them."""
    seen = [
        entry.id
        for entry in ledger.open()
        if (entry.damage.topic, entry.damage.partition) == (log.topic, log.partition)
        and entry.id
        and is_covered(entry.damage, spans)
    ]
    if seen:
        ledger.acknowledge(seen, who)


def is_covered(damage: Damage, spans: list[Span]) -> bool:
    if damage.last_offset is None:
        return False
    return any(
        each.first_offset <= damage.first_offset and damage.last_offset < each.end_offset
        for each in spans
    )
