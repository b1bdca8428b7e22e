"""The content of a record of a load test: its producer, its number, its intended time.

    who i64 | number i32 | due i64, nanoseconds | CRC-32C of all but itself i32 | filling

A producer chooses `who` at random at each start, and its numbers go up by one with each record. So
a record can be identified among those of all runs. `due` is of the monotonic clock, which the
processes of one machine share.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

from appliance._crc import crc32c

HEAD = struct.Struct("<QIq")
SUM = struct.Struct("<I")
FILLING_AT = HEAD.size + SUM.size
SIZE_MIN = FILLING_AT  # of a record's value
NUMBER_END = 1 << 32
NOBODY = 0


class Stamp(NamedTuple):
    who: int
    number: int
    due_ns: int


def somebody() -> int:
    return int.from_bytes(os.urandom(8), "little") | 1  # never NOBODY


class Filling:
    """The same for all records: only their sizes matter. It does not compress."""

    def __init__(self, record_size: int) -> None:
        self.bytes = os.urandom(max(record_size, SIZE_MIN) - SIZE_MIN)
        self._crc = crc32c(self.bytes)

    def values(self, who: int, number: int, due_ns: int, count: int) -> list[bytes | None]:
        """Consecutive records; the first has this number."""
        made: list[bytes | None] = []
        for each in range(number, number + count):
            head = HEAD.pack(who, each, due_ns)
            made.append(head + SUM.pack(crc32c(head, self._crc)) + self.bytes)
        return made


def read(value: bytes | None) -> Stamp | None:
    """None: not a record of a load test, or altered."""
    if value is None or len(value) < FILLING_AT:
        return None
    head = value[: HEAD.size]
    (wanted,) = SUM.unpack_from(value, HEAD.size)
    if crc32c(head, crc32c(value[FILLING_AT:])) != wanted:
        return None
    return Stamp._make(HEAD.unpack(head))
