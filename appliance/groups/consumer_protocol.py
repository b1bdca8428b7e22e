"""What consumers write into their group's metadata, as far as the broker must know.

    subscription  version int16, topics array of string, user data bytes; more in later versions
    assignment    version int16, partitions array of (topic, array of int32), user data bytes

Joining never depends on it: bytes that cannot be read are somebody else's protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from appliance.protocol.codec import decode, encode
from appliance.protocol.errors import MalformedMessage
from appliance.protocol.types import Message, Versions, array, data, field, int16, int32, string

CONSUMER = "consumer"  # the protocol type of consumers; Connect and Streams have their own

# Version 0, no partitions, no user data.
NO_PARTITIONS = bytes.fromhex("0000 00000000 ffffffff")


class TopicPartitions(Message):
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


class Subscription(Message):
    """Its beginning: up to the topics it is the same in all versions, and what version 1 added is
    the same in those after it."""

    VERSIONS: ClassVar = Versions(0, 1)

    version: int = field(int16)
    topics: list[str] = field(array(string))
    user_data: bytes | None = field(data, "1+", nullable="1+", default=None)
    owned_partitions: list[TopicPartitions] = field(array(TopicPartitions), "1+")

    def owned(self) -> dict[str, list[int]]:
        return {each.topic: each.partitions for each in self.owned_partitions}


class Assignment(Message):
    VERSIONS: ClassVar = Versions(0, 0)

    version: int = field(int16)
    partitions: list[TopicPartitions] = field(array(TopicPartitions))
    user_data: bytes | None = field(data, nullable="0+", default=None)


def topics(metadata: bytes) -> frozenset[str] | None:
    """None: not to be read."""
    try:
        return frozenset(decode(Subscription, metadata, 0, may_go_on=True).topics)
    except MalformedMessage:
        return None


def read(metadata: bytes) -> Subscription | None:
    """With what its member still has, from version 1 on. None: not to be read."""
    try:
        wanted = decode(Subscription, metadata, 0, may_go_on=True)
        if wanted.version >= 1:
            wanted = decode(Subscription, metadata, 1, may_go_on=True)
        return wanted
    except MalformedMessage:
        return None


def assigned(assignment: bytes) -> dict[str, list[int]]:
    """Nothing, where it cannot be read."""
    try:
        decoded = decode(Assignment, assignment, 0, may_go_on=True)
        return {each.topic: each.partitions for each in decoded.partitions}
    except MalformedMessage:
        return {}


def assignment(version: int, places: Mapping[str, list[int]]) -> bytes:
    """In the version in which its member speaks: all of them are alike."""
    rows = [TopicPartitions(name, places[name]) for name in sorted(places)]
    return encode(Assignment(version, rows), 0)
