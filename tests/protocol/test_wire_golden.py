"""Frames of Apache Kafka: read as Kafka meant them, written back to the byte, refused when cut."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from appliance import protocol
from appliance.protocol import codec
from tests.support.wire_frames import FOLDER, Frame, by_message, filled, frames

CAPTURED = frames("captured.tsv")
FILLED = frames("filled.tsv")
ALL = [*CAPTURED, *frames("defaults.tsv"), *FILLED]
FLIPS = (0x01, 0x7F, 0x80, 0xFF)  # a small change, the largest and the smallest count, none


def of_each_message(given: list[Frame]) -> pytest.MarkDecorator:
    found = by_message(given)
    return pytest.mark.parametrize("of_message", found.values(), ids=found)


def folded(name: str) -> str:
    """Kafka's names and ours differ in case and underscores only."""
    return name.replace("_", "").lower()


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(each) for each in value]
    if hasattr(value, "__dataclass_fields__"):
        return {folded(name): plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, bytes):
        return f"hex:{value.hex()}"
    return f"hex:{value.hex}" if hasattr(value, "hex") and not isinstance(value, float) else value


def check(got: Any, wanted: Any, where: str) -> None:
    """Everything that is wanted is there; fields of other versions may be there too."""
    if isinstance(wanted, dict):
        for name, value in wanted.items():
            check(got[folded(name)], value, f"{where}.{name}")
    elif isinstance(wanted, list):
        assert len(got) == len(wanted), where
        for index, value in enumerate(wanted):
            check(got[index], value, f"{where}[{index}]")
    else:
        assert got == wanted, where


def test_there_is_a_frame_of_every_message_and_version() -> None:
    known = [(frame.key, frame.version, frame.direction) for frame in ALL]
    wanted = {
        (api.key, version, direction)
        for api in protocol.API.values()
        for version in range(api.versions[0], api.versions[1] + 1)
        for direction in ("request", "response")
    }
    assert set(known[: -len(FILLED)]) == wanted
    assert set(known[-len(FILLED) :]) == wanted


@of_each_message(ALL)
def test_a_frame_is_written_back_to_the_byte(of_message: list[Frame]) -> None:
    for frame in of_message:
        message = codec.decode(frame.message, frame.body, frame.version)
        assert codec.encode(message, frame.version) == frame.body, str(frame)


def test_a_frame_means_what_kafka_meant() -> None:
    for line in (FOLDER / "captured.jsonl").read_text().splitlines():
        wanted = json.loads(line)
        where = (wanted["api_key"], wanted["version"], wanted["direction"])
        (frame,) = [each for each in CAPTURED if each[:3] == where]
        message = codec.decode(frame.message, frame.body, frame.version)
        check(plain(message), wanted["fields"], str(frame))


@of_each_message(FILLED)
def test_a_filled_message_is_what_another_library_wrote(of_message: list[Frame]) -> None:
    for frame in of_message:
        message = filled(frame.message, frame.version)
        assert codec.decode(frame.message, frame.body, frame.version) == message, str(frame)
        assert codec.encode(message, frame.version) == frame.body, str(frame)


@of_each_message(CAPTURED)
def test_a_frame_cut_anywhere_is_malformed(of_message: list[Frame]) -> None:
    for frame in of_message:
        wanted = f"{frame.name} version {frame.version}"
        for size in range(len(frame.body)):
            with pytest.raises(protocol.MalformedMessage, match=wanted):
                codec.decode(frame.message, frame.body[:size], frame.version)


@of_each_message(ALL)
def test_a_byte_too_many_is_malformed(of_message: list[Frame]) -> None:
    for frame in of_message:
        wanted = rf"{frame.name} version {frame.version}\b.*1 bytes after the end"
        with pytest.raises(protocol.MalformedMessage, match=wanted):
            codec.decode(frame.message, frame.body + b"\0", frame.version)


@of_each_message(CAPTURED)
def test_a_changed_byte_is_read_or_malformed(of_message: list[Frame]) -> None:
    for frame in of_message:
        for position, flip in product(range(len(frame.body)), FLIPS):
            body = bytearray(frame.body)
            body[position] ^= flip
            with suppress(protocol.MalformedMessage):
                codec.decode(frame.message, bytes(body), frame.version)
