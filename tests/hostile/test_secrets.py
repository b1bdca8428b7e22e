"""Secrets are nowhere but where they are checked: known ones are sent by every mechanism, right and
wrong, and then looked for in whatever the broker writes, shows and keeps."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import ssl
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from appliance.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from appliance.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.access.test_tokens import ACCESS, OTHER, RSA, published, token
from tests.support.certificates import Authority
from tests.support.kafka_login import log_in, say
from tests.support.rest import Answer, Rest
from tests.support.serving import Serving
from tests.support.wire_client import WireClient, frame_of

PASSWORD, NEW, WRONG = "RIGHT-battery-staple-1", "NEW-battery-staple-2", "WRONG-battery-staple-3"
BROKEN, KEYSTORE, CONFIG = "BROKEN-battery-staple-4", "KEYSTORE-battery-5", "CONFIG-battery-6"
SALT, SALTED = "SALT-battery-staple-7", "SALTED-battery-staple-of-32-by-8"
PASSWORDS = [PASSWORD, NEW, WRONG, BROKEN, KEYSTORE, CONFIG, SALTED]


def forms_of(secret: str) -> list[bytes]:
    """As it may stand in a text, a URL or a dump."""
    data = secret.encode()
    return [data, base64.b64encode(data)[: len(data) - 2], data.hex().encode(), data[::-1]]


def found_in(data: bytes, secrets: list[str]) -> list[str]:
    return [each for each in secrets if any(form in data for form in forms_of(each))]


def make_admin(folder: Path, data: Path) -> None:
    file = folder / "password"
    file.write_text(PASSWORD + "\n")
    command = [sys.executable, "-m", "appliance", "user", "create", "ada", "--admin"]
    command += ["--password-file", str(file), "--data-dir", str(data)]
    subprocess.run(command, check=True, capture_output=True)


class Site:
    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "tls")
        own = self.authority.issue("broker", password=KEYSTORE)
        (folder / "keystore-password").write_text(KEYSTORE + "\n")
        make_admin(folder, folder / "data")
        (folder / "keys.json").write_bytes(published(a=RSA))
        self.audit = folder / "audit.jsonl"
        self.serving = Serving(folder, protocol="SASL_SSL", **{
            "ssl.keystore.location": own.both, "ssl.keystore.type": "PEM",
            "ssl.keystore.password.file": folder / "keystore-password",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{folder / 'keys.json'}",
            "sasl.oauthbearer.expected.issuer": ACCESS.issuer,
            "sasl.oauthbearer.expected.audience": "kafka",
            "connection.failed.authentication.delay.ms": 1,
            "audit.log.file": self.audit, "audit.log.enable": "true",
        })  # fmt: skip
        self.tokens: list[str] = []  # and cookies: whatever else lets somebody in

    @contextlib.contextmanager
    def client(self) -> Iterator[WireClient]:
        context = ssl.create_default_context(cafile=str(self.authority.trust))
        made = WireClient(self.serving.kafka)
        made.socket = context.wrap_socket(made.socket, server_hostname="localhost")
        with made:
            yield made

    def rest(self, **headers: str) -> Rest:
        return Rest(self.serving.admin, headers)

    def ada(self) -> Rest:
        answer = self.log_in("ada", PASSWORD)
        assert answer.status == 204, answer.body
        cookies = answer.headers["Set-Cookie"]
        self.tokens.append(cookies.partition("=")[2].partition(";")[0])
        return self.rest(Cookie=cookies.partition(";")[0])

    def log_in(self, name: str, password: str) -> Answer:
        return self.rest().ask("POST", "/login", {"name": name, "password": password})


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.serving.stop()


def say_bearer(client: WireClient, text: str) -> Any:
    client.send(frame_of(SaslHandshakeRequest("OAUTHBEARER"), 17, 1))
    assert client.answer(SaslHandshakeResponse, 17, 1).error_code == 0
    return say(client, f"n,,\x01auth=Bearer {text}\x01\x01".encode())


def log_in_and_fail_by_all_mechanisms(site: Site) -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        for user, password, error in (
            ("ada", PASSWORD, 0), ("ada", WRONG, 58), ("nobody", WRONG, 58)
        ):  # fmt: skip
            with site.client() as client:
                assert log_in(client, user, password, mechanism).error_code == error
    good, foreign = token(sub="ada"), token(sub="ada", iss="https://evil.example")
    forged = token(OTHER, sub="ada")
    site.tokens += [each.rpartition(".")[2] for each in (good, foreign, forged)]
    for each, error in ((good, 0), (foreign, 58), (forged, 58), (f"broken.{BROKEN}", 58)):
        with site.client() as client:
            assert say_bearer(client, each).error_code == error
    for broken in (f"{BROKEN}", f"\0ada\0{BROKEN}\0more", f"{BROKEN}\0ada\0{BROKEN}"):
        with site.client() as client:  # a password where none belongs
            client.send(frame_of(SaslHandshakeRequest("PLAIN"), 17, 1))
            client.answer(SaslHandshakeResponse, 17, 1)
            assert say(client, broken.encode()).error_code == 58


def change_secrets_at_kafkas_port(site: Site) -> None:
    put = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        "eve", 1, 4096, SALT.encode(), SALTED.encode())  # fmt: skip
    bad = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        "eva", 1, 1, SALT.encode(), SALTED.encode())  # fmt: skip
    configs = [IncrementalAlterConfigsRequest.AlterableConfig(name, 0, CONFIG)
               for name in ("ssl.keystore.password", "sasl.jaas.config")]  # fmt: skip
    row = IncrementalAlterConfigsRequest.AlterConfigsResource(4, "0", configs)
    with site.client() as client:
        log_in(client, "ada", PASSWORD)
        client.send(frame_of(AlterUserScramCredentialsRequest([], [put, bad]), 51, 0))
        client.answer(AlterUserScramCredentialsResponse, 51, 0)
        client.send(frame_of(IncrementalAlterConfigsRequest([row]), 44, 1))
        client.answer(IncrementalAlterConfigsResponse, 44, 1)


def change_secrets_at_the_admin_port(site: Site) -> Rest:
    rest = site.ada()
    assert site.log_in("ada", WRONG).status == 401
    made = rest.ask("POST", "/users", {"name": "bob", "role": "viewer", "password": NEW})
    assert made.status == 201
    assert rest.ask("PATCH", "/users/bob", {"password": NEW + "!"}).status == 200
    for body in ({"name": "x", "password": [BROKEN]}, {"name": BROKEN * 10, "password": BROKEN}):
        assert rest.ask("POST", "/users", body).status == 400
    broken = f'{{"name": "x", "password": "{BROKEN}'.encode()
    for path in ("/api/v1/users", "/api/v1/login"):
        assert rest.raw("POST", path, broken, Content_Type="application/json").status == 400
    answer = rest.ask("POST", "/tokens", {"name": "job", "role": "admin"})
    site.tokens.append(answer.body["token"])
    for shown, status in ((answer.body["token"], 200), (WRONG, 401)):
        assert site.rest(Authorization=f"Bearer {shown}").ask("GET", "/log").status == status
    return rest


def shown_by(site: Site, rest: Rest) -> dict[str, bytes]:
    """Whatever people and programs are shown, by where."""
    found = {path: rest.raw("GET", f"/api/v1{path}").body for path in
             ("/settings", "/audit?limit=1000", "/log?level=debug&limit=5000", "/users", "/tokens",
              "/connections", "/health", "/sessions")}  # fmt: skip
    texts = {path: repr(body).encode() for path, body in found.items()}
    texts["/metrics"] = repr(rest.raw("GET", "/metrics").body).encode()
    with zipfile.ZipFile(io.BytesIO(rest.raw("GET", "/api/v1/bundle").body)) as bundle:
        texts |= {f"bundle {name}": bundle.read(name) for name in bundle.namelist()}
    command = [sys.executable, "-m", "appliance", "settings", "--json"]
    environment = {"APPLIANCE_TOKEN": site.tokens[-1], "APPLIANCE_URL": site.serving.admin}
    said = subprocess.run(command, capture_output=True, env={**os.environ, **environment})
    texts["appliance settings"] = said.stdout + said.stderr
    process = Path(f"/proc/{site.serving.process.pid}")
    texts |= {f"/proc {name}": (process / name).read_bytes() for name in ("cmdline", "environ")}
    return texts


def kept_by(site: Site) -> dict[str, bytes]:
    found = {str(each): each.read_bytes() for each in site.serving.data.rglob("*")
             if each.is_file()}  # fmt: skip
    found["the log"] = site.serving.log.encode()
    return {**found, "the audit file": site.audit.read_bytes()}


def test_known_secrets_are_nowhere(site: Site) -> None:
    log_in_and_fail_by_all_mechanisms(site)
    change_secrets_at_kafkas_port(site)
    rest = change_secrets_at_the_admin_port(site)
    shown = shown_by(site, rest)
    assert len(shown) > 20
    site.serving.stop()
    kept = kept_by(site)
    assert b"login failed" in kept["the log"]
    assert b"AlterUserScramCredentials" in kept["the audit file"]
    assert any(b"SQLite" in data for data in kept.values())
    secrets = [*PASSWORDS, *site.tokens]
    places = {**shown, **kept}
    assert {name: found_in(data, secrets) for name, data in places.items()} == {
        name: [] for name in places
    }
    told = {name: data for name, data in places.items() if "catalog" not in name}
    assert {name for name, data in told.items() if found_in(data, [SALT])} == set()
