"""Batches found by their headers alone. Checksums are not looked at, so that a damaged batch hides
none of the others."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

# As in docs/log-format.md: base offset, length, attributes, last offset delta, producer id.
HEAD = struct.Struct(">qi9xhi16xq")
LENGTH_END = 12  # where the bytes that the length counts begin
TRANSACTIONAL, CONTROL = 0x10, 0x20


class BatchBounds(NamedTuple):
    position: int
    end: int
    base_offset: int
    next_offset: int
    producer_id: int  # -1: no transaction
    is_control: bool


def batches_in(data: bytes) -> Iterator[BatchBounds]:
    position = 0
    while position < len(data):
        base, length, attributes, last_delta, producer = HEAD.unpack_from(data, position)
        end, is_control = position + LENGTH_END + length, bool(attributes & CONTROL)
        producer_id = producer if attributes & TRANSACTIONAL else -1
        yield BatchBounds(position, end, base, base + last_delta + 1, producer_id, is_control)
        position = end
