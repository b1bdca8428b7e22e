"""Messages to bytes and back, by functions made from the field tables, one per class and version.

A field that a version lacks is not written, and has its default after reading. Reading believes no
size and no count: each is held against the bytes that remain before anything is made of it.
"""

from __future__ import annotations

import struct
from typing import Any, TypeVar

from appliance.wire import decoder, encoder
from appliance.wire.errors import MalformedMessage, VersionUnsupported
from appliance.wire.types import Versions

Message = TypeVar("Message")

Bytes = bytes | bytearray | memoryview

PART_SIZE_MIN = 4096  # below it a copy costs less than one more part in a system call

ENCODERS: dict[tuple[Any, int], encoder.Encode] = {}
DECODERS: dict[tuple[Any, int], decoder.Decode] = {}


def encode(message: Any, version: int) -> bytes:
    out = bytearray()
    _encoder(type(message), version)(message, out)
    return bytes(out)


def encode_parts(message: Any, version: int) -> list[Bytes]:
    """The same without copying what is large: the bytes are all parts one behind the other. A field
    of bytes may be `Pieces`."""
    out = Parts()
    _encoder(type(message), version)(message, out)  # type: ignore[arg-type]
    return out.ended()


class Pieces(tuple[Bytes, ...]):
    """Bytes in several pieces, where one piece would cost a copy."""

    def __len__(self) -> int:
        return sum(map(len, self))


class Parts:
    """Grows as a bytearray does, as far as the encoders ask it to."""

    def __init__(self) -> None:
        self.done: list[Bytes] = []
        self.last = bytearray()

    def append(self, octet: int) -> None:
        self.last.append(octet)

    def __iadd__(self, more: Bytes | Pieces) -> Parts:
        pieces = more if isinstance(more, Pieces) else (more,)
        for each in pieces:
            if len(each) < PART_SIZE_MIN:
                self.last += each
            else:
                self.done += [self.last, each]
                self.last = bytearray()
        return self

    def ended(self) -> list[Bytes]:
        return [*self.done, self.last]


def decode(
    message: type[Message],
    data: bytes | memoryview,
    version: int,
    *,
    may_go_on: bool = False,
    borrow: bool = False,
) -> Message:
    """`may_go_on`: bytes after the end are no fault. librdkafka sends some behind an empty array of
    its Metadata requests, and Kafka ignores them.

    `borrow`: fields of bytes are views of `data`, which is not copied. It pays where they are many.
    """
    read = _decoder(message, version)
    octets: Any = data
    if not borrow:
        octets = bytes(data)  # no copy of what is bytes already; indexing bytes is the fastest
    try:
        found, end = read(octets, 0, len(octets))
        if end != len(octets) and not may_go_on:
            raise MalformedMessage(f"{len(octets) - end} bytes after the end at {end}")
    except (MalformedMessage, struct.error, IndexError, UnicodeDecodeError) as why:
        text = f"wanted more than {len(octets)} bytes" if isinstance(why, IndexError) else why
        raise MalformedMessage(f"{message.__name__} version {version}: {text}") from why
    assert isinstance(found, message)
    return found


def _encoder(message: type, version: int) -> encoder.Encode:
    found = ENCODERS.get((message, version))
    if found is None:
        found = encoder.encoder_of(message, version, _is_flexible(message, version))
        ENCODERS[message, version] = found
    return found


def _decoder(message: type, version: int) -> decoder.Decode:
    found = DECODERS.get((message, version))
    if found is None:
        found = decoder.decoder_of(message, version, _is_flexible(message, version))
        DECODERS[message, version] = found
    return found


def _is_flexible(message: Any, version: int) -> bool:
    versions: Versions = message.VERSIONS
    if version not in versions:
        span = f"{versions.first} to {versions.last}"
        raise VersionUnsupported(f"{message.__name__}: got version {version}, wanted {span}")
    return versions.is_flexible(version)
