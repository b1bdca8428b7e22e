"""What was acknowledged, in 24 bytes a batch, until the log is read back.

A batch that was sent and not acknowledged is unknown: it may be in the log or not, and is never
counted as acknowledged, whatever is found later.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

ROW = struct.Struct("<qQII")
NOWHERE = -1  # the offset of an unknown batch

Place = tuple[str, int]  # topic and partition


class Batch(NamedTuple):
    base_offset: int
    who: int
    number: int  # of the first record
    records: int


class Ledger:
    def __init__(self) -> None:
        self.rows: defaultdict[Place, bytearray] = defaultdict(bytearray)
        self.acked = self.unknown = 0  # records
        self.acked_batches = self.unknown_batches = 0

    def put(self, place: Place, batch: Batch) -> None:
        self.rows[place] += ROW.pack(*batch)
        self._count(batch)

    def _count(self, batch: Batch) -> None:
        if batch.base_offset == NOWHERE:
            self.unknown += batch.records
            self.unknown_batches += 1
        else:
            self.acked += batch.records
            self.acked_batches += 1

    def batches(self, place: Place) -> Iterator[Batch]:
        return map(Batch._make, ROW.iter_unpack(self.rows[place]))

    def take(self) -> list[Any]:
        """All of it, for another process; nothing is left here."""
        taken = [[*place, bytes(rows)] for place, rows in self.rows.items()]
        self.__init__()  # type: ignore[misc]
        return taken

    def add(self, taken: list[Any]) -> None:
        for topic, partition, rows in taken:
            self.rows[topic, partition] += rows
            for batch in map(Batch._make, ROW.iter_unpack(rows)):
                self._count(batch)
