"""What a record of a load test says: who sent it, its number, when it should have been sent.

    who i64 | number i32 | due i64, nanoseconds | CRC-32C of all but itself i32 | filling

`who` is chosen at random by a producer each time it begins anew, and its numbers go up by one with
each record: so a record is known again among those of all runs. `due` is of the monotonic clock,
which means something to processes of the same machine.
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
    """The same for all records: their sizes matter, not what they say. It does not compress."""

    def __init__(self, record_size: int) -> None:
        self.bytes = os.urandom(max(record_size, SIZE_MIN) - SIZE_MIN)
        self._crc = crc32c(self.bytes)

    def values(self, who: int, number: int, due_ns: int, count: int) -> list[bytes | None]:
        """Of records one after the other, the first with this number."""
        made: list[bytes | None] = []
        for each in range(number, number + count):
            head = HEAD.pack(who, each, due_ns)
            made.append(head + SUM.pack(crc32c(head, self._crc)) + self.bytes)
        return made


def read(value: bytes | None) -> Stamp | None:
    """None: it is no record of a load test, or not any more what was sent."""
    if value is None or len(value) < FILLING_AT:
        return None
    head = value[: HEAD.size]
    (wanted,) = SUM.unpack_from(value, HEAD.size)
    if crc32c(head, crc32c(value[FILLING_AT:])) != wanted:
        return None
    return Stamp._make(HEAD.unpack(head))
