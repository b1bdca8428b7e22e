"""OAUTHBEARER: tokens that let in, and those that must not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from dataclasses import replace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from appliance.access import tokens
from appliance.access.oauthbearer_exchange import OauthbearerExchange
from appliance.access.sasl import LoginFailed
from appliance.access.tokens import KeysUnreadable, PublishedKeys, Tokens, keys_of
from appliance.config import AccessConfig, SettingInvalid
from appliance.config.access import OAUTHBEARER
from appliance.config.names import Mechanisms, Names

RSA = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ACCESS = AccessConfig(
    mechanisms=Mechanisms((OAUTHBEARER,)), jwks_url="https://id.example/keys",
    issuer="https://id.example", audience=Names(("kafka", "events")),
)  # fmt: skip


def published(**keys: Any) -> bytes:
    rows = []
    for name, key in keys.items():
        kind = jwt.algorithms.RSAAlgorithm if key is not EC else jwt.algorithms.ECAlgorithm
        rows.append({**json.loads(kind.to_jwk(key.public_key())), "kid": name})
    return json.dumps({"keys": [*rows, {"kty": "oct", "kid": "secret", "k": "AAAA"}]}).encode()


def token(key: Any = RSA, algorithm: str = "RS256", kid: str = "a", **claims: Any) -> str:
    now = int(time.time())
    facts = {"sub": "ann", "iss": ACCESS.issuer, "aud": "kafka", "exp": now + 60, "iat": now,
             **claims}  # fmt: skip
    facts = {name: value for name, value in facts.items() if value is not None}
    return jwt.encode(facts, key, algorithm, {"kid": kid})


def verifier(**access: Any) -> Tokens:
    found = PublishedKeys("", 60_000, lambda _: published(a=RSA, e=EC))
    return Tokens(replace(ACCESS, **access), found)


def test_a_good_token_is_believed_until_its_end() -> None:
    end = int(time.time()) + 100
    for good in (token(exp=end), token(EC, "ES256", "e", exp=end), token(RSA, "PS256", exp=end),
                 token(exp=end, aud=["x", "events"]), token(exp=end, nbf=end - 120)):  # fmt: skip
        proven = verifier().verify(good)
        assert (proven.name, proven.expires_ms) == ("ann", end * 1000)
    named = verifier(subject_claim="client_id").verify(token(client_id="app"))
    assert named.name == "app"


def unsigned(header: dict[str, str]) -> str:
    """Signed by nobody."""
    def part(facts: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(facts).encode()).decode().rstrip("=")

    claims = jwt.decode(token(), options={"verify_signature": False})
    return f"{part(header)}.{part(claims)}"


def with_the_public_key_as_a_secret() -> str:
    """Whoever has the public key can make it, if the token's word on its signature counts."""
    secret = RSA.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    signed = unsigned({"alg": "HS256", "kid": "a", "typ": "JWT"})
    mac = hmac.digest(secret, signed.encode(), hashlib.sha256)
    return f"{signed}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def of_somebody_else() -> str:
    """The right signature under other claims."""
    head, _, signature = token().split(".")
    _, claims, _ = token(OTHER, sub="admin").split(".")
    return f"{head}.{claims}.{signature}"


