"""Who knows only the admin address gets bulk data: by a redirect with a ticket, which opens one URL
once."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import argon2
import pytest
import requests
from confluent_kafka import Producer
from yarl import URL

from appliance.admin import access_page, bulk_read, users
from appliance.admin.bulk_tickets import SECONDS, TICKETS_MAX, Tickets
from appliance.admin.users import Identity
from appliance.testing import RunningBroker, running_broker
from loadtest.ports import lasting_port
from tests.support.export_stream import read_stream
from tests.support.people import PASSWORD, PEOPLE, asked, denied, is_let_in, logged_in, make_people
from tests.support.rest import Rest

COUNT = 100
BATCHES = "/export/v1/topics/t/partitions/0/batches"
TIMEOUT_S = 20.0
REAL_HASHER = argon2.PasswordHasher


@pytest.fixture(scope="module", autouse=True)
def argon2_is_quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(users.argon2, "PasswordHasher", lambda: REAL_HASHER(1, 8, 1))
        yield


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    path = tmp_path_factory.mktemp("redirect") / "data"
    make_people(path, "bob")
    with running_broker(path) as running:
        fill(running)
        yield running


def fill(broker: RunningBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(COUNT):
        producer.produce("t", b"%d" % number, partition=0)
    assert producer.flush(TIMEOUT_S) == 0


@pytest.fixture(scope="module")
def token(broker: RunningBroker) -> str:
    made = logged_in(broker, "ada").post("/tokens", {"name": "reader", "role": "viewer"})
    return str(made["token"])


def sent_to(address: str, path: str, **headers: str) -> tuple[int, str, Any]:
    """Status, Location and body: nothing is followed."""
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    connection.request("GET", path, headers=named)
    response = connection.getresponse()
    found = response.status, response.headers.get("Location", ""), response.read()
    connection.close()
    return found


def ticket_of(broker: RunningBroker, token: str, path: str = BATCHES) -> str:
    """The path with it."""
    status, location, body = sent_to(broker.admin, path, Authorization=f"Bearer {token}")
    assert (status, urlsplit(location).netloc) == (307, broker.export)
    assert json.loads(body) == {"url": location}
    return location.partition(broker.export)[2]


def code_of(found: tuple[int, str, Any]) -> tuple[int, str]:
    return found[0], json.loads(found[2])["error"]["code"]


# Clients


def by_curl(url: str, token: str) -> bytes:
    command = ["curl", "-sSfL", "-m", "20", "-H", f"Authorization: Bearer {token}", url]
    return subprocess.run(command, check=True, capture_output=True).stdout


def by_requests(url: str, token: str) -> bytes:
    headers = {"Authorization": f"Bearer {token}"}
    with requests.Session() as session:
        answer = session.get(url, headers=headers, timeout=TIMEOUT_S)
        assert answer.status_code == 200, answer.text
        assert "Authorization" not in answer.request.headers  # it does not go to another port
        return answer.content


def by_urllib(url: str, token: str) -> bytes:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        data: bytes = answer.read()
        return data


@pytest.mark.parametrize("read", [by_curl, by_requests, by_urllib])
def test_clients_that_know_the_admin_address_alone(
    broker: RunningBroker, token: str, read: Any
) -> None:
    found = read_stream(read(f"http://{broker.admin}{BATCHES}?start=0&end={COUNT}", token))
    assert found.offsets(0, COUNT) == list(range(COUNT))


def test_a_token_opens_the_bulk_port_too(broker: RunningBroker, token: str) -> None:
    found = read_stream(by_curl(f"http://{broker.export}{BATCHES}", token))
    assert found.offsets(0, COUNT) == list(range(COUNT))


def test_a_session_opens_it_too(broker: RunningBroker) -> None:
    vera = logged_in(broker, "vera")
    rest = Rest(broker.export, vera.headers)
    assert rest.raw("GET", "/export/v1/topics").body == {"topics": ["t"]}
    assert vera.ask("GET", "/topics", prefix="/export/v1").body == {"topics": ["t"]}


# Tickets


def test_a_ticket_is_good_once(broker: RunningBroker, token: str) -> None:
    path = ticket_of(broker, token)
    assert sent_to(broker.export, path)[0] == 200
    assert code_of(sent_to(broker.export, path)) == (401, "ticket_used")
    # nor by who could do without it: he would not see that somebody else used it
    bearer = f"Bearer {token}"
    assert code_of(sent_to(broker.export, path, Authorization=bearer)) == (401, "ticket_used")


@pytest.mark.parametrize(("was", "now"), [
    ("partitions/0", "partitions/1"), ("end=10", "end=11"), ("/t/", "/u/"),
    ("?start=0&", "?"), ("start=0&end=10", "end=10&start=0"), ("batches?", "batches?format=csv&"),
])  # fmt: skip
def test_a_ticket_opens_nothing_else(
    broker: RunningBroker, token: str, was: str, now: str
) -> None:
    path = ticket_of(broker, token, f"{BATCHES}?start=0&end=10")
    assert code_of(sent_to(broker.export, path.replace(was, now))) == (401, "ticket_used")
    # and was used by that
    assert code_of(sent_to(broker.export, path)) == (401, "ticket_used")


def test_without_a_ticket_or_a_login_there_is_nothing(broker: RunningBroker) -> None:
    assert code_of(sent_to(broker.export, BATCHES)) == (401, "login_required")
    assert code_of(sent_to(broker.admin, BATCHES)) == (401, "login_required")
    assert code_of(sent_to(broker.export, f"{BATCHES}?ticket=x")) == (401, "ticket_used")
    status, code = code_of(sent_to(broker.admin, f"{BATCHES}?ticket=x", Host=broker.admin))
    assert (status, code) == (401, "login_required")


def test_who_may_no_longer_has_a_ticket_for_nothing(broker: RunningBroker) -> None:
    ada = logged_in(broker, "ada")
    made = ada.post("/tokens", {"name": "short", "role": "viewer"})["token"]
    path = ticket_of(broker, made)
    assert ada.ask("DELETE", "/tokens/short").status == 204
    assert code_of(sent_to(broker.export, path)) == (401, "login_required")


def test_a_ticket_is_noted_as_who_asked(broker: RunningBroker) -> None:
    ada = logged_in(broker, "ada")
    made = ada.post("/tokens", {"name": "noted", "role": "viewer"})["token"]
    sent_to(broker.export, ticket_of(broker, made))
    rows = [each for each in ada.get("/audit")["entries"] if each["who"] == "token noted"]
    assert [each["action"] for each in rows] == [f"GET {BATCHES}"]
    assert "ticket" not in rows[0]["details"]


def test_a_ticket_grows_old_and_the_oldest_goes_first() -> None:
    now = [0.0]
    tickets = Tickets(lambda: now[0])
    ada = Identity("ada", "admin")
    asked_for = URL("http://h/export/v1/topics?a=1&b=%2F")
    made = [tickets.url(asked_for, ada) for _ in range(TICKETS_MAX + 1)]
    assert tickets.take(made[0]) is None
    assert tickets.take(made[1]) is ada
    assert tickets.take(URL(str(made[2]))) is ada  # as it comes back from a client
    now[0] = SECONDS
    assert tickets.take(made[3]) is None
    assert len({parse_qs(urlsplit(str(each)).query)["ticket"][0] for each in made}) == len(made)


# Who is let in at the bulk port itself, as the table of docs/access.md says of these routes


@pytest.mark.parametrize("route", bulk_read.ROUTES, ids=lambda route: route.path)
def test_the_guard_is_that_of_the_admin_port(broker: RunningBroker, route: Any) -> None:
    def ask(rest: Rest, **headers: str) -> Any:
        return asked(Rest(broker.export, rest.headers), "GET", route.url, False, **headers)

    ada = logged_in(broker, "ada")
    found = {role: ask(logged_in(broker, name)) for name, role in PEOPLE.items()}
    found["no login"] = ask(Rest(broker.export))
    found["session over"] = ask(Rest(broker.export, {"Cookie": "appliance_session=x; other"}))
    found["admin, no messages"] = ask(logged_in(broker, "bob"))
    found["other Host"] = ask(ada, Host="evil.example")
    found["other site"] = ask(ada, Origin="http://evil.example")
    assert ask(ada, Origin="http://[").status == found["other site"].status
    for heading, answer in found.items():
        cell = access_page.COLUMNS[heading](route)
        assert is_let_in(answer) if cell == access_page.YES else str(answer.status) == cell, heading


def test_what_is_not_there_is_told(broker: RunningBroker, token: str) -> None:
    rest = Rest(broker.export, {"Authorization": f"Bearer {token}"})
    for path in ("/", "/metrics", "/healthz", "/api/v1/topics", "/export/v1/holds",
                 "/export/v1/topics/", "//export/v1/topics", "/export/v1/../v1/topics"):
        assert denied(rest.raw("GET", path)) == (404, "not_found"), path
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
        answer = rest.raw(method, BATCHES)
        assert (denied(answer), answer.headers["Allow"]) == ((405, "method_not_allowed"), "GET")
    head = requests.head(f"http://{broker.export}{BATCHES}", timeout=TIMEOUT_S)
    assert (head.status_code, head.content) == (405, b"")
    assert denied(rest.raw("GET", f"{BATCHES}?start=x")) == (400, "invalid_request")
    assert denied(rest.raw("GET", f"{BATCHES}?begin=0")) == (400, "invalid_request")
    assert head.headers["Server"] == "appliance"
    assert head.headers["Cache-Control"] == "no-store"


# Where the redirect leads


def location(tmp_path: Path, host: str = "", **settings: str) -> URL:
    named = {name.replace("_", "."): text for name, text in settings.items()}
    with running_broker(tmp_path / "data", named) as broker:
        host = host and f"{host}:{broker.admin.rpartition(':')[2]}"
        headers = {"Host": host} if host else {}
        url = URL(sent_to(broker.admin, "/export/v1/topics", **headers)[1])
        port = broker.export.rpartition(":")[2]
        return url.with_port(1 if str(url.port) == port else url.port).with_query(None)


def test_the_redirect_leads_where_it_is_told_to(tmp_path: Path) -> None:
    path = "/export/v1/topics"
    one, two, three = (tmp_path / str(each) for each in range(3))
    assert str(location(one)) == f"http://127.0.0.1:1{path}"
    assert str(location(two, export_advertised_address="logs.example:0")) == (
        f"http://logs.example:1{path}")
    assert str(location(three, export_advertised_address="logs.example:443",
                        admin_behind_tls="true").with_port(None)) == f"https://logs.example{path}"


def test_of_every_interface_it_leads_where_the_client_came(tmp_path: Path) -> None:
    make_people(tmp_path)
    with running_broker(tmp_path, {"export.address": "0.0.0.0:0"}) as broker:
        ada = logged_in(broker, "ada")
        cookie = ada.headers["Cookie"]
        port = broker.export.rpartition(":")[2]
        admin_port = broker.admin.rpartition(":")[2]
        for name in ("localhost", "127.0.0.1", "[::1]"):
            found = sent_to(
                broker.admin, "/export/v1/topics", Host=f"{name}:{admin_port}", Cookie=cookie)
            assert found[1].startswith(f"http://{name}:{port}/export/v1/topics?ticket="), found


def test_until_there_is_a_password_it_is_on_loopback(tmp_path: Path) -> None:
    # of the kernel's ports, somebody's connection may have this one on another address
    with running_broker(tmp_path, {"export.address": f"0.0.0.0:{lasting_port()}"}) as broker:
        port = int(broker.export.rpartition(":")[2])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), TIMEOUT_S)
        first = {"token": broker.setup_secret, "name": "ada", "password": PASSWORD}
        assert Rest(broker.admin).ask("POST", "/setup", first).status == 204
        address = f"127.0.0.2:{port}"
        assert code_of(sent_to(address, "/export/v1/topics")) == (401, "login_required")


def test_health_tells_where_it_is(broker: RunningBroker) -> None:
    found = logged_in(broker, "vera").get("/health")["listeners"]
    assert (found["admin"], found["export"]) == (broker.admin, broker.export)
