"""SaslHandshake and SaslAuthenticate, from a request to its answer."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.access import logins, scram_keys
from appliance.access.principal import ANONYMOUS, Principal
from appliance.access.scram import Deletion, Upsertion
from appliance.config import AccessConfig, Address
from appliance.config.listeners import Listener, Listeners
from appliance.config.names import Mechanisms
from appliance.protocol.messages.api_versions import ApiVersionsRequest
from appliance.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from appliance.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support import control as support
from tests.support.control import Control
from tests.support.scram_client import ScramClient

ANN = Principal("User", "ann")
PASSWORD = "correct horse"
UNSUPPORTED, ILLEGAL_STATE, FAILED = 33, 34, 58


def with_logins(path: Path, monkeypatch: pytest.MonkeyPatch, **access: Any) -> Control:
    """Clients log in at its only listener."""
    real = support.broker_config
    listeners = Listeners((Listener("SASL_PLAINTEXT", Address("127.0.0.1", 9092)),))
    facts = {"may_show_secrets": True, "failed_delay_ms": 1, **access}
    facts.setdefault("mechanisms", Mechanisms(("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")))

    own = AccessConfig(**facts)

    def config(*given: Any, **named: Any) -> Any:
        return replace(real(*given, **named), listeners=listeners, access=own)

    monkeypatch.setattr(support, "broker_config", config)
    return Control(path, access=own)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Control]:
    control = with_logins(tmp_path, monkeypatch)
    set_password(control, "ann", PASSWORD)
    yield control
    control.close()


def set_password(control: Control, user: str, password: str) -> None:
    """As kafka-configs has it done, by somebody who may."""
    for mechanism, name in ((1, "sha256"), (2, "sha512")):
        salted = hashlib.pbkdf2_hmac(name, password.encode(), b"salt", 4096)
        one = Upsertion(user, mechanism, 4096, b"salt", salted)
        assert control.run(control.broker.scram.alter([], [one])) == {user: None}


def asked(control: Control, request: Any, version: int = 1, connection: int = 1) -> Any:
    return control.answer(control.send(request, version, connection))


def shake(control: Control, mechanism: str, version: int = 1, connection: int = 1) -> int:
    answer = asked(control, SaslHandshakeRequest(mechanism), version, connection)
    assert answer.mechanisms == ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]
    return int(answer.error_code)


def say(control: Control, text: str | bytes, version: int = 1, connection: int = 1) -> Any:
    data = text.encode() if isinstance(text, str) else text
    return asked(control, SaslAuthenticateRequest(data), version, connection)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_by_scram(site: Control, mechanism: str, version: int) -> None:
    assert shake(site, mechanism) == 0
    client = ScramClient(mechanism, "ann", PASSWORD)
    answer = say(site, client.first(), version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert site.broker.logins.principal_of(1) == ANONYMOUS
    last = say(site, client.final(answer.auth_bytes), version)
    assert (last.error_code, last.session_lifetime_ms) == (0, 0)
    client.check(last.auth_bytes)
    assert site.broker.logins.principal_of(1) == ANN
    assert site.queue.logged_in == {1: ("User:ann", 0)}


def test_a_login_by_plain(site: Control) -> None:
    assert shake(site, "PLAIN") == 0
    answer = say(site, f"\0ann\0{PASSWORD}")
    assert (answer.error_code, answer.auth_bytes) == (0, b"")
    assert site.broker.logins.principal_of(1) == ANN


@pytest.mark.parametrize("user", ["ann", "nobody"])
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
def test_a_wrong_password_and_a_name_that_is_not_there_are_answered_alike(
    site: Control, user: str, mechanism: str
) -> None:
    shake(site, mechanism)
    if mechanism == "PLAIN":
        answer = say(site, f"\0{user}\0wrong")
    else:
        client = ScramClient(mechanism, user, "wrong")
        answer = say(site, client.final(say(site, client.first()).auth_bytes))
    assert (answer.error_code, answer.error_message) == (FAILED, logins.REFUSED)
    assert answer.auth_bytes == b""
    assert site.queue.last_slots == {1: site.queue.begun}
    assert site.queue.logged_in == {}


def test_after_the_handshake_of_version_0_messages_have_no_headers(site: Control) -> None:
    assert shake(site, "SCRAM-SHA-256", version=0) == 0
    assert site.queue.raw == {1}
    client = ScramClient("SCRAM-SHA-256", "ann", PASSWORD)
    answer = site.raw(client.first())
    assert answer is not None
    last = site.raw(client.final(answer))
    assert last is not None
    client.check(last)
    assert site.broker.logins.principal_of(1) == ANN


def test_a_failed_login_without_headers_has_no_answer(site: Control) -> None:
    shake(site, "PLAIN", version=0)
    assert site.raw(b"\0ann\0wrong") is None
    assert site.queue.last_slots == {1: site.queue.begun}


def test_an_unknown_mechanism_is_told_which_there_are(site: Control) -> None:
    assert shake(site, "GSSAPI") == UNSUPPORTED
    assert site.queue.last_slots == {1: site.queue.begun}


def test_a_message_before_the_handshake_is_out_of_place(site: Control) -> None:
    assert say(site, "n,,n=ann,r=x").error_code == ILLEGAL_STATE
    assert site.queue.last_slots == {1: site.queue.begun}


def test_a_connection_that_ends_forgets_its_login(site: Control) -> None:
    shake(site, "PLAIN")
    say(site, f"\0ann\0{PASSWORD}")
    site.queue.hang_up(1)
    site.until(lambda: not site.queue.gone)
    asked(site, ApiVersionsRequest("x", "1"), 3, connection=2)
    assert site.broker.logins.principal_of(1) == ANONYMOUS


def test_a_listener_without_logins_has_no_handshake(control: Control) -> None:
    answer = asked(control, SaslHandshakeRequest("PLAIN"))
    assert (answer.error_code, answer.mechanisms) == (ILLEGAL_STATE, [])
    assert say(control, "x", connection=2).error_code == ILLEGAL_STATE


def test_a_login_with_an_end_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    control = with_logins(tmp_path, monkeypatch, reauth_ms_max=60_000)
    for user in ("ann", "eve"):
        set_password(control, user, PASSWORD)
    for _ in range(2):
        shake(control, "PLAIN")
        assert say(control, f"\0ann\0{PASSWORD}").session_lifetime_ms == 60_000
    shake(control, "PLAIN")
    assert say(control, f"\0eve\0{PASSWORD}").error_code == FAILED
    assert control.broker.logins.principal_of(1) == ANN
    control.close()


def test_what_was_removed_opens_nothing(site: Control) -> None:
    for mechanism in (1, 2):
        site.run(site.broker.scram.alter([Deletion("ann", mechanism)], []))
    assert site.broker.users.all() == []
    shake(site, "PLAIN")
    assert say(site, f"\0ann\0{PASSWORD}").error_code == FAILED


def test_a_salt_is_told_of_every_name_and_always_the_same(site: Control) -> None:
    found = set()
    for connection in range(2, 6):
        shake(site, "SCRAM-SHA-256", connection=connection)
        first = ScramClient("SCRAM-SHA-256", "nobody", "x").first()
        told = say(site, first, connection=connection).auth_bytes.decode().split(",", 1)[1]
        found.add(told)
    assert len(found) == 1
    (salt, count) = found.pop().split(",")
    assert (count, len(base64.b64decode(salt[2:]))) == ("i=4096", 26)
    assert hmac.compare_digest(salt[:2], "s=")


@pytest.mark.parametrize("user", ["ann", "nobody"])
def test_plain_works_as_much_for_a_name_that_is_not_there(
    site: Control, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work: list[tuple[int, int]] = []
    real = scram_keys.salted

    def salted(mechanism: int, password: str, salt: bytes, iterations: int) -> bytes:
        work.append((mechanism, iterations))
        return real(mechanism, password, salt, iterations)

    monkeypatch.setattr(scram_keys, "salted", salted)
    shake(site, "PLAIN")
    say(site, f"\0{user}\0wrong")
    assert work == [(1, 4096)]
