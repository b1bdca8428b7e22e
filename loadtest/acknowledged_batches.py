"""The acknowledged batches, in 24 bytes each, until the log is read back.

A batch that was sent and not acknowledged is unknown: it may be in the log or not, and never counts
as acknowledged, even if it is in the log.
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
        """Moves everything to another process."""
        taken = [[*place, bytes(rows)] for place, rows in self.rows.items()]
        self.__init__()  # type: ignore[misc]
        return taken

    def add(self, taken: list[Any]) -> None:
        for topic, partition, rows in taken:
            self.rows[topic, partition] += rows
            for batch in map(Batch._make, ROW.iter_unpack(rows)):
                self._count(batch)
