"""What consumers write into their group's metadata, as far as the broker must know.

    subscription  version int16, topics array of string, user data bytes; more in later versions
    assignment    version int16, partitions array of (topic, array of int32), user data bytes

Joining never depends on it: bytes that cannot be read are somebody else's protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from appliance.wire.codec import decode
from appliance.wire.errors import MalformedMessage
from appliance.wire.types import Versions, array, field, int16, string

# Version 0, no partitions, no user data.
NO_PARTITIONS = bytes.fromhex("0000 00000000 ffffffff")


@dataclass(slots=True)
class Subscription:
    """Its beginning, which is the same in all versions."""

    VERSIONS: ClassVar = Versions(0, 0)

    version: int = field(int16)
    topics: list[str] = field(array(string))


def topics(metadata: bytes) -> frozenset[str] | None:
    """None: not to be read."""
    try:
        return frozenset(decode(Subscription, metadata, 0, may_go_on=True).topics)
    except MalformedMessage:
        return None
