"""A broker whose clients log in, and raw clients that do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from appliance.access.user_rows import UserRows
from appliance.admin.users import make_user
from appliance.catalog.catalog import NAME, Catalog
from appliance.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from appliance.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from appliance.testing import RunningBroker, running_broker
from tests.support.people import PASSWORD
from tests.support.scram_client import ScramClient
from tests.support.wire_client import WireClient, frame_of

USERS = {"ada": "admin", "app": "none"}
WITH_LOGINS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
    "sasl.secrets.without.encryption": "true",
    "connection.failed.authentication.delay.ms": "1",
}


@contextmanager
def broker_with_logins(path: Path, **settings: str) -> Iterator[RunningBroker]:
    """Ada may do everything, app nothing. In a directory that was used before they are who was."""
    if not path.exists():
        path.mkdir()
        catalog = Catalog.open(path / NAME)
        for name, role in USERS.items():
            make_user(UserRows(catalog), name, role, PASSWORD)
        catalog.close()
    named = {name.replace("_", "."): value for name, value in settings.items()}
    with running_broker(path, {**WITH_LOGINS, **named}) as running:
        yield running


def client_of(broker: RunningBroker) -> WireClient:
    host, port = broker.bootstrap.rsplit(":", 1)
    return WireClient((host, int(port)))


def say(client: WireClient, data: bytes) -> Any:
    client.send(frame_of(SaslAuthenticateRequest(data), 36, 2))
    return client.answer(SaslAuthenticateResponse, 36, 2)


def log_in(
    client: WireClient, user: str, password: str = PASSWORD, mechanism: str = "SCRAM-SHA-256"
) -> Any:
    """The last answer; one with an error closes the connection."""
    client.send(frame_of(SaslHandshakeRequest(mechanism), 17, 1))
    assert client.answer(SaslHandshakeResponse, 17, 1).error_code == 0
    if mechanism == "PLAIN":
        return say(client, f"\0{user}\0{password}".encode())
    scram = ScramClient(mechanism, user, password)
    return say(client, scram.final(say(client, scram.first()).auth_bytes))


def logged_in_client(
    broker: RunningBroker, user: str, password: str = PASSWORD, mechanism: str = "SCRAM-SHA-256"
) -> WireClient:
    client = client_of(broker)
    answer = log_in(client, user, password, mechanism)
    assert answer.error_code == 0, answer
    return client
