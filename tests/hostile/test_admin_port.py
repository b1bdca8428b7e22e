"""Requests of strangers and broken clients to the admin port."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
import time
import zlib
from collections import Counter
from pathlib import Path

import brotli
import pytest

from appliance.access.audit_rows import STRANGER
from appliance.access.login_attempts import BURSTS
from appliance.admin.admission import HEAD_BYTES_MAX, HEADERS_MAX, UNSENT_MAX
from appliance.admin.connection_timeouts import PIPELINED_MAX
from appliance.testing import running_broker
from tests.hostile.admin_port import DEADLINE_S, PASSWORD, SLOWEST_S, Pages
from tests.hostile.conftest import SOURCES
from tests.support.http_client import HttpClient
from tests.support.logs import until

MIB = 1 << 20


def ended(clients: list[HttpClient]) -> int:
    """The number of connections that the broker closes within the deadline."""
    end = time.monotonic() + DEADLINE_S
    count = 0
    for each in clients:
        each.socket.settimeout(max(0.01, end - time.monotonic()))
        count += each.ends()
        each.close()
    return count


# Traces of strangers


def test_strangers_write_nothing(tmp_path: Path) -> None:
    """On every route. Failed logins write one row per address and minute."""
    pages = Pages(tmp_path)
    with pages.client() as client:
        for _ in range(300):
            assert client.ask("POST /api/v1/logout", b"").status == 204
            assert client.ask("GET /api/v1/topics").code == "login_required"
            assert client.ask("DELETE /api/v1/topics/x").code == "login_required"
            assert client.ask("GET /nowhere").status == 404
            assert client.ask("GET /healthz").status == 200
    for number in range(3):
        assert pages.log_in("127.0.0.9", f"guest-{number}", "wrong") == 401
        assert pages.log_in("127.0.0.8", "ada", "wrong") == 401
    with pages.client() as client:
        setup = {"token": "x", "name": "eve", "password": PASSWORD}
        assert client.ask("POST /api/v1/setup", setup).code == "already_set_up"
    assert pages.serving.stop() == 0
    rows = {(each.who, each.peer, each.action): each for each in pages.trail()}
    assert set(rows) == {
        ("ada", "127.0.0.1", "POST /api/v1/setup"),
        (STRANGER, "127.0.0.8", "failed logins"),
        (STRANGER, "127.0.0.9", "failed logins"),
    }
    told = json.loads(rows[STRANGER, "127.0.0.9", "failed logins"].details)
    assert told == {"wrong": 3, "refused": 0, "names": ["guest-0", "guest-1", "guest-2"]}


# Bodies and heads


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "GZIP", "gzip, gzip"])
def test_a_compressed_body_is_not_opened(pages: Pages, source: str, encoding: str) -> None:
    bomb = {
        "gzip": lambda: gzip.compress(b"0" * (64 * MIB)),
        "deflate": lambda: zlib.compress(b"0" * (64 * MIB)),
        "br": lambda: brotli.compress(b"0" * (64 * MIB), quality=1),
    }.get(encoding, lambda: b"x" * 1000)()
    with pages.client(source) as client:
        answer = client.ask("POST /api/v1/login", bomb, [f"Content-Encoding: {encoding}"])
    assert (answer.status, answer.code) == (415, "encoding_refused")


def test_a_stranger_sends_no_large_body(pages: Pages, source: str) -> None:
    body = b'{"name": "' + b"a" * (17 << 10) + b'", "password": "x"}'
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    for headers, octets in (
        ([f"Content-Length: {len(body)}"], body),
        (["Transfer-Encoding: chunked"], chunked),
    ):
        with pages.client(source) as client:
            head = client.head("POST /api/v1/login", "Content-Type: application/json", *headers)
            client.send(head + octets)
            answer = client.answer()
            assert (answer.status, answer.code) == (413, "message_too_large")


def test_half_a_head_and_half_a_body_are_closed_in_time(pages: Pages) -> None:
    """Also if it arrives byte by byte."""
    clients = [pages.client(next(SOURCES)) for _ in range(12)]
    for each in clients[:6]:
        each.send(b"GET /livez HTTP/1.1\r\nX-A: ")
    for each in clients[6:]:
        json_type = "Content-Type: application/json"
        each.send(each.head("POST /api/v1/login", "Content-Length: 1000", json_type) + b"{")
    end = time.monotonic() + DEADLINE_S
    trickling = {clients[0], clients[6]}
    while trickling:
        assert time.monotonic() < end, "it is still open"
        for each in list(trickling):
            try:
                each.send(b"a")
            except ConnectionError:
                trickling.discard(each)
        time.sleep(0.02)
    assert ended(clients) == 12
    pages.serving.wait_for_log("did not arrive within 600 ms .admin.request.timeout.ms")


def test_a_connection_without_a_request_is_closed_in_time(pages: Pages) -> None:
    clients = [pages.client(next(SOURCES)) for _ in range(6)]
    assert all(each.ask("GET /livez").status == 200 for each in clients[:3])
    assert ended(clients) == 6


def test_a_head_that_is_too_large(pages: Pages) -> None:
    line = b"X-%d: " + b"a" * 4000 + b"\r\n"
    for count in (HEAD_BYTES_MAX // 4000 + 1, 2 * HEADERS_MAX, 5000):
        with pages.client(next(SOURCES)) as client:
            lines = b"".join(line % number for number in range(count))
            with contextlib.suppress(ConnectionError):
                client.send(client.head("GET /livez")[:-2] + lines + b"\r\n")
            with contextlib.suppress(EOFError, ConnectionError):
                assert client.answer().status in (400, 431)
                if count == 5000:
                    assert client.ends()
    with pages.client(next(SOURCES)) as client:
        client.send(client.head("GET /livez")[:-2] + b"A: b\r\n" * (2 * HEADERS_MAX) + b"\r\n")
        assert client.answer().status == 400


def test_half_sent_heads_hold_little_memory(pages: Pages) -> None:
    piece = b"".join(b"X-%d: " % number + b"a" * 8000 + b"\r\n" for number in range(60))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(pages.client(next(SOURCES))) for _ in range(30)]
        for each in clients:
            with contextlib.suppress(ConnectionError):
                each.send(b"GET /livez HTTP/1.1\r\n" + piece)
        assert ended(clients) == 30


NO_HTTP = [
    b"\x16\x03\x01\x02\x00\x01",
    b"SSH-2.0-x\r\n\r\n",
    b"GET / HTTP/1.1\r\n: x\r\n\r\n",
    b"GET  HTTP/9.9\r\n\r\n",
    b"\x00" * 100 + b"\r\n\r\n",
    b"GET / HTTP/1.1\nHost: a\n\n",
    b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
]


def test_what_is_no_http_is_told_and_writes_no_trace(pages: Pages) -> None:
    for octets in NO_HTTP:
        for _ in range(20):
            with pages.client(next(SOURCES)) as client:
                client.send(octets)
                with contextlib.suppress(EOFError, ConnectionError):
                    assert client.answer().status == 400, octets
                assert client.ends()
    pages.serving.wait_for_log("connection closed.*no request: ")


def test_a_body_that_breaks_off_is_no_error_of_ours(pages: Pages, source: str) -> None:
    with pages.client(source) as client:
        length = client.head("POST /api/v1/login", "Content-Length: 100",
                             "Content-Type: application/json")  # fmt: skip
        client.send(length + b"{")
    with pages.client(source) as client:
        chunks = client.head("POST /api/v1/login", "Transfer-Encoding: chunked",
                             "Content-Type: application/json")  # fmt: skip
        client.send(chunks + b"zz\r\n")
        with contextlib.suppress(EOFError):
            assert client.answer().status == 400


# Many connections


def test_one_address_does_not_take_all_connections(pages: Pages, source: str) -> None:
    clients: list[HttpClient] = []
    with contextlib.ExitStack() as stack:
        clients += [stack.enter_context(pages.client(source)) for _ in range(40)]
        pages.serving.wait_for_log("there are 30 connections of this address.*per.ip")
        with pages.client() as other:
            assert other.ask("GET /livez").status == 200
        assert ended(clients) == 40


def test_who_holds_all_connections_keeps_nobody_out(pages: Pages) -> None:
    """It also takes no descriptors of Kafka clients or logs."""
    folder = Path(f"/proc/{pages.serving.process.pid}/fd")
    before = len(list(folder.iterdir()))
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            client = stack.enter_context(pages.client(next(SOURCES)))
            with contextlib.suppress(ConnectionError):
                client.send(b"GET /livez HTTP/1.1\r\nX-A: ")
            assert len(list(folder.iterdir())) < before + 60
        with pages.client(next(SOURCES)) as other:
            health = other.ask("GET /healthz").told
        assert "admin" in health["reasons"], health
    pages.serving.wait_for_log("the broker had waited for it longest when one more came to 40")


def test_requests_without_waiting_for_answers(pages: Pages, source: str) -> None:
    with pages.client(source) as client:
        octets = client.head("GET /livez") * 4
        client.send(octets)
        assert [client.answer().status for _ in range(4)] == [200] * 4
        with contextlib.suppress(ConnectionError):
            client.send(client.head("GET /api/v1/openapi.json") * 4 * PIPELINED_MAX)
        assert client.ends()
    pages.serving.wait_for_log(f"requests wait for a response, wanted at most {PIPELINED_MAX}")


def test_answers_that_nobody_takes(pages: Pages, source: str) -> None:
    """One after the other, so that one response is always being written."""
    with pages.client(source) as client:
        client.socket.settimeout(0.1)
        with contextlib.suppress(ConnectionError):
            for _ in range(400):
                client.send(client.head("GET /api/v1/openapi.json"))
                time.sleep(0.005)
        client.socket.settimeout(DEADLINE_S)
        assert client.ends()


def stall(client: HttpClient) -> None:
    """Requests two megabytes and more, and reads nothing."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.send(client.head("GET /api/v1/openapi.json") * PIPELINED_MAX)


