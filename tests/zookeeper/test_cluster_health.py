"""Brokers of a path as one: whatever answers at the address of one is told of that one alone."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from appliance.zookeeper import cluster_health
from appliance.zookeeper.cluster_health import (
    AdminPages,
    ClusterHealth,
    RegisteredBroker,
    Word,
)
from loadtest.ports import lasting_port
from tests.support.certificates import Authority

WELL = json.dumps({"status": "ok", "reasons": []}).encode()


class Page(BaseHTTPRequestHandler):
    server: Pages

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        status, headers, body = self.server.answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        for each in body:
            try:
                self.wfile.write(each)
            except OSError:
                return  # it had enough
            self.server.pause.wait(self.server.pause_s)

    def log_message(self, *_: object) -> None:
        """A test reads `asked`."""


class Pages(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Page)
        self.asked: list[str] = []
        self.answer: tuple[int, dict[str, str], list[bytes]] = (200, {}, [WELL])
        self.pause, self.pause_s = threading.Event(), 0.0
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)

    def handle_error(self, *_: object) -> None:
        """Of who breaks off."""


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Pages]:
    with Pages(tls) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.pause.set()
        server.shutdown()
        thread.join()


def found(*urls: str, ca: str = "") -> ClusterHealth:
    brokers = [RegisteredBroker(n, "h:1", {"t": n + 1}) for n in range(len(urls))]
    pages = AdminPages(8780, given=dict(enumerate(urls)), ca=ca)
    return asyncio.run(cluster_health.cluster_health(brokers, pages))


def said(server: Pages, *body: bytes, status: int = 200, **headers: str) -> Word:
    server.answer = status, headers, [*body]
    (row,) = found(url_of(server))["brokers"]
    return Word(row["status"], row["reasons"])


def url_of(server: Pages, scheme: str = "http") -> str:
    return f"{scheme}://127.0.0.1:{server.server_port}"


def test_the_worst_is_said_of_all_and_topics_are_summed() -> None:
    with serving() as well, serving() as ill:
        ill.answer = 503, {}, [json.dumps({"status": "failing", "reasons": ["full"]}).encode()]
        answer = found(url_of(well), url_of(ill), f"http://127.0.0.1:{lasting_port()}")
    rows = answer["brokers"]
    assert [each["status"] for each in rows] == ["ok", "failing", "unreachable"]
    assert (rows[1]["reasons"], answer["status"]) == (["full"], "failing")
    assert rows[2]["reasons"][0].endswith("Connection refused")
    assert answer["topics"] == [{"topic": "t", "partitions": 6, "brokers": [0, 1, 2]}]
    assert well.asked == ["/healthz"]


def test_the_word_of_another_broker_is_not_its() -> None:
    """As of the one that asks, where several are on one host."""
    with serving() as server:
        other = json.dumps({"status": "ok", "reasons": [], "node_id": 7}).encode()
        status, (reason,) = said(server, other)
        assert (status, "broker 7 answers there" in reason) == ("unreachable", True)
        assert said(server, other.replace(b"7", b"0")).status == "ok"


def test_what_is_no_broker_is_told_and_believed_in_nothing() -> None:
    with serving() as server, serving() as other:
        assert "no broker of this kind" in said(server, b"<html>").reasons[0]
        assert "no broker of this kind" in said(server, b'["ok"]').reasons[0]
        many = json.dumps({"status": "x" * 10_000, "reasons": ["y" * 10_000] * 1000}).encode()
        status, reasons = said(server, many)
        assert len(status) + sum(map(len, reasons)) < 20_000
        assert said(server, *[b"z" * 100_000] * 30).status == "unreachable"
        assert said(server, status=302, Location=url_of(other)).status == "unreachable"
        assert other.asked == []


def test_one_that_hangs_or_drips_holds_the_others_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_health, "TIMEOUT_S", 3.0)
    with serving() as well, serving() as drips, socket.create_server(("127.0.0.1", 0)) as silent:
        drips.answer, drips.pause_s = (200, {}, [b" "] * 1000), 0.1
        begin_s = time.monotonic()
        port = silent.getsockname()[1]
        answer = found(url_of(well), url_of(drips), f"http://127.0.0.1:{port}")
        assert time.monotonic() - begin_s < 20  # one drips for a hundred
    rows = answer["brokers"]
    assert [each["status"] for each in rows] == ["ok", "unreachable", "unreachable"]
    assert rows[1]["reasons"] == [f"{rows[1]['admin']} did not answer in 3 s"]


def test_tls_is_spoken_with_who_is_trusted(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.keystore())
    ca = authority.trust.read_text()
    with serving(context) as server:
        assert found(url_of(server, "https"), ca=ca)["status"] == "ok"
        (row,) = found(url_of(server, "https"))["brokers"]
        assert "authority that is not trusted" in row["reasons"][0]
        (row,) = found(url_of(server))["brokers"]
        assert row["status"] == "unreachable"


def test_pages_are_where_they_were_given_or_at_the_port_of_all() -> None:
    pages = AdminPages(81, "https", {2: "http://x:1"})
    places = {1: "box:9092", 2: "box:9092", 3: "nonsense", 4: "[::1]:9092"}
    assert [pages.of(RegisteredBroker(n, each, {})) for n, each in places.items()] == [
        "https://box:81", "http://x:1", "https://nonsense:81", "https://[::1]:81",
    ]  # fmt: skip
