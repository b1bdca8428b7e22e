"""The audit trail of both ports, with a whole broker, raw clients and its REST API."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from appliance.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from appliance.protocol.messages.fetch import FetchResponse
from appliance.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse
from appliance.testing import RunningBroker
from tests.support.kafka_login import broker_with_logins, client_of, log_in, logged_in_client
from tests.support.people import logged_in
from tests.support.rest import Rest
from tests.support.wire_client import WireClient, frame_of

SALT, SALTED = b"salt of eve", b"the salted password of eve, 32 b"
DEADLINE_S = 20.0


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningBroker]:
    monkeypatch.setattr("appliance.access.audit.MINUTE_SECONDS", 0.2)
    file = str(tmp_path / "audit.jsonl")
    with broker_with_logins(tmp_path / "data", audit_log_file=file) as running:
        yield running


def entries(rest: Rest, action: str, count: int = 1) -> list[dict[str, Any]]:
    """Those of an action, as soon as there are so many."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = [each for each in rest.get("/audit", limit=1000)["entries"]
                 if each["action"].startswith(action)]  # fmt: skip
        if len(found) >= count:
            return found
        assert time.monotonic() < deadline, rest.get("/audit")
        time.sleep(0.05)


def facts(entry: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(entry[name] for name in ("who", "peer", "port", "mechanism", "outcome", "status"))


def create(client: WireClient, *names: str) -> list[int]:
    rows = [CreateTopicsRequest.CreatableTopic(each, 1, 1) for each in names]
    client.send(frame_of(CreateTopicsRequest(topics=rows, timeout_ms=5000), 19, 5))
    return [each.error_code for each in client.answer(CreateTopicsResponse, 19, 5).topics]


def test_acts_at_kafkas_port_have_who_from_where_by_what_and_the_result(
    broker: RunningBroker, tmp_path: Path
) -> None:
    rest = logged_in(broker, "ada")
    with logged_in_client(broker, "ada", mechanism="SCRAM-SHA-512") as client:
        assert create(client, "orders") == [0]
        assert create(client, "orders", "more") == [36, 0]
    partly, done = entries(rest, "CreateTopics orders", 2)
    ada = ("ada", "127.0.0.1", "kafka", "SCRAM-SHA-512")
    assert facts(done) == (*ada, "done", 0)
    assert facts(partly) == (*ada, "failed", 36)
    told = json.loads(partly["details"])
    assert told["answers"] == {"TOPIC_ALREADY_EXISTS": 1, "NONE": 1}
    assert [each["name"] for each in told["request"]["topics"]] == ["orders", "more"]
    (login,) = entries(rest, "login")
    assert facts(login) == (*ada, "done", 200)
    assert {facts(each)[:4] for each in entries(rest, "POST /api/v1/login")} == {
        ("ada", "127.0.0.1", "admin", "password")}  # fmt: skip
    file = tmp_path / "audit.jsonl"
    assert file.stat().st_mode & 0o777 == 0o600
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {each["action"] for each in lines} >= {"login", "CreateTopics orders"}
    assert {"who", "peer", "port", "mechanism", "status", "at_ms"} <= lines[0].keys()


def test_what_is_secret_in_a_request_is_not_noted(broker: RunningBroker) -> None:
    rest = logged_in(broker, "ada")
    put = AlterUserScramCredentialsRequest.ScramCredentialUpsertion("eve", 1, 4096, SALT, SALTED)
    config = IncrementalAlterConfigsRequest.AlterableConfig("ssl.key.password", 0, "SECRET-VALUE")
    row = IncrementalAlterConfigsRequest.AlterConfigsResource(4, "0", [config])
    with logged_in_client(broker, "ada") as client:
        client.send(frame_of(AlterUserScramCredentialsRequest([], [put]), 51, 0))
        answer = client.answer(AlterUserScramCredentialsResponse, 51, 0)
        assert [each.error_code for each in answer.results] == [0]
        client.send(frame_of(IncrementalAlterConfigsRequest([row]), 44, 1))
        client.answer(IncrementalAlterConfigsResponse, 44, 1)
    (entry,) = entries(rest, "AlterUserScramCredentials eve")
    assert "eve" in entry["details"]
    assert SALT.decode() not in entry["details"]
    assert SALTED.decode() not in entry["details"]
    (altered,) = entries(rest, "IncrementalAlterConfigs")
    assert "ssl.key.password" in altered["details"]
    assert "SECRET-VALUE" not in altered["details"]


def test_refusals_of_a_principal_are_counted_by_api(broker: RunningBroker) -> None:
    rest = logged_in(broker, "ada")
    with logged_in_client(broker, "ada") as admin:
        admin.create_topic("t")
    with logged_in_client(broker, "app") as client:
        for number in range(50):
            assert create(client, f"none-{number}") == [29]
        client.send_fetch(0, topic="t")
        (topic,) = client.answer(FetchResponse, 1, 12).responses
        assert topic.partitions[0].error_code == 29
        client.send(frame_of(MetadataRequest(None), 3, 9))  # shows what may be seen: no refusal
        client.answer(MetadataResponse, 3, 9)
    text = str(rest.raw("GET", "/metrics").body)
    assert 'appliance_refusals_total{api="CreateTopics"} 50.0' in text
    place = '{listener="SASL_PLAINTEXT",mechanism="SCRAM-SHA-256"}'
    assert f"appliance_listener_authentication_success_total{place} 2.0" in text
    (decided,) = re.findall(r"appliance_decisions_total (\d+)", text)
    assert int(decided) > 51, "also those of requests that come to a handler"
    (fetched,) = entries(rest, "refused Fetch")
    app = ("app", "127.0.0.1", "kafka", "SCRAM-SHA-256", "refused", 403)
    assert facts(fetched) == app
    assert json.loads(fetched["details"]) == {"times": 1, "of": ["READ TOPIC t"]}
    made = entries(rest, "refused CreateTopics")
    while sum(json.loads(each["details"])["times"] for each in made) < 50:
        made = entries(rest, "refused CreateTopics", len(made) + 1)
    assert facts(made[0]) == app
    assert len(made) < 50, "not a row for each"
    assert all(len(json.loads(each["details"])["of"]) <= 10 for each in made)
    assert not [each for each in rest.get("/audit")["entries"] if "Metadata" in each["action"]]


def test_refusals_at_the_admin_port_are_counted_too(broker: RunningBroker) -> None:
    ada = logged_in(broker, "ada")
    body = {"name": "vera", "role": "viewer", "password": "a password of vera"}
    assert ada.ask("POST", "/users", body).status == 201
    vera = logged_in(broker, "vera", "a password of vera")
    assert vera.ask("DELETE", "/users/app").status == 403
    (entry,) = entries(ada, "refused DELETE /api/v1/users/{user}")
    assert facts(entry) == ("vera", "127.0.0.1", "admin", "password", "refused", 403)


def test_failed_logins_say_by_which_mechanism_and_for_whom(broker: RunningBroker) -> None:
    rest = logged_in(broker, "ada")
    with client_of(broker) as client:
        assert log_in(client, "app", "a wrong password", "PLAIN").error_code == 58
    text = rest.raw("GET", "/metrics").body
    place = '{listener="SASL_PLAINTEXT",mechanism="PLAIN"}'
    assert f"appliance_listener_authentication_failure_total{place} 1.0" in str(text)
    (entry,) = entries(rest, "failed logins")
    assert facts(entry) == ("not logged in", "127.0.0.1", "kafka", "PLAIN", "refused", 401)
    assert json.loads(entry["details"]) == {"wrong": 1, "refused": 0, "names": ["app"]}
