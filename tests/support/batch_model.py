"""A record batch read by plain Python, written from the format's description: the oracle of
test_batch.

It shares no line with the product and is strict where a client's batch must be: it raises Refused
for whatever `batch_check` has to refuse, and nothing else.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"
HEADER = struct.Struct(">qiibIhiqqqhii")


class Refused(Exception):
    pass


@dataclass
class ModelRecord:
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]] = field(default_factory=list)


@dataclass
class ModelBatch:
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int
    records: list[ModelRecord] = field(default_factory=list)


def golden(name: str) -> bytes:
    """A batch as Java's client or broker wrote it."""
    lines = (DATA / f"{name}.hex").read_text().splitlines()
    return bytes.fromhex("".join(line for line in lines if not line.startswith("#")))


def crc32c(data: bytes) -> int:
    """Bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise Refused(f"{size} bytes at {self.at} of {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self, bits: int) -> int:
        value = 0
        for i in range(-(-bits // 7)):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                if value >= 1 << bits:
                    raise Refused(f"varint {value} above {bits} bits")
                return value // 2 if value % 2 == 0 else -(value + 1) // 2
        raise Refused("varint too long")

    def nullable(self) -> bytes | None:
        size = self.varint(32)
        return None if size == -1 else self.take(size)


def read_header(data: bytes) -> ModelBatch:
    if len(data) < HEADER.size:
        raise Refused(f"{len(data)} bytes")
    return ModelBatch(*HEADER.unpack_from(data))


def read_records(batch: ModelBatch, payload: bytes) -> list[ModelRecord]:
    reader = _Reader(payload)
    records = [_read_record(batch, reader) for _ in range(batch.records_count)]
    if reader.at != len(payload):
        raise Refused(f"records end at {reader.at} of {len(payload)}")
    return records


def _read_record(batch: ModelBatch, reader: _Reader) -> ModelRecord:
    body = _Reader(reader.take(reader.varint(32)))
    if body.take(1) != b"\0":
        raise Refused("record attributes")
    timestamp = batch.base_timestamp + body.varint(64)
    if not -(1 << 63) <= timestamp < 1 << 63:
        raise Refused(f"timestamp {timestamp}")
    if batch.attributes & 8:
        timestamp = batch.max_timestamp
    offset = batch.base_offset + body.varint(32)
    record = ModelRecord(offset, timestamp, body.nullable(), body.nullable())
    headers_count = body.varint(32)
    if headers_count < 0:
        raise Refused(f"{headers_count} headers")
    for _ in range(headers_count):
        record.headers.append((body.take(body.varint(32)), body.nullable()))
    if body.at != len(body.data):
        raise Refused(f"record ends at {body.at} of {len(body.data)}")
    return record


def read_client_batch(data: bytes) -> ModelBatch:
    """One uncompressed batch, whole and by the rules for clients, records read."""
    batch = read_header(data)
    if len(data) != 12 + batch.length or batch.magic != 2 or crc32c(data[21:]) != batch.crc:
        raise Refused("frame")
    if batch.attributes & ~0x10:
        raise Refused(f"attributes {batch.attributes:#x}")
    if batch.records_count <= 0 or batch.last_offset_delta != batch.records_count - 1:
        raise Refused(f"{batch.records_count} records, last offset delta {batch.last_offset_delta}")
    if batch.producer_id < -1 or (batch.producer_id == -1 and batch.attributes & 0x10):
        raise Refused(f"producer {batch.producer_id}")
    if batch.producer_id >= 0 and min(batch.producer_epoch, batch.base_sequence) < 0:
        raise Refused(f"epoch {batch.producer_epoch} sequence {batch.base_sequence}")
    batch.records = read_records(batch, data[HEADER.size :])
    for i, record in enumerate(batch.records):
        if record.offset != batch.base_offset + i:
            raise Refused(f"record {i} has offset {record.offset}")
    return batch


def resealed(data: bytes | bytearray, **fields: int) -> bytes:
    """`data` with header fields replaced and length and CRC made right again (unless given)."""
    batch = read_header(bytes(data))
    batch.length = len(data) - 12
    names = [name for name in batch.__dataclass_fields__ if name != "records"]
    for name, value in fields.items():
        setattr(batch, name, value)

    def packed() -> bytes:
        return HEADER.pack(*[getattr(batch, name) for name in names]) + bytes(data[HEADER.size :])

    if "crc" not in fields:
        batch.crc = crc32c(packed()[21:])
    return packed()


def stamped(
    data: bytes, base_offset: int, leader_epoch: int, append_time_ms: int | None = None
) -> bytes:
    """As a log stores what a client sent. The CRC covers neither offset nor epoch."""
    stored = bytearray(data)
    struct.pack_into(">q", stored, 0, base_offset)
    struct.pack_into(">i", stored, 12, leader_epoch)
    if append_time_ms is None:
        return bytes(stored)
    attributes = read_header(data).attributes | 8
    return resealed(stored, attributes=attributes, max_timestamp=append_time_ms)


def retained(data: bytes, keep: list[int]) -> bytes:
    """An uncompressed batch of which compaction left these records."""
    reader, records = _Reader(data[HEADER.size :]), []
    while reader.at < len(reader.data):
        begin = reader.at
        reader.take(reader.varint(32))
        records.append(reader.data[begin : reader.at])
    payload = b"".join(records[i] for i in keep)
    return resealed(data[: HEADER.size] + payload, records_count=len(keep))


def varint(value: int) -> bytes:
    value = (value << 1 ^ value >> 63) & (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def record_bytes(
    *,
    attributes: int = 0,
    timestamp: bytes = b"\0",
    offset: bytes = b"\0",
    key: bytes = b"\1",
    value: bytes = b"\1",
    headers: bytes = b"\0",
    size: bytes | None = None,
) -> bytes:
    """One record from the raw bytes of its fields, so that each can lie."""
    body = bytes([attributes]) + timestamp + offset + key + value + headers
    return (varint(len(body)) if size is None else size) + body


def batch_of(payload: bytes, records_count: int = 1, **fields: int) -> bytes:
    blank = HEADER.pack(0, 0, -1, 2, 0, 0, records_count - 1, 0, 0, -1, -1, -1, records_count)
    return resealed(blank + payload, **fields)
