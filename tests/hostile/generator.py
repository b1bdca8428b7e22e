"""Requests of every API and version, made from the field tables: valid requests for existing
objects, with single fields changed.

A request with a wrong size ends in the decoder. A well formed one with 2^31 - 1 in a field reaches
the code behind the decoder, so each integer of every table gets such values.
"""

from __future__ import annotations

import math
import random
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from appliance._crc import crc32c
from appliance.api.handlers import HANDLERS, SERVED
from appliance.protocol import API
from appliance.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from appliance.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse
from appliance.protocol.types import Array, Data, Fixed, Row, Text, is_struct, rows_of, struct_of
from tests.hostile.witness import METADATA, batch
from tests.support.doors import Address, Door, door_to
from tests.support.wire_client import frame_of
from tests.support.wire_frames import frames

INTEGERS = {"b": 8, "h": 16, "i": 32, "q": 64, "H": 16, "I": 32}
DELETE_TOPICS = 20
INIT_PRODUCER_ID = 22

# The value of a field in a valid request, by its name. Other fields get a value by their type.
VALID: dict[str, Any] = {
    "acks": -1, "timeout_ms": 1000, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000,
    "transaction_timeout_ms": 10_000, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20, "max_records": 10, "batch_size": 10, "session_epoch": -1,
    "replica_id": -1, "committed_leader_epoch": -1, "current_leader_epoch": -1,
    "last_fetched_epoch": -1, "leader_epoch": 0, "generation_id": -1, "num_partitions": 1,
    "generation_id_or_member_epoch": -1, "retention_time_ms": -1, "replication_factor": 1,
    "count": 2, "response_partition_limit": 100, "iterations": 4096, "mechanism": 1,
    "resource_type": 2, "resource_type_filter": 2, "resource_pattern_type": 3, "operation": 3,
    "pattern_type_filter": 3, "permission_type": 3, "timestamp": -1, "duration_filter": -1,
    "max_lifetime_ms": -1, "protocol_type": "consumer", "endpoint_type": 1, "value": "1",
    "client_software_name": "fuzz", "client_software_version": "1", "host": "*",
    "principal": "User:fuzz", "salt": b"salt", "salted_password": b"x" * 32, "entity_type": "user",
    "entity_name": "fuzz", "key": "producer_byte_rate", "subscribed_topic_regex": None,
    "assignment": b"", "metadata": b"", "configs": [], "member_id": "", "instance_id": None,
    "group_instance_id": None, "rack_id": None, "server_assignor": None, "records": b"",
    "broker_ids": [1], "replicas": [1], "assignments": [], "acknowledgement_batches": [],
    "forgotten_topics_data": [], "cursor": None, "match": None, "match_type": 2,
    "states_filter": [], "types_filter": [],
}  # fmt: skip
# By path: where a name has another meaning, or where a list above must be used.
VALID_IN: dict[tuple[str, str], Any] = {
    ("ShareFetch", "member_id"): "fuzz", ("ShareAcknowledge", "member_id"): "fuzz",
    ("ConsumerGroupHeartbeat", "member_id"): "fuzz",
    ("ShareGroupHeartbeat", "member_id"): "fuzz",
    ("DeleteTopics", "name"): "nobody's", ("DeleteTopics", "topic_names"): ["nobody's"],
    ("UnregisterBroker", "broker_id"): 7, ("CreatePartitions", "count"): 1,
    ("DescribeConfigs", "configuration_keys"): None, ("ElectLeaders", "election_type"): 0,
    ("UpdateFeatures", "feature"): "nobody's", ("UpdateFeatures", "upgrade_type"): 1,
    ("ListTransactions", "transactional_id_pattern"): None,
    ("Produce", "transactional_id"): None, ("Produce", "mirror_source"): "",
    ("Produce", "records"): ..., ("ConsumerGroupHeartbeat", "topic_partitions"): [],
    ("StreamsGroupHeartbeat", "member_id"): "fuzz", ("StreamsGroupHeartbeat", "partitions"): 0,
    ("StreamsGroupHeartbeat", "active_tasks"): [], ("StreamsGroupHeartbeat", "standby_tasks"): [],
    ("StreamsGroupHeartbeat", "warmup_tasks"): [], ("StreamsGroupHeartbeat", "task_offsets"): None,
    ("StreamsGroupHeartbeat", "task_end_offsets"): None,
    ("StreamsGroupHeartbeat", "source_topic_regex"): [],
    ("StreamsGroupHeartbeat", "copartition_groups"): [],
    ("AlterClientQuotas", "value"): 1.0, ("CreateAcls", "resource_name"): "ground",
}  # fmt: skip
@dataclass
class Ground:
    """The objects that requests refer to: an existing topic, a known producer."""

    topic: str
    topic_id: uuid.UUID
    producer_id: int
    serial: Iterator[int] = field(default_factory=lambda: iter(range(1 << 40)))


