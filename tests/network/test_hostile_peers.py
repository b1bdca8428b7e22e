"""Peers that send what is no request, too much, too little, or that read nothing; limits."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from typing import Any

import pytest

from appliance.protocol.messages.produce import ProduceResponse
from appliance.record._batch import records
from tests.support.data_plane import Plane, batch, client, make, noise, plane
from tests.support.logs import until
from tests.support.wire_client import WireClient, fetch_frame, produce_frame

__all__ = ["client", "make", "plane"]


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 7, 2**31 - 1, (100 << 20) + 1])
def test_a_length_that_cannot_be_closes(client: WireClient, plane: Plane, size: int) -> None:
    client.socket.sendall(struct.pack(">i", size) + b"x" * 100)
    with pytest.raises((EOFError, ConnectionError)):
        client.receive()
    plane.wait_for("connections_closed_frame", 1)
    assert plane.data_plane.counters()["queued_bytes"] == 0


@pytest.mark.parametrize("key", [0, 1])
def test_no_truncated_request_is_answered_or_appended(plane: Plane, key: int) -> None:
    whole = (produce_frame(batch()) if key == 0 else fetch_frame())[4:]
    for size in range(10, len(whole)):
        with plane.client() as client:
            client.send(whole[:size])
            with pytest.raises((EOFError, ConnectionError)):
                client.receive()
    assert plane.logs[0].log_end_offset == 0
    with plane.client() as client:
        client.send(whole)
        assert client.receive()


def test_array_bombs_cost_nothing(plane: Plane) -> None:
    head = struct.pack(">hhih", 1, 11, 1, -1) + struct.pack(">iiiibii", -1, 0, 0, 1, 0, 0, -1)
    for count in (2**31 - 1, -2, -(2**31), 1_000_000):
        with plane.client() as client:
            client.send(head + struct.pack(">i", count))
            with pytest.raises((EOFError, ConnectionError)):
                client.receive()
    plane.wait_for("connections_closed_malformed", 4)


def test_a_large_request_for_the_control_plane_closes(make: Any) -> None:
    """Its decoding would keep the one thread of the control plane from everything else."""
    plane = make(control_max_bytes=1024)
    with plane.client() as client:
        client.send(struct.pack(">hhih", 3, 9, 1, -1) + b"x" * 1100)
        with pytest.raises((EOFError, ConnectionError)):
            client.receive()
    assert plane.data_plane.punts()[0] == []


def test_half_a_frame_ends_in_time(make: Any) -> None:
    plane = make(frame_timeout_ms=300)
    with plane.client() as client:
        client.socket.sendall(struct.pack(">i", 50_000_000) + b"x" * 1000)
        with pytest.raises((EOFError, ConnectionError)):
            client.receive()
    assert plane.data_plane.counters()["queued_bytes"] == 0
    assert plane.data_plane.counters()["connections_closed_frame"] == 1


def test_an_idle_connection_ends(make: Any) -> None:
    plane = make(idle_timeout_ms=300)
    with plane.client() as client, pytest.raises(EOFError):
        client.receive()
    assert plane.data_plane.counters()["connections_closed_idle"] == 1


def test_a_reader_that_does_not_read_ends_and_delays_nobody(make: Any) -> None:
    plane = make(send_timeout_ms=500)
    with plane.client() as slow, plane.client() as busy:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(8):
            busy.produce(batch(b"v" * 1_000_000), acks=-1)
        # at once: a moment later it may have been closed
        slow.socket.sendall(fetch_frame(0, partition_max_bytes=50 << 20) * 20)
        for _ in range(100):
            assert busy.produce(batch(), acks=1)[0].error_code == 0
        plane.wait_for("connections_closed_slow", 1)


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_ip"])
def test_connections_have_limits(make: Any, limit: str) -> None:
    plane = make(**{limit: 3})
    clients = [plane.client() for _ in range(3)]
    for each in clients:
        each.produce(batch())
    with plane.client() as refused, pytest.raises((EOFError, ConnectionError)):
        refused.receive()
    clients.pop().socket.close()
    until(lambda: plane.data_plane.counters()["connections_open"] == 2)
    with plane.client() as welcome:
        assert welcome.produce(batch())[0].error_code == 0
    for each in clients:
        each.socket.close()


def test_the_limit_of_an_address_may_change_and_ends_no_connection(make: Any) -> None:
    plane = make()
    with plane.client() as first, plane.client() as second:
        for each in (first, second):
            each.produce(batch())
        plane.data_plane.limit_connections_per_ip(2)
        with plane.client() as refused, pytest.raises((EOFError, ConnectionError)):
            refused.receive()
        for each in (first, second):
            assert each.produce(batch())[0].error_code == 0
        plane.data_plane.limit_connections_per_ip(3)
        with plane.client() as welcome:
            assert welcome.produce(batch())[0].error_code == 0


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_peers_are_counted_as_logins_are(make: Any) -> None:
    """Of two texts of one address, as of two addresses of one network of IPv6, one machine would
    have the room of two; `tests/native/test_peer_network.py` has what counts as one."""
    plane = make(max_connections_per_ip=2)
    both = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    port = both.getsockname()[1]
    plane.data_plane.listen(both)
    first = [plane.client(), WireClient(("127.0.0.1", port))]
    for each in first:
        each.produce(batch())
    with WireClient(("127.0.0.1", port)) as refused, pytest.raises((EOFError, ConnectionError)):
        refused.receive()
    for each in first:
        each.socket.close()
    until(lambda: plane.data_plane.counters()["connections_open"] == 0)
    for _ in range(2):  # what was counted is counted off
        with plane.client() as welcome:
            assert welcome.produce(batch())[0].error_code == 0


def test_noise_is_answered_or_closes(plane: Plane) -> None:
    """Under a sanitizer this finds a byte that is read behind the end."""
    chance = random.Random(20261121)
    fetches = [fetch_frame(0, version=each)[4:] for each in (4, 7, 11, 12, 13, 17)]
    produces = [produce_frame(batch(), version=each)[4:] for each in (3, 8, 9, 13)]
    for _ in range(300):
        with plane.client() as client, contextlib.suppress(ConnectionError):
            for _ in range(10):
                client.send(noise(chance, chance.choice(fetches + produces)))
            client.socket.settimeout(0.01)
            with contextlib.suppress(TimeoutError, EOFError):
                client.receive()
    with plane.client() as client:
        assert client.produce(batch())[0].error_code == 0


def test_large_requests_wait_for_memory(make: Any) -> None:
    """More is claimed than may be queued: all are served, one after the other."""
    plane = make(queued_max_bytes=1 << 20)
    sent = batch(b"v" * 900_000)
    results: list[int] = []

    def work() -> None:
        with plane.client() as client:
            for _ in range(5):
                results.append(client.produce(sent, acks=1)[0].error_code)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert results == [0] * 30
    assert plane.data_plane.counters()["queued_bytes"] == 0


@pytest.mark.parametrize("seed", range(4))
def test_frames_of_every_size_in_pieces_of_every_size(make: Any, seed: int) -> None:
    """Large frames are collected in memory of their own, small ones run where they were read."""
    chance = random.Random(seed)
    plane = make(visibility="appended")
    sizes = [chance.choice([10, 5_000, 100_000, 300_000, 900_000]) for _ in range(40)]
    texts = [chance.randbytes(size) for size in sizes]
    with plane.client() as client:
        whole = b"".join(produce_frame(batch(text)) for text in texts)
        sender = threading.Thread(target=send_in_pieces, args=(client, whole, chance))
        sender.start()
        for offset in range(len(texts)):
            ((part,),) = [each.partition_responses
                          for each in client.answer(ProduceResponse, 0, 9).responses]
            assert (part.error_code, part.base_offset) == (0, offset)
        sender.join()
    stored = b"".join(plane.logs[0].read(offset, 1) for offset in range(len(texts)))
    assert [each.value for each in records(stored)] == texts


def send_in_pieces(client: WireClient, whole: bytes, chance: random.Random) -> None:
    while whole:
        size = chance.choice([3, 700, 4096, 70_000, 400_000, 2_000_000])
        client.socket.sendall(whole[:size])
        whole = whole[size:]


def test_a_frame_byte_by_byte(client: WireClient) -> None:
    whole = produce_frame(batch())
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for i in range(len(whole)):
        client.socket.sendall(whole[i : i + 1])
    assert client.receive()


@pytest.mark.parametrize("first", [1, 2, 3, 4, 5, 11])
def test_a_length_field_in_two_reads(client: WireClient, first: int) -> None:
    """The rest of the frame, and the next one, come with the second."""
    whole = produce_frame(batch()) * 2
    client.socket.sendall(whole[:first])
    time.sleep(0.05)
    client.socket.sendall(whole[first:])
    assert [client.receive()[:4] for _ in range(2)] == [struct.pack(">i", 1)] * 2