def unacknowledged_bytes(client: HttpClient) -> int:
    """The bytes of the broker's responses that the kernel holds."""
    port, own_port = client.socket.getpeername()[1], client.socket.getsockname()[1]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, own, other, _, queues, *_ = line.split()
        if own.endswith(f":{port:04X}") and other.endswith(f":{own_port:04X}"):
            return int(queues.partition(":")[0], 16)
    return 0


def test_who_reads_no_answer_keeps_nobody_out(tmp_path: Path) -> None:
    """From two addresses with half of all connections each, within the minute for one response."""
    settings = {"admin.max.connections.total": "8", "admin.max.connections.per.ip": "4"}
    with running_broker(tmp_path, settings) as broker, contextlib.ExitStack() as stack:
        host, _, port = broker.admin.rpartition(":")
        address, end = (host, int(port)), time.monotonic() + DEADLINE_S
        for number in range(8):
            client = stack.enter_context(HttpClient(address, f"127.0.0.{2 + number // 4}"))
            stall(client)
            while unacknowledged_bytes(client) < UNSENT_MAX / 2:
                assert time.monotonic() < end, "it has no answer"
                time.sleep(0.01)
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            with (
                contextlib.suppress(EOFError, ConnectionError),
                HttpClient(address, "127.0.0.4") as other,
            ):
                assert other.ask("GET /livez").status == 200
                return
            time.sleep(0.05)
        raise AssertionError("nobody else is let in")


