"""A client's connection: against a broker, and against peers that misbehave."""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from appliance.client.config import ClientConfig
from appliance.client.connection import Address, Connection
from appliance.client.errors import (
    BrokerUnavailable,
    ConfigInvalid,
    ConnectionLost,
    RequestTimedOut,
)
from appliance.protocol import MalformedMessage, VersionUnsupported, codec
from appliance.protocol.messages.api_versions import API as API_VERSIONS
from appliance.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from appliance.protocol.messages.metadata import API as METADATA
from appliance.protocol.messages.metadata import MetadataRequest
from appliance.protocol.messages.produce import API as PRODUCE
from appliance.testing import RunningBroker

LONG_S = 20.0


def config(**settings: Any) -> ClientConfig:
    return ClientConfig(broker_list="unused:1", **settings)


@pytest.fixture
def connection(appliance_broker: RunningBroker) -> Iterator[Connection]:
    with Connection(Address.parse(appliance_broker.bootstrap), config()) as made:
        yield made


def test_answers_come_in_the_order_of_their_requests(connection: Connection) -> None:
    asked = [
        connection.send(METADATA, MetadataRequest(topics=[])),
        connection.send(API_VERSIONS, ApiVersionsRequest("us", "1")),
        connection.send(METADATA, MetadataRequest(topics=[])),
    ]
    assert connection.in_flight == 3
    answers = [connection.receive() for _ in asked]
    assert [number for number, _ in answers] == asked
    assert [each.node_id for each in answers[0][1].brokers] == [1]
    assert isinstance(answers[1][1], ApiVersionsResponse)
    assert connection.in_flight == 0


def test_select_knows_when_an_answer_is_there(connection: Connection) -> None:
    poll = select.poll()  # select.select ends at descriptor 1023, and a test run may have more
    poll.register(connection, select.POLLIN)
    assert poll.poll(0) == []
    connection.send(METADATA, MetadataRequest(topics=[]))
    assert poll.poll(LONG_S * 1000) == [(connection.fileno(), select.POLLIN)]
    connection.receive()
    assert poll.poll(0) == []


def test_bytes_of_a_request_are_sent_as_they_are(connection: Connection) -> None:
    body = codec.encode(MetadataRequest(topics=[]), 12)
    pieces = [body[at : at + 1] for at in range(len(body))]
    connection.send_bytes(METADATA, 12, [*pieces, b""])
    assert connection.receive()[1].brokers[0].node_id == 1


def test_the_newest_version_of_both_is_taken(connection: Connection) -> None:
    assert connection.version(METADATA) == METADATA.versions[1]
    assert connection.version(METADATA, most=4) == 4
    with pytest.raises(VersionUnsupported, match=r"Produce 0 to 13, wanted one of 3 to 2"):
        connection.version(PRODUCE, most=2)


def test_a_question_must_not_take_the_answer_of_another(connection: Connection) -> None:
    connection.send(METADATA, MetadataRequest(topics=[]))
    with pytest.raises(RuntimeError, match="another request"):
        connection.ask(METADATA, MetadataRequest(topics=[]))
    connection.receive()
    with pytest.raises(RuntimeError, match="no request is in flight"):
        connection.receive()


def test_nobody_listens() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        address = Address(*bound.getsockname())
        with pytest.raises(BrokerUnavailable, match=f"broker {address}: no connection .*refused"):
            Connection(address, config())


# Peers that misbehave


def exactly(peer: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        piece = peer.recv(size - len(got))
        if not piece:
            raise EOFError
        got += piece
    return got


def next_frame(peer: socket.socket) -> bytes:
    return exactly(peer, struct.unpack(">i", exactly(peer, 4))[0])


def correlation_id(frame: bytes) -> bytes:
    return frame[4:8]


def answer(peer: socket.socket, frame: bytes, body: bytes) -> None:
    peer.sendall(struct.pack(">i", len(body) + 4) + correlation_id(frame) + body)


def negotiate(peer: socket.socket, newest: int = 1) -> None:
    """Says that it speaks Metadata 0 to `newest`."""
    row = ApiVersionsResponse.ApiVersion(METADATA.key, 0, newest)
    answer(peer, next_frame(peer), codec.encode(ApiVersionsResponse(api_keys=[row]), 4))


@contextmanager
def peer_that(does: Callable[[socket.socket], None]) -> Iterator[Address]:
    """Accepts one connection and does that; the connection is closed when it is done."""

    def serve() -> None:
        accepted, _ = listener.accept()
        with accepted, suppress(EOFError, ConnectionError):
            does(accepted)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LONG_S)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Address(*listener.getsockname())
        finally:
            thread.join(LONG_S)
    assert not thread.is_alive()


