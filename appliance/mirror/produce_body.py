"""A Produce request as a list of parts, which saves copying megabytes of batches.

Versions 9 to 11, as in `protocol/messages`; a test compares the two.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from appliance.mirror.site import TopicPartition

# From version 12 on it adds partitions to the transaction: the mirror does that.
FIRST, LAST = 9, 11
ALL_ACKS = -1
MIRROR_SOURCE = 10_000  # the tag
HEAD, INDEX = struct.Struct(">hi"), struct.Struct(">i")

Batches = Sequence[bytes | bytearray]


def produce_body(
    transactional_id: str | None,
    timeout_ms: int,
    batches: Mapping[TopicPartition, Batches],
    mirror_sources: Mapping[str, str],
) -> list[bytes | bytearray]:
    topics: dict[str, list[TopicPartition]] = {}
    for partition in batches:
        topics.setdefault(partition.topic, []).append(partition)
    parts: list[bytes | bytearray] = []
    out = bytearray()
    _put_text(out, transactional_id)
    out += HEAD.pack(ALL_ACKS, timeout_ms)
    _put_varint(len(topics) + 1, out)
    for name, partitions in topics.items():
        _put_text(out, name)
        _put_varint(len(partitions) + 1, out)
        for partition in partitions:
            out += INDEX.pack(partition.partition)
            _put_varint(sum(map(len, batches[partition])) + 1, out)
            parts += [out, *batches[partition]]
            out = bytearray(1)  # no tags
        _put_source(out, mirror_sources.get(name, ""))
    out.append(0)
    return [*parts, out]


def _put_varint(value: int, out: bytearray) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _put_text(out: bytearray, text: str | None) -> None:
    octets = (text or "").encode()
    _put_varint(0 if text is None else len(octets) + 1, out)
    out += octets


def _put_source(out: bytearray, source: str) -> None:
    """The topic's tags."""
    if not source:
        out.append(0)
        return
    text = bytearray()
    _put_text(text, source)
    out.append(1)
    _put_varint(MIRROR_SOURCE, out)
    _put_varint(len(text), out)
    out += text