BAD = {
    "expired": lambda: token(exp=int(time.time()) - 31),
    "not yet": lambda: token(nbf=int(time.time()) + 60),
    "no end": lambda: token(exp=None),
    "another issuer": lambda: token(iss="https://evil.example"),
    "no issuer": lambda: token(iss=None),
    "another audience": lambda: token(aud="mail"),
    "no audience": lambda: token(aud=None),
    "no name": lambda: token(sub=None),
    "an empty name": lambda: token(sub=""),
    "another key": lambda: token(OTHER),
    "a key that is not there": lambda: token(kid="x"),
    "a secret of the set": lambda: jwt.encode({"sub": "ann"}, "0" * 32, "HS256", {"kid": "secret"}),
    "alg none": lambda: unsigned({"alg": "none", "kid": "a"}) + ".",
    "alg None": lambda: unsigned({"alg": "None", "kid": "a"}) + ".",
    "no alg": lambda: unsigned({"kid": "a"}) + ".",
    "HS256 with the public key": with_the_public_key_as_a_secret,
    "a signature that is not enabled": lambda: token(RSA, "RS384"),
    "RS256 of a key for ES256": lambda: token(RSA, kid="e"),
    "claims of somebody else": of_somebody_else,
    "no token": lambda: "x.y.z",
    "nothing": lambda: "",
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_token_is_refused(kind: str) -> None:
    with pytest.raises(LoginFailed):
        verifier().verify(BAD[kind]())


def test_a_token_in_a_message() -> None:
    found = OauthbearerExchange(verifier().verify)
    work = found.step(f"n,,\x01auth=Bearer {token()}\x01\x01".encode())
    assert callable(work)
    assert work() == b""
    assert found.proven is not None
    assert found.proven.name == "ann"
    with pytest.raises(LoginFailed):
        found.step(f"n,,\x01auth=Bearer {token()}\x01\x01".encode())


def test_a_message_may_name_the_user_and_have_extensions() -> None:
    found = OauthbearerExchange(verifier().verify)
    text = f"n,a=ann,\x01host=h\x01auth=Bearer {token()}\x01port=9092\x01\x01"
    work = found.step(text.encode())
    assert callable(work)
    work()
    other = OauthbearerExchange(verifier().verify)
    work = other.step(text.replace("a=ann", "a=bob").encode())
    assert callable(work)
    with pytest.raises(LoginFailed, match="act for"):
        work()
    assert other.proven is None


@pytest.mark.parametrize(
    "text",
    ["", "n,,", "n,,\x01\x01", "n,,\x01auth=Basic x\x01\x01", "p=x,,\x01auth=Bearer x\x01\x01",
     "n,,\x01auth=Bearer \x01\x01", "n,,\x01auth=Bearer x\x01", "n,,\x01auth=Bearer x y\x01\x01",
     "n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01", "n,,\x01auth=Bearer x\x01\x01\x01",
     "n,,\x01auth=Bearer " + "x" * 20_000 + "\x01\x01"],
)  # fmt: skip
def test_a_message_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(LoginFailed):
        OauthbearerExchange(verifier().verify).step(text.encode())


def test_a_message_of_many_parts_is_refused_in_no_time() -> None:
    text = "n,,\x01" + "auth=Bearer x\x01" * 1100 + "!"  # nearly as long as one may be
    took = []
    for _ in range(3):
        begin = time.thread_time()  # others have the processors, too
        with pytest.raises(LoginFailed):
            OauthbearerExchange(verifier().verify).step(text.encode())
        took.append(time.thread_time() - begin)
    assert min(took) < 0.02


def test_keys_are_read_again_when_one_is_not_known_but_not_for_each_token() -> None:
    now, read = [0.0], list[str]()
    sets = [published(a=RSA), published(b=OTHER)]

    def read_one(url: str) -> bytes:
        read.append(url)
        return sets[min(len(read), len(sets)) - 1]

    keys = PublishedKeys("u", 3_600_000, read_one, lambda: now[0])
    assert keys.find("a") is not None
    for _ in range(100):
        with pytest.raises(LoginFailed):
            keys.find("b")
    assert len(read) == 1
    now[0] += tokens.AGAIN_SECONDS + 1
    assert keys.find("b") is not None
    now[0] += 3601
    keys.find("b")
    assert len(read) == 3


def test_keys_that_cannot_be_read_leave_those_of_before() -> None:
    now, answers = [0.0], [published(a=RSA), b"<html>"]

    def read_one(_: str) -> bytes:
        return answers.pop(0)

    keys = PublishedKeys("u", 60_000, read_one, lambda: now[0])
    keys.find("a")
    now[0] += 61
    assert keys.find("a") is not None
    assert answers == []


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"keys": 1}', b'{"keys": [1]}',
                                  b'{"keys": [{"kty": "RSA"}]}'])  # fmt: skip
def test_what_is_no_set_of_keys_is_refused(data: bytes) -> None:
    with pytest.raises(KeysUnreadable):
        keys_of(data)


def test_secrets_are_no_keys() -> None:
    assert list(keys_of(published(a=RSA))) == ["a"]


def test_keys_in_a_file_are_read_and_too_many_bytes_are_not(tmp_path: Any) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(published(a=RSA))
    assert list(keys_of(tokens.read(path.as_uri()))) == ["a"]
    path.write_bytes(b" " * (tokens.KEYS_BYTES_MAX + 1))
    with pytest.raises(KeysUnreadable, match="more than"):
        tokens.read(path.as_uri())
    with pytest.raises(KeysUnreadable):
        tokens.read((tmp_path / "none").as_uri())


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"jwks_url": ""}, "jwks.endpoint.url: got nothing"),
        ({"jwks_url": "http://id.example/keys"}, "wanted https:// or file:///"),
        ({"issuer": ""}, "expected.issuer: got nothing"),
        ({"audience": Names()}, "expected.audience: got nothing"),
        ({"signatures": Names(("HS256",))}, "algorithms: got HS256"),
        ({"signatures": Names(("none",))}, "algorithms: got none"),
    ],
)
def test_settings_that_would_believe_too_much_are_refused(
    facts: dict[str, Any], words: str
) -> None:
    with pytest.raises(SettingInvalid, match=words):
        replace(ACCESS, **facts)
