"""The hash of records, compared with SipHash's published vectors and a plain implementation."""

from __future__ import annotations

import random
import struct
from typing import Any

import pyarrow as pa
import pytest

from appliance_spark import export_hash

HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("headers", pa.list_(HEADER)),
    ]
)
MASK = (1 << 64) - 1


def turned(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (64 - bits))) & MASK


def rounds(v: list[int], count: int) -> None:
    for _ in range(count):
        v[0] = (v[0] + v[1]) & MASK
        v[1] = turned(v[1], 13) ^ v[0]
        v[0] = turned(v[0], 32)
        v[2] = (v[2] + v[3]) & MASK
        v[3] = turned(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & MASK
        v[3] = turned(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & MASK
        v[1] = turned(v[1], 17) ^ v[2]
        v[2] = turned(v[2], 32)


def siphash(data: bytes) -> int:
    """SipHash-2-4 under the key 00 .. 0f, word by word as in its paper."""
    low, high = struct.unpack("<QQ", bytes(range(16)))
    v = [low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D]
    v += [low ^ 0x6C7967656E657261, high ^ 0x7465646279746573]
    whole = len(data) // 8 * 8
    words = [*struct.unpack(f"<{whole // 8}Q", data[:whole])]
    words.append(int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56)
    for word in words:
        v[3] ^= word
        rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def sized(data: bytes | None) -> bytes:
    return struct.pack("<i", -1) if data is None else struct.pack("<i", len(data)) + data


def plain(partition: int, row: dict[str, Any], timestamp: int) -> int:
    headers = row["headers"] or []
    data = struct.pack("<iqq", partition, row["offset"], timestamp)
    data += sized(row["key"]) + sized(row["value"]) + struct.pack("<i", len(headers))
    for each in headers:
        data += sized(each["key"].encode()) + sized(each["value"])
    return siphash(data)


def some_bytes(source: random.Random) -> bytes | None:
    return None if source.random() < 0.2 else source.randbytes(source.randrange(40))


def some_rows(count: int, seed: int) -> list[dict[str, Any]]:
    source = random.Random(seed)
    return [
        {
            "key": some_bytes(source),
            "value": some_bytes(source),
            "offset": source.randrange(1 << 40),
            "timestamp": source.randrange(1 << 50),
            "headers": source.choice(
                [None, [], [{"key": "a" * source.randrange(9), "value": some_bytes(source)}] * 2]
            ),
        }
        for _ in range(count)
    ]


def test_the_plain_reading_gives_the_published_vectors() -> None:
    assert siphash(b"") == 0x726FDB47DD0E0E31
    assert siphash(bytes(range(15))) == 0xA129CA6149BE45E5


@pytest.mark.parametrize("cut", [(0, 60), (3, 41), (59, 1), (7, 0)])
def test_each_record_has_the_hash_of_its_bytes(cut: tuple[int, int]) -> None:
    rows = some_rows(60, seed=cut[0])
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA).slice(*cut)
    wanted = [plain(5, row, row["timestamp"]) for row in rows[cut[0] : cut[0] + cut[1]]]
    found = export_hash.hashes(batch, 5)
    assert found.to_pylist() == wanted
    assert export_hash.sum_of(found) == sum(wanted) % (1 << 64)


def test_a_sum_does_not_depend_on_order_or_on_batches() -> None:
    rows = some_rows(100, seed=1)
    whole = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    turned_round = pa.RecordBatch.from_pylist(rows[::-1], schema=SCHEMA)
    parts = [export_hash.sum_of(export_hash.hashes(whole.slice(i, 9), 0)) for i in range(0, 100, 9)]
    assert export_hash.total(parts) == export_hash.sum_of(export_hash.hashes(turned_round, 0))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("key", b""),  # null is not empty
        ("value", b"other"),
        ("offset", 8),
        ("timestamp", 1),
        ("headers", [{"key": "k", "value": b"v"}]),
        ("headers", [{"key": "", "value": b"kv"}, {"key": "kv", "value": None}]),
    ],
)
def test_a_change_of_any_column_is_seen(column: str, value: Any) -> None:
    row = {"key": None, "value": b"v", "offset": 7, "timestamp": 0, "headers": []}
    both = pa.RecordBatch.from_pylist([row, {**row, column: value}], schema=SCHEMA)
    first, second = export_hash.hashes(both, 0).to_pylist()
    assert first != second
    assert first != export_hash.hashes(both, 1)[0].as_py()
