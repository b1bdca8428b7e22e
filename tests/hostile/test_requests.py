"""Requests to the control plane: wrong counts and sizes, invalid names, too many entries."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest

from appliance.api.handlers import SERVED
from appliance.protocol import API
from appliance.protocol.messages.api_versions import ApiVersionsResponse
from appliance.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.hostile.witness import METADATA, ends
from tests.support.serving import Serving
from tests.support.wire_client import WireClient, frame_of
from tests.support.wire_frames import frames

UVARINTS = {
    "of five bytes that say 2^32-1": b"\xff\xff\xff\xff\x0f",
    "of five bytes that say 2^35-1": b"\xff\xff\xff\xff\x7f",
    "of six bytes": b"\xff\xff\xff\xff\xff\x01",
    "of ten bytes": b"\xff" * 9 + b"\x01",
    "that never ends": b"\xff" * 64,
}
CREATE_TOPICS = 19
COUNTS = [2**31 - 1, -5, -(2**31), 1_000_000]
CONTROL = [key for key in SERVED if key not in (0, 1, 18)]

NAMES = {
    "empty": "",
    "one dot": ".",
    "two dots": "..",
    "up and away": "../x",
    "an absolute path": "/etc/passwd",
    "a folder": "a/b",
    "a backslash": "a\\b",
    "null": "a\0b",
    "a line": "a\nlevel=info",
    "an escape": "\x1b[2J",
    "percent": "%2e%2e%2f",
    "markup": "<script>alert(1)</script>",
    "right to left": "a\u202eb",
    "250 characters": "x" * 250,
    "10,000 characters": "x" * 10_000,
}


def header(key: int, version: int) -> bytes:
    tags = b"\0" if API[key].request.VERSIONS.is_flexible(version) else b""
    return struct.pack(">hhih", key, version, 1, -1) + tags


@pytest.mark.parametrize("key", [-1, 999, 4, 7, 32767, -32768])
def test_an_unknown_key(broker: Serving, client: WireClient, source: str, key: int) -> None:
    client.send(struct.pack(">hhih", key, 0, 1, -1) + b"\0" * 20)
    assert ends(client)
    broker.wait_for_log(f"connection closed peer={source} why=.*API key {key} is not served")


@pytest.mark.parametrize("key", CONTROL)
def test_an_unknown_version(broker: Serving, client: WireClient, source: str, key: int) -> None:
    client.send(struct.pack(">hhih", key, 99, 1, -1) + b"\0" * 20)
    assert ends(client)
    broker.wait_for_log(f"connection closed peer={source} .*version 99 is not served, only ")


def test_api_versions_of_an_unknown_version(client: WireClient) -> None:
    client.send(struct.pack(">hhih", 18, 127, 1, -1) + b"\0\2a\2b\0")
    answer = client.answer(ApiVersionsResponse, 18, 0)
    assert answer.error_code == 35
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [
        (18, 0, 4)
    ]


def test_a_request_of_kafka_0_8(broker: Serving, client: WireClient, source: str) -> None:
    """Produce version 0 with a message set: clients of 2013 sent it without ApiVersions."""
    text = struct.pack(">hih", 1, 1000, 1) + b"\0\1t"
    client.send(struct.pack(">hhih", 0, 0, 1, -1) + text + b"\0" * 40)
    assert ends(client)
    broker.wait_for_log(f"connection closed peer={source} .*Produce: version 0 is not served")


@pytest.mark.parametrize("key", CONTROL)
def test_counts_that_lie(broker: Serving, source: str, key: int) -> None:
    """For any value of the first count nothing is allocated, and a response, if there is one, is
    not larger than the request justifies."""
    first, last = SERVED[key]
    for version in {max(first, API[key].versions[0]), last}:
        for count in COUNTS:
            for lead in (0, 1, 2, 3, 4, 5, 8):
                tail = b"\0" * lead + struct.pack(">i", count)
                ask_and_forget(broker, source, header(key, version) + tail)


@pytest.mark.parametrize("key", CONTROL)
def test_varints_that_lie(broker: Serving, source: str, key: int) -> None:
    for bomb in UVARINTS.values():
        for lead in (0, 1, 4, 5):
            frame = header(key, SERVED[key][1]) + b"\0" * lead + bomb
            ask_and_forget(broker, source, frame)


def ask_and_forget(broker: Serving, source: str, frame: bytes) -> None:
    with WireClient(broker.kafka, timeout=10, source=source) as client:
        client.send(frame)
        try:
            assert len(client.receive()) < 100_000
        except (EOFError, ConnectionError):
            return


def test_arrays_within_arrays(broker: Serving, client: WireClient, source: str) -> None:
    """Each count matches its bytes, and its objects cost 35 times the bytes."""
    topic = b"\x02a" + struct.pack(">ih", 1, 1) + b"\x01\x01\x00"
    count = (2 << 20) // len(topic) - 10
    varint = bytes([count & 127 | 128, (count >> 7) & 127 | 128, count >> 14])
    body = b"%b" % varint + topic * (count - 1) + struct.pack(">i", 1000) + b"\x01\x00"
    client.send(header(CREATE_TOPICS, 7) + body)
    (made,) = client.answer(CreateTopicsResponse, CREATE_TOPICS, 7).topics
    assert (made.name, made.error_code) == ("a", 42)


def test_a_request_that_is_too_large_to_decode(
    broker: Serving, client: WireClient, source: str
) -> None:
    client.send(header(METADATA, 9) + bytes(2 << 20))
    assert ends(client)
    broker.wait_for_log(f"peer={source} .*request of 20971\\d+ bytes .*wanted at most 2097152 ")


@pytest.mark.parametrize("size", [-2, -32768, 32767])
@pytest.mark.parametrize("where", ["client id", "topic"])
def test_strings_that_lie(broker: Serving, client: WireClient, size: int, where: str) -> None:
    if where == "client id":
        client.send(struct.pack(">hhih", METADATA, 1, 1, size) + b"abc")
    else:
        client.send(header(METADATA, 1) + struct.pack(">ih", 1, size) + b"abc")
    assert ends(client)


@pytest.mark.parametrize("text", [b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"])
def test_text_that_is_none(broker: Serving, client: WireClient, text: bytes) -> None:
    """Overlong forms, halves of surrogate pairs, bytes that UTF-8 lacks."""
    client.send(header(METADATA, 1) + struct.pack(">ih", 1, len(text)) + text)
    assert ends(client)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_topic_names_that_are_none(
    broker: Serving, client: WireClient, tmp_path: Path, name: str
) -> None:
    row = CreateTopicsRequest.CreatableTopic(name, 1, 1)
    client.send(frame_of(CreateTopicsRequest(topics=[row]), CREATE_TOPICS, 7))
    (made,) = client.answer(CreateTopicsResponse, CREATE_TOPICS, 7).topics
    assert made.error_code == 17
    assert len(made.error_message or "") < 1000
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)])
    client.send(frame_of(asked, METADATA, 9))
    (found,) = client.answer(MetadataResponse, METADATA, 9).topics
    assert found.error_code == 17
    for part in client.produce(b"", topic=name, acks=1):
        assert part.error_code == 3
    assert "\x1b" not in broker.log
    assert "\nlevel=info" not in broker.log


def test_a_topic_that_is_in_no_danger_of_another(client: WireClient) -> None:
    """`a-0` beside `a`: both directories begin with a-0."""
    for name in ("a", "a-0"):
        client.create_topic(name)


def test_100_000_topics_in_one_metadata_request(broker: Serving, client: WireClient) -> None:
    rows = [MetadataRequest.MetadataRequestTopic(name=f"m{i}") for i in range(100_000)]
    asked = MetadataRequest(topics=rows, allow_auto_topic_creation=True)
    begin = time.monotonic()
    client.send(frame_of(asked, METADATA, 9))
    found = client.answer(MetadataResponse, METADATA, 9).topics
    made = sum(each.error_code == 0 for each in found)
    print(f"{len(found)} told, {made} made, {time.monotonic() - begin:.1f} s")
    assert len(found) == 100_000
    assert made == 20
    assert {each.error_code for each in found} <= {0, 3}


def test_100_000_topics_in_one_creation(broker: Serving, client: WireClient) -> None:
    rows = [CreateTopicsRequest.CreatableTopic(f"c{i}", 1, 1) for i in range(100_000)]
    client.send(frame_of(CreateTopicsRequest(topics=rows), CREATE_TOPICS, 7))
    found = client.answer(CreateTopicsResponse, CREATE_TOPICS, 7).topics
    made = sum(each.error_code == 0 for each in found)
    print(f"{len(found)} told, {made} made")
    assert made == 20
    assert {each.error_code for each in found} <= {0, 44}


def test_a_topic_of_two_thousand_million_partitions(client: WireClient) -> None:
    row = CreateTopicsRequest.CreatableTopic("many", 2**31 - 1, 1)
    client.send(frame_of(CreateTopicsRequest(topics=[row]), CREATE_TOPICS, 7))
    (made,) = client.answer(CreateTopicsResponse, CREATE_TOPICS, 7).topics
    assert made.error_code == 44
    assert "max.partitions.per.topic" in (made.error_message or "")


def test_requests_of_every_kind_cut_short(broker: Serving, source: str) -> None:
    """Captured requests of clients, without their last byte, and without their last half."""
    for frame in frames("captured.tsv"):
        if frame.direction != "request" or frame.key not in SERVED or frame.key == 18:
            continue
        head = header(frame.key, frame.version)
        for size in {len(frame.body) - 1, len(frame.body) // 2}:
            ask_and_forget(broker, source, head + frame.body[: max(0, size)])
