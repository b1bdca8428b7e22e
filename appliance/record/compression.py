"""The five codecs of a record batch, with a hard bound on what decompression may produce.

| id | name   | what is written                      | what is read besides                       |
|----|--------|--------------------------------------|--------------------------------------------|
| 0  | none   | the bytes                            |                                            |
| 1  | gzip   | one member                           | several members, any level and window      |
| 2  | snappy | Java's xerial framing, 32 KiB blocks | one raw block (librdkafka), joined streams |
| 3  | lz4    | one frame, independent 64 KiB blocks | linked blocks, several frames              |
| 4  | zstd   | one frame with its content size      | no content size, several, skippable frames |

What arrives was compressed by a client, so a few bytes may claim to be gigabytes. Nothing here
believes a claim: output is made piece by piece up to the bound, or the claimed size is compared
with it first. Damage is BatchCorrupt; output above the bound is BatchTooLarge, and whoever asked
chose the bound.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import lz4.frame
import snappy
import zstandard

from appliance.errors import BatchCodecUnknown, BatchCorrupt, BatchTooLarge

Bytes = bytes | bytearray | memoryview

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

# The default bound: 128 times the default max.message.bytes. Log lines and JSON rarely pack better
# than 30 to 1, and a batch that long would only be refused by its own producer's limits.
SIZE_MAX = 128 << 20

# Where a client waits, and eight may at a time, a batch may take less: so many times what it may
# have packed.
RATIO_MAX = 16

# Input handed to a decompressor at once. When a member or frame ends inside a piece, the library
# copies the rest of the piece; 64 KiB keeps a megabyte of tiny members from costing tens of
# gigabytes of copies.
PIECE_SIZE = 64 << 10

# Output asked for at once, so that a small batch does not allocate the whole bound.
OUTPUT_SIZE = 256 << 10

# zstd's own command line refuses windows above 2^27, and the highest level a producer can set (22)
# uses just that; windows up to 2^31 exist and would have one batch claim 2 GiB of memory.
ZSTD_WINDOW_SIZE_MAX = 1 << 27
ZSTD_BLOCK_SIZE_MAX = 128 << 10  # by the format: no block holds more, whatever its window

ZSTD_SKIPPABLE_MAGIC = 0x184D2A50  # to ...5F: user data, not content

# Java's writer cuts at 32 KiB, and its readers allocate a block at a time.
XERIAL_BLOCK_SIZE = 32 << 10
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER_SIZE = 16  # magic, i32 version, i32 lowest compatible version
XERIAL_HEADER = XERIAL_MAGIC + (1).to_bytes(4, "big") * 2

# A snappy copy makes at most 64 bytes out of 3. A raw block that claims more than this is a lie,
# and is refused before the claimed size is allocated.
SNAPPY_RATIO_MAX = 22


# lz4 raises RuntimeError and, for a frame cut short, EOFError.
_LIBRARY_ERRORS = (
    zlib.error,
    zstandard.ZstdError,
    snappy.UncompressError,
    RuntimeError,
    EOFError,
)

# The libraries' streams share no type. Used of them: eof, unused_data, decompress(piece, room).
_Begin = Callable[[], Any]
_Feed = Callable[[Any, Bytes, int], tuple[bytes, Bytes]]


def codec_id(codec: int | str) -> int:
    """The id of a codec given as id or name."""
    if isinstance(codec, str) and codec in NAMES:
        return NAMES.index(codec)
    if isinstance(codec, int) and 0 <= codec < len(NAMES):
        return codec
    raise BatchCodecUnknown(f"codec {codec!r}, known are 0 to {len(NAMES) - 1}: {', '.join(NAMES)}")


def compress(codec: int | str, data: Bytes) -> bytes:
    return _COMPRESS[codec_id(codec)](bytes(data))


def decompress(codec: int | str, data: Bytes, size_max: int = SIZE_MAX) -> bytes:
    """The bytes that `data` holds, at most `size_max` of them."""
    codec = codec_id(codec)
    given = memoryview(data).cast("B")
    try:
        return _DECOMPRESS[codec](given, size_max)
    except _LIBRARY_ERRORS as error:
        facts = f"{NAMES[codec]}: {len(given)} bytes do not decompress: {error}"
        raise BatchCorrupt(facts) from error


class _Bounded:
    """Output, collected up to its bound."""

    def __init__(self, name: str, size_max: int) -> None:
        self.name = name
        self.size_max = size_max
        self.size = 0
        self.pieces: list[bytes] = []

    @property
    def left(self) -> int:
        return self.size_max - self.size

    def add(self, piece: bytes) -> None:
        self.reserve(len(piece))
        self.pieces.append(piece)
        self.size += len(piece)

    def reserve(self, size: int) -> None:
        if size > self.left:
            raise BatchTooLarge(
                f"{self.name}: at least {self.size + size} bytes decompressed, "
                f"{self.size_max} allowed"
            )

    def joined(self) -> bytes:
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    return packer.compress(data) + packer.flush()


def _lz4(data: bytes) -> bytes:
    # Java's reader refuses linked blocks, this library's default.
    size = lz4.frame.BLOCKSIZE_MAX64KB
    return bytes(lz4.frame.compress(data, block_linked=False, block_size=size))


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def _snappy(data: bytes) -> bytes:
    framed = [XERIAL_HEADER]
    for at in range(0, len(data), XERIAL_BLOCK_SIZE):
        block = snappy.compress(data[at : at + XERIAL_BLOCK_SIZE])
        framed += [len(block).to_bytes(4, "big"), block]
    return b"".join(framed)


def _pieces(data: memoryview) -> Iterator[memoryview]:
    for at in range(0, len(data), PIECE_SIZE):
        yield data[at : at + PIECE_SIZE]


def _gunzip(data: memoryview, size_max: int) -> bytes:
    def feed(stream: Any, piece: Bytes, room: int) -> tuple[bytes, Bytes]:
        return stream.decompress(piece, room), stream.unconsumed_tail

    return _streamed(_Bounded("gzip", size_max), data, _gzip_stream, feed)


def _gzip_stream() -> Any:
    return zlib.decompressobj(zlib.MAX_WBITS | 16)  # 16: gzip's header, no other


def _unlz4(data: memoryview, size_max: int) -> bytes:
    def feed(stream: Any, piece: Bytes, room: int) -> tuple[bytes, Bytes]:
        return stream.decompress(piece, room), b""  # it keeps what it could not use yet

    return _streamed(_Bounded("lz4", size_max), data, lz4.frame.LZ4FrameDecompressor, feed)


def _streamed(out: _Bounded, data: memoryview, begin: _Begin, feed: _Feed) -> bytes:
    """Frames (or members) one behind the other; the last must be whole."""
    stream = begin()
    for piece in _pieces(data):
        rest: bytes | memoryview = piece
        while len(rest):
            if stream.eof:
                stream = begin()
            rest = _drained(out, stream, rest, feed)
    if not stream.eof:
        raise BatchCorrupt(f"{out.name}: {len(data)} bytes end inside a frame")
    return out.joined()


def _drained(out: _Bounded, stream: Any, piece: Bytes, feed: _Feed) -> bytes:
    """All output that `piece` gives; returns what stands in it behind the end of the frame."""
    while True:
        # one byte above the bound is asked for, to tell reaching it from passing it
        room = min(out.left + 1, OUTPUT_SIZE)
        made, piece = feed(stream, piece, room)
        out.add(made)
        if stream.eof:
            return stream.unused_data or b""
        if not piece and len(made) < room:
            return b""


def _unzstd(data: memoryview, size_max: int) -> bytes:
    """Frame by frame. The library's stream ends in silence when its input does, so `_zstd_frames`
    has made sure that each frame is whole."""
    out = _Bounded("zstd", size_max)
    unpacker = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_SIZE_MAX)
    for frame, size_bound in _zstd_frames(data):
        facts = zstandard.get_frame_parameters(frame)
        if facts.window_size > ZSTD_WINDOW_SIZE_MAX:
            raise BatchTooLarge(
                f"zstd: window of {facts.window_size}, {ZSTD_WINDOW_SIZE_MAX} allowed"
            )
        if facts.content_size != zstandard.CONTENTSIZE_UNKNOWN:
            out.reserve(facts.content_size)
        with unpacker.stream_reader(frame) as stream:
            out.add(stream.read(min(out.left, size_bound) + 1))
    return out.joined()


def _zstd_frames(data: memoryview) -> Iterator[tuple[memoryview, int]]:
    """Each whole frame and the most that its blocks can hold; skippable frames are passed over."""
    at = 0
    while at < len(data):
        if int.from_bytes(data[at : at + 4], "little") & ~0xF == ZSTD_SKIPPABLE_MAGIC:
            end = at + 8 + _little(data, at + 4, 4)
        else:
            end, size_bound = _zstd_frame_end(data, at)
            yield data[at:end], size_bound
        at = end
    if at != len(data) or at == 0:
        raise BatchCorrupt(f"zstd: {len(data)} bytes end inside a frame")


def _zstd_frame_end(data: memoryview, start: int) -> tuple[int, int]:
    """Each block begins with an i24, little-endian: last (1 bit), type (2) and size (21)."""
    at, size_bound, is_last = start + zstandard.frame_header_size(data[start:]), 0, False
    while not is_last:
        head = _little(data, at, 3)
        is_last, kind, size = bool(head & 1), head >> 1 & 3, head >> 3
        size_bound += min(size, ZSTD_BLOCK_SIZE_MAX) if kind != 2 else ZSTD_BLOCK_SIZE_MAX
        at += 3 + (1 if kind == 1 else size)  # type 1: one byte, repeated `size` times
    has_checksum = zstandard.get_frame_parameters(data[start:]).has_checksum
    at += 4 if has_checksum else 0
    if at > len(data):
        raise BatchCorrupt(f"zstd: frame ends at byte {at}, {len(data)} given")
    return at, size_bound


def _little(data: memoryview, at: int, size: int) -> int:
    if at + size > len(data):
        raise BatchCorrupt(f"zstd: {size} bytes wanted at byte {at}, {len(data)} given")
    return int.from_bytes(data[at : at + size], "little")


def _unsnappy(data: memoryview, size_max: int) -> bytes:
    out = _Bounded("snappy", size_max)
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        _add_snappy_block(out, data)
        return out.joined()
    # Redpanda wrote the two version numbers in the wrong byte order: only the magic is looked at.
    at = 0
    while at < len(data):
        if data[at : at + len(XERIAL_MAGIC)] == XERIAL_MAGIC:
            at += XERIAL_HEADER_SIZE
            continue
        size = int.from_bytes(data[at : at + 4], "big")
        if at + 4 + size > len(data):
            raise BatchCorrupt(f"snappy: block of {size} bytes at byte {at}, {len(data)} given")
        _add_snappy_block(out, data[at + 4 : at + 4 + size])
        at += 4 + size
    if at != len(data):
        raise BatchCorrupt(f"snappy: header ends at byte {at}, {len(data)} given")
    return out.joined()


def _add_snappy_block(out: _Bounded, block: memoryview) -> None:
    size = _snappy_size(block)
    if size > len(block) * SNAPPY_RATIO_MAX:
        raise BatchCorrupt(f"snappy: block of {len(block)} bytes claims to hold {size}")
    out.reserve(size)
    made = snappy.uncompress(block)
    if len(made) != size:
        raise BatchCorrupt(f"snappy: block held {len(made)} bytes, {size} claimed")
    out.add(made)


def _snappy_size(block: memoryview) -> int:
    """The varint before the block: the size it decompresses to, below 2^32."""
    size = 0
    for i, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * i
        if byte < 0x80 and size < 1 << 32:
            return size
    raise BatchCorrupt(f"snappy: block of {len(block)} bytes has no size")


def _as_it_is(data: memoryview, size_max: int) -> bytes:
    out = _Bounded("none", size_max)
    out.reserve(len(data))
    return bytes(data)


_COMPRESS: tuple[Callable[[bytes], bytes], ...] = (bytes, _gzip, _snappy, _lz4, _zstd)
_DECOMPRESS: tuple[Callable[[memoryview, int], bytes], ...] = (
    _as_it_is,
    _gunzip,
    _unsnappy,
    _unlz4,
    _unzstd,
)