def test_little_of_an_answer_that_nobody_takes_is_in_the_kernel(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        host, _, port = broker.admin.rpartition(":")
        with HttpClient((host, int(port))) as client:
            stall(client)
            until(lambda: unacknowledged_bytes(client) > UNSENT_MAX / 2)
            held = set[int]()
            for _ in range(50):
                time.sleep(0.02)
                held.add(unacknowledged_bytes(client))
        assert max(held) < 3 * UNSENT_MAX


@pytest.mark.parametrize("line", ["GET /livez", "CONNECT example.org:443"])
def test_another_protocol_is_not_begun(pages: Pages, source: str, line: str) -> None:
    with pages.client(source) as client:
        headers = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
        client.send(client.head(line, *headers))
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                client.send(b"x" * (64 << 10))
        assert client.ends()


def test_streams_of_one_user(pages: Pages) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            client = stack.enter_context(pages.client(next(SOURCES)))
            client.send(client.head("GET /api/v1/live", pages.cookies))
            assert b"200 OK" in client.socket.recv(1000)
        with pages.client(next(SOURCES)) as client:
            answer = client.ask("GET /api/v1/live", headers=[pages.cookies])
            assert (answer.status, answer.code) == (429, "throttling_quota_exceeded")
            assert client.ask("GET /api/v1/topics", headers=[pages.cookies]).status == 200
    # a check closed them: there is space again
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        with pages.client(next(SOURCES)) as client:
            client.send(client.head("GET /api/v1/live", pages.cookies))
            if b"200 OK" in client.socket.recv(1000):
                return
        time.sleep(0.05)
    raise AssertionError("closed streams are still counted")


# Logging in


def test_guesses_at_once_are_counted_before_they_are_looked_at(pages: Pages, source: str) -> None:
    codes: list[int] = []

    def guess() -> None:
        codes.append(pages.log_in(source, "eve", "x" * 12))

    threads = [threading.Thread(target=guess) for _ in range(25)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert Counter(codes) == {401: BURSTS["pair"][0], 429: 25 - BURSTS["pair"][0]}


def test_a_guesser_does_not_lock_out_the_owner(pages: Pages) -> None:
    """Neither guesses from everywhere and from her own address, nor the queue of guesses."""
    is_over = threading.Event()
    codes: Counter[int] = Counter()

    def guess() -> None:
        while not is_over.is_set():
            with contextlib.suppress(ConnectionError, EOFError):
                codes[pages.log_in(next(SOURCES), "ada", "x" * 12)] += 1

    for _ in range(BURSTS["pair"][0]):
        pages.log_in("127.0.0.1", "ada", "wrong")
    assert pages.log_in("127.0.0.1", "ada", PASSWORD) == 429
    threads = [threading.Thread(target=guess) for _ in range(12)]
    for each in threads:
        each.start()
    try:
        end = time.monotonic() + 60
        while not codes[429]:  # her name is locked by now, or the queue is full
            assert time.monotonic() < end, codes
            time.sleep(0.01)
        begin = time.monotonic()
        assert pages.log_in("127.0.0.1", "ada", PASSWORD, pages.device) == 204
        assert time.monotonic() - begin < SLOWEST_S["control"]
    finally:
        is_over.set()
        for each in threads:
            each.join()
    with pages.client(next(SOURCES)) as client:
        stolen = pages.device.replace("appliance_device=ada.", "appliance_device=ada.f")
        answer = client.ask("POST /api/v1/login", {"name": "ada", "password": "x"}, [stolen])
        assert answer.status in (401, 429)


def test_many_logins_at_once_hold_two_hashes(pages: Pages) -> None:
    """A hash takes 64 MiB; the fixture limits the memory."""
    codes: Counter[int] = Counter()

    def log_in(name: str) -> None:
        codes[pages.log_in(next(SOURCES), name, "x" * 12)] += 1

    threads = [threading.Thread(target=log_in, args=(f"u{number}",)) for number in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert codes[429] > 0
    assert codes[401] > 0
