"""The client's side of SASL, with the examples of the RFCs and with brokers that cheat."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from appliance.protocol import sasl_client
from appliance.protocol.sasl_client import (
    SCRAM_256,
    SCRAM_512,
    ExchangeFailed,
    OAuthBearer,
    Plain,
    Scram,
)

SECRET = "pencil"
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="
SERVER_FIRST = f"r={SERVER_NONCE},s={SALT},i=4096".encode()


def scram(mechanism: str = SCRAM_256) -> Scram:
    return Scram(mechanism, "user", SECRET, NONCE)


def test_the_example_of_rfc_7677() -> None:
    exchange = scram()
    assert exchange.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.answer(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert exchange.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


def test_the_example_of_rfc_5802(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sasl_client.HASHES, "SCRAM-SHA-1", "sha1")  # which Kafka does not have
    exchange = Scram("SCRAM-SHA-1", "user", SECRET, "fyko+d2lbbFgONRv9qkxdawL")
    assert exchange.first() == b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"
    assert exchange.answer(
        b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096"
    ) == (
        b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    )
    assert exchange.answer(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=") is None


def test_sha_512_is_the_same_with_another_hash() -> None:
    """Against an own computation by the formulas of RFC 5802."""
    exchange = scram(SCRAM_512)
    exchange.first()
    final = exchange.answer(SERVER_FIRST)
    assert final is not None
    without_proof, _, proof = final.decode().rpartition(",p=")
    signed = f"n=user,r={NONCE},{SERVER_FIRST.decode()},{without_proof}".encode()
    salted = hashlib.pbkdf2_hmac("sha512", SECRET.encode(), base64.b64decode(SALT), 4096)
    stored = hashlib.sha512(hmac.digest(salted, b"Client Key", "sha512")).digest()
    signature = hmac.digest(stored, signed, "sha512")
    key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
    assert hashlib.sha512(key).digest() == stored
    server_key = hmac.digest(salted, b"Server Key", "sha512")
    shown = base64.b64encode(hmac.digest(server_key, signed, "sha512"))
    assert exchange.answer(b"v=" + shown) is None


@pytest.mark.parametrize(
    ("challenge", "fact"),
    [
        (SERVER_FIRST.replace(b"rOpr", b"xOpr"), "does not continue ours"),
        (f"r={NONCE},s={SALT},i=4096".encode(), "does not continue ours"),
        (SERVER_FIRST.replace(b"4096", b"4095"), "'4095' iterations, this client 4096 to"),
        (SERVER_FIRST.replace(b"4096", b"1000001"), "'1000001' iterations"),
        (SERVER_FIRST.replace(b"4096", b"9" * 300), "iterations, this client 4096 to"),
        (SERVER_FIRST.replace(b"4096", b"-1"), "'-1' iterations"),
        (SERVER_FIRST.replace(b"4096", "٤٠٩٦".encode()), "iterations"),
        (SERVER_FIRST.replace(SALT.encode(), b"?"), "not in base 64"),
        (SERVER_FIRST.replace(SALT.encode(), b""), "salt or signature is empty"),
        (b"m=must," + SERVER_FIRST, "does not begin with the attributes r, s, i"),
        (b"", "does not begin with"),
        (b"\xff", "not in UTF-8"),
        (b"r=" + b"x" * 4096, "wanted at most 4096"),
        (b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "does not begin with"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_false_first_message_is_refused(challenge: bytes, fact: str) -> None:
    exchange = scram()
    exchange.first()
    with pytest.raises(ExchangeFailed, match=fact) as caught:
        exchange.answer(challenge)
    assert SECRET not in repr(caught.value)


@pytest.mark.parametrize(
    ("challenge", "fact"),
    [
        (b"v=" + base64.b64encode(bytes(32)), "did not prove"),
        (b"v=", "is empty"),
        (b"", "does not begin with"),
        (b"e=invalid-proof", "says 'invalid-proof'"),
        (SERVER_FIRST, "does not begin with the attributes v"),
    ],
)
def test_a_broker_that_does_not_know_the_credential_is_refused(
    challenge: bytes, fact: str
) -> None:
    exchange = scram()
    exchange.first()
    exchange.answer(SERVER_FIRST)
    with pytest.raises(ExchangeFailed, match=fact):
        exchange.answer(challenge)


def test_after_its_end_the_exchange_takes_nothing() -> None:
    exchange = scram()
    exchange.first()
    exchange.answer(SERVER_FIRST)
    exchange.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(ExchangeFailed, match="after the end"):
        exchange.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_extensions_behind_the_attributes_are_ignored() -> None:
    exchange = scram()
    exchange.first()
    assert exchange.answer(SERVER_FIRST + b",x=new")


def test_a_name_cannot_have_attributes_of_its_own() -> None:
    assert Scram(SCRAM_256, "a,r=b=", SECRET, "nonce").first() == b"n,,n=a=2Cr=3Db=3D,r=nonce"


def test_two_exchanges_have_two_nonces() -> None:
    first, second = (Scram(SCRAM_256, "user", SECRET).first() for _ in range(2))
    assert first != second


def test_plain_is_one_message() -> None:
    exchange = Plain("user", "pässword")
    assert exchange.first() == b"\0user\0p\xc3\xa4ssword"
    assert exchange.answer(b"") is None
    with pytest.raises(ExchangeFailed, match="more than PLAIN has"):
        exchange.answer(b"more")


def test_plain_has_no_zero_byte() -> None:
    with pytest.raises(ExchangeFailed, match="no zero byte") as caught:
        Plain("user", "pen\0cil")
    assert "cil" not in repr(caught.value)


def test_a_token_that_is_refused_is_answered_once_more() -> None:
    """RFC 7628, 3.2.3."""
    exchange = OAuthBearer("a.b-c_d~e+f/g==")
    assert exchange.first() == b"n,,\x01auth=Bearer a.b-c_d~e+f/g==\x01\x01"
    assert exchange.answer(b'{"status":"invalid_token"}') == b"\x01"
    assert exchange.answer(b"") is None


def test_a_token_cannot_have_fields_of_its_own() -> None:
    with pytest.raises(ExchangeFailed, match="may not have") as caught:
        OAuthBearer("token\x01auth=other")
    assert "other" not in repr(caught.value)
