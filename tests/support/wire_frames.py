"""The frames in `tests/data/frames`, and values for messages of which there is no frame."""

from __future__ import annotations

import itertools
import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from appliance import protocol
from appliance.protocol.types import Array, Data, Fixed, Text, rows_of, struct_of

OWN_TAG = 10_000  # from here on tags are ours, and no other library writes them
FOLDER = Path(__file__).parents[1] / "data" / "frames"

INTEGERS = {"b": 8, "h": 16, "i": 32, "q": 64, "H": 16, "I": 32}
TEXTS = ["", "t", "a topic", "äöü \N{SNOWMAN}", "x" * 130, "y" * 20_000]
COUNTS = [0, 1, 1, 2, 3]


class Frame(NamedTuple):
    key: int
    version: int
    direction: str
    name: str
    body: bytes

    @property
    def message(self) -> Any:
        return getattr(protocol.API[self.key], self.direction)

    def __str__(self) -> str:
        return f"{self.name}-{self.version}"


def frames(*files: str) -> list[Frame]:
    lines = [line for file in files for line in (FOLDER / file).read_text().splitlines()[1:]]
    return [frame_of(*line.split("\t")) for line in lines]


def frame_of(key: str, version: str, direction: str, name: str, _: str, octets: str) -> Frame:
    return Frame(int(key), int(version), direction, name, bytes.fromhex(octets))


def by_message(given: list[Frame]) -> dict[str, list[Frame]]:
    """The frames of each message in all its versions: a test of a message, not of each frame."""
    found: dict[str, list[Frame]] = {}
    for frame in given:
        found.setdefault(frame.name, []).append(frame)
    return found


def versions_of_messages() -> list[tuple[Any, list[int]]]:
    """Every class that can be written, and in which versions."""
    found: dict[Any, list[int]] = {}
    for message, version in messages():
        found.setdefault(message, []).append(version)
    return list(found.items())


def messages() -> list[tuple[Any, int]]:
    """Every class and version that can be written."""
    return [
        (message, version)
        for api in protocol.API.values()
        for version in range(api.versions[0], api.versions[1] + 1)
        for message in (api.request, api.response)
    ]


def filled(message: Any, version: int, numbers: Iterator[int] | None = None) -> Any:
    """A message with a different value in every field, so that none can stand for another."""
    numbers = numbers or itertools.count(1)
    values = {
        each.name: filling(row.kind, version, numbers)
        for each, row in rows_of(message)
        if version in row.versions and (row.tag or 0) < OWN_TAG
    }
    return message(**values)


def filling(kind: Any, version: int, numbers: Iterator[int]) -> Any:
    if isinstance(kind, Array):
        return [filling(kind.of, version, numbers)]
    if not isinstance(kind, (Text, Data, Fixed)):
        return filled(struct_of(kind), version, numbers)
    number = next(numbers)
    if isinstance(kind, Text):
        return f"text {number}"
    if isinstance(kind, Data):
        return bytes([number]) * 3
    if kind.letters == "16s":
        return uuid.UUID(int=number)
    return number % 2 == 0 if kind.letters == "?" else number


def made(message: Any, version: int, chance: random.Random) -> Any:
    """A message that says something in each field that this version has."""
    values = {
        each.name: value_of(row.kind, version, chance, version in row.nullable)
        for each, row in rows_of(message)
        if version in row.versions and (row.tag or 0) < OWN_TAG
    }
    return message(**values)


def value_of(kind: Any, version: int, chance: random.Random, is_nullable: bool = False) -> Any:
    if is_nullable and chance.random() < 0.25:
        return None
    if isinstance(kind, Array):
        return [value_of(kind.of, version, chance) for _ in range(chance.choice(COUNTS))]
    if isinstance(kind, Text):
        return chance.choice(TEXTS)
    if isinstance(kind, Data):
        return chance.randbytes(chance.choice([0, 1, 16, 200]))
    if isinstance(kind, Fixed):
        return fixed(kind, chance)
    return made(struct_of(kind), version, chance)


def fixed(kind: Fixed, chance: random.Random) -> Any:
    if kind.letters == "16s":
        return uuid.UUID(bytes=chance.randbytes(16))
    if kind.letters == "?":
        return chance.random() < 0.5
    if kind.letters == "d":
        return chance.uniform(-1e9, 1e9)
    bits = INTEGERS[kind.letters]
    low = -(1 << bits - 1) if kind.letters.islower() else 0
    return chance.choice([low, low + (1 << bits) - 1, chance.randrange(low, low + (1 << bits))])
