"""What a listener with TLS offers, looked at as testssl.sh does it, is what the page says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.certificates import NEW_KEY, RSA_KEY, Authority, openssl
from tests.support.serving import Serving

PAGE = Path(__file__).parents[2] / "docs/operations.md"
VERSIONS = {"TLSv1": "-tls1", "TLSv1.1": "-tls1_1", "TLSv1.2": "-tls1_2", "TLSv1.3": "-tls1_3"}
KEYS = {"elliptic curve": NEW_KEY, "RSA": RSA_KEY}
EVERYTHING = "ALL:COMPLEMENTOFALL"
SUITES_1_3 = ["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256",
              "TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256"]  # fmt: skip


def written(key: str) -> dict[str, list[str]]:
    """Ciphers by version, of the page."""
    row = re.compile(r"^\| (TLSv[\d.]+) \| ([\w ]+) \| ([\w, -]+) \|$", re.MULTILINE)
    rows = row.findall(PAGE.read_text())
    return {version: ciphers.split(", ") for version, of, ciphers in rows if of in (key, "any")}


def offered(broker: Serving, version: str) -> list[str]:
    """Each that is chosen while those before are not asked for, as testssl.sh does it."""
    found = list[str]()
    while cipher := chosen(broker, version, found):
        found.append(cipher)
    return found


def chosen(broker: Serving, version: str, without: list[str]) -> str:
    if version == "TLSv1.3":
        left = [each for each in SUITES_1_3 if each not in without]
        asked = ["-ciphersuites", ":".join(left)]
    else:
        left = [EVERYTHING, *(f"!{each}" for each in without), "@SECLEVEL=0"]
        asked = ["-cipher", ":".join(left)]
    if not left:
        return ""
    said = shaken(broker, VERSIONS[version], *asked)
    found = re.search(r"^New, .*Cipher is (\S+)$", said, re.MULTILINE)
    return "" if found is None or found[1] == "(NONE)" else found[1]


def shaken(broker: Serving, *options: str) -> str:
    """What `openssl s_client` says of a handshake, good or not."""
    done = subprocess.run(["openssl", "s_client", "-connect", ":".join(map(str, broker.kafka)),
                           *options],
                          input="", capture_output=True, text=True, timeout=60)  # fmt: skip
    return done.stdout


@pytest.mark.parametrize("key", KEYS)
def test_what_a_listener_offers_is_what_the_page_says(tmp_path: Path, key: str) -> None:
    authority = Authority(tmp_path / "authority")
    own = {"ssl.keystore.location": authority.issue("server", key=KEYS[key]).both}
    broker = Serving(tmp_path, protocol="SSL", **own)
    try:
        found = {version: offered(broker, version) for version in VERSIONS}
        said = shaken(broker, "-alpn", "h2", "-comp")
    finally:
        assert broker.stop() == 0
    assert {version: ciphers for version, ciphers in found.items() if ciphers} == written(key)
    for wanted in ("Compression: NONE", "No ALPN negotiated"):
        assert wanted in said
    assert not re.search("Max Early Data: [1-9]", said)


def test_this_client_would_take_what_is_weak() -> None:
    """Otherwise it says nothing that a listener has not chosen it."""
    for version in ("-tls1", "-tls1_1", "-tls1_2"):
        known = openssl("ciphers", "-s", version, f"{EVERYTHING}:@SECLEVEL=0").strip().split(":")
        assert {"AES128-SHA", "DHE-RSA-AES128-SHA", "ECDHE-RSA-AES128-SHA"} <= set(known)