def test_a_broker_that_does_not_know_our_version_is_asked_in_the_oldest() -> None:
    versions: list[int] = []

    def old(peer: socket.socket) -> None:
        frame = next_frame(peer)
        versions.append(int.from_bytes(frame[2:4], "big"))
        answer(peer, frame, codec.encode(ApiVersionsResponse(error_code=35), 0))
        frame = next_frame(peer)
        versions.append(int.from_bytes(frame[2:4], "big"))
        row = ApiVersionsResponse.ApiVersion(METADATA.key, 0, 1)
        answer(peer, frame, codec.encode(ApiVersionsResponse(api_keys=[row]), 0))

    with peer_that(old) as address, Connection(address, config()) as connection:
        assert connection.version(METADATA) == 1
    assert versions == [API_VERSIONS.versions[1], 0]


def test_no_answer_in_time() -> None:
    heard = threading.Event()

    def silent(peer: socket.socket) -> None:
        negotiate(peer)
        next_frame(peer)
        assert heard.wait(LONG_S)

    with peer_that(silent) as address:
        connection = Connection(address, config())
        begin = time.monotonic()
        with pytest.raises(RequestTimedOut, match=r"Metadata 2: no answer within 50 ms"):
            connection.ask(METADATA, MetadataRequest(topics=[]), timeout_ms=50)
        assert 0.05 <= time.monotonic() - begin < LONG_S
        assert not connection.is_open
        heard.set()


@pytest.mark.parametrize("size", [1000, 1_000_000])
def test_a_slow_answer_does_not_get_more_time_by_dribbling(size: int) -> None:
    def dribble(peer: socket.socket) -> None:
        negotiate(peer)
        next_frame(peer)
        peer.sendall(struct.pack(">i", size))
        for _ in range(1000):
            peer.sendall(b"x")
            time.sleep(0.005)

    with peer_that(dribble) as address:
        connection = Connection(address, config(socket_timeout_ms=100))
        with pytest.raises(RequestTimedOut):
            connection.ask(METADATA, MetadataRequest(topics=[]))


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        (b"", "the broker closed it"),
        (b"\0\0\0\x20half", "the broker closed it"),
        (b"\0\0\0\0", "an answer of 0 bytes"),
        (b"\x7f\xff\xff\xff", "an answer of 2147483647 bytes"),
        (b"\0\0\0\x05\0\0\0\x63x", "correlation id 99, wanted 2"),
    ],
    ids=["nothing", "half an answer", "no size", "a huge size", "another's answer"],
)
def test_a_broken_answer_ends_the_connection(said: bytes, fact: str) -> None:
    def broken(peer: socket.socket) -> None:
        negotiate(peer)
        next_frame(peer)
        peer.sendall(said)

    with peer_that(broken) as address:
        connection = Connection(address, config())
        with pytest.raises(ConnectionLost, match=f"in flight: Metadata 2.*{fact}"):
            connection.ask(METADATA, MetadataRequest(topics=[]))
        assert not connection.is_open
        with pytest.raises(ConnectionLost):
            connection.send(METADATA, MetadataRequest(topics=[]))


def test_an_answer_that_is_no_message_ends_the_connection() -> None:
    def nonsense(peer: socket.socket) -> None:
        negotiate(peer)
        answer(peer, next_frame(peer), b"\x7f\xff\xff\xff")

    with peer_that(nonsense) as address:
        connection = Connection(address, config())
        with pytest.raises(MalformedMessage, match="MetadataResponse version 1"):
            connection.ask(METADATA, MetadataRequest(topics=[]))
        assert not connection.is_open


# Addresses


@pytest.mark.parametrize("text", ["", "host", "host:", ":9092", "host:x", "host:0", "host:65536"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigInvalid, match="wanted host:port"):
        Address.parse(text)


def test_addresses_are_read_as_they_are_written() -> None:
    for text in ("host:1", "[::1]:65535", "10.0.0.1:9092"):
        assert str(Address.parse(text)) == text
