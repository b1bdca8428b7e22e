"""The promises at a cut: from the notes of a trace to the records that a recovered log may and must
have.

Between `do` and `did` of an act both results are legal; after `did` its result is promised.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from appliance.record import _batch

from .share import Acknowledgements
from .trace import NEVER, Note
from .txn import Transfers

FROM_MAGIC = 16  # base offset, length and leader epoch stand before it; the log stamps two of them


@dataclass(slots=True, eq=False)
class Written:
    """One batch passed to the engine, with the moments that decide whether it must exist."""

    began: int
    data: bytes
    base: int = -1  # -1: the append did not return, so its offset is unknown
    last: int = -1
    guess: int = -1  # its offset if a failed append left it in the log
    life: int = 0
    producer: int = -1
    epoch: int = -1
    sequence: int = -1  # of its last record
    is_control: bool = False
    records: dict[int, tuple[Any, ...]] = field(default_factory=dict)  # by offset
    is_sure: bool = True  # False: the append failed, so it may be missing
    durable_at: int = NEVER
    may_go: int = NEVER  # it may be missing from this moment on
    gone_at: int = NEVER  # it must be missing from this moment on

    def place(self, base: int, last: int) -> None:
        self.base, self.last = base, last
        first = _batch.headers(self.data)[0]
        self.producer, self.epoch, self.is_control = (
            first.producer_id,
            first.producer_epoch,
            first.is_control,
        )
        if first.base_sequence >= 0:
            self.sequence = first.base_sequence + first.last_offset_delta
        if not self.is_control:
            self.records = {
                base + n: content(record) for n, record in enumerate(_batch.records(self.data))
            }


def content(record: Any) -> tuple[Any, ...]:
    return record.timestamp, record.key, record.value, tuple(record.headers)


@dataclass(slots=True)
class Transaction:
    at: int
    kind: str
    producer: int
    first: int
    last: int
    may_go: int = NEVER


@dataclass
class LogFacts:
    """The story of one partition; its deletion and a new creation start another story."""

    name: str
    created: tuple[int, int]  # do, did
    deleted: tuple[int, int] = (NEVER, NEVER)
    written: list[Written] = field(default_factory=list)
    starts: list[tuple[int, int, int]] = field(default_factory=list)  # do, did, log start offset
    transactions: list[Transaction] = field(default_factory=list)
    compacted: bool = False
    record_may_go: dict[int, int] = field(default_factory=dict)  # offset -> moment
    record_gone: dict[int, int] = field(default_factory=dict)
    last_end: int = 0

    def start_range(self, cut: int) -> tuple[int, int]:
        """The smallest and the largest correct log start offset at the cut."""
        owed = [start for _, did, start in self.starts if did < cut]
        asked = [start for do, _, start in self.starts if do < cut]
        return max(owed, default=0), max(asked, default=0)

    def allowed(self, cut: int) -> dict[int, list[Written]]:
        found: dict[int, list[Written]] = {}
        for one in self.written:
            if one.began < cut and one.gone_at >= cut:
                found.setdefault(one.base, []).append(one)
        return found

    def owed(self, cut: int) -> list[Written]:
        return [one for one in self.written if one.durable_at < cut <= one.may_go]

    def settle(self, end: int, at: int) -> None:
        """Marks all remaining batches below `end` as durable."""
        for one in self.written:
            if one.last < end and one.is_sure and one.may_go == NEVER:
                one.durable_at = min(one.durable_at, at)

    # ---- acts that remove records ----

    def removed_below(self, start: int, do: int, did: int) -> None:
        self.starts.append((do, did, start))
        for one in self.written:
            if one.last < start and one.may_go == NEVER:
                one.may_go, one.gone_at = do, did

    def truncated(self, to: int, do: int, did: int) -> None:
        for one in self.written:
            if one.last >= to and one.began < do and one.gone_at == NEVER:
                one.may_go, one.gone_at = min(one.may_go, do), did

        for transaction in self.transactions:
            if transaction.last >= to:
                transaction.may_go = min(transaction.may_go, do)

    def cleaned(self, offsets: list[int], do: int, did: int) -> None:
        """Compaction: removed records may be missing from `do` on, and must be from `did` on."""
        self.compacted = True
        left = set(offsets)
        for one in self.written:
            if one.is_control and one.began < do:
                self.record_may_go.setdefault(one.base, do)
            for offset in one.records if one.began < do else ():
                if offset not in left:
                    self.record_may_go.setdefault(offset, do)
                    self.record_gone.setdefault(offset, did)

    def latest_offsets(self) -> list[int]:
        """The last record of every key, which compaction must keep."""
        latest: dict[bytes, int] = {}
        for one in self.written:
            for offset, (_, key, value, _) in one.records.items():
                latest[key] = offset if value is not None else -1
        return list(latest.values())


class Facts:
    """The stories of all partitions, from the notes of all lives."""

    def __init__(self, notes: list[Note]) -> None:
        self.logs: list[LogFacts] = []
        self._current: dict[str, LogFacts] = {}
        self._waiting: dict[tuple[int, int], Written] = {}
        self._asked: dict[str, int] = {}
        self.transfers = Transfers(notes)
        self.acknowledgements = Acknowledgements(notes)
        for note in notes:
            verb = note.facts.get("do") or note.facts.get("did")
            getattr(self, f"_{'do' if 'do' in note.facts else 'did'}_{verb}", lambda _: None)(note)

    def _do_append(self, note: Note) -> None:
        one = Written(note.at, note.payload)
        one.life = note.facts["life"]
        one.guess = note.facts["end"]
        self._waiting[note.facts["life"], note.facts["id"]] = one

    def _did_append(self, note: Note) -> None:
        one = self._waiting.pop((note.facts["life"], note.facts["id"]))
        if not note.facts["duplicate"]:
            one.place(note.facts["base"], note.facts["last"])
            self._current[note.facts["log"]].written.append(one)

    def _did_durable(self, note: Note) -> None:
        self._current[note.facts["log"]].settle(note.facts["end"], note.at)

    def _did_transaction(self, note: Note) -> None:
        facts = note.facts
        if facts["durable"]:
            self._current[facts["log"]].transactions.append(
                Transaction(
                    note.at, facts["kind"], facts["producer"], facts["first"], facts["last"]
                )
            )

    def _do_create(self, note: Note) -> None:
        log = LogFacts(note.facts["log"], (note.at, NEVER))
        self._current[log.name] = log
        self.logs.append(log)

    def _did_create(self, note: Note) -> None:
        log = self._current[note.facts["log"]]
        log.created = (log.created[0], note.at)

    def _do_delete(self, note: Note) -> None:
        self._current[note.facts["log"]].deleted = (note.at, NEVER)

    def _did_delete(self, note: Note) -> None:
        log = self._current[note.facts["log"]]
        log.deleted = (log.deleted[0], note.at)

    def _do_asked(self, note: Note) -> None:
        self._asked[note.facts["log"]] = note.at

    _do_retain = _do_delete_before = _do_compact = _do_truncate = _do_asked

    def _did_delete_before(self, note: Note) -> None:
        log = self._current[note.facts["log"]]
        log.removed_below(note.facts["start"], self._asked[log.name], note.at)

    _did_retain = _did_delete_before

    def _did_truncate(self, note: Note) -> None:
        log = self._current[note.facts["log"]]
        log.truncated(note.facts["to"], self._asked[log.name], note.at)

    def _did_compact(self, note: Note) -> None:
        log = self._current[note.facts["log"]]
        log.cleaned(note.facts["offsets"], self._asked[log.name], note.at)

    def _did_fail(self, note: Note) -> None:
        """A failed act: it may have happened partly, completely, or not at all."""
        facts = note.facts
        log = self._current.get(facts.get("log", ""))
        if log is None:
            return
        if facts["what"] == "append":
            one = self._waiting.pop((facts["life"], facts["id"]))
            one.is_sure = False
            one.place(one.guess, one.guess + _batch.headers(one.data)[0].last_offset_delta)
            log.written.append(one)
        elif facts["what"] in ("retain", "delete_before"):
            log.removed_below(facts["end"], self._asked[log.name], NEVER)
        elif facts["what"] == "truncate":
            log.truncated(facts["to"], self._asked[log.name], NEVER)
        elif facts["what"] == "compact":
            log.cleaned(log.latest_offsets(), self._asked[log.name], NEVER)

    def _did_open(self, note: Note) -> None:
        """A later life: the log has exactly the records that recovery served, which must stay."""
        for name, (_, _, high_watermark) in note.facts["logs"].items():
            self._current[name].settle(high_watermark, note.at)

    def stories(self, cut: int) -> dict[str, tuple[list[LogFacts], bool]]:
        """By partition: the possible stories at the cut, and whether one must be true."""
        found: dict[str, tuple[list[LogFacts], bool]] = {}
        for log in self.logs:
            if log.created[0] < cut and log.deleted[1] >= cut:
                is_owed = log.created[1] < cut <= log.deleted[0]
                others, was_owed = found.get(log.name, ([], False))
                found[log.name] = ([*others, log], was_owed or is_owed)
        return found
