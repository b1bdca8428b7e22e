"""What `/healthz` tells, and to whom: reasons name files and topics, and may quote records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.admin import users
from appliance.broker import health
from appliance.broker.finding import Finding
from appliance.testing import Login, RunningBroker, running_broker
from tests.support.people import NOBODY, PASSWORD, logged_in, make_people
from tests.support.rest import Rest

REASON = "the last run of export orders failed: got 'a secret of a record'"
FOUND = [Finding("failing", "storage", "/data/x is full"), Finding("degraded", "exports", REASON),
         Finding("degraded", "exports", "export b is late")]  # fmt: skip
TEXTS = [each.text for each in FOUND]


@pytest.fixture(autouse=True)
def is_ill(monkeypatch: pytest.MonkeyPatch) -> None:
    hasher = users.argon2.PasswordHasher
    monkeypatch.setattr(users.argon2, "PasswordHasher", lambda: hasher(1, 8, 1))
    monkeypatch.setattr(health, "_all", lambda *_: iter(FOUND))


@pytest.fixture
def attended(tmp_path: Path) -> Iterator[RunningBroker]:
    make_people(tmp_path)
    with running_broker(tmp_path) as broker:
        yield broker


def asked(rest: Rest, **headers: str) -> tuple[int, dict[str, Any]]:
    answer = rest.raw("GET", "/healthz", **headers)
    return answer.status, answer.body


SHORT = (503, {"status": "failing", "reasons": ["storage", "exports"], "node_id": 1})


def test_who_has_not_logged_in_is_told_the_areas_alone(attended: RunningBroker) -> None:
    rest = Rest(attended.admin)
    assert asked(rest) == SHORT
    assert asked(rest, Authorization="Bearer wrong") == SHORT
    status, found = asked(logged_in(attended, "vera"))
    assert (status, found["reasons"]) == (503, TEXTS)
    assert {"data_dir", "runs_as_root", "topics"} <= found.keys()
    assert asked(logged_in(attended, "vera"), Host="elsewhere.example") == SHORT


def test_without_the_right_to_describe_the_cluster_it_is_the_same(tmp_path: Path) -> None:
    logins = [Login("ada", PASSWORD), Login(NOBODY, PASSWORD, "none")]
    with running_broker(tmp_path, logins=logins) as broker:
        assert asked(logged_in(broker, NOBODY)) == SHORT
        assert asked(logged_in(broker, "ada"))[1]["reasons"] == TEXTS


def test_before_the_first_password_everybody_on_loopback_is_told(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        assert asked(Rest(broker.admin))[1]["reasons"] == TEXTS
        assert asked(Rest(broker.admin), Host="elsewhere.example") == SHORT
