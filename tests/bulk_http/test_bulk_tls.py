"""Bulk data over TLS: the same bytes, to who is slow as well, and an end that is told."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from appliance.bulk.line import TlsLine
from appliance.testing import RunningBroker, running_broker
from tests.support.certificates import Authority
from tests.support.export_stream import Stream, read_stream
from tests.support.zookeeper import eventually

COUNT, SIZE = 20_000, 1000  # more than the sockets of both sides hold
BATCHES = "/export/v1/topics/t/partitions/0/batches"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[RunningBroker]:
    path = tmp_path_factory.mktemp("appliance")
    settings = {
        **authority.settings, "admin.tls": "off", "export.tls": "on",
        "admin.request.timeout.ms": "2000",
    }  # fmt: skip
    with running_broker(path, settings) as running:
        made = Producer({"bootstrap.servers": running.bootstrap, "linger.ms": 5})
        for number in range(COUNT):
            made.produce("t", b"%0*d" % (SIZE, number), partition=0)
        assert made.flush(20) == 0
        yield running


@pytest.fixture
def line(broker: RunningBroker, authority: Authority) -> Iterator[HTTPSConnection]:
    with closing(HTTPSConnection(broker.export, timeout=20, context=authority.trusted())) as made:
        yield made


def asked(line: HTTPConnection, path: str) -> HTTPResponse:
    line.request("GET", path)
    return line.getresponse()


def whole(response: HTTPResponse) -> Stream:
    assert response.status == 200
    return read_stream(response.read())


def plain_socket(broker: RunningBroker) -> socket.socket:
    host, _, port = broker.export.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def test_a_range_is_whole_and_the_connection_goes_on(line: HTTPSConnection) -> None:
    for _ in range(2):
        assert whole(asked(line, BATCHES)).offsets(0, COUNT) == list(range(COUNT))
    assert json.loads(asked(line, "/export/v1/topics").read()) == {"topics": ["t"]}


def test_who_reads_slowly_gets_the_same(
    line: HTTPSConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked: list[int] = []
    send = TlsLine.send_some

    def counted(self: TlsLine, buffers: Any) -> int:
        try:
            return send(self, buffers)
        except BlockingIOError:
            blocked.append(len(buffers[0]))
            raise

    monkeypatch.setattr(TlsLine, "send_some", counted)
    response = asked(line, BATCHES)
    eventually(lambda: len(blocked) > 0)
    assert whole(response).offsets(0, COUNT) == list(range(COUNT))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_is_taken_up_again(
    broker: RunningBroker, authority: Authority, version: ssl.TLSVersion
) -> None:
    context, session, taken = authority.trusted(), None, []
    context.minimum_version = context.maximum_version = version
    for _ in range(2):
        with context.wrap_socket(
            plain_socket(broker), server_hostname="127.0.0.1", session=session
        ) as line:
            line.sendall(b"GET /export/v1/topics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert line.recv(15) == b"HTTP/1.1 200 OK"
            session = line.session  # with TLS 1.3 it comes beside the first data
            taken.append(line.session_reused)
    assert taken == [False, True]


def test_the_admin_port_sends_there_over_tls(broker: RunningBroker) -> None:
    with closing(HTTPConnection(broker.admin, timeout=20)) as admin:
        sent = asked(admin, BATCHES)
        assert sent.status == 307
        assert sent.headers["Location"].startswith(f"https://{broker.export}{BATCHES}?ticket=")


def test_what_is_no_request_is_answered_and_ends(
    broker: RunningBroker, authority: Authority
) -> None:
    with authority.trusted().wrap_socket(
        plain_socket(broker), server_hostname="127.0.0.1", suppress_ragged_eofs=False
    ) as line:
        line.sendall(b"no request\r\n\r\n")
        answer = b""
        while data := line.recv(4096):  # a cut would raise
            answer += data
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"bad_request"' in answer


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01", b"\x16 no TLS at all"])
def test_who_agrees_on_no_tls_is_sent_away(broker: RunningBroker, sent: bytes) -> None:
    with plain_socket(broker) as line:
        line.sendall(sent)
        with suppress(ConnectionResetError):  # what it sent was not read
            while line.recv(100):  # an alert, at most
                pass


def test_who_comes_without_tls_is_told(broker: RunningBroker) -> None:
    with closing(HTTPConnection(broker.export, timeout=20)) as line:
        answer = asked(line, BATCHES)
        assert answer.status == 400
        assert json.loads(answer.read())["error"]["code"] == "tls_required"


def test_a_stop_ends_who_waits(tmp_path: Path, authority: Authority) -> None:
    with running_broker(tmp_path, authority.settings) as broker:
        line = authority.trusted().wrap_socket(
            plain_socket(broker), server_hostname="127.0.0.1", suppress_ragged_eofs=False
        )
    with line:
        assert line.recv(1) == b""
