"""What real clients sent, as they sent it: read, written back to the byte, and answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from appliance import protocol
from appliance.protocol import codec, headers
from appliance.testing import running_broker
from tests.support.wire_client import WireClient
from tests.support.wire_frames import FOLDER

# Produce, Fetch, ListOffsets, Metadata, ApiVersions, InitProducerId; and of groups OffsetCommit,
# OffsetFetch, FindCoordinator, JoinGroup, LeaveGroup, SyncGroup
EVERY_CLIENT_SENDS = {0, 1, 2, 3, 18, 22, 8, 9, 10, 11, 13, 14}


class ClientFrame(NamedTuple):
    client: str
    key: int
    version: int
    name: str
    octets: bytes  # header and body

    def __str__(self) -> str:
        return f"{self.client} {self.name}-{self.version}"


def client_frames() -> list[ClientFrame]:
    rows = [line.split("\t") for line in (FOLDER / "clients.tsv").read_text().splitlines()[1:]]
    return [
        ClientFrame(client, int(key), int(version), name, bytes.fromhex(octets))
        for client, key, version, name, octets in rows
    ]


FRAMES = client_frames()


def read(octets: bytes) -> tuple[headers.RequestHeader, object]:
    header, body = headers.decode_request(octets)
    return header, codec.decode(protocol.API[header.api_key].request, body, header.api_version)


def test_there_are_frames_of_each_client() -> None:
    keys: dict[str, set[int]] = {}
    for frame in FRAMES:
        keys.setdefault(frame.client.split()[0], set()).add(frame.key)
    assert set(keys) == {"java", "librdkafka", "kafka-python", "aiokafka"}
    for client, found in keys.items():
        assert found >= EVERY_CLIENT_SENDS, client


@pytest.mark.parametrize("frame", FRAMES, ids=str)
def test_a_request_is_written_back_to_the_byte(frame: ClientFrame) -> None:
    header, request = read(frame.octets)
    assert (header.api_key, header.api_version) == (frame.key, frame.version)
    assert type(request).__name__ == frame.name
    written = headers.encode_request(header) + codec.encode(request, frame.version)
    assert written == frame.octets


@pytest.mark.parametrize("frame", FRAMES, ids=str)
def test_a_request_cut_anywhere_is_malformed(frame: ClientFrame) -> None:
    for size in range(len(frame.octets)):
        with pytest.raises(protocol.MalformedMessage):
            read(frame.octets[:size])


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    folder: Path = tmp_path_factory.mktemp("frames")
    with running_broker(folder) as broker:
        host, port = broker.bootstrap.split(":")
        yield host, int(port)


@pytest.mark.parametrize("frame", FRAMES, ids=str)
def test_a_request_is_answered(frame: ClientFrame, address: tuple[str, int]) -> None:
    header, _ = read(frame.octets)
    with WireClient(address) as client:
        client.send(frame.octets)
        answer = client.receive()
    correlation_id, body = headers.decode_response(answer, frame.key, frame.version)
    assert correlation_id == header.correlation_id
    response = codec.decode(protocol.API[frame.key].response, body, frame.version)
    assert codec.encode(response, frame.version) == bytes(body)
