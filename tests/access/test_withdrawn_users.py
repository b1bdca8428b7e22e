"""What becomes of a user's open connections when the user is deleted or gets another password, with
a whole broker, its REST API and raw clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appliance.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse
from appliance.testing import RunningBroker
from tests.support.kafka_login import broker_with_logins, client_of, log_in, logged_in_client
from tests.support.people import logged_in
from tests.support.wire_client import WireClient, frame_of

NEW_PASSWORD = "another correct horse"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with broker_with_logins(tmp_path / "data") as running:
        yield running


def is_served(client: WireClient) -> bool:
    try:
        client.send(frame_of(MetadataRequest([]), 3, 9))
        client.answer(MetadataResponse, 3, 9)
    except (EOFError, ConnectionError):
        return False
    return True


def ends(client: WireClient) -> bool:
    try:
        client.receive()
    except (EOFError, ConnectionError):
        return True
    return False


def delete(broker: RunningBroker) -> None:
    assert logged_in(broker, "ada").ask("DELETE", "/users/app").status == 204


def change_password(broker: RunningBroker) -> None:
    body = {"password": NEW_PASSWORD}
    assert logged_in(broker, "ada").ask("PATCH", "/users/app", body).status == 200


def remove_credential(broker: RunningBroker) -> None:
    """As kafka-configs does."""
    row = AlterUserScramCredentialsRequest.ScramCredentialDeletion("app", 1)
    with logged_in_client(broker, "ada") as admin:
        admin.send(frame_of(AlterUserScramCredentialsRequest([row]), 51, 0))
        answer = admin.answer(AlterUserScramCredentialsResponse, 51, 0)
        assert [each.error_code for each in answer.results] == [0]


@pytest.mark.parametrize("withdraw", [delete, change_password, remove_credential])
def test_open_connections_end_with_what_they_logged_in_with(
    broker: RunningBroker, withdraw: Callable[[RunningBroker], None]
) -> None:
    with (
        logged_in_client(broker, "app") as idle,
        logged_in_client(broker, "app", mechanism="PLAIN") as plain,
        logged_in_client(broker, "ada") as other,
        client_of(broker) as late,
    ):
        assert is_served(idle)
        assert is_served(plain)
        withdraw(broker)
        assert ends(idle)
        assert ends(plain)
        assert is_served(other)
        assert log_in(late, "app").error_code == 58


def test_another_credential_and_another_role_end_nothing(broker: RunningBroker) -> None:
    """A role counts at once, on connections that are open, too."""
    row = AlterUserScramCredentialsRequest.ScramCredentialDeletion("app", 2)
    with logged_in_client(broker, "app") as client, logged_in_client(broker, "ada") as admin:
        admin.send(frame_of(AlterUserScramCredentialsRequest([row]), 51, 0))
        assert admin.answer(AlterUserScramCredentialsResponse, 51, 0).results[0].error_code == 0
        client.send(frame_of(AlterUserScramCredentialsRequest([row]), 51, 0))
        refused = client.answer(AlterUserScramCredentialsResponse, 51, 0)
        assert refused.results[0].error_code == 31
        rest = logged_in(broker, "ada")
        assert rest.ask("PATCH", "/users/app", {"role": "admin"}).status == 200
        client.send(frame_of(AlterUserScramCredentialsRequest([row]), 51, 0))
        allowed = client.answer(AlterUserScramCredentialsResponse, 51, 0)
        assert allowed.results[0].error_code == 91  # there is none to remove
