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

from appliance.testing import RunningBroker, running_broker
from tests.support.people import PASSWORD, denied
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
