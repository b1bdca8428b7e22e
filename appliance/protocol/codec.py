"""Encodes and decodes messages by plans from the field tables, one plan per class and version.

A field that a version lacks is not written, and has its default after decoding. Decoding trusts no
size and no count: each is compared with the remaining bytes before memory is allocated.
"""

from __future__ import annotations

from typing import Any, TypeVar

from appliance.protocol._codec import Malformed, Plan
from appliance.protocol.errors import MalformedMessage, VersionUnsupported
from appliance.protocol.plan import plan_of
from appliance.protocol.types import Versions

Message = TypeVar("Message")

Bytes = bytes | bytearray | memoryview

PLANS: dict[tuple[Any, int], Plan] = {}


class Pieces(tuple[Bytes, ...]):
    """Bytes in several pieces, which saves a copy."""

    def __len__(self) -> int:
        return sum(map(len, self))


def encode(message: Any, version: int) -> bytes:
    plan = PLANS.get((type(message), version)) or _plan(type(message), version)
    return plan.encode(message)


def encode_parts(message: Any, version: int) -> list[Bytes]:
    """As parts that are to be joined, which saves copying large fields. A field of bytes may be
    `Pieces`."""
    return _plan(type(message), version).encode_parts(message)


def decode(
    message: type[Message],
    data: Bytes,
    version: int,
    *,
    may_go_on: bool = False,
    borrow: bool = False,
) -> Message:
    """`may_go_on`: bytes after the end are allowed. librdkafka sends some after an empty array of
    its Metadata requests, and Kafka ignores them.

    `borrow`: fields of bytes are views of `data`, which is not copied. It pays for many fields.
    """
    plan = PLANS.get((message, version)) or _plan(message, version)
    try:
        found, end = plan.decode(data, 0, borrow)
        if end != len(data) and not may_go_on:
            raise Malformed(f"{len(data) - end} bytes after the end at {end}")
    except (Malformed, UnicodeDecodeError) as why:
        raise MalformedMessage(f"{message.__name__} version {version}: {why}") from why
    assert isinstance(found, message)
    return found


def _plan(message: Any, version: int) -> Plan:
    plan = PLANS.get((message, version))
    if plan is None:
        plan = PLANS[message, version] = plan_of(message, version, _is_flexible(message, version))
    return plan


def _is_flexible(message: Any, version: int) -> bool:
    versions: Versions = message.VERSIONS
    if version not in versions:
        span = f"{versions.first} to {versions.last}"
        raise VersionUnsupported(f"{message.__name__}: got version {version}, wanted {span}")
    return versions.is_flexible(version)
