"""Requests of strangers and broken clients to the port for bulk data."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

import pytest

from appliance.admin.admission import HEAD_BYTES_MAX, HEADERS_MAX
from tests.hostile.admin_port import DEADLINE_S, Pages
from tests.hostile.conftest import SOURCES
from tests.hostile.test_admin_port import NO_HTTP, ended

TOPICS = "GET /export/v1/topics"
SMUGGLED = b"GET /export/v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_slow_heads_of_bulk_reads_are_closed_in_time(pages: Pages) -> None:
    """Also byte by byte, also after a response, and also without any byte."""
    clients = [pages.bulk_client(next(SOURCES)) for _ in range(12)]
    assert clients[6].ask(TOPICS, headers=[pages.cookies]).status == 200
    for each in clients[:8]:
        each.send(b"GET /export/v1/topics HTTP/1.1\r\nX-A: ")
    end, trickles = time.monotonic() + DEADLINE_S, True
    while trickles:
        assert time.monotonic() < end, "it is still open"
        try:
            clients[0].send(b"a")
        except ConnectionError:
            trickles = False
        time.sleep(0.02)
    assert ended(clients) == 12
    pages.serving.wait_for_log("did not arrive within 600 ms .*port=export")


def test_a_head_of_a_bulk_read_that_is_too_large(pages: Pages) -> None:
    line = b"X-%d: " + b"a" * 4000 + b"\r\n"
    for count in (HEAD_BYTES_MAX // 4000 + 1, 5000):
        with pages.bulk_client(next(SOURCES)) as client:
            lines = b"".join(line % number for number in range(count))
            with contextlib.suppress(ConnectionError):
                client.send(client.head(TOPICS)[:-2] + lines + b"\r\n")
            with contextlib.suppress(EOFError, ConnectionError):
                assert client.answer().status == 431
            assert client.ends()
    with pages.bulk_client(next(SOURCES)) as client:
        client.send(client.head(TOPICS)[:-2] + b"A: b\r\n" * (2 * HEADERS_MAX) + b"\r\n")
        assert (client.answer().code, client.ends()) == ("head_too_large", True)


@pytest.mark.parametrize(
    "octets",
    [
        *NO_HTTP[:5], *NO_HTTP[6:],
        b"GET http://localhost/export/v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /export/v1/topics HTTP/1.1\r\n\r\n",
        b"GET /export/v1/topics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /export/v1/topics HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_no_request_of_a_bulk_read(pages: Pages, octets: bytes) -> None:
    with pages.bulk_client(next(SOURCES)) as client:
        client.send(octets)
        with contextlib.suppress(EOFError, ConnectionError):
            assert client.answer().status == 400
        assert client.ends()


@pytest.mark.parametrize(
    "headers",
    [
        [f"Content-Length: {len(SMUGGLED)}"],
        ["Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", f"Content-Length: {len(SMUGGLED)}"],
        ["Content-Length: 0", f"Content-Length: {len(SMUGGLED)}"],
        ["Content-Length: 0", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: identity"],
        ["Transfer-Encoding: xchunked"],
        ["Content-Length: +0"],
        ["Content-Length: 00"],
        ["Connection: close"],
        [" folded: x", "Connection: close"],
    ],
)
def test_a_bulk_read_smuggles_no_second_one(pages: Pages, headers: list[str]) -> None:
    """At most one response, even if the head can be parsed in another way."""
    with pages.bulk_client(next(SOURCES)) as client:
        client.send(client.head(TOPICS, pages.cookies, *headers) + SMUGGLED)
        heard = bytearray()
        with contextlib.suppress(ConnectionError):
            while data := client.socket.recv(1 << 16):
                heard += data
    assert heard.count(b"HTTP/1.1 ") == 1
    wanted = (b"200",) if "close" in headers[-1] else (b"400", b"501")
    assert heard.split()[1] in wanted, heard


def test_bulk_reads_one_behind_the_other(pages: Pages, source: str) -> None:
    """In order. A client that sends ever more of them and reads nothing is closed."""
    with pages.bulk_client(source) as client:
        paths = [TOPICS, "GET /nowhere", TOPICS, "GET /export/v1/topics/none/plan"]
        client.send(b"".join(client.head(each, pages.cookies) for each in paths))
        assert [client.answer().status for _ in paths] == [200, 404, 200, 404]
    with pages.bulk_client(source) as client:
        client.socket.settimeout(0.2)
        with contextlib.suppress(ConnectionError, TimeoutError):
            while True:
                client.send(client.head(TOPICS, pages.cookies) * 100)
        client.socket.settimeout(DEADLINE_S)
        end = time.monotonic() + DEADLINE_S
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < end:
                client.send(b"")
                time.sleep(0.1)
                if b"no response read for 800 ms" in pages.serving.log.encode():
                    break
    pages.serving.wait_for_log("no response read for 800 ms.*port=export")


def test_half_of_a_connection_is_enough_for_a_bulk_read(pages: Pages, source: str) -> None:
    with pages.bulk_client(source) as client:
        client.send(client.head(TOPICS, pages.cookies))
        client.socket.shutdown(socket.SHUT_WR)
        assert client.answer().status == 200
        assert client.ends()
    with pages.bulk_client(source) as client:
        client.send(b"GET /export/v1/to")
        client.socket.shutdown(socket.SHUT_WR)
        assert (client.answer().status, client.ends()) == (400, True)


def test_one_address_does_not_take_all_bulk_reads(pages: Pages, source: str) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(pages.bulk_client(source)) for _ in range(40)]
        pages.serving.wait_for_log("there are 30 connections of this address.*port=export")
        with pages.bulk_client() as other:
            assert other.ask(TOPICS, headers=[pages.cookies]).status == 200
        assert ended(clients) == 40


def test_who_holds_all_bulk_reads_keeps_nobody_out(pages: Pages) -> None:
    """It takes neither descriptors of others nor connections of the admin port."""
    folder = Path(f"/proc/{pages.serving.process.pid}/fd")
    before = len(list(folder.iterdir()))
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            client = stack.enter_context(pages.bulk_client(next(SOURCES)))
            with contextlib.suppress(ConnectionError):
                client.send(b"GET /export/v1/topics HTTP/1.1\r\nX-A: ")
            assert len(list(folder.iterdir())) < before + 60
        with pages.bulk_client(next(SOURCES)) as other:
            assert other.ask(TOPICS, headers=[pages.cookies]).status == 200
        with pages.client(next(SOURCES)) as other:
            health = other.ask("GET /healthz").told
        assert "export" in health["reasons"], health
    pages.serving.wait_for_log("waited for it longest when one more came to 40.*port=export")


def test_strangers_ask_for_bulk_data_in_vain(pages: Pages, source: str) -> None:
    """Also with forged tickets; without memory and without audit rows."""
    with pages.bulk_client(source) as client:
        for number in range(500):
            path = f"GET /export/v1/topics/t/partitions/0/batches?ticket={number}"
            assert client.ask(path).code == "ticket_used"
            assert client.ask(TOPICS).code == "login_required"


def test_redirects_that_nobody_follows(pages: Pages, source: str) -> None:
    """The number of kept tickets is limited; the bound of all attacks covers their memory."""
    with pages.client(source) as client:
        for _ in range(20):
            client.send(client.head(TOPICS, pages.cookies) * 8)
            assert {client.answer().status for _ in range(8)} == {307}


def test_another_protocol_is_not_begun_for_bulk_data(pages: Pages, source: str) -> None:
    upgrade = ["Connection: Upgrade", "Upgrade: websocket"]
    with pages.bulk_client(source) as client:
        assert client.ask(TOPICS, headers=[pages.cookies, *upgrade]).status == 200
    with pages.bulk_client(source) as client:
        client.send(client.head("CONNECT example.org:443"))
        with contextlib.suppress(ConnectionError, EOFError):
            assert client.answer().status == 400
        assert client.ends()
