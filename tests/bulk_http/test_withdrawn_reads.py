"""A bulk read ends when who asked may read no more, and not as if it were whole."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPResponse, IncompleteRead
from pathlib import Path
from urllib.parse import urlsplit

import argon2
import pytest
from confluent_kafka import Producer

from appliance.admin import users
from appliance.bulk_http import routes
from appliance.testing import RunningBroker, running_broker
from tests.support.people import logged_in, make_people
from tests.support.rest import Rest

DEADLINE_S = 20.0
BATCHES = "/export/v1/topics/t/partitions/0/batches"
REAL_HASHER = argon2.PasswordHasher
Withdraw = Callable[[], object]
Way = Callable[[RunningBroker, Rest], tuple[str, dict[str, str], Withdraw]]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """With more in a topic than the sockets between them hold."""
    path: Path = tmp_path_factory.mktemp("withdrawn") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(users.argon2, "PasswordHasher", lambda: REAL_HASHER(1, 8, 1))
        patch.setattr(routes, "ASKED_AGAIN_S", 0.0)
        make_people(path)
        with running_broker(path) as running:
            producer = Producer({"bootstrap.servers": running.bootstrap, "log_level": 0})
            for _ in range(300):
                producer.produce("t", os.urandom(60_000), partition=0)
            assert producer.flush(DEADLINE_S) == 0
            yield running


def by_token(broker: RunningBroker, ada: Rest) -> tuple[str, dict[str, str], Withdraw]:
    made = ada.post("/tokens", {"name": "reader", "role": "viewer"})
    headers = {"Authorization": f"Bearer {made['token']}"}
    return BATCHES, headers, lambda: ada.ask("DELETE", "/tokens/reader")


def by_session(broker: RunningBroker, ada: Rest) -> tuple[str, dict[str, str], Withdraw]:
    vera = logged_in(broker, "vera")
    return BATCHES, vera.headers, lambda: vera.ask("POST", "/logout", {})


def by_ticket(broker: RunningBroker, ada: Rest) -> tuple[str, dict[str, str], Withdraw]:
    vera = logged_in(broker, "vera")
    sent = urlsplit(redirected(broker, vera))
    return f"{sent.path}?{sent.query}", {}, lambda: vera.ask("POST", "/logout", {})


def by_right(broker: RunningBroker, ada: Rest) -> tuple[str, dict[str, str], Withdraw]:
    """The user stays, and may not see messages any more."""
    otto = logged_in(broker, "otto")
    sent = urlsplit(redirected(broker, otto))
    change = {"may_read": False}
    return f"{sent.path}?{sent.query}", {}, lambda: ada.ask("PATCH", "/users/otto", change)


def redirected(broker: RunningBroker, who: Rest) -> str:
    with begun(broker.admin, BATCHES, who.headers) as answer:
        answer.read()
        assert answer.status == 307
        return str(answer.headers["Location"])


@contextmanager
def begun(address: str, path: str, headers: dict[str, str]) -> Iterator[HTTPResponse]:
    """The head alone is read."""
    host, _, port = address.partition(":")
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        made.settimeout(DEADLINE_S)
        made.connect((host, int(port)))
        lines = [f"GET {path} HTTP/1.1", f"Host: {address}"]
        lines += [f"{name}: {text}" for name, text in headers.items()]
        made.sendall("\r\n".join([*lines, "", ""]).encode())
        with closing(HTTPResponse(made)) as answer:
            answer.begin()
            yield answer


@pytest.mark.parametrize("way", [by_token, by_session, by_ticket, by_right])
def test_a_read_ends_with_what_let_it_in(broker: RunningBroker, way: Way) -> None:
    path, headers, withdraw = way(broker, logged_in(broker, "ada"))
    with begun(broker.export, path, headers) as answer:
        assert answer.status == 200
        assert answer.read(100_000)
        withdraw()
        with pytest.raises((IncompleteRead, ConnectionError)):
            answer.read()


def test_who_still_may_reads_all(broker: RunningBroker) -> None:
    logged_in(broker, "ada").ask("PATCH", "/users/otto", {"may_read": True})
    otto = logged_in(broker, "otto")
    sent = urlsplit(redirected(broker, otto))
    for path, headers in ((BATCHES, otto.headers), (f"{sent.path}?{sent.query}", {})):
        with begun(broker.export, path, headers) as answer:
            assert answer.status == 200
            assert len(answer.read()) > 300 * 60_000
