"""`appliance tls`: what it makes is what brokers and clients take, and what it finds is there."""

from __future__ import annotations

import json
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from appliance.cli.main import main
from appliance.testing import running_broker
from tests.support.certificates import Authority


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["tls", *words])


def told(*words: str, code: int = 0) -> Any:
    done = run(*words, "--json")
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "tls"


def test_what_is_made_is_served_and_trusted(folder: Path, tmp_path: Path) -> None:
    made = told("self-signed", "box.example", "192.0.2.7", "--dir", str(folder))
    assert set(made["names"]) == {"box.example", "192.0.2.7", "localhost", "127.0.0.1", "::1"}
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}
    assert modes == {"ca.pem": 0o644, "ca.key": 0o600, "server.pem": 0o600}
    settings = {"ssl.keystore.location": made["server"], "admin.tls": "on"}
    with running_broker(tmp_path / "data", settings) as broker:
        found = told("check", broker.admin)
    assert found["versions"] == ["TLSv1.2", "TLSv1.3"]
    assert found["faults"] == []
    assert found["resumption"]
    assert found["fingerprint"] == made["fingerprint"]
    assert all("CBC" not in each and "RC4" not in each for each in found["ciphers"])
    ssl.create_default_context(cafile=made["ca"])


def test_clients_are_told_in_their_own_words(folder: Path) -> None:
    done = run("self-signed", "box.example", "--dir", str(folder))
    for words in ("ssl.ca.location=ca.pem", "ssl.truststore.type=PEM", "ssl_cafile="):
        assert words in done.stdout
    assert "PRIVATE" not in done.stdout


def test_another_one_is_signed_by_the_same_authority(folder: Path) -> None:
    first = told("self-signed", "--dir", str(folder))
    assert "--replace" in run("self-signed", "--dir", str(folder)).stderr
    again = told("self-signed", "--dir", str(folder), "--replace")
    assert again["issuer"] == first["issuer"]
    assert again["fingerprint"] != first["fingerprint"]
    check = told("check", "--set", f"ssl.keystore.location={again['server']}", "--set",
                 "admin.tls=on")
    assert check["faults"] == []
    assert check["used_by"] == ["admin port 127.0.0.1:8780", "bulk data 127.0.0.1:8781"]


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    for days, words in ((-2, "it expired at"), (10, "it expires at")):
        path = authority.keystore(days=days)
        on = ["--set", "admin.tls=on"]
        found = told("check", "--set", f"ssl.keystore.location={path}", *on, code=10)
        assert [words in each for each in found["faults"]] == [True]
    unused = told("check", "--set", f"ssl.keystore.location={authority.keystore()}", code=10)
    assert ["no port uses it" in each for each in unused["faults"]] == [True]


def test_the_trust_store_is_looked_at_too(tmp_path: Path) -> None:
    authority, clients = Authority(tmp_path / "ours"), Authority(tmp_path / "clients")
    given = ["--set", f"ssl.keystore.location={authority.keystore()}", "--set", "admin.tls=on"]
    trust = ["--set", f"ssl.truststore.location={clients.trust}"]
    assert told("check", *given, *trust)["trusted"] == ["CN=Authority of tests"]
    clients.trust.write_bytes(clients.signed(days=-2).certificate_pem)
    (fault,) = told("check", *given, *trust, code=10)["faults"]
    assert "trust store: CN=localhost: it expired at" in fault
    clients.trust.write_text("noise")
    done = run("check", *given, *trust)
    assert (done.exit_code, "ssl.truststore.location: " in done.stderr) == (2, True), done.output


def test_a_name_that_is_none_is_refused(folder: Path) -> None:
    done = run("self-signed", "bücher.example", "--dir", str(folder))
    assert (done.exit_code, "NAMES: " in done.stderr) == (2, True), done.output


def test_a_port_without_tls_is_told(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        done = run("check", broker.admin)
    assert (done.exit_code, "no TLS is spoken there" in done.stderr) == (5, True), done.output
