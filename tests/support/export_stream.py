"""A stream of `/export/v1/.../batches`, read as docs/export.md says, by nothing of the broker's but
the checksum."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from appliance._crc import crc32c
from appliance.record._batch import headers, records

TIMEOUT_S = 30.0


class StreamCut(Exception):
    """It ended without a trailer."""


@dataclass
class Stream:
    frames: list[bytes] = field(default_factory=list)
    trailer: dict[str, Any] = field(default_factory=dict)

    def offsets(self, start: int, end: int) -> list[int]:
        """Of the records in the range that are data, in the order of the stream."""
        return [
            offset
            for frame in self.frames
            for offset in offsets_of(frame)
            if start <= offset < end
        ]


def offsets_of(frame: bytes) -> list[int]:
    found, at = [], 0
    for head in headers(frame):
        if not head.is_control:
            found += [each.offset for each in records(frame[at : at + head.size])]
        at += head.size
    return found


def read_stream(data: bytes) -> Stream:
    found, at, crc = Stream(), 0, 0
    while True:
        frame, at = piece(data, at)
        if not frame:
            break
        found.frames.append(frame)
        crc = crc32c(frame, crc)
    text, at = piece(data, at)
    assert at == len(data)
    found.trailer = json.loads(text)
    assert found.trailer["crc32c"] == f"{crc:08x}"
    assert found.trailer["bytes"] == sum(map(len, found.frames))
    return found


def piece(data: bytes, at: int) -> tuple[bytes, int]:
    if at + 4 > len(data):
        raise StreamCut(f"a length is missing at {at} of {len(data)} bytes")
    end = at + 4 + int.from_bytes(data[at : at + 4], "big")
    if end > len(data):
        raise StreamCut(f"{end - len(data)} bytes are missing at {at} of {len(data)}")
    return data[at + 4 : end], end


def batches(admin: str, topic: str, partition: int = 0, **query: Any) -> Stream:
    path = f"/export/v1/topics/{topic}/partitions/{partition}/batches?{urlencode(query)}"
    with urllib.request.urlopen(f"http://{admin}{path}", timeout=TIMEOUT_S) as answer:
        return read_stream(answer.read())
