"""Who is let in to the admin pages: every route, asked by everybody; the ways around a login."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import argon2
import pytest

from appliance import config
from appliance.access import login_attempts
from appliance.access.user_rows import has_users
from appliance.admin import api, sessions, users
from appliance.admin.route import ADMIN, OPERATOR, VIEWER
from appliance.catalog.catalog import NAME, Catalog
from appliance.machine.believed_time import Remembered, WallClock
from appliance.server import Server
from appliance.testing import RunningBroker, running_broker
from loadtest.ports import lasting_port
from tests.support.people import (
    PASSWORD,
    PEOPLE,
    asked,
    denied,
    is_let_in,
    logged_in,
    make_people,
    users_in,
)
from tests.support.rest import PREFIX, Rest

REAL_HASHER = argon2.PasswordHasher


@pytest.fixture(scope="module")
def argon2_is_quick() -> Iterator[None]:
    """A hash of the real cost takes 64 MiB and a core's tenth of a second, and this file makes a
    hundred. One test below looks at the real one."""
    patch = pytest.MonkeyPatch()
    patch.setattr(users.argon2, "PasswordHasher", lambda: REAL_HASHER(1, 8, 1))
    yield
    patch.undo()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, argon2_is_quick: None) -> Path:
    """A directory in which three people have passwords."""
    path = tmp_path_factory.mktemp("people")
    make_people(path)
    return path


@pytest.fixture(scope="module")
def broker(data: Path) -> Iterator[RunningBroker]:
    with running_broker(data) as broker:
        yield broker


@pytest.fixture(scope="module")
def people(broker: RunningBroker) -> dict[str, Rest]:
    return {"": Rest(broker.admin), **{name: logged_in(broker, name) for name in PEOPLE}}


def test_our_own_pages_may_change(people: dict[str, Rest]) -> None:
    ada = people["ada"]
    headers = {"Origin": f"http://{ada.admin}", "Sec_Fetch_Site": "same-origin"}
    body = json.dumps({"name": "made"}).encode()
    answer = ada.raw("POST", f"{PREFIX}/topics", body, Content_Type="application/json", **headers)
    assert answer.status == 201
    assert ada.get("/audit", limit=1)["entries"][0]["who"] == "ada"


def test_what_needs_no_login(broker: RunningBroker, people: dict[str, Rest]) -> None:
    nobody = people[""]
    assert nobody.raw("GET", "/livez").status == nobody.raw("GET", "/healthz").status == 200
    assert denied(nobody.raw("GET", "/metrics")) == (401, "login_required")
    assert people["vera"].raw("GET", "/metrics").status == 200
    assert nobody.get("/session") == {
        "name": None, "role": None, "may_read": False, "needs_setup": False,
        "is_read_only": False, "has_service": False, "warning": None, "is_ruled": False,
        "allowed": [], "creates_topics": False, "defines_exports": False}
    assert people["otto"].get("/session")["role"] == OPERATOR


# Sessions

def test_a_cookie_is_for_our_pages_alone(broker: RunningBroker) -> None:
    answer = Rest(broker.admin).ask("POST", "/login", {"name": "vera", "password": PASSWORD})
    words = {each.strip() for each in answer.headers["Set-Cookie"].split(";")}
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= words


def test_a_session_ends_with_a_logout_and_another_password(broker: RunningBroker) -> None:
    ada, first = logged_in(broker, "ada"), logged_in(broker, "ada")
    ada.ask("POST", "/users", {"name": "temp", "role": "viewer", "password": PASSWORD})
    temp, other = logged_in(broker, "temp"), logged_in(broker, "temp")
    assert first.ask("POST", "/logout").status == 204
    assert denied(first.ask("GET", "/topics")) == (401, "login_required")
    change = {"old_password": PASSWORD, "password": "another password"}
    assert denied(temp.ask("POST", "/session/password", {**change, "old_password": "x"}))[0] == 403
    answer = temp.ask("POST", "/session/password", change)
    assert answer.status == 204
    assert denied(other.ask("GET", "/topics")) == (401, "login_required")
    fresh = {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}
    assert Rest(broker.admin, fresh).get("/session")["name"] == "temp"
    ada.ask("PATCH", "/users/temp", {"role": "operator"})
    assert denied(Rest(broker.admin, fresh).ask("GET", "/topics")) == (401, "login_required")
    assert logged_in(broker, "temp", "another password").get("/session")["role"] == "operator"
    assert ada.ask("DELETE", "/users/temp").status == 204
    wrong = {"name": "temp", "password": "another password"}
    assert denied(Rest(broker.admin).ask("POST", "/login", wrong)) == (401, "login_wrong")


def test_sessions_end_with_time() -> None:
    now = [0.0]
    found = sessions.Sessions(lambda: now[0])
    secret, other = found.begin("ada"), found.begin("otto")
    now[0] += sessions.IDLE_SECONDS - 1
    assert found.name_of(secret) == "ada"
    now[0] += 2
    assert (found.name_of(secret), found.name_of(other)) == ("ada", None)
    while now[0] < sessions.LIFE_SECONDS:
        assert found.name_of(secret) == "ada"
        now[0] += sessions.IDLE_SECONDS
    assert found.name_of(secret) is None
    assert found.name_of("") is None


def test_a_session_by_the_word_of_a_service_ends_sooner() -> None:
    """The service does not tell what it takes back."""
    now = [0.0]
    found = sessions.Sessions(lambda: now[0])
    ann = users.Identity("oidc:ann", OPERATOR, is_elsewhere=True)
    secret = found.begin(ann.name, identity=ann)
    for share in (0.4, 0.8):
        now[0] = share * sessions.ELSEWHERE_SECONDS
        assert found.name_of(secret) == ann.name
        assert found.elsewhere(ann.name) == ann
    now[0] = sessions.ELSEWHERE_SECONDS + 1
    assert found.elsewhere(ann.name) is None
    assert found.name_of(secret) is None


@pytest.mark.parametrize("path", ["/live", "/topics/watched/messages/live"])
def test_a_stream_keeps_no_session(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """A page that was forgotten: its session ends as if it was shut."""
    ada = logged_in(broker, "ada")
    ada.ask("POST", "/topics", {"name": "watched"})
    request = urllib.request.Request(f"http://{broker.admin}{PREFIX}{path}", headers=ada.headers)
    with urllib.request.urlopen(request, timeout=20) as stream:
        assert stream.readline()
        monkeypatch.setattr(sessions, "IDLE_SECONDS", 1.5)
        end = time.monotonic() + 30
        while stream.readline():
            assert time.monotonic() < end, "the stream goes on"
    assert denied(ada.ask("GET", "/topics")) == (401, "login_required")


def test_guessing_is_slow() -> None:
    now = [0.0]
    failures = login_attempts.LoginAttempts(lambda: now[0])
    burst, pause = login_attempts.BURSTS["pair"]
    for _ in range(burst):
        failures.take("a", "ada", None)
    refusal = r"passwords for user ada from a: .* in 60 s"
    with pytest.raises(login_attempts.LoginRefused, match=refusal):
        failures.take("a", "ada", None)
    failures.take("b", "ada", None)  # she is elsewhere
    now[0] += pause
    failures.take("a", "ada", None)
    with pytest.raises(login_attempts.LoginRefused):
        failures.take("a", "ada", None)
    failures.forget("a", "ada", None)
    failures.take("a", "ada", None)


def test_an_address_and_a_name_are_counted_in_whole_too() -> None:
    failures = login_attempts.LoginAttempts(lambda: 0.0)
    for number in range(login_attempts.BURSTS["address"][0]):
        failures.take("a", f"user-{number}", None)
    with pytest.raises(login_attempts.LoginRefused, match="for address a:"):
        failures.take("a", "another", None)
    for number in range(login_attempts.BURSTS["name"][0]):
        failures.take(f"address-{number}", "ada", None)
    with pytest.raises(login_attempts.LoginRefused, match="for user ada:"):
        failures.take("another", "ada", None)
    # where she has logged in before nobody's guesses count but hers
    for _ in range(login_attempts.BURSTS["device"][0]):
        failures.take("a", "ada", "device")
    with pytest.raises(login_attempts.LoginRefused, match="for a user from where he had"):
        failures.take("a", "ada", "device")


def test_nobody_logs_out_another_by_logging_in() -> None:
    found = sessions.Sessions()
    ada = found.begin("ada")
    eves = [found.begin("eve") for _ in range(sessions.SESSIONS_OF_USER_MAX + 1)]
    assert found.name_of(ada) == "ada"
    assert [found.name_of(each) for each in (eves[0], eves[1], eves[-1])] == [None, "eve", "eve"]


def test_a_login_ends_the_session_that_came_with_it(broker: RunningBroker) -> None:
    """Whoever put that one into the browser would be who logs in."""
    planted = logged_in(broker, "vera")
    answer = planted.ask("POST", "/login", {"name": "ada", "password": PASSWORD})
    assert answer.status == 204
    assert answer.headers["Set-Cookie"].partition(";")[0] != planted.headers["Cookie"]
    assert denied(planted.ask("GET", "/topics")) == (401, "login_required")


def test_what_a_browser_shows_is_good_for_one_user_and_one_password(
    tmp_path: Path, argon2_is_quick: None
) -> None:
    catalog = Catalog.open(tmp_path / NAME)

    async def ask() -> None:
        found = users_in(catalog)
        await found.make("a.da", ADMIN, PASSWORD)
        await found.make("eve", VIEWER, PASSWORD)
        shown = found.device_of("a.da")
        assert found.known_device("a.da", shown) == shown.split(".")[2]
        again = users_in(catalog)  # after a restart
        assert again.known_device("a.da", shown) is not None
        for wrong in ("", ".", "..", shown[:-1], f"{shown}0", "a.da.x.y", "\udcff", f"eve.{shown}",
                      found.device_of("eve")):
            assert found.known_device("a.da", wrong) is None, wrong
        assert found.known_device("eve", shown) is None
        await found.change("a.da", password="another password")
        assert found.known_device("a.da", shown) is None

    asyncio.run(ask())
    catalog.close()


# Tokens

def test_a_token_is_for_programs(broker: RunningBroker) -> None:
    ada = logged_in(broker, "ada")
    made = ada.ask("POST", "/tokens", {"name": "prometheus", "role": "viewer"}).body
    program = Rest(broker.admin, {"Authorization": f"Bearer {made['token']}"})
    assert program.raw("GET", "/metrics").status == 200
    assert program.get("/topics")["unavailable"] == {}
    assert denied(program.ask("POST", "/topics", {"name": "x"})) == (403, "role_required")
    assert [each["name"] for each in ada.get("/tokens")["tokens"]] == ["prometheus"]
    assert "token" not in json.dumps(ada.get("/audit", limit=1)["entries"][0]["details"])
    assert ada.ask("DELETE", "/tokens/prometheus").status == 204
    assert denied(program.ask("GET", "/topics")) == (401, "login_required")
    for wrong in ("Bearer ", "Bearer x", "Basic YTpi", "appliance_x"):
        bad = Rest(broker.admin, {"Authorization": wrong})
        assert denied(bad.ask("GET", "/topics")) == (401, "login_required")


@pytest.mark.parametrize("back_ms", [3_600_000, 10 * 365 * 86_400_000])
def test_a_start_with_the_clock_set_back_makes_no_token_good_again(
    tmp_path: Path, back_ms: int
) -> None:
    catalog, now_ms = Catalog.open(tmp_path / NAME), 1_700_000_000_000
    before = users_in(catalog, lambda: now_ms)
    _, secret = asyncio.run(before.make_token("short", VIEWER, expires_ms=now_ms + 1))
    assert before.of_token(secret) is not None
    clock = WallClock(lambda: now_ms - back_ms, remembered=Remembered(now_ms + 1, 0, ""))
    assert users_in(catalog, clock.latest_ms).of_token(secret) is None
    catalog.close()


def test_a_token_is_good_until_its_day(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = logged_in(broker, "ada")
    made = ada.ask("POST", "/tokens", {"name": "short", "role": "viewer", "days": 1}).body
    assert made["expires_ms"] - made["created_ms"] == pytest.approx(86_400_000, abs=1000)
    program = Rest(broker.admin, {"Authorization": f"Bearer {made['token']}"})
    assert program.get("/session")["name"] == "short"
    monkeypatch.setattr(users.Users, "now_ms", lambda own: made["expires_ms"])
    assert denied(program.ask("GET", "/topics")) == (401, "login_required")
    monkeypatch.undo()
    for days in (0, -1, 3651):
        body = {"name": "long", "role": "viewer", "days": days}
        assert denied(ada.ask("POST", "/tokens", body)) == (400, "invalid_request")
    again = ada.ask("POST", "/tokens", {"name": "short", "role": "admin"})
    assert denied(again) == (409, "duplicate_resource")
    assert ada.ask("DELETE", "/tokens/short").status == 204


# Reading messages

READING = [each for each in api.ROUTES if each.reads_messages]


def test_to_read_messages_is_a_right_of_its_own(broker: RunningBroker) -> None:
    assert {"/topics/{topic}/messages", "/topics/{topic}/messages/live", "/topics/{topic}/export",
            "/topics/{topic}/replay"} <= {each.path for each in READING}
    ada = logged_in(broker, "ada")
    blind = {"name": "blind", "role": "operator", "password": PASSWORD, "may_read": False}
    ada.ask("POST", "/users", blind)
    made = ada.ask("POST", "/tokens", {"name": "blind", "role": "operator", "may_read": False})
    token = Rest(broker.admin, {"Authorization": f"Bearer {made.body['token']}"})
    for rest in (logged_in(broker, "blind"), token):
        assert rest.get("/session")["may_read"] is False
        for route in READING:
            answer = asked(rest, route.method, route.url, route.body is not None)
            assert denied(answer) == (403, "messages_hidden"), route.path
    seeing = ada.ask("PATCH", "/users/blind", {"may_read": True})
    assert {each["name"]: each["may_read"] for each in seeing.body["users"]}["blind"]
    messages = asked(logged_in(broker, "blind"), "GET", "/api/v1/topics/{topic}/messages", False)
    assert is_let_in(messages)
    ada.ask("DELETE", "/users/blind")
    ada.ask("DELETE", "/tokens/blind")


def test_a_repair_that_shows_messages_takes_the_right_to_read_them(broker: RunningBroker) -> None:
    ada = logged_in(broker, "ada")
    ada.post("/topics", {"name": "torn", "partitions": 1})
    made = ada.post("/tokens", {"name": "mender", "role": "admin", "may_read": False})
    mender = Rest(broker.admin, {"Authorization": f"Bearer {made['token']}"})
    place = "/topics/torn/partitions/0/repair"
    copy = {"action": "copy", "file": "torn-0/0.log.corrupt-1", "into": "torn"}
    assert denied(mender.ask("POST", place, copy)) == (403, "messages_hidden")
    assert ada.ask("POST", place, copy).status == 404  # there is no such file
    assert mender.ask("POST", place, {"action": "reopen"}).status not in (401, 403)
    ada.ask("DELETE", "/tokens/mender")


def test_who_reads_messages_is_in_the_trail_once_in_a_while(broker: RunningBroker) -> None:
    ada, vera = logged_in(broker, "ada"), logged_in(broker, "vera")
    ada.post("/topics", {"name": "read-by"})
    for _ in range(3):
        vera.get("/topics/read-by/messages")
        vera.ask("GET", "/topics/no-such/messages")
    ada.get("/topics/read-by/messages")
    reads = [each for each in ada.get("/audit")["entries"]
             if any(f"/{topic}/messages" in each["action"] for topic in ("read-by", "no-such"))]
    assert [(each["who"], each["action"]) for each in reads] == [
        (name, "GET /api/v1/topics/read-by/messages") for name in ("ada", "vera")
    ]


def test_sessions_are_listed_and_ended_by_an_admin(broker: RunningBroker) -> None:
    ada = logged_in(broker, "ada")
    ada.ask("POST", "/users", {"name": "olga", "role": "viewer", "password": PASSWORD})
    first, second = logged_in(broker, "olga"), logged_in(broker, "olga")
    rows = [each for each in ada.get("/sessions")["sessions"] if each["name"] == "olga"]
    assert [each["peer"] for each in rows] == ["127.0.0.1"] * 2
    assert all(each["software"].startswith("Python-urllib") for each in rows)
    assert [each["name"] for each in ada.get("/sessions")["sessions"] if each["is_own"]] == ["ada"]
    own = {each["session"] for each in rows}
    assert ada.ask("DELETE", f"/sessions/{rows[0]['session']}").status == 204
    assert denied(first.ask("GET", "/topics")) == (401, "login_required")
    assert second.get("/session")["name"] == "olga"
    # what names a session opens none
    for each in own:
        thief = Rest(broker.admin, {"Cookie": f"appliance_session={each}"})
        assert denied(thief.ask("GET", "/topics")) == (401, "login_required")
    assert denied(ada.ask("DELETE", f"/sessions/{rows[0]['session']}"))[0] == 404
    assert ada.ask("DELETE", "/users/olga/sessions").status == 204
    assert denied(second.ask("GET", "/topics")) == (401, "login_required")
    ada.ask("DELETE", "/users/olga")


# Users

@pytest.mark.parametrize(
    ("user", "status"),
    [
        ({"name": "a b", "role": "viewer", "password": PASSWORD}, 400),
        ({"name": "new", "role": "viewer", "password": "short"}, 400),
        ({"name": "new", "role": "anyone", "password": PASSWORD}, 400),
        ({"name": "vera", "role": "viewer", "password": PASSWORD}, 409),
    ],
)
def test_what_is_no_user(broker: RunningBroker, user: dict[str, str], status: int) -> None:
    assert logged_in(broker, "ada").ask("POST", "/users", user).status == status


def test_one_admin_is_left(broker: RunningBroker) -> None:
    ada = logged_in(broker, "ada")
    assert denied(ada.ask("DELETE", "/users/ada")) == (400, "invalid_request")
    assert denied(ada.ask("PATCH", "/users/ada", {"role": "viewer"})) == (400, "invalid_request")
    assert {each["name"] for each in ada.get("/users")["users"]} == set(PEOPLE)
    assert "hash" not in json.dumps(ada.get("/users"))


def test_two_admins_cannot_remove_each_other(tmp_path: Path, argon2_is_quick: None) -> None:
    catalog = Catalog.open(tmp_path / NAME)

    async def both() -> list[Any]:
        found = users_in(catalog)
        await found.make("ada", ADMIN, PASSWORD)
        await found.make("eve", ADMIN, PASSWORD)
        at_once = [found.change("ada", role=VIEWER, password=PASSWORD), found.remove("eve")]
        results = await asyncio.gather(*at_once, return_exceptions=True)
        assert any(each.role == ADMIN for each in found.users())
        return results

    assert len([each for each in asyncio.run(both()) if isinstance(each, Exception)]) == 1
    catalog.close()


def test_a_user_is_made_once_however_many_ask(tmp_path: Path, argon2_is_quick: None) -> None:
    catalog = Catalog.open(tmp_path / NAME)

    async def ask() -> list[Any]:
        found = users_in(catalog)
        asked = [found.make("ada", role, PASSWORD) for role in (ADMIN, VIEWER)]
        return await asyncio.gather(*asked, return_exceptions=True)

    assert [type(each) for each in asyncio.run(ask())].count(users.NameTaken) == 1
    catalog.close()


def test_a_password_is_kept_as_argon2id() -> None:
    parameters = argon2.extract_parameters(REAL_HASHER().hash(PASSWORD))
    assert parameters.type is argon2.Type.ID
    assert parameters.memory_cost >= 64 * 1024


# The first user

def test_without_a_password_the_pages_are_on_loopback(tmp_path: Path, data: Path) -> None:
    address = config.Address("0.0.0.0", 0)
    nobody = Server(config.BrokerConfig(data_dir=tmp_path, admin_address=address))
    assert nobody._guarded(address).host == "127.0.0.1"
    somebody = Server(config.BrokerConfig(data_dir=data, admin_address=address))
    somebody.has_users = has_users(data / NAME)  # as its start does
    assert somebody._guarded(address) == address


# The broker is everywhere on this machine: then it is there, too.
ELSEWHERE = "127.0.0.2"


@contextlib.contextmanager
def everywhere(tmp_path: Path) -> Iterator[RunningBroker]:
    # of the kernel's ports, somebody's connection may have this one on another address
    with running_broker(tmp_path, {"admin.address": f"0.0.0.0:{lasting_port()}"}) as broker:
        yield broker


def is_there(broker: RunningBroker) -> bool:
    port = int(broker.admin.rpartition(":")[2])
    try:
        socket.create_connection((ELSEWHERE, port), 20).close()
    except ConnectionRefusedError:
        return False
    return True


def test_with_the_first_password_the_pages_are_where_they_were_meant_to_be(
    tmp_path: Path, argon2_is_quick: None
) -> None:
    with everywhere(tmp_path) as broker:
        rest = Rest(broker.admin)
        with urllib.request.urlopen(f"http://{broker.admin}/api/v1/live", timeout=20) as stream:
            assert stream.readline()
            assert not is_there(broker)
            first = {"token": broker.setup_secret, "name": "ada", "password": PASSWORD}
            assert denied(rest.ask("POST", "/setup", {**first, "token": "x"}))[0] == 403
            assert not is_there(broker)
            assert rest.ask("POST", "/setup", first).status == 204
            assert is_there(broker)
            # who looked without a password looks no more
            assert len(stream.readlines()) < 100
        port = broker.admin.rpartition(":")[2]
        assert denied(Rest(f"{ELSEWHERE}:{port}").ask("GET", "/topics")) == (401, "login_required")


def test_where_the_pages_cannot_be_they_stay_on_loopback(
    tmp_path: Path, argon2_is_quick: None
) -> None:
    with everywhere(tmp_path) as broker, socket.socket() as taken:
        taken.bind((ELSEWHERE, int(broker.admin.rpartition(":")[2])))
        taken.listen()
        rest = Rest(broker.admin)
        first = {"token": broker.setup_secret, "name": "ada", "password": PASSWORD}
        assert rest.ask("POST", "/setup", first).status == 204
        assert denied(rest.ask("GET", "/topics")) == (401, "login_required")


def test_what_cannot_be_read_may_hold_users(tmp_path: Path) -> None:
    path = tmp_path / NAME
    assert not has_users(path)
    path.write_bytes(b"no database at all, and quite long enough to be looked at" * 100)
    assert has_users(path)


def test_the_link_makes_the_first_user_once(tmp_path: Path, argon2_is_quick: None) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "appliance", "serve", "--data-dir", str(tmp_path),
         "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
         "--set", "storage.low.water.bytes=0", "--set", "storage.reserve.bytes=0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:
        assert process.stderr is not None
        while not (link := re.search(r"http://(\S+)/#/setup/(\S+)", process.stderr.readline())):
            assert process.poll() is None
        rest = Rest(link[1])
        try:
            assert rest.get("/session")["needs_setup"]
            assert "no password" in rest.get("/session")["warning"]
            setup = {"token": link[2], "name": "ada", "password": PASSWORD}
            assert denied(rest.ask("POST", "/setup", {**setup, "token": "x"}))[0] == 403
            assert denied(rest.ask("POST", "/setup", {**setup, "password": "x"}))[0] == 400
            made = rest.ask("POST", "/setup", setup)
            assert made.status == 204
            again = rest.ask("POST", "/setup", {**setup, "name": "eve"})
            assert denied(again) == (403, "already_set_up")
            assert denied(rest.ask("GET", "/topics")) == (401, "login_required")
            cookie = {"Cookie": made.headers["Set-Cookie"].partition(";")[0]}
            assert Rest(link[1], cookie).get("/session")["role"] == ADMIN
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
    assert has_users(tmp_path / NAME)


# Hosts

def test_a_named_host_is_ours(tmp_path: Path) -> None:
    with running_broker(tmp_path, {"admin.hosts": "broker.example, b"}) as broker:
        rest = Rest(broker.admin)
        for host, status in (("broker.example", 200), ("B:80", 200), ("c", 421)):
            assert rest.raw("GET", f"{PREFIX}/topics", Host=host).status == status


def test_a_name_that_does_not_exist_costs_a_hash_too(
    tmp_path: Path, argon2_is_quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of an answer must not tell which names there are."""
    verified: list[str] = []
    real = users.Users._fits

    def fits(own: users.Users, stored: str, password: str) -> bool:
        verified.append(stored)
        return real(own, stored, password)

    monkeypatch.setattr(users.Users, "_fits", fits)
    catalog = Catalog.open(tmp_path / NAME)

    async def ask() -> list[Any]:
        found = users_in(catalog)
        await found.make("ada", ADMIN, PASSWORD)
        return [await found.verify(name, word, is_known=False)
                for name, word in (("ada", PASSWORD), ("ada", "wrong"), ("eve", PASSWORD))]

    right, *wrong = asyncio.run(ask())
    assert right == users.Identity("ada", ADMIN)
    assert wrong == [None, None]
    assert len(verified) == 3
    assert all(each.startswith("$argon2id$") for each in verified)
    catalog.close()