def ground(place: Door | Address, topic: str = "ground") -> Ground:
    with door_to(place).open() as client:
        client.create_topic(topic)
        row = MetadataRequest.MetadataRequestTopic(name=topic)
        client.send(frame_of(MetadataRequest(topics=[row]), METADATA, 12))
        (found,) = client.answer(MetadataResponse, METADATA, 12).topics
        client.send(frame_of(InitProducerIdRequest(None, 1000), INIT_PRODUCER_ID, 4))
        producer = client.answer(InitProducerIdResponse, INIT_PRODUCER_ID, 4)
    return Ground(topic, found.topic_id, producer.producer_id)


def cleared(place: Door | Address) -> None:
    """Deletes every topic, as an operator would: one storm's topics may fill a broker. Each
    partition takes the disk some milliseconds."""
    with door_to(place).open(timeout=300) as client:
        client.send(frame_of(MetadataRequest(topics=None), METADATA, 12))
        topics = client.answer(MetadataResponse, METADATA, 12).topics
        rows = [DeleteTopicsRequest.DeleteTopicState(each.name)
                for each in topics if not each.is_internal]
        client.send(frame_of(DeleteTopicsRequest(rows, timeout_ms=10_000), DELETE_TOPICS, 6))
        answers = client.answer(DeleteTopicsResponse, DELETE_TOPICS, 6).responses
    assert [each for each in answers if each.error_code] == []


class Place(NamedTuple):
    """A field, by its path of names."""

    path: tuple[str, ...]
    kind: Any

    def __str__(self) -> str:
        return ".".join(self.path)


def places(message: type, version: int, path: tuple[str, ...] = ()) -> Iterator[Place]:
    """Every field that is no struct and no array of structs."""
    for each, row in rows_of(message):
        if version not in row.versions:
            continue
        kind, here = row.kind, (*path, each.name)
        while isinstance(kind, Array):
            kind = kind.of
        if is_struct(kind):
            yield from places(struct_of(kind), version, here)
        else:
            yield Place(here, kind)


def extremes(kind: Fixed) -> list[int]:
    bits = INTEGERS[kind.letters]
    if kind.letters.isupper():
        return [0, 1, 2 ** (bits - 1), 2**bits - 1]
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    near = [-(2**31), -1000, -2, -1, 0, 1, 1000, 1_000_000, 2**31 - 1, 2**53]
    return sorted({low, low + 1, *(each for each in near if low < each < high), high - 1, high})


Change = Callable[[Any], Any]  # from the valid value of a field to the new one


class Maker:
    """Makes one request: valid, except for the fields in `changes`."""

    def __init__(
        self, key: int, version: int, ground: Ground, changes: Mapping[Place, Change]
    ) -> None:
        self._api = API[key]
        self._version = version
        self._ground = ground
        self._changes = {place.path: change for place, change in changes.items()}

    def request(self) -> Any:
        return self._struct(self._api.request, ())

    def _struct(self, message: type, path: tuple[str, ...]) -> Any:
        values = {}
        for each, row in rows_of(message):
            if self._version in row.versions:
                values[each.name] = self._value((*path, each.name), row)
        return message(**values)

    def _value(self, path: tuple[str, ...], row: Row) -> Any:
        change = self._changes.get(path)
        is_below = any(each[: len(path)] == path for each in self._changes)
        name = path[-1]
        valid = VALID_IN.get((self._api.name, name), VALID.get(name, ...))
        fits = valid is not ... and self._fits(valid, row)
        if not is_below and fits:
            return valid
        if not fits or (is_below and change is None):
            valid = self._made(path, row.kind)
        return valid if change is None else change(valid)

    def _fits(self, valid: Any, row: Row) -> bool:
        if valid is None:
            return self._version in row.nullable
        kinds = {Text: str, Data: bytes, Array: list, Fixed: (int, float)}
        return isinstance(valid, kinds.get(type(row.kind), ()))

    def _made(self, path: tuple[str, ...], kind: Any) -> Any:
        name = path[-1]
        if isinstance(kind, Array):
            return [self._made(path, kind.of)]
        if is_struct(kind):
            return self._struct(struct_of(kind), path)
        if isinstance(kind, Text):
            return self._text(name)
        if isinstance(kind, Data):
            return batch() if name == "records" else b""
        if kind.letters == "16s":
            return self._ground.topic_id
        return self._ground.producer_id if name == "producer_id" else kind.default

    def _text(self, name: str) -> str:
        if self._api.name == "JoinGroup" and name == "group_id":
            return f"fuzz-{next(self._ground.serial)}"  # otherwise each would wait for the last one
        if name in ("group_id", "group", "groups", "groups_names", "group_ids"):
            return "fuzz"
        if self._api.name == "CreateTopics":
            return f"made-{next(self._ground.serial)}"
        return self._ground.topic


