"""The five codecs: other writers' bytes are read, damage is refused, bombs stop at the bound."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance import errors
from appliance.record import compression
from appliance.record.compression import NAMES, XERIAL_HEADER, XERIAL_MAGIC, compress, decompress

PACKED = [name for name in NAMES if name != "none"]
TEXT = b"".join(b'{"id": %d, "name": "sensor-%d"}\n' % (i, i % 17) for i in range(3000))
SIZES = [0, 1, 2, 100, (32 << 10) - 1, 32 << 10, (32 << 10) + 1, 64 << 10, 300_001]

MIB = 1 << 20
BOMB_SIZE = 256 * MIB


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def framed(*blocks: bytes) -> bytes:
    """Snappy blocks in Java's framing."""
    return XERIAL_HEADER + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)


def zstd_stream(data: bytes, **options: bool) -> bytes:
    """As a streaming writer leaves it: no content size in the header."""
    packer = zstandard.ZstdCompressor(write_content_size=False, **options).compressobj()
    return packer.compress(data) + packer.flush()


# Round trips


@pytest.mark.parametrize("codec", NAMES)
@pytest.mark.parametrize("size", SIZES)
def test_what_was_compressed_comes_back(codec: str, size: int) -> None:
    for data in (noise(size), TEXT[:size] * (1 + size // len(TEXT))):
        packed = compress(codec, data)
        assert decompress(codec, packed, len(data)) == data
        assert decompress(codec, memoryview(bytearray(packed))) == data


@pytest.mark.parametrize("codec", PACKED)
def test_the_bound_is_exact(codec: str) -> None:
    for data in (noise(100_000), TEXT, bytes(3 * MIB)):
        packed = compress(codec, data)
        assert decompress(codec, packed, len(data)) == data
        with pytest.raises(errors.BatchTooLarge, match=f"{len(data) - 1} allowed"):
            decompress(codec, packed, len(data) - 1)


def test_uncompressed_bytes_are_bounded_too() -> None:
    with pytest.raises(
        errors.BatchTooLarge, match="none: at least 5 bytes decompressed, 4 allowed"
    ):
        decompress("none", b"12345", 4)


def test_codecs_go_by_number_or_name() -> None:
    assert [compression.codec_id(name) for name in NAMES] == [0, 1, 2, 3, 4]
    assert [compression.codec_id(i) for i in range(5)] == [0, 1, 2, 3, 4]
    for codec in (-1, 5, 7, "bzip2", ""):
        with pytest.raises(errors.BatchCodecUnknown, match=r"known are 0 to 4: none, gzip"):
            compression.codec_id(codec)


# What other writers do

OTHER_WRITERS: dict[str, tuple[str, bytes]] = {
    "gzip, two members": ("gzip", gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:])),
    "gzip, an empty member between": (
        "gzip",
        gzip.compress(TEXT[:9]) + gzip.compress(b"") + gzip.compress(TEXT[9:]),
    ),
    "gzip, stored only": ("gzip", gzip.compress(TEXT, 0)),
    "gzip, with a file name": (
        "gzip",
        b"\x1f\x8b\x08\x08\0\0\0\0\0\xffname\0" + gzip.compress(TEXT)[10:],
    ),
    "snappy, one raw block": ("snappy", snappy.compress(TEXT)),
    "snappy, one framed block": ("snappy", framed(snappy.compress(TEXT))),
    "snappy, versions in the wrong byte order": (
        "snappy",
        XERIAL_MAGIC + (1).to_bytes(4, "little") * 2 + framed(snappy.compress(TEXT))[16:],
    ),
    "snappy, two framed streams": (
        "snappy",
        framed(snappy.compress(TEXT[:50])) + framed(snappy.compress(TEXT[50:])),
    ),
    "lz4, linked blocks": ("lz4", lz4.frame.compress(TEXT, block_linked=True)),
    "lz4, checksums and content size": (
        "lz4",
        lz4.frame.compress(TEXT, content_checksum=True, block_checksum=True, store_size=True),
    ),
    "lz4, 4 MiB blocks, high": (
        "lz4",
        lz4.frame.compress(TEXT, block_size=lz4.frame.BLOCKSIZE_MAX4MB, compression_level=9),
    ),
    "lz4, two frames": ("lz4", lz4.frame.compress(TEXT[:70]) + lz4.frame.compress(TEXT[70:])),
    "zstd, no content size": ("zstd", zstd_stream(TEXT)),
    "zstd, checksum": ("zstd", zstd_stream(TEXT, write_checksum=True)),
    "zstd, two frames": ("zstd", zstd_stream(TEXT[:70]) + compress("zstd", TEXT[70:])),
    "zstd, an empty frame first": ("zstd", compress("zstd", b"") + zstd_stream(TEXT)),
    "zstd, a skippable frame first": (
        "zstd",
        b"\x53\x2a\x4d\x18\x03\0\0\0abc" + compress("zstd", TEXT),
    ),
    "zstd, highest level": ("zstd", zstandard.ZstdCompressor(level=22).compress(TEXT)),
}


