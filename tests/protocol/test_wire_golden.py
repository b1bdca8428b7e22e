"""Frames of Apache Kafka: read as Kafka meant them, written back to the byte, refused when cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from appliance import protocol
from appliance.protocol import codec
from tests.support.wire_frames import FOLDER, Frame, filled, frames

CAPTURED = frames("captured.tsv")
FILLED = frames("filled.tsv")
ALL = [*CAPTURED, *frames("defaults.tsv"), *FILLED]
FLIPS = (0x01, 0x7F, 0x80, 0xFF)  # a small change, the largest and the smallest count, none


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


@pytest.mark.parametrize("frame", ALL, ids=str)
def test_a_frame_is_written_back_to_the_byte(frame: Frame) -> None:
    message = codec.decode(frame.message, frame.body, frame.version)
    assert codec.encode(message, frame.version) == frame.body


@pytest.mark.parametrize("line", (FOLDER / "captured.jsonl").read_text().splitlines())
def test_a_frame_means_what_kafka_meant(line: str) -> None:
    wanted = json.loads(line)
    where = (wanted["api_key"], wanted["version"], wanted["direction"])
    (frame,) = [each for each in CAPTURED if each[:3] == where]
    message = codec.decode(frame.message, frame.body, frame.version)
    check(plain(message), wanted["fields"], frame.name)


@pytest.mark.parametrize("frame", FILLED, ids=str)
def test_a_filled_message_is_what_another_library_wrote(frame: Frame) -> None:
    message = filled(frame.message, frame.version)
    assert codec.decode(frame.message, frame.body, frame.version) == message
    assert codec.encode(message, frame.version) == frame.body


@pytest.mark.parametrize("frame", CAPTURED, ids=str)
def test_a_frame_cut_anywhere_is_malformed(frame: Frame) -> None:
    for size in range(len(frame.body)):
        wanted = f"{frame.name} version {frame.version}"
        with pytest.raises(protocol.MalformedMessage, match=wanted):
            codec.decode(frame.message, frame.body[:size], frame.version)


@pytest.mark.parametrize("frame", ALL, ids=str)
def test_a_byte_too_many_is_malformed(frame: Frame) -> None:
    with pytest.raises(protocol.MalformedMessage, match="1 bytes after the end"):
        codec.decode(frame.message, frame.body + b"\0", frame.version)


@pytest.mark.parametrize("frame", CAPTURED, ids=str)
def test_a_changed_byte_is_read_or_malformed(frame: Frame) -> None:
    for position in range(len(frame.body)):
        for flip in FLIPS:
            body = bytearray(frame.body)
            body[position] ^= flip
            try:
                codec.decode(frame.message, bytes(body), frame.version)
            except protocol.MalformedMessage:
                continue
