"""The first user is made by who has the link's secret, whatever users Kafka's clients have made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from appliance.testing import Login, RunningBroker, running_broker
from tests.support.people import PASSWORD, denied, logged_in
from tests.support.rest import Rest

DEADLINE_S = 20.0
SETUP = (403, "setup_required")


def make_of_kafka(broker: RunningBroker, name: str) -> None:
    """As whoever reaches an open port may."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    row = UserScramCredentialUpsertion(name, info, PASSWORD.encode(), b"salt" * 4)
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    for each in client.alter_user_scram_credentials([row]).values():
        each.result(DEADLINE_S)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path) as broker:
        make_of_kafka(broker, "mallory")
        yield broker


def test_nobody_becomes_the_first_user_without_the_link(broker: RunningBroker) -> None:
    rest = Rest(broker.admin)
    change = {"role": "admin", "password": PASSWORD}
    for method, path, body in (
        ("PATCH", "/users/mallory", change),
        ("PATCH", "/users/mallory", {"password": PASSWORD}),
        ("POST", "/users/mallory/confirmation", {}),
        ("DELETE", "/users/mallory", None),
        ("POST", "/users", {"name": "eve", **change}),
        ("POST", "/tokens", {"name": "eve", "role": "admin"}),
        ("POST", "/acls/confirm", {"dry_run": False}),
    ):
        assert denied(rest.ask(method, path, body)) == SETUP, path
    (mallory,) = rest.get("/users")["users"]
    assert mallory["role"] == "none"
    assert denied(rest.ask("POST", "/login", {"name": "mallory", "password": PASSWORD}))[0] == 401


def test_the_link_still_makes_the_first_user(broker: RunningBroker) -> None:
    rest = Rest(broker.admin)
    first = {"token": broker.setup_secret, "name": "ada", "password": PASSWORD}
    made = rest.ask("POST", "/setup", first)
    assert made.status == 204
    ada = Rest(broker.admin, {"Cookie": made.headers["Set-Cookie"].partition(";")[0]})
    assert ada.ask("PATCH", "/users/mallory", {"role": "viewer"}).status == 200
    assert ada.ask("DELETE", "/users/mallory").status == 204


# Where rules are enforced


@pytest.fixture
def ruled(tmp_path: Path) -> Iterator[RunningBroker]:
    """With a user of Kafka alone."""
    with running_broker(tmp_path, logins=[Login("svc", PASSWORD, "none")]) as broker:
        yield broker


def test_without_users_of_the_console_a_ruled_broker_lets_nobody_in(ruled: RunningBroker) -> None:
    rest = Rest(ruled.admin)
    for path in ("/topics", "/users", "/acls"):
        assert denied(rest.ask("GET", path)) == (401, "login_required"), path
    assert denied(rest.raw("GET", "/metrics")) == (401, "login_required")
    assert denied(Rest(ruled.export).raw("GET", "/export/v1/topics")) == (401, "login_required")
    assert "setup" not in rest.ask("GET", "/topics").body["error"]["code"]
    assert "link that the broker printed" in rest.ask("GET", "/topics").body["error"]["message"]
    found = rest.get("/session")
    assert (found["name"], found["role"], found["needs_setup"]) == (None, None, False)
    assert "no administrator" in found["warning"]


def test_its_first_admin_comes_by_the_link(ruled: RunningBroker) -> None:
    svc = logged_in(ruled, "svc")
    found = svc.get("/session")
    assert (found["name"], found["role"], found["allowed"]) == ("svc", "none", [])
    assert denied(svc.ask("PATCH", "/users/svc", {"role": "admin"}))[0] == 403
    rest = Rest(ruled.admin)
    first = {"token": "wrong", "name": "ada", "password": PASSWORD}
    assert denied(rest.ask("POST", "/setup", first)) == (403, "token_wrong")
    assert rest.ask("POST", "/setup", {**first, "token": ruled.setup_secret}).status == 204
    ada = logged_in(ruled, "ada")
    assert [each["name"] for each in ada.get("/users")["users"]] == ["ada", "svc"]
    assert ada.get("/session")["warning"] is None


def test_with_no_user_at_all_it_is_as_open_as_any(tmp_path: Path) -> None:
    settings = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with running_broker(tmp_path, settings) as broker:
        assert Rest(broker.admin).get("/session")["needs_setup"]
        Rest(broker.admin).get("/topics")
