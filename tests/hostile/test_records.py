"""Batches with wrong content. A refused batch leaves nothing in the log."""

from __future__ import annotations

import gzip
import struct
import time
from collections.abc import Callable
from typing import Any

import lz4.frame
import pytest
import snappy
import zstandard

from appliance._crc import crc32c
from appliance.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from appliance.record import _batch_builder
from appliance.record._records import Record
from tests.hostile.witness import batch
from tests.support.serving import Serving
from tests.support.wire_client import WireClient, frame_of

TOPIC, COMPACTED = "records", "compacted"
CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_RECORD, OLD_FORMAT = 2, 10, 87, 43
INVALID_TIMESTAMP = 32
LENGTH, MAGIC, CRC, ATTRIBUTES, LAST_OFFSET_DELTA = 8, 16, 17, 21, 23
MAX_TIMESTAMP, PRODUCER_ID, BASE_SEQUENCE, COUNT, RECORDS = 35, 43, 53, 57, 61

GIGABYTE = 1 << 30
DAMAGED = {CORRUPT_MESSAGE, INVALID_RECORD}
CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def changed(at: int, form: str, value: int, source: bytes | None = None) -> bytes:
    """A batch with a changed field and a right checksum, as from an attacker."""
    octets = bytearray(source or batch(count=3))
    struct.pack_into(">" + form, octets, at, value)
    if at > CRC:
        struct.pack_into(">I", octets, CRC, crc32c(bytes(octets[ATTRIBUTES:])))
    return bytes(octets)


def body_changed(offset: int, value: int) -> bytes:
    return changed(RECORDS + offset, "B", value, batch(count=3))


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    octets = bytearray()
    while value > 127:
        octets.append(value & 127 | 128)
        value >>= 7
    return bytes([*octets, value])


def one_record(*fields: int, tail: bytes = b"") -> bytes:
    """A batch of one record with these varints after its attributes."""
    record = b"\0" + b"".join(map(varint, fields)) + tail
    head = batch()[:RECORDS]
    octets = bytearray(head + varint(len(record)) + record)
    struct.pack_into(">i", octets, LENGTH, len(octets) - 12)
    struct.pack_into(">I", octets, CRC, crc32c(bytes(octets[ATTRIBUTES:])))
    return bytes(octets)


