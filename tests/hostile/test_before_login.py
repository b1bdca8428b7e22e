"""Attacks before a login: other requests, large and half frames, silence, floods. The broker is a
data plane whose control plane is the test; nobody there ever gets in."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.witness import ends
from tests.support.small_control import (
    API_VERSIONS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SmallControl,
    batch,
    request,
    small_control,
)
from tests.support.wire_client import WireClient, fetch_frame, produce_frame, with_length

LIMITS = {"login_timeout_ms": 3000, "frame_timeout_ms": 1500}


@pytest.fixture
def control(tmp_path: Path) -> Iterator[SmallControl]:
    """With the time that a broker gives by itself: what it closes, it closes for another reason."""
    with small_control(tmp_path) as made:
        yield made


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[SmallControl]:
    with small_control(tmp_path, **LIMITS) as made:
        yield made


@pytest.fixture
def client(control: SmallControl) -> Iterator[WireClient]:
    with control.client(is_gated=True) as made:
        yield made


def test_every_other_key_is_refused_in_every_version(control: SmallControl) -> None:
    for key in (*range(17), *range(19, 36), *range(37, 97), 1000, -1, 32767, -32768):
        for version in (0, 32767, -1):
            with control.client(is_gated=True) as client:
                client.send(request(key, version, bytes(100)))
                assert ends(client)
            closure = control.closure()
            assert (closure.kind, closure.key, closure.version) == ("login key", key, version)
    assert control.has_nothing()


@pytest.mark.parametrize("frame", [produce_frame(batch()), fetch_frame(0, wait_ms=60_000)])
def test_what_the_data_plane_would_answer_itself_is_refused(
    control: SmallControl, client: WireClient, frame: bytes
) -> None:
    """In the same packet as a request that is allowed, before and behind it."""
    client.socket.sendall(with_length(API_VERSIONS) + frame)
    control.reply(control.punt(), b"versions")
    assert client.receive() == b"versions"
    assert ends(client)
    with control.client(is_gated=True) as other:
        other.socket.sendall(frame + with_length(API_VERSIONS))
        assert ends(other)
    assert [control.closure().kind for _ in range(2)] == ["login key"] * 2
    assert control.has_nothing()
    assert control.logs[0].log_end_offset == 0


@pytest.mark.parametrize("size", [(64 << 10) + 1, 1 << 20, 100 << 20, 2**31 - 1])
def test_a_large_frame_is_refused_by_its_length(
    control: SmallControl, client: WireClient, size: int
) -> None:
    client.socket.sendall(size.to_bytes(4, "big") + SASL_AUTHENTICATE)
    assert ends(client)
    closure = control.closure()
    assert (closure.kind, closure.got, closure.wanted) == ("login size", size, 64 << 10)


def test_half_frames_are_closed_and_held_memory_is_small(impatient: SmallControl) -> None:
    clients = [impatient.client(is_gated=True) for _ in range(200)]
    for each in clients:
        each.socket.sendall((64 << 10).to_bytes(4, "big") + SASL_AUTHENTICATE)
    assert all(ends(each) for each in clients)
    for each in clients:
        each.socket.close()
    assert impatient.plane.counters()["queued_bytes"] == 0


def test_a_trickle_is_closed_at_the_deadline(impatient: SmallControl) -> None:
    """Whole requests, one after the other, that never come to an end."""
    begin, control = time.monotonic(), impatient
    is_over = threading.Event()

    def answer() -> None:
        while not is_over.is_set():
            control.take()
            while control._punts:
                control.reply(control._punts.pop(0), b"go on")
            is_over.wait(0.002)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        with (  # noqa: PT012 - any of them meets the end
            control.client(is_gated=True) as client,
            pytest.raises((EOFError, ConnectionError)),
        ):
            while time.monotonic() < begin + 20:
                client.send(SASL_HANDSHAKE)
                client.receive()
    finally:
        is_over.set()
        thread.join()
    assert time.monotonic() - begin > LIMITS["login_timeout_ms"] / 1000 - 0.1
    assert control.closure().kind == "login timeout"


def test_a_login_that_nobody_answers_ends(impatient: SmallControl) -> None:
    control = impatient
    with control.client(is_gated=True) as client:
        client.send(SASL_AUTHENTICATE)
        punt = control.punt()
        assert ends(client)
    control.plane.log_in(punt.connection, "User:late")
    control.reply(punt, b"welcome")
    control.plane.close_after(punt.connection, punt.slot)
    control.plane.expect_raw(punt.connection)
    control.plane.wake(punt.connection, punt.slot)
    assert control.closure().kind == "login timeout"
    with control.client() as other:
        assert other.produce(batch())[0].error_code == 0


def test_much_is_pipelined_behind_a_login(tmp_path: Path) -> None:
    """Megabytes; a few KiB of them are taken, and the rest stays in the socket."""
    with small_control(tmp_path) as control, control.client(is_gated=True) as client:
        pipeline(control, client)


def pipeline(control: SmallControl, client: WireClient) -> None:
    client.send(SASL_AUTHENTICATE)
    punt = control.punt()
    client.socket.settimeout(0.3)
    sent = 0
    with pytest.raises((TimeoutError, ConnectionError)):  # noqa: PT012 - when it is full is chance
        while sent < 64 << 20:
            sent += client.socket.send(produce_frame(batch(bytes(30_000))) * 10)
    (facts,) = control.plane.connections(5000) or []
    assert facts.bytes_in < 10_000
    control.plane.close_after(punt.connection, punt.slot)
    control.reply(punt, b"no")
    client.socket.settimeout(10)
    assert client.receive() == b"no"
    assert ends(client)
    assert control.logs[0].log_end_offset == 0


def test_a_flood_of_connections_that_say_nothing_makes_room_again(tmp_path: Path) -> None:
    limits = {**LIMITS, "max_connections": 50, "max_connections_per_ip": 50}
    with small_control(tmp_path, **limits) as control:
        idle = [socket.create_connection(control.gated) for _ in range(50)]
        control.until(lambda: control.plane.counters()["connections_open"] == 50)
        with control.client() as refused:
            assert ends(refused)
        control.until(lambda: control.plane.counters()["connections_open"] == 0)
        with control.client() as client:
            assert client.produce(batch())[0].error_code == 0
        for each in idle:
            each.close()


def test_a_flood_of_pipelined_logins_waits_for_each_answer(impatient: SmallControl) -> None:
    """A thousand in a packet are one at a time for the control plane."""
    control = impatient
    clients = [control.client(is_gated=True) for _ in range(20)]
    for each in clients:
        each.socket.sendall(with_length(SASL_AUTHENTICATE) * 1000)
    punts = [control.punt() for _ in clients]
    assert len({punt.connection for punt in punts}) == len(clients)
    assert control.has_nothing()
    control.until(lambda: control.plane.counters()["connections_open"] == 0)
    assert control.plane.counters()["queued_bytes"] == sum(len(punt.frame) for punt in punts)
    for each in clients:
        each.socket.close()


def test_who_never_logs_in_keeps_nobody_else_from_it(control: SmallControl) -> None:
    idle = [socket.create_connection(control.gated) for _ in range(100)]
    client, _ = control.logged_in("User:alice")
    with client:
        assert client.produce(batch())[0].error_code == 0
    for each in idle:
        each.close()
