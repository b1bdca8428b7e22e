"""Observes a recovered directory, and checks it against every promise before the cut.

An observation depends only on the disk, so a disk that is legal at many cuts is recovered once and
judged at each of them. Checks that need no promise happen while observing: offsets, producer state,
transactions against the served batches, a second recovery, an append after recovery.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance.data_dir.log_dir import LogDir
from appliance.errors import ApplianceError, SequenceOutOfOrder
from appliance.record import _batch, _batch_builder

from . import moving, share, txn
from .facts import FROM_MAGIC, Facts, LogFacts, Written, content
from .session import START_MS, STORAGE, config_of, name_of, read_batches

PROBE_SECONDS_MAX = 20.0  # a fetch of a missing batch would wait for ever
OPEN_SECONDS_MAX = 5.0  # a few hundred kilobytes: milliseconds, unless a recovery runs away


@dataclass(slots=True)
class LogSeen:
    start: int
    end: int
    durable: int
    high_watermark: int
    last_stable: int
    batches: list[bytes]
    heads: list[Any]  # the BatchInfo of each batch
    producers: dict[int, tuple[int, int, int]]  # id -> epoch, last sequence, last offset
    aborted: list[tuple[int, int, int]]  # producer, first offset, last offset
    failed: str | None

    def differences(self, other: LogSeen) -> list[str]:
        facts = ("start", "end", "last_stable", "producers", "aborted")
        wrong = [
            f"{name} {getattr(self, name)} then {getattr(other, name)}"
            for name in facts
            if getattr(self, name) != getattr(other, name)
        ]
        offsets = [[head.base_offset for head in one.heads] for one in (self, other)]
        if self.batches != other.batches:
            wrong.append(f"batches at {offsets[0]} then {offsets[1]}")
        return wrong


@dataclass
class Observation:
    logs: dict[str, LogSeen] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    report: str = ""
    losses: dict[str, Any] = field(default_factory=dict)  # the losses that recovery reports
    transfers: txn.Outcomes = field(default_factory=dict)
    acknowledged: share.Done = field(default_factory=dict)
    seconds: float = 0.0


def open_logs(root: Path) -> Any:
    if (root / moving.DIRECTORY).is_dir():
        return moving.TwoDirs(root)
    return LogDir.open(root, config=STORAGE, log_config=config_of)


def see(log: Any) -> LogSeen:
    batches = read_batches(log)
    return LogSeen(
        log.log_start_offset,
        log.log_end_offset,
        log.durable_offset,
        log.high_watermark,
        log.last_stable_offset,
        batches,
        [_batch.headers(batch)[0] for batch in batches],
        {
            one.producer_id: (one.epoch, one.last_sequence, one.last_offset)
            for one in log.producers()
        },
        sorted(
            tuple(one) for one in log.aborted_transactions(log.log_start_offset, log.log_end_offset)
        ),
        log.failed,
    )


def see_all(logs: Any) -> dict[str, LogSeen]:
    return {name_of(*key): see(log) for key, log in sorted(logs.logs().items())}


# ---- observing ----


def observe(root: Path, *, probe: bool = True, needs_notes: bool = True) -> Observation:
    """Recovers, reads, stops, recovers again, appends, stops, recovers again. Without the notes of
    durable offsets that a failed call has ended."""
    seen = Observation()
    try:
        if (root / txn.DIRECTORY).is_dir():
            seen.transfers, wrong = txn.outcomes(root, config=STORAGE, log_config=config_of)
            seen.problems += wrong
        if (root / share.DIRECTORY).is_dir():
            seen.acknowledged, wrong = share.outcomes(root, config=STORAGE, log_config=config_of)
            seen.problems += wrong
        began = time.monotonic()
        first = open_logs(root)
        seen.seconds = time.monotonic() - began
        seen.report = first.report.text()
        seen.logs = see_all(first)
        first.abandon()
        _open_again(root, seen, probe)
    except (ApplianceError, OSError, ValueError) as error:
        seen.problems.append(f"recovery or reading failed: {type(error).__name__}: {error}")
        return seen
    seen.losses = {name_of(one.topic, one.partition): one for one in first.report.losses}
    seen.problems += first.report.failures
    # No power cut alone damages the journal, or removes the notes of durable offsets.
    seen.problems += first.report.known.faults()
    if needs_notes and not first.report.known.has_watermarks and first.report.partitions:
        seen.problems.append("recovery has no watermarks")
    if seen.seconds > OPEN_SECONDS_MAX:
        seen.problems.append(f"recovery took {seen.seconds:.1f} s")
    for name, log in seen.logs.items():
        seen.problems += [f"{name}: {problem}" for problem in judge_alone(log)]
    return seen


def _open_again(root: Path, seen: Observation, probe: bool) -> None:
    second = open_logs(root)
    try:
        again = see_all(second)
        for name in seen.logs.keys() | again.keys():
            before, after = seen.logs.get(name), again.get(name)
            differ = before.differences(after) if before and after else ["only once there"]
            seen.problems += [f"{name}: the second recovery differs: {one}" for one in differ]
        if not probe:
            return
        added = {
            name_of(*key): _probe(log, again[name_of(*key)], seen)
            for key, log in second.logs().items()
        }
    finally:
        second.close()
    third = open_logs(root)
    try:
        for name, after in see_all(third).items():
            wanted = [batch[FROM_MAGIC:] for batch in again[name].batches] + added[name]
            if [batch[FROM_MAGIC:] for batch in after.batches] != wanted:
                seen.problems.append(
                    f"{name}: an append after recovery is not there after the next one"
                )
    finally:
        third.close()


def _probe(log: Any, before: LogSeen, seen: Observation) -> list[bytes]:
    """Appends to accept, to recognise as duplicates, or to refuse. Returns the added batches."""
    name = name_of(log.topic, log.partition)
    added: list[bytes] = []

    def append(batch: bytes, origin: str = "client") -> Any:
        appended = log.append_durable(batch, origin=origin, timeout_s=PROBE_SECONDS_MAX)
        if not appended.duplicate:
            added.append(batch[FROM_MAGIC:])
        return appended

    coordinators = {one.producer_id: one.coordinator_epoch for one in log.producers()}
    for producer, (first, _) in open_transactions(before).items():
        epochs = _epoch(before, producer), max(0, coordinators[producer])
        marker = _batch_builder.control_batch("abort", producer, *epochs, START_MS)
        append(marker, "coordinator")
        if log.last_stable_offset <= first:
            seen.problems.append(f"{name}: the last stable offset stays at {first} after the abort")
    for producer, (epoch, sequence, base, batch) in last_batches(before).items():
        if not _batch.headers(batch)[0].is_transactional:
            repeated = append(batch)
            if not repeated.duplicate or repeated.base_offset != base:
                seen.problems.append(
                    f"{name}: a repeat of producer {producer}'s batch at {base} got {repeated}"
                )
        try:
            append(_made(producer, epoch, sequence + 7))
            seen.problems.append(f"{name}: a gap in producer {producer}'s sequence was accepted")
        except SequenceOutOfOrder:
            following = append(_made(producer, epoch, sequence + 1))
            if following.duplicate:
                seen.problems.append(
                    f"{name}: producer {producer}'s sequence {sequence + 1} was never written, "
                    "and is taken for a repeat"
                )
    append(_made(-1, -1, -1))
    return added


def _made(producer: int, epoch: int, sequence: int) -> bytes:
    return _batch_builder.batch(
        [(START_MS + 1, b"probe", b"after recovery")],
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def _epoch(log: LogSeen, producer: int) -> int:
    return max(int(head.producer_epoch) for head in log.heads if head.producer_id == producer)


# ---- state from the served batches ----


def last_batches(log: LogSeen) -> dict[int, tuple[int, int, int, bytes]]:
    """By producer: epoch, last sequence, base offset and bytes of its last served batch."""
    found = {}
    for head, batch in zip(log.heads, log.batches, strict=True):
        if head.producer_id >= 0 and not head.is_control and head.base_sequence >= 0:
            sequence = head.base_sequence + head.last_offset_delta
            found[head.producer_id] = (head.producer_epoch, sequence, head.base_offset, batch)
    return found


def open_transactions(log: LogSeen) -> dict[int, tuple[int, int]]:
    """By producer: first and last offset of its transaction without a marker."""
    is_open: dict[int, tuple[int, int]] = {}
    for head in log.heads:
        if head.is_control:
            is_open.pop(head.producer_id, None)
        elif head.is_transactional:
            first, _ = is_open.get(head.producer_id, (head.base_offset, 0))
            is_open[head.producer_id] = (first, head.last_offset)
    return is_open


def aborted_by_markers(log: LogSeen) -> list[tuple[int, int, int]]:
    is_open: dict[int, int] = {}
    aborted = []
    for head, batch in zip(log.heads, log.batches, strict=True):
        if head.is_control:
            first = is_open.pop(head.producer_id, None)
            kind = _batch.control(batch)
            if first is not None and kind and kind[0] == "abort":
                aborted.append((head.producer_id, first, head.base_offset))
        elif head.is_transactional:
            is_open.setdefault(head.producer_id, head.base_offset)
    return aborted


def judge_alone(log: LogSeen) -> list[str]:
    """Rules for any log, whatever was promised."""
    wrong = []
    if log.failed:
        wrong.append(f"failed after recovery: {log.failed}")
    if not log.start <= log.durable <= log.end or not log.start <= log.high_watermark <= log.end:
        wrong.append(
            f"start {log.start}, durable {log.durable}, visible {log.high_watermark}, end {log.end}"
        )
    if log.high_watermark > log.durable:
        wrong.append(f"visible up to {log.high_watermark}, durable only up to {log.durable}")
    expected = log.start
    for head in log.heads:
        if head.last_offset < expected:
            wrong.append(f"offset {head.base_offset} follows {expected - 1}")
        expected = head.last_offset + 1
    if expected > log.end:
        wrong.append(f"a batch ends at {expected - 1}, the log at {log.end}")
    return wrong + _judge_producers(log) + _judge_transactions(log)


def _judge_producers(log: LogSeen) -> list[str]:
    wrong = []
    for producer, (epoch, sequence, _, batch) in last_batches(log).items():
        last = _batch.headers(batch)[0].last_offset
        known = log.producers.get(producer)
        if (
            known is None
            or known[0] < epoch
            or (known[0] == epoch and known != (epoch, sequence, last))
        ):
            wrong.append(
                f"producer {producer} wrote {(epoch, sequence, last)} and is remembered as {known}"
            )
    for producer, (_, sequence, last) in log.producers.items():
        if last >= log.end:
            wrong.append(
                f"producer {producer} is remembered at offset {last}, sequence {sequence}; "
                f"the log ends at {log.end}"
            )
    return wrong


def _judge_transactions(log: LogSeen) -> list[str]:
    firsts = [first for first, _ in open_transactions(log).values()]
    stable = min(firsts, default=log.high_watermark)
    wrong = []
    if log.last_stable != stable:
        wrong.append(f"last stable offset {log.last_stable}, wanted {stable}")
    for producer, first, last in aborted_by_markers(log):
        if not any(p == producer and f <= first and last == la for p, f, la in log.aborted):
            wrong.append(
                f"the abort of producer {producer} at {first}..{last} is not among {log.aborted}"
            )
    return wrong


# ---- promises ----


def judge(seen: Observation, facts: Facts, cut: int) -> list[str]:
    """The promises before the cut that the observation breaks."""
    wrong = []
    stories = facts.stories(cut)
    for name in seen.logs.keys() - stories.keys():
        wrong.append(f"{name}: a partition that was deleted or never created")
    for name, (told, is_owed) in stories.items():
        if name not in seen.logs:
            if is_owed:  # during its creation or deletion the log may be missing
                wrong.append(f"{name}: the partition is missing")
            continue
        if name in seen.losses:
            wrong.append(f"recovery reports a loss: {seen.losses[name]}")
        verdicts = [judge_log(seen.logs[name], story, cut) for story in told]
        if all(verdicts):  # no story matches
            wrong += [f"{name}: {problem}" for problem in verdicts[-1]]
    wrong += facts.transfers.judge(seen.transfers, cut)
    return wrong + facts.acknowledgements.judge(seen.acknowledged, cut)


def judge_log(log: LogSeen, story: LogFacts, cut: int) -> list[str]:
    low, high = story.start_range(cut)
    wrong = []
    if not low <= log.start <= high:
        wrong.append(f"log start offset {log.start}, wanted {low} to {high}")
    allowed = story.allowed(cut)
    served: list[Written] = []
    for head, batch in zip(log.heads, log.batches, strict=True):
        one = _match(head, batch, allowed, story, cut)
        if isinstance(one, str):
            wrong.append(one)
        elif one:
            served.append(one)
    for before, after in itertools.pairwise(served):
        if after.began < before.began:
            wrong.append(f"offset {after.base} was written before offset {before.base}")
    if not story.compacted:
        wrong += _judge_contiguous(log)
    return wrong + _judge_owed(log, story, cut) + _judge_promised_state(log, story, cut)


def _match(
    head: Any, batch: bytes, allowed: dict[int, list[Written]], story: LogFacts, cut: int
) -> Written | str | None:
    """The batch that was written here, None if compaction rewrote it correctly, or the fault."""
    for one in reversed(allowed.get(head.base_offset, [])):
        if one.data[FROM_MAGIC:] == batch[FROM_MAGIC:]:
            return one
    if not story.compacted and not story.record_may_go:
        return (
            f"offset {head.base_offset}: nothing like this was ever written here, or it was removed"
        )
    wanted = {
        offset: what
        for ones in allowed.values()
        for one in ones
        for offset, what in one.records.items()
    }
    for record in _batch.records(batch):
        if wanted.get(record.offset) != content(record):
            return f"offset {record.offset}: {record.key!r} was never written here"
        if story.record_gone.get(record.offset, cut) < cut:
            return f"offset {record.offset}: {record.key!r} was compacted away and is back"
    return None


def _judge_contiguous(log: LogSeen) -> list[str]:
    wrong = []
    expected = None
    for head in log.heads:
        if expected is not None and head.base_offset != expected:
            wrong.append(f"offset {head.base_offset} follows {expected - 1}")
        expected = head.last_offset + 1
    if expected is not None and expected != log.end:
        wrong.append(f"the last batch ends at {expected - 1}, the log at {log.end}")
    if log.heads and not log.heads[0].base_offset <= log.start:
        wrong.append(
            f"the log starts at {log.start}, its first batch at {log.heads[0].base_offset}"
        )
    return wrong


def _judge_owed(log: LogSeen, story: LogFacts, cut: int) -> list[str]:
    served = {head.base_offset: batch for head, batch in zip(log.heads, log.batches, strict=True)}
    records: dict[int, tuple[Any, ...]] | None = None
    wrong = []
    for one in story.owed(cut):
        batch = served.get(one.base)
        if batch is not None and batch[FROM_MAGIC:] == one.data[FROM_MAGIC:]:
            continue
        if not story.record_may_go:
            wrong.append(f"offsets {one.base}..{one.last} were acknowledged and are lost")
            continue
        if records is None:
            records = {
                record.offset: content(record)
                for batch in log.batches
                for record in _batch.records(batch)
            }
        for offset, what in one.records.items():
            if records.get(offset) != what and not story.record_may_go.get(offset, cut) < cut:
                wrong.append(f"offset {offset} was acknowledged and is lost")
    return wrong


def _judge_promised_state(log: LogSeen, story: LogFacts, cut: int) -> list[str]:
    wrong = []
    promised: dict[int, Written] = {}
    for one in story.written:
        if (
            one.durable_at < cut
            and one.sequence >= 0
            and one.base >= 0
            and (one.may_go >= cut or one.last < log.start)
        ):  # retention removes records, not their producers
            promised[one.producer] = one
    for producer, one in promised.items():
        known = log.producers.get(producer)
        if known is None or (known[0], known[1]) < (one.epoch, one.sequence):
            wrong.append(
                f"producer {producer} was acknowledged {(one.epoch, one.sequence)}, "
                f"and is remembered as {known}"
            )
    for one_txn in story.transactions:
        if one_txn.at < cut <= one_txn.may_go and one_txn.last >= log.start and not story.compacted:
            listed = any(
                p == one_txn.producer and f <= one_txn.first <= la for p, f, la in log.aborted
            )
            if listed != (one_txn.kind == "abort"):
                wrong.append(f"transaction {one_txn} was acknowledged; aborted are {log.aborted}")
    return wrong