@pytest.mark.parametrize(("codec", "packed"), OTHER_WRITERS.values(), ids=OTHER_WRITERS)
def test_another_writer_s_bytes_are_read(codec: str, packed: bytes) -> None:
    assert decompress(codec, packed, len(TEXT)) == TEXT


def test_java_finds_what_it_insists_on() -> None:
    """Its lz4 reader takes no linked blocks; its snappy reader knows the header by its magic."""
    facts = lz4.frame.get_frame_info(compress("lz4", TEXT))
    assert not facts["block_linked"]
    assert facts["block_size"] == 64 << 10
    packed = compress("snappy", TEXT)
    assert packed[:16] == bytes.fromhex("82534e41505059000000000100000001")
    first = int.from_bytes(packed[16:20], "big")
    assert snappy.uncompress(packed[20 : 20 + first]) == TEXT[: 32 << 10]


# Damage


@pytest.mark.parametrize("codec", PACKED)
def test_a_stream_cut_at_any_byte_is_refused(codec: str) -> None:
    packed = compress(codec, TEXT[:2000])
    for size in range(len(packed)):
        if codec == "snappy" and size == len(XERIAL_HEADER):
            continue  # a framed stream of no blocks: whole, and empty
        with pytest.raises(errors.BatchCorrupt):
            decompress(codec, packed[:size])


@pytest.mark.parametrize(
    ("codec", "packed"), [OTHER_WRITERS[name] for name in OTHER_WRITERS if "two" in name]
)
def test_a_second_frame_cut_short_is_refused(codec: str, packed: bytes) -> None:
    for cut in (1, 4, 10):
        with pytest.raises(errors.BatchCorrupt):
            decompress(codec, packed[:-cut])


@pytest.mark.parametrize("codec", PACKED)
def test_bytes_behind_the_stream_are_refused(codec: str) -> None:
    for rubbish in (b"\0", b"\0" * 20, b"rubbish behind the stream"):
        with pytest.raises(errors.ApplianceError):
            decompress(codec, compress(codec, TEXT) + rubbish)


def zstd_frame(window: int, *blocks: bytes) -> bytes:
    """A frame with neither content size nor checksum, its window 2^(10 + window)."""
    return b"\x28\xb5\x2f\xfd\x00" + bytes([window << 3]) + b"".join(blocks)


def zstd_block(kind: int, size: int, content: bytes, *, is_last: bool = True) -> bytes:
    return (is_last | kind << 1 | size << 3).to_bytes(3, "little") + content


def lz4_with_wrong_header_checksum() -> bytes:
    packed = bytearray(lz4.frame.compress(TEXT))
    descriptor_end = 4 + 2 + (8 if packed[4] & 0x08 else 0)
    packed[descriptor_end] ^= 1
    return bytes(packed)


DAMAGED: dict[str, tuple[str, bytes, type[errors.ApplianceError]]] = {
    "gzip, wrong CRC": (
        "gzip",
        gzip.compress(TEXT)[:-8] + bytes(4) + gzip.compress(TEXT)[-4:],
        errors.BatchCorrupt,
    ),
    "gzip, in truth zlib": ("gzip", zlib.compress(TEXT), errors.BatchCorrupt),
    "snappy, nothing": ("snappy", b"", errors.BatchCorrupt),
    "snappy, size of six bytes": ("snappy", b"\x80" * 6, errors.BatchCorrupt),
    "snappy, size above 32 bits": (
        "snappy",
        b"\xff\xff\xff\xff\x1f" + bytes(9),
        errors.BatchCorrupt,
    ),
    "snappy, claims 4 GiB in ten bytes": (
        "snappy",
        b"\xff\xff\xff\xff\x0f" + bytes(5),
        errors.BatchCorrupt,
    ),
    "snappy, one byte claimed too many": (
        "snappy",
        b"\x04" + snappy.compress(b"abc")[1:],
        errors.BatchCorrupt,
    ),
    "snappy, block longer than the rest": (
        "snappy",
        XERIAL_HEADER + (9).to_bytes(4, "big") + b"12345678",
        errors.BatchCorrupt,
    ),
    "snappy, block of -1 bytes": ("snappy", XERIAL_HEADER + b"\xff" * 4, errors.BatchCorrupt),
    "snappy, block of 0 bytes": ("snappy", XERIAL_HEADER + bytes(4), errors.BatchCorrupt),
    "snappy, block length cut": ("snappy", XERIAL_HEADER + bytes(3), errors.BatchCorrupt),
    "lz4, wrong header checksum": ("lz4", lz4_with_wrong_header_checksum(), errors.BatchCorrupt),
    "lz4, wrong content checksum": (
        "lz4",
        lz4.frame.compress(TEXT, content_checksum=True)[:-1] + b"\x99",
        errors.BatchCorrupt,
    ),
    "zstd, not a frame": ("zstd", b"not a frame at all", errors.BatchCorrupt),
    "zstd, window of 2 GiB": (
        "zstd",
        zstd_frame(21, zstd_block(0, 3, b"abc")),
        errors.BatchTooLarge,
    ),
    "zstd, reserved block type": (
        "zstd",
        zstd_frame(0, zstd_block(3, 3, b"abc")),
        errors.BatchCorrupt,
    ),
    "zstd, no last block": (
        "zstd",
        zstd_frame(0, zstd_block(0, 3, b"abc", is_last=False)),
        errors.BatchCorrupt,
    ),
    "zstd, only a skippable frame that ends early": (
        "zstd",
        b"\x50\x2a\x4d\x18\xff\xff\xff\xff",
        errors.BatchCorrupt,
    ),
    "zstd, claims 2^60 bytes": (
        "zstd",
        b"\x28\xb5\x2f\xfd\xe0" + (1 << 60).to_bytes(8, "little") + zstd_block(0, 3, b"abc"),
        errors.BatchTooLarge,
    ),
}


