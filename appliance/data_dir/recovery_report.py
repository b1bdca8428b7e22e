"""The report of a start: what was lost, what was set aside, and how much of it is known.

The journal knows what was acknowledged, and after its recovery points the watermarks know it
(`_watermark_file.pyx`): of every record if the machine kept running, otherwise up to a second
before the power cut. The report claims no more than that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from appliance._log import Engine, Log, Recovered
from appliance.catalog.loss_ledger import Damage, of_directory
from appliance.process.spoken import size, some


@dataclass(frozen=True)
class Knowledge:
    """Knowledge of what was acknowledged before this start."""

    journal_is_lost: bool = False  # a journal existed, and it is unreadable
    journal_is_behind: bool = False  # its newest part is damaged, an older one is used
    has_watermarks: bool = True
    is_same_boot: bool = True  # the machine kept running: every watermark is valid

    @classmethod
    def of(cls, engine: Engine) -> Knowledge:
        return cls(engine.journal_is_lost, engine.journal_is_behind, engine.has_watermarks,
                   engine.is_same_boot)

    def faults(self) -> list[str]:
        said = []
        if self.journal_is_lost:
            said.append("The checkpoint journal is gone or damaged, both files of it: what was "
                         "acknowledged is known only as far as it was noted elsewhere.")
        if self.journal_is_behind:
            said.append("The newest part of the checkpoint journal is damaged, and an older one "
                         "was used. Segments that retention or compaction removed since then are "
                         "told as lost.")
        return said


@dataclass
class RecoveryReport:
    was_clean: bool
    is_new: bool = False
    known: Knowledge = field(default_factory=Knowledge)
    partitions: int = 0
    seconds: float = 0.0
    scanned_bytes: int = 0
    cut_bytes: int = 0
    cut_records: int = 0  # in whole batches after the cut, never promised
    unknown_cut_bytes: int = 0  # of `cut_bytes`: unknown whether they were acknowledged
    aside_bytes: int = 0
    txn_indexes: int = 0  # that were wrong and were corrected
    losses: list[Damage] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)  # unopened logs, with the reason
    notes: list[str] = field(default_factory=list)  # differences between directories and catalog

    def note(self, log: Log, recovered: Recovered, directory: Path) -> None:
        self.partitions += 1
        self.scanned_bytes += recovered.scanned_bytes
        self.cut_bytes += recovered.cut_bytes
        self.cut_records += recovered.cut_records
        self.aside_bytes += recovered.aside_bytes
        self.txn_indexes += recovered.txn_indexes
        if not recovered.is_noted:
            self.unknown_cut_bytes += recovered.cut_bytes
        for each in recovered.losses:
            place = log.topic, log.partition, each.first_offset, each.end_offset - 1
            if each.aside:
                aside = str(directory / each.aside)
                self.losses.append(Damage(*place, each.cause, "damaged", aside))
            else:
                self.losses.append(Damage(*place, each.cause))

    def unknown(self) -> list[Damage]:
        """What stays unknown for ever: for the ledger."""
        causes = self.known.faults()
        if not (self.was_clean or self.is_new or self.known.has_watermarks):
            causes.append("The file watermarks is gone or damaged: what was acknowledged behind "
                          "the recovery points is not known.")
        if self.unknown_cut_bytes:
            causes.append(f"{size(self.unknown_cut_bytes)} were cut at the ends of logs, and "
                          "whether these were acknowledged is not known.")
        return [of_directory(each.rstrip(".")) for each in causes]

    def text(self) -> str:
        """What was found and lost, in plain words."""
        stop = "a clean stop" if self.was_clean else "an unclean end (crash, kill or power cut)"
        if self.is_new and not self.partitions and not self.known.journal_is_lost:
            return "\n".join(["Began a new data directory.", *self.notes])
        lines = [f"Opened {self.partitions} partitions in {self.seconds:.2f} s after {stop}."]
        if self.scanned_bytes:
            lines.append(f"Read and checked {size(self.scanned_bytes)} that were not known good.")
        lines += self._cut()
        if self.aside_bytes:
            lines.append(f"Set {size(self.aside_bytes)} aside in files named *.corrupt-*.")
        if self.txn_indexes:
            lines.append(f"Put {some(self.txn_indexes, 'transaction-index file')} "
                         "right by what the log says: what stood there could not be true.")
        if self.cut_records:
            lines.append(f"Behind a torn write there were {some(self.cut_records, 'whole record')} "
                         "that were not noted as durable. Records that were acknowledged with "
                         "acks=1, before they were, may be among them.")
        lines += self.known.faults()
        lines += [f"{each.kind.upper()} {each}." for each in self.losses]
        lines += [f"NOT OPENED {failure}" for failure in self.failures]
        lines += self.notes
        if not self.losses and not self.failures:
            lines.append(self._verdict())
        return "\n".join(lines)

    def _cut(self) -> list[str]:
        lines = []
        noted = self.cut_bytes - self.unknown_cut_bytes
        if noted and self.known.is_same_boot:
            lines.append(f"Cut {size(noted)} of unfinished writes, none acknowledged as durable.")
        elif noted:
            lines.append(f"Cut {size(noted)} of unfinished writes, none noted as acknowledged.")
        if self.unknown_cut_bytes:
            lines.append(f"Cut {size(self.unknown_cut_bytes)} at the ends of logs. It was not "
                         "noted what was acknowledged there (the file `watermarks` is missing or "
                         "damaged, or the log is foreign): whether these were is not known.")
        return lines

    def _verdict(self) -> str:
        if self.known.journal_is_lost or self.known.journal_is_behind or self.unknown_cut_bytes:
            return "Whether an acknowledged record was lost is not known."
        if self.was_clean:
            return ("No acknowledged record was lost: every segment that the journal knows is "
                    "there. None was read.")
        if not self.known.has_watermarks:
            return ("No acknowledged record was lost up to the recovery points. What was "
                    "acknowledged behind them was not noted; what is there was read, and is whole.")
        if self.known.is_same_boot:
            return ("No acknowledged record was lost: all that was noted is there. Segments "
                    "before the recovery points were not read.")
        return ("No record that was noted as acknowledged was lost. The notes end a second or less "
                "before the power went; what is there of that second was read, and is whole. "
                "Segments before the recovery points were not read.")