def packed_batch() -> bytes:
    record = Record(time.time_ns() // 1_000_000, b"k", b"v" * 1000)
    return bytes(_batch_builder.batch([record], codec="gzip"))


LIES: dict[str, tuple[Callable[[], bytes], set[int]]] = {
    "no bytes": (lambda: b"", {INVALID_RECORD}),
    "half a header": (lambda: batch()[:40], {INVALID_RECORD}),
    "half a batch": (lambda: batch(b"v" * 500)[:300], DAMAGED),
    "a wrong checksum": (lambda: changed(CRC, "I", 1), {CORRUPT_MESSAGE}),
    "magic 0": (lambda: changed(MAGIC, "b", 0), {OLD_FORMAT}),
    "magic 1": (lambda: changed(MAGIC, "b", 1), {OLD_FORMAT}),
    "magic 3": (lambda: changed(MAGIC, "b", 3), {CORRUPT_MESSAGE, OLD_FORMAT, INVALID_RECORD}),
    "a length of 2 GB": (lambda: changed(LENGTH, "i", 2**31 - 1), DAMAGED),
    "a negative length": (lambda: changed(LENGTH, "i", -1), DAMAGED),
    "a length of 48": (lambda: changed(LENGTH, "i", 48), DAMAGED),
    "a length one too short": (
        lambda: changed(LENGTH, "i", len(batch(count=3)) - 13), DAMAGED),
    "a count of 0": (lambda: changed(COUNT, "i", 0), {INVALID_RECORD}),
    "a negative count": (lambda: changed(COUNT, "i", -3), {INVALID_RECORD}),
    "a count of 2^31-1": (lambda: changed(COUNT, "i", 2**31 - 1), {INVALID_RECORD}),
    "a count and a range of 2^31-1": (
        lambda: changed(COUNT, "i", 2**31 - 1, changed(LAST_OFFSET_DELTA, "i", 2**31 - 2)),
        {INVALID_RECORD}),
    "a count of one less": (
        lambda: changed(COUNT, "i", 2, changed(LAST_OFFSET_DELTA, "i", 1)), {INVALID_RECORD}),
    "a negative last offset": (lambda: changed(LAST_OFFSET_DELTA, "i", -1), {INVALID_RECORD}),
    "more offsets than records": (lambda: changed(LAST_OFFSET_DELTA, "i", 9), {INVALID_RECORD}),
    "a control batch": (lambda: changed(ATTRIBUTES, "h", 0x20), {INVALID_RECORD}),
    "an unknown codec": (lambda: changed(ATTRIBUTES, "h", 7), {INVALID_RECORD, 76}),
    "unused attributes": (lambda: changed(ATTRIBUTES, "h", 0x4000), {0, INVALID_RECORD}),
    "a producer without sequence": (
        lambda: changed(PRODUCER_ID, "q", 7), {INVALID_RECORD, 45}),
    "a time that no record has": (lambda: changed(MAX_TIMESTAMP, "q", 2**63 - 1), {0}),
    "a time that no packed record has": (
        lambda: changed(MAX_TIMESTAMP, "q", 2**63 - 1, packed_batch()), {INVALID_TIMESTAMP}),
    "two batches": (lambda: batch() + batch(), {INVALID_RECORD}),
    "an offset that goes back": (lambda: one_record(0, -1, -1, -1, 0), {INVALID_RECORD}),
    "an offset that leaps": (lambda: one_record(0, 5, -1, -1, 0), {INVALID_RECORD}),
    "a key of -2": (lambda: one_record(0, 0, -2, -1, 0), {INVALID_RECORD}),
    "a value of 2 GB": (lambda: one_record(0, 0, -1, 2**31 - 1, 0), {INVALID_RECORD}),
    "a value of 2^62": (lambda: one_record(0, 0, -1, 2**62, 0), {INVALID_RECORD}),
    "headers of 2^31-1": (lambda: one_record(0, 0, -1, -1, 2**31 - 1), {INVALID_RECORD}),
    "headers of -1": (lambda: one_record(0, 0, -1, -1, -1), {INVALID_RECORD}),
    "a header key of -1": (lambda: one_record(0, 0, -1, -1, 1, -1, -1), {INVALID_RECORD}),
    "a varint that never ends": (
        lambda: one_record(0, 0, tail=b"\xff" * 20), {INVALID_RECORD}),
    "bytes after the record": (lambda: one_record(0, 0, -1, -1, 0, tail=b"xxx"), {INVALID_RECORD}),
    "a time beyond 64 bits": (lambda: one_record(2**63 - 1, 0, -1, -1, 0), {INVALID_RECORD, 32}),
}


@pytest.fixture(scope="module", autouse=True)
def topics(serving: Serving) -> None:
    with WireClient(serving.kafka) as client:
        client.create_topic(TOPIC)
        client.create_topic(COMPACTED, cleanup_policy="compact")


def listed(client: WireClient, timestamp: int, topic: str = TOPIC) -> Any:
    part = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    row = ListOffsetsRequest.ListOffsetsTopic(topic, [part])
    client.send(frame_of(ListOffsetsRequest(replica_id=-1, topics=[row]), 2, 7))
    return client.answer(ListOffsetsResponse, 2, 7).topics[0].partitions[0]


def end_offset(client: WireClient, topic: str = TOPIC) -> int:
    return int(listed(client, -1, topic).offset)


def largest_timestamp(client: WireClient) -> int:
    """The timestamp for retention: no client may move it to a time without a record."""
    return int(listed(client, -3).timestamp)


@pytest.mark.parametrize("lie", LIES)
def test_a_batch_that_lies(client: WireClient, lie: str) -> None:
    make, codes = LIES[lie]
    before = end_offset(client)
    (part,) = client.produce(make(), topic=TOPIC, acks=-1)
    assert part.error_code in codes, (part.error_code, part.error_message)
    assert largest_timestamp(client) < (time.time() + 3600) * 1000
    if part.error_code:
        assert part.base_offset == -1
        assert end_offset(client) == before
    found = client.fetch_one(0, topic=TOPIC)
    assert found.error_code == 0


def test_a_batch_that_is_larger_than_may_be(client: WireClient) -> None:
    (part,) = client.produce(batch(b"v" * (2 << 20)), topic=TOPIC, acks=-1)
    assert part.error_code == MESSAGE_TOO_LARGE


def gigabyte_of_zeros(codec: str) -> bytes:
    """Compresses in pieces, so that the test itself needs little memory."""
    piece = bytes(1 << 20)
    if codec == "gzip":
        once = gzip.compress(bytes(8 << 20), 9)
        return once * (GIGABYTE // (8 << 20))
    if codec == "zstd":
        packer = zstandard.ZstdCompressor(level=1).compressobj()
        return b"".join(packer.compress(piece) for _ in range(1024)) + packer.flush()
    if codec == "lz4":
        return b"".join(lz4.frame.compress(bytes(8 << 20)) for _ in range(20))
    return bytes(snappy.compress(bytes(20 << 20)))


def bomb(codec: str, most: int) -> bytes:
    data = gigabyte_of_zeros(codec)[:most]
    head = bytearray(batch()[:RECORDS] + data)
    struct.pack_into(">i", head, LENGTH, len(head) - 12)
    struct.pack_into(">h", head, ATTRIBUTES, CODECS[codec])
    struct.pack_into(">I", head, CRC, crc32c(bytes(head[ATTRIBUTES:])))
    return bytes(head)


@pytest.fixture(scope="module", params=CODECS)
def packed(request: pytest.FixtureRequest) -> bytes:
    return bomb(request.param, 1_000_000)


def test_a_bomb_is_carried_unopened(client: WireClient, packed: bytes) -> None:
    """The broker does not decompress a batch of a topic without compaction."""
    (part,) = client.produce(packed, topic=TOPIC, acks=1)
    assert part.error_code == 0
    found = client.fetch_one(part.base_offset, topic=TOPIC)
    assert found.error_code == 0


def test_a_bomb_where_keys_are_looked_at(client: WireClient, packed: bytes) -> None:
    before = end_offset(client, COMPACTED)
    (part,) = client.produce(packed, topic=COMPACTED, acks=-1)
    assert part.error_code in (CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_RECORD), part
    assert end_offset(client, COMPACTED) == before


def test_a_bomb_and_a_search_by_time(client: WireClient, packed: bytes) -> None:
    (made,) = client.produce(packed, topic=TOPIC, acks=1)
    answer = listed(client, 1)
    assert made.error_code == 0
    # 0 where a batch of another test stands before it
    assert answer.error_code in (0, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE), answer


def test_real_compressed_batches_are_taken(client: WireClient) -> None:
    for codec in CODECS.values():
        record = Record(1_700_000_000_000, b"k", b"v" * 1000)
        octets = bytes(_batch_builder.batch([record], codec=codec))
        (part,) = client.produce(octets, topic=COMPACTED, acks=-1)
        assert part.error_code == 0, (codec, part)