@pytest.mark.parametrize(("codec", "packed", "error"), DAMAGED.values(), ids=DAMAGED)
def test_a_lie_is_refused(codec: str, packed: bytes, error: type[errors.ApplianceError]) -> None:
    with pytest.raises(error):
        decompress(codec, packed)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PACKED), st.binary(max_size=60), st.integers(0, 200))
def test_random_bytes_are_refused_or_stay_in_bounds(codec: str, data: bytes, size_max: int) -> None:
    for packed in (data, compress(codec, b"")[:6] + data):
        try:
            assert len(decompress(codec, packed, size_max)) <= size_max
        except errors.ApplianceError:
            continue


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PACKED), st.data())
def test_a_damaged_stream_is_refused_or_stays_in_bounds(codec: str, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, TEXT[:3000]))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert len(decompress(codec, bytes(packed), 4000)) <= 4000
    except errors.ApplianceError:
        return


# Bombs


def gzip_bomb() -> bytes:
    packer = zlib.compressobj(wbits=31)
    return b"".join([*(packer.compress(bytes(MIB)) for _ in range(256)), packer.flush()])


def lz4_bomb() -> bytes:
    with lz4.frame.LZ4FrameCompressor() as packer:
        packed = [packer.begin()]
        packed += [packer.compress(bytes(MIB)) for _ in range(256)]
        return b"".join([*packed, packer.flush()])


def zstd_bomb() -> bytes:
    """Four bytes for each 128 KiB, the format's densest."""
    block = zstd_block(1, 128 << 10, b"\0", is_last=False)
    return zstd_frame(10, block * (BOMB_SIZE >> 17), zstd_block(0, 0, b""))


BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "gzip": ("gzip", gzip_bomb),
    "snappy, one block": ("snappy", lambda: snappy.compress(bytes(BOMB_SIZE))),
    "snappy, many blocks": ("snappy", lambda: framed(*[snappy.compress(bytes(MIB))] * 256)),
    "lz4": ("lz4", lz4_bomb),
    "zstd": ("zstd", zstd_bomb),
    "zstd, many frames": ("zstd", lambda: compress("zstd", bytes(MIB)) * 256),
}


@pytest.mark.parametrize(("codec", "make"), BOMBS.values(), ids=BOMBS)
def test_a_bomb_stops_at_the_bound_in_bounded_memory(codec: str, make: Callable[[], bytes]) -> None:
    bomb = make()
    tracemalloc.start()
    with pytest.raises(errors.BatchTooLarge, match=f"{MIB} allowed"):
        decompress(codec, bomb, MIB)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * MIB


PEAK_OF_A_BOMB = """
import pathlib, resource, sys
from appliance import errors
from appliance.record import compression
codec, path = sys.argv[1:]
bomb = pathlib.Path(path).read_bytes()
compression.decompress(codec, compression.compress(codec, bytes(1 << 20)), 1 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    compression.decompress(codec, bomb, 1 << 20)
except errors.BatchTooLarge:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("name", ["gzip", "lz4", "zstd", "snappy, one block"])
def test_the_libraries_own_memory_stays_small_too(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    codec, make = BOMBS[name]
    path = tmp_path_factory.mktemp("bomb") / "bytes"
    path.write_bytes(make())
    command = [sys.executable, "-c", PEAK_OF_A_BOMB, codec, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 16 << 10  # KiB


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_megabyte_of_empty_frames_takes_no_quadratic_time(codec: str) -> None:
    empty = compress(codec, b"")
    packed = empty * (MIB // len(empty))
    began = time.process_time()
    assert decompress(codec, packed) == b""
    assert (
        time.process_time() - began < 5
    )  # under one second here; copying the rest each time would be minutes
