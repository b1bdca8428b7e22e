"""The file `watermarks` of a data directory (`_watermark_file.pyx`), as tests see and change it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from appliance._crc import crc32c

HEADER = struct.Struct(">8sqqqq36sI")
HEADERS = (0, 4096)
SLOTS_AT, SLOT_SIZE, NOTES_AT, NOTE_STEP = 8192, 512, 320, 32
NOTE = struct.Struct(">qqI")


def _headers(data: bytes) -> list[tuple[int, tuple[bytes, int, int, int, int, bytes, int]]]:
    found = [(at, HEADER.unpack_from(data, at)) for at in HEADERS if len(data) >= at + HEADER.size]
    whole = [(at, each) for at, each in found if each[6] == crc32c(data[at : at + 76])]
    return sorted(whole, key=lambda each: each[1][1])


def _life(data: bytes) -> int:
    return _headers(data)[-1][1][2]


def _slots(data: bytes) -> Iterator[tuple[str, int, int]]:
    """(name, where its notes begin, the CRC so far) of every slot of this life."""
    life = struct.pack(">q", _life(data))
    for at in range(SLOTS_AT, len(data) - SLOT_SIZE + 1, SLOT_SIZE):
        seed, size = struct.unpack_from(">IH", data, at)
        if 0 < size <= 255 and seed == crc32c(data[at + 4 : at + 6 + size], crc32c(life)):
            yield data[at + 6 : at + 6 + size].decode(), at + NOTES_AT, seed


def noted(path: Path) -> dict[str, int]:
    """What the file says of each log."""
    data = (path / "watermarks").read_bytes()
    found = {}
    for name, at, seed in _slots(data):
        notes = [NOTE.unpack_from(data, at + step) for step in (0, NOTE_STEP)]
        good = [each for i, each in enumerate(notes)
                if each[2] == crc32c(data[at + i * NOTE_STEP :][:16], seed)]  # fmt: skip
        if good:
            found[name] = max(good, key=lambda each: each[1])[0]
    return found


def note(path: Path, name: str, offset: int) -> None:
    """As if the last commit had come that far."""
    file = path / "watermarks"
    data = bytearray(file.read_bytes())
    at, seed = next((at, seed) for each, at, seed in _slots(bytes(data)) if each == name)
    for step, sequence in ((0, 1 << 40), (NOTE_STEP, 1 << 41)):
        body = struct.pack(">qq", offset, sequence)
        NOTE.pack_into(data, at + step, offset, sequence, crc32c(body, seed))
    file.write_bytes(data)


def as_after_a_power_cut(path: Path) -> None:
    """As if another boot of the machine had written it."""
    file = path / "watermarks"
    data = bytearray(file.read_bytes())
    for at, header in _headers(bytes(data)):
        HEADER.pack_into(data, at, *header[:5], b"0" * 36, 0)
        struct.pack_into(">I", data, at + 76, crc32c(bytes(data[at : at + 76])))
    file.write_bytes(data)
