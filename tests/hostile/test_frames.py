"""Invalid and incomplete frames; bytes of other protocols."""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path

import pytest

from tests.hostile.witness import ends
from tests.support.serving import Serving
from tests.support.small_control import small_control
from tests.support.wire_client import WireClient

API_VERSIONS = struct.pack(">hhih", 18, 0, 7, -1)
HEADERS = {
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS handshake": bytes.fromhex("1603010200010001fc0303") + bytes(64),
    "an SSH banner": b"SSH-2.0-OpenSSH_9.6\r\n",
}


@pytest.mark.parametrize("size", [1 << 30, 2**31 - 1, (100 << 20) + 1, -1, -(2**31), *range(8)])
def test_a_length_that_cannot_be(
    broker: Serving, client: WireClient, source: str, size: int
) -> None:
    client.socket.sendall(struct.pack(">i", size) + b"x" * 100)
    assert ends(client)
    why = f"a frame of {size} bytes, wanted 8 to 104857600 "
    broker.wait_for_log(f"connection closed peer={source} why=.*{why}")


@pytest.mark.parametrize("what", HEADERS)
def test_another_protocol(broker: Serving, client: WireClient, source: str, what: str) -> None:
    client.socket.sendall(HEADERS[what])
    assert ends(client)
    broker.wait_for_log(f"connection closed peer={source} .*it begins like {what}")


def test_a_gigabyte_that_is_really_sent(broker: Serving, client: WireClient) -> None:
    part = bytes(1 << 20)
    with pytest.raises(ConnectionError):  # noqa: PT012 - which call meets the reset is chance
        client.socket.sendall(struct.pack(">i", 1 << 30))
        for _ in range(1 << 10):
            client.socket.sendall(part)


@pytest.mark.parametrize("size", [20, 200_000, 25 << 20])
def test_half_a_frame_then_silence(
    broker: Serving, client: WireClient, source: str, size: int
) -> None:
    client.socket.sendall(struct.pack(">i", size) + API_VERSIONS + b"x")
    assert ends(client)
    why = f"of a frame of {size} bytes 11 came in time"
    broker.wait_for_log(f"connection closed peer={source} .*{why}")


def test_the_end_in_the_middle_of_a_frame(broker: Serving, client: WireClient) -> None:
    client.socket.sendall(struct.pack(">i", 1000) + b"x" * 500)
    client.socket.shutdown(socket.SHUT_WR)
    assert ends(client)


def test_a_frame_byte_by_byte(tmp_path: Path) -> None:
    """With the time that a broker gives by itself: the attacked one gives too little of it."""
    with small_control(tmp_path) as control, control.client() as client:
        for byte in struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS:
            client.socket.sendall(bytes([byte]))
            time.sleep(0.001)
        punt = control.punt()
        assert punt.frame == API_VERSIONS
        control.reply(punt, b"versions")
        assert client.receive() == b"versions"


@pytest.mark.alone
def test_a_trickle_does_not_hold_a_frame_open(broker: Serving, client: WireClient) -> None:
    """Each byte would count as progress for a timeout that restarts."""
    begin = time.monotonic()
    client.socket.sendall(struct.pack(">i", 25 << 20))
    with pytest.raises(ConnectionError):  # noqa: PT012 - which byte meets the reset is chance
        while time.monotonic() < begin + 5:
            client.socket.sendall(b"x")
            time.sleep(0.02)
    assert time.monotonic() - begin < 3


def test_claims_of_memory_wait_for_each_other_and_end(broker: Serving) -> None:
    """Forty frames claim 90 MB and send two bytes each: none gets the memory."""
    claims = [WireClient(broker.kafka) for _ in range(40)]
    for each in claims:
        each.socket.sendall(struct.pack(">i", 90 << 20) + b"xx")
    with WireClient(broker.kafka) as client:
        client.send(API_VERSIONS)
        assert client.receive()
    for each in claims:
        each.socket.close()
