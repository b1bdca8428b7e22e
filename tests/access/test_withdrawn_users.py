"""What becomes of what a user has when it is deleted or gets another password: open connections,
certificates, tokens, sessions; with a whole broker, its REST API and raw clients."""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appliance.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from appliance.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from appliance.protocol.messages.metadata import MetadataRequest, MetadataResponse
from appliance.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from appliance.testing import RunningBroker
from tests.support.certificates import Authority, Certificate
from tests.support.kafka_login import broker_with_logins, client_of, log_in, logged_in_client, say
from tests.support.people import logged_in
from tests.support.scram_client import ScramClient
from tests.support.tls_client import TlsClient, trusting
from tests.support.token_service import AUDIENCE, TokenService
from tests.support.wire_client import WireClient, frame_of

NEW_PASSWORD = "another correct horse"
ENDED = (EOFError, ConnectionError, ssl.SSLError)  # and not that nothing came for long


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with broker_with_logins(tmp_path / "data") as running:
        yield running


def is_served(client: WireClient) -> bool:
    try:
        client.send(frame_of(MetadataRequest([]), 3, 9))
        client.answer(MetadataResponse, 3, 9)
    except ENDED:
        return False
    return True


def ends(client: WireClient) -> bool:
    try:
        client.receive()
    except ENDED:
        return True
    return False


def delete(broker: RunningBroker) -> None:
    assert logged_in(broker, "ada").ask("DELETE", "/users/app").status == 204


def change_password(broker: RunningBroker) -> None:
    body = {"password": NEW_PASSWORD}
    assert logged_in(broker, "ada").ask("PATCH", "/users/app", body).status == 200


def remove_credential(broker: RunningBroker, mechanism: int = 1) -> None:
    """As kafka-configs does."""
    row = AlterUserScramCredentialsRequest.ScramCredentialDeletion("app", mechanism)
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


# A user that is deleted, by whatever it came


def renewed(broker: RunningBroker) -> None:
    """The name is somebody else's now, and what is issued from here on is his."""
    body = {"name": "app", "role": "none", "password": NEW_PASSWORD}
    assert logged_in(broker, "ada").ask("POST", "/users", body).status == 201
    second, deadline = int(time.time()), time.monotonic() + 10
    while int(time.time()) == second:  # certificates and tokens tell no more than that
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_deleted_user_s_certificate_opens_nothing_any_more(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls")
    app, other = (authority.issue(name, hosts=()) for name in ("app", "other"))
    settings = {
        "listeners": "SSL://127.0.0.1:0", "ssl_client_auth": "required",
        "ssl_keystore_location": str(authority.keystore()),
        "ssl_truststore_location": str(authority.trust),
        "ssl_principal_mapping_rules": "RULE:^CN=(.*)$/$1/",
    }  # fmt: skip

    def opened(broker: RunningBroker, certificate: Certificate) -> TlsClient:
        return TlsClient(broker.bootstrap, trusting(authority.trust, client=certificate))

    def lets_in(broker: RunningBroker, certificate: Certificate) -> bool:
        try:
            with opened(broker, certificate) as client:
                return is_served(client)
        except ENDED:  # while TLS begins
            return False

    with broker_with_logins(tmp_path / "data", **settings) as broker:
        with opened(broker, app) as idle, opened(broker, other) as of_nobody:
            assert is_served(idle)
            assert is_served(of_nobody)  # there never was such a user
            noted = [(each["who"], each["mechanism"]) for each in
                     logged_in(broker, "ada").get("/audit")["entries"]]  # fmt: skip
            assert {("app", "certificate"), ("other", "certificate")} <= set(noted)
            change_password(broker)
            assert is_served(idle)
            delete(broker)
            assert ends(idle)
            assert is_served(of_nobody)
        assert not lets_in(broker, app)
        renewed(broker)
        assert not lets_in(broker, app)
        assert lets_in(broker, authority.issue("app-2", hosts=(), subject="/CN=app"))
    with broker_with_logins(tmp_path / "data", **settings) as broker:
        assert not lets_in(broker, app)
        assert lets_in(broker, other)


def test_a_deleted_user_s_token_of_a_service_opens_nothing_any_more(tmp_path: Path) -> None:
    service = TokenService(Authority(tmp_path / "tls"))
    service.close()  # its keys are in a file
    keys = tmp_path / "keys.json"
    keys.write_bytes(service.published())
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-256",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.issuer": service.issuer,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }

    def log_in_by(broker: RunningBroker, token: str) -> tuple[WireClient, int]:
        client = client_of(broker)
        client.send(frame_of(SaslHandshakeRequest("OAUTHBEARER"), 17, 1))
        assert client.answer(SaslHandshakeResponse, 17, 1).error_code == 0
        return client, say(client, f"n,,\1auth=Bearer {token}\1\1".encode()).error_code

    with broker_with_logins(tmp_path / "data", **settings) as broker:
        old, dateless = service.token("app"), service.token("app", iat=None)
        idle, code = log_in_by(broker, old)
        with idle:
            assert (code, is_served(idle)) == (0, True)
            change_password(broker)
            assert is_served(idle)  # the service's word needs none
            delete(broker)
            assert ends(idle)
        renewed(broker)
        for token, code in ((old, 58), (dateless, 58), (service.token("app"), 0)):
            client, told = log_in_by(broker, token)
            with client:
                assert told == code


def test_a_delegation_token_ends_with_its_owner_though_its_login_had_begun(
    broker: RunningBroker,
) -> None:
    with logged_in_client(broker, "app") as app:
        app.send(frame_of(CreateDelegationTokenRequest(max_lifetime_ms=-1), 38, 3))
        made = app.answer(CreateDelegationTokenResponse, 38, 3)
    password = base64.b64encode(made.hmac).decode()

    def first(client: WireClient) -> tuple[ScramClient, bytes]:
        client.send(frame_of(SaslHandshakeRequest("SCRAM-SHA-256"), 17, 1))
        assert client.answer(SaslHandshakeResponse, 17, 1).error_code == 0
        scram = ScramClient("SCRAM-SHA-256", made.token_id, password, is_token=True)
        return scram, say(client, scram.first()).auth_bytes

    with client_of(broker) as idle:
        scram, told = first(idle)
        assert say(idle, scram.final(told)).error_code == 0
        change_password(broker)
        assert is_served(idle)  # as in Apache Kafka: a token is no password
        with client_of(broker) as begun:
            scram, told = first(begun)
            delete(broker)
            assert say(begun, scram.final(told)).error_code == 58
        assert ends(idle)
    renewed(broker)
    with client_of(broker) as late:
        scram, told = first(late)
        assert say(late, scram.final(told)).error_code == 58


def test_a_session_of_the_console_ends_with_the_user_at_kafkas_port(
    broker: RunningBroker,
) -> None:
    """Who gets the name later does not get the session."""
    session = logged_in(broker, "app")
    assert session.get("/session")["name"] == "app"
    remove_credential(broker, 1)
    assert session.get("/session")["name"] == "app"
    remove_credential(broker, 2)
    assert session.get("/session")["name"] is None
    renewed(broker)
    assert session.get("/session")["name"] is None