def requests_at_their_extremes(key: int, version: int, ground: Ground) -> Iterator[tuple[str, Any]]:
    """Each integer of the table at each of its extremes, in an otherwise valid request."""
    for place in places(API[key].request, version):
        if not isinstance(place.kind, Fixed) or place.kind.letters not in INTEGERS:
            continue
        for value in extremes(place.kind):
            def change(valid: Any, value: int = value) -> Any:
                return [value] if isinstance(valid, list) else value

            asked = Maker(key, version, ground, {place: change}).request()
            yield f"{API[key].name} {version}: {place} = {value}", asked


def served_versions(key: int) -> range:
    """The versions with message tables: ApiVersions and Produce also list older ones."""
    first, last = HANDLERS[key].VERSIONS
    return range(max(first, API[key].versions[0]), last + 1)


# Beyond valid

TEXTS = ["", "\0", "x" * 300, "é" * 16_000, "(a+)+$", "(" * 1000, "a{1000}{1000}", "../x", "-0",
         "a\nb=c", "\x1b[2J", "a\u202eb", "null", "__consumer_offsets", "*"]  # fmt: skip


def hostile_value(place: Place, chance: random.Random) -> Change:
    """A value of the right type that no client would send."""
    kind = place.kind
    if isinstance(kind, Fixed) and kind.letters in INTEGERS:
        value: Any = chance.choice([*extremes(kind), chance.choice(extremes(kind)) // 2])
    elif isinstance(kind, Text):
        value = chance.choice(TEXTS)
    elif isinstance(kind, Data):
        value = chance.randbytes(chance.choice([0, 1, 61, 1000, 70_000]))
    elif kind.letters == "d":
        value = chance.choice([0.0, -1.0, 1e308, math.inf, math.nan])
    elif kind.letters == "16s":
        value = uuid.UUID(int=chance.choice([0, 1, 2**128 - 1]))
    else:
        return lambda valid: valid
    count = chance.choice([0, 1, 2, 50, 3000])
    return lambda valid: [value] * count if isinstance(valid, list) else value


def hostile_request(ground: Ground, chance: random.Random) -> tuple[int, int, Any]:
    """Key, version and a request in which up to three fields have hostile values."""
    key = chance.choice(list(HANDLERS))
    version = chance.choice(served_versions(key))
    found = list(places(API[key].request, version))
    chosen = chance.sample(found, min(len(found), chance.randint(0, 3)))
    changes = {each: hostile_value(each, chance) for each in chosen}
    return key, version, Maker(key, version, ground, changes).request()


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


# Captured requests

def mutated(frame: bytes, chance: random.Random) -> bytes:
    octets = bytearray(frame)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(octets))
        kind = chance.randrange(4)
        if kind == 0:
            octets[at] = chance.randrange(256)
        elif kind == 1:
            octets[at : at + 4] = chance.choice(
                [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0"])
        elif kind == 2:
            del octets[at : at + chance.randint(1, 8)]
        else:
            octets[at:at] = chance.randbytes(chance.randint(1, 8))
        if len(octets) < 8:
            octets += bytes(8)
    return bytes(octets)


def golden() -> list[bytes]:
    """Captured requests of clients, with their header."""
    heads = []
    for frame in frames("captured.tsv", "filled.tsv"):
        if frame.direction == "request" and frame.key in SERVED:
            flexible = API[frame.key].request.VERSIONS.is_flexible(frame.version)
            head = struct.pack(">hhih", frame.key, frame.version, 1, 1) + b"c" + b"\0" * flexible
            heads.append(head + frame.body)
    return heads


# Records

CRC_FROM, CRC_AT, LENGTH_AT = 21, 17, 8


def hostile_batch(chance: random.Random) -> bytes:
    """A batch with changed bytes and a right checksum and length; later code must detect it."""
    octets = bytearray(batch(chance.randbytes(chance.choice([0, 10, 300])), chance.choice([1, 5])))
    for _ in range(chance.randint(0, 3)):
        at = chance.randrange(CRC_FROM, len(octets))
        if chance.random() < 0.5:
            octets[at] = chance.randrange(256)
        else:
            octets[at : at + 4] = chance.choice(
                [b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\x0f", b""])
    struct.pack_into(">I", octets, CRC_AT, crc32c(bytes(octets[CRC_FROM:])))
    struct.pack_into(">i", octets, LENGTH_AT, len(octets) - 12)
    return bytes(octets)
