"""The admin port over TLS: who may come in, certificates that change, handshakes without an end."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    pkcs12,
)

from appliance import server
from appliance.certificates.https import context_of
from appliance.config import SettingInvalid, load
from appliance.testing import RunningBroker, running_broker
from tests.support.certificates import Authority
from tests.support.people import PASSWORD, make_people
from tests.support.zookeeper import eventually

PASSPHRASE = "only the broker knows"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[RunningBroker]:
    path = tmp_path_factory.mktemp("appliance")
    make_people(path)
    with running_broker(path, authority.settings) as running:
        yield running


@contextmanager
def asked(
    address: str, context: ssl.SSLContext, method: str, path: str, body: Any = None
) -> Iterator[http.client.HTTPResponse]:
    data = None if body is None else json.dumps(body)
    with closing(http.client.HTTPSConnection(address, timeout=10, context=context)) as connection:
        connection.request(method, path, data, {"Content-Type": "application/json"})
        yield connection.getresponse()


def test_health_tells_of_a_certificate_that_ends_in_the_words_of_the_doctor(
    tmp_path: Path, authority: Authority
) -> None:
    """Of a port of HTTP alone, until there is a new one."""
    store = authority.keystore(days=20, file="ending.pem")
    settings = {"ssl.keystore.location": str(store), "admin.tls": "on", "export.tls": "off"}

    def told(path: str, rows: str) -> list[dict[str, Any]]:
        with asked(broker.admin, authority.trusted(), "GET", f"/api/v1/{path}") as answer:
            found: list[dict[str, Any]] = json.loads(answer.read())[rows]
        return found

    def findings() -> list[str]:
        return [each["text"] for each in told("health", "findings")
                if each["area"] == "certificate"]  # fmt: skip

    with running_broker(tmp_path, settings) as broker:
        eventually(lambda: len(findings()) == 1)
        (text,) = findings()
        assert text.startswith("certificate of admin port 127.0.0.1:0: ")
        assert "it expires at 2" in text
        assert [text] == [each["found"] for each in told("doctor", "checks")
                          if each["name"] == "certificate ending.pem"]  # fmt: skip
        authority.keystore(days=90, file="ending.pem")
        eventually(lambda: findings() == [])


def address_of(broker: RunningBroker) -> tuple[str, int]:
    host, _, port = broker.admin.rpartition(":")
    return host, int(port)


def serial_at(broker: RunningBroker, authority: Authority) -> str:
    with (
        socket.create_connection(address_of(broker)) as plain,
        authority.trusted().wrap_socket(plain, server_hostname="127.0.0.1") as line,
    ):
        shown = line.getpeercert()
    assert shown is not None
    return str(shown["serialNumber"])




def test_browsers_are_told_to_come_over_tls_only(
    broker: RunningBroker, authority: Authority
) -> None:
    with asked(broker.admin, authority.trusted(), "GET", "/") as page:
        assert page.status == 200
        assert page.headers["Strict-Transport-Security"] == "max-age=31536000"
    who = {"name": "vera", "password": PASSWORD}
    with asked(broker.admin, authority.trusted(), "POST", "/api/v1/login", who) as answer:
        assert answer.status == 204
        cookies = answer.headers.get_all("Set-Cookie") or []
    assert len(cookies) == 2
    assert all("Secure" in each and "HttpOnly" in each for each in cookies)


def test_who_comes_without_tls_is_told_and_gets_nothing(broker: RunningBroker) -> None:
    with closing(http.client.HTTPConnection(broker.admin, timeout=10)) as connection:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        assert answer.status == 400
        assert json.loads(answer.read())["error"]["code"] == "tls_required"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_today_are_served(
    broker: RunningBroker, authority: Authority, version: ssl.TLSVersion
) -> None:
    context = authority.trusted()
    context.minimum_version = context.maximum_version = version
    with asked(broker.admin, context, "GET", "/livez") as answer:
        assert answer.status == 200


def test_older_versions_are_refused(broker: RunningBroker) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError), asked(broker.admin, context, "GET", "/livez"):
        pass


def test_half_a_handshake_ends_after_a_while(tmp_path: Path, authority: Authority) -> None:
    """At a broker of its own: on a busy machine a whole handshake may take as long."""
    settings = {**authority.settings, "admin.request.timeout.ms": "400"}
    with (
        running_broker(tmp_path, settings) as broker,
        socket.create_connection(address_of(broker)) as silent,
    ):
        silent.sendall(b"\x16\x03\x01\x02\x00\x01")
        silent.settimeout(10)
        assert silent.recv(1) == b""


def test_who_never_agrees_on_tls_makes_room(tmp_path: Path, authority: Authority) -> None:
    settings = {**authority.settings, "admin.max.connections.total": "8"}
    with running_broker(tmp_path, settings) as broker:
        silent = [socket.create_connection(address_of(broker)) for _ in range(8)]
        try:
            for _ in range(3):
                with asked(broker.admin, authority.trusted(), "GET", "/livez") as answer:
                    assert answer.status == 200
        finally:
            for each in silent:
                each.close()
        with asked(broker.admin, authority.trusted(), "GET", "/metrics") as page:
            text = page.read().decode()
    closed = [line for line in text.splitlines() if 'reason="room"' in line]
    assert closed, text
    assert int(float(closed[0].rpartition(" ")[2])) >= 1


def test_a_pkcs12_is_served(tmp_path: Path, authority: Authority) -> None:
    made = authority.signed()
    secret = BestAvailableEncryption(PASSPHRASE.encode())
    chain = [authority.itself.certificate]
    data = pkcs12.serialize_key_and_certificates(
        b"broker", made.key, made.certificate, chain, secret
    )
    (tmp_path / "server.p12").write_bytes(data)
    (tmp_path / "password").write_text(PASSPHRASE + "\n")
    settings = {
        "ssl.keystore.location": str(tmp_path / "server.p12"),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password.file": str(tmp_path / "password"),
        "admin.tls": "on",
    }
    with running_broker(tmp_path / "data", settings) as broker:
        with asked(broker.admin, authority.trusted(), "GET", "/livez") as answer:
            assert answer.status == 200
        assert int(serial_at(broker, authority), 16) == made.certificate.serial_number
    (tmp_path / "password").write_text("another\n")
    refused = "ssl.keystore.password.file"
    with pytest.raises(SettingInvalid, match=refused), running_broker(tmp_path / "data", settings):
        pass


def test_a_new_certificate_is_shown_without_a_restart(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CERTIFICATES_MS", 20)
    own = Authority(tmp_path / "tls")
    with running_broker(tmp_path / "data", own.settings) as broker:
        before = serial_at(broker, own)
        open_since = http.client.HTTPSConnection(broker.admin, timeout=10, context=own.trusted())
        with closing(open_since):
            open_since.request("GET", "/livez")
            open_since.getresponse().read()
            own.keystore()
            eventually(lambda: serial_at(broker, own) != before)
            now = serial_at(broker, own)
            path = tmp_path / "tls" / "server.pem"
            good = path.read_bytes()
            path.write_bytes(good[: len(good) // 2])  # as one that is just being written
            eventually(lambda: "ssl.keystore.location" in str(health(broker, own)["reasons"]))
            assert serial_at(broker, own) == now
            path.write_bytes(good)
            eventually(lambda: health(broker, own)["reasons"] == [])
            open_since.request("GET", "/livez")
            assert open_since.getresponse().status == 200


def health(broker: RunningBroker, authority: Authority) -> Any:
    with asked(broker.admin, authority.trusted(), "GET", "/healthz") as answer:
        return json.loads(answer.read())


def broken(kind: str, authority: Authority, folder: Path) -> dict[str, str]:
    good, other = authority.signed(), authority.signed()
    secret = BestAvailableEncryption(PASSPHRASE.encode())
    locked = good.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret)
    parts = {
        "no such file": None,
        "no key": good.certificate_pem,
        "no certificate": good.key_pem,
        "another key": other.key_pem + good.certificate_pem,
        "locked key": locked + good.certificate_pem,
        "noise": b"\x00" * 100,
    }
    path, data = folder / "server.pem", parts[kind]
    if data is not None:
        path.write_bytes(data)
    return {"ssl.keystore.location": str(path), "admin.tls": "on"}


WORDS = {
    "no such file": "No such file",
    "no key": "no private key is in it",
    "no certificate": "no certificate is in it",
    "another key": "not that of the first certificate",
    "locked key": "the key has a password",
    "noise": "no certificate is in it",
}


@pytest.mark.parametrize("kind", WORDS)
def test_a_certificate_that_cannot_be_used_is_told_of(
    kind: str, authority: Authority, tmp_path: Path
) -> None:
    settings = broken(kind, authority, tmp_path)
    wanted = f"ssl.keystore.location: .*{WORDS[kind]}"
    with pytest.raises(SettingInvalid, match=wanted), running_broker(tmp_path / "data", settings):
        pass


def test_versions_and_ciphers_are_those_of_the_settings(authority: Authority) -> None:
    cipher = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    pairs = [
        f"ssl.keystore.location={authority.keystore()}", "ssl.enabled.protocols=TLSv1.2",
        f"ssl.cipher.suites={cipher}",
    ]  # fmt: skip
    context = context_of(load(pairs=pairs).tls)
    assert context.maximum_version == ssl.TLSVersion.TLSv1_2
    found = [each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.2"]
    assert found == ["ECDHE-ECDSA-CHACHA20-POLY1305"]


KEYSTORE = "ssl.keystore.location=/etc/appliance/server.pem"
ELSEWHERE = "admin.address=192.0.2.1:8780"
PORTS = {
    "no certificate": ([ELSEWHERE], (False, False)),
    "loopback": ([KEYSTORE], (False, False)),
    "elsewhere": ([KEYSTORE, ELSEWHERE], (True, True)),
    "bulk data elsewhere": ([KEYSTORE, "export.address=192.0.2.1:1"], (False, True)),
    "on": ([KEYSTORE, "admin.tls=on"], (True, True)),
    "off": ([KEYSTORE, ELSEWHERE, "admin.tls=off"], (False, True)),
    "bulk data off": ([KEYSTORE, ELSEWHERE, "export.tls=off"], (True, False)),
}


@pytest.mark.parametrize("kind", PORTS)
def test_which_ports_speak_tls(kind: str) -> None:
    pairs, wanted = PORTS[kind]
    config = load(pairs=pairs)
    assert (config.admin_has_tls, config.export_has_tls) == wanted


@pytest.mark.parametrize("name", ["admin.tls", "export.tls"])
def test_tls_without_a_certificate_is_refused(name: str) -> None:
    with pytest.raises(SettingInvalid, match=rf"{name}: got on.*ssl\.keystore\.location"):
        load(pairs=[f"{name}=on"])
