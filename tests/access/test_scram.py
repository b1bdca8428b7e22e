"""SCRAM as the standards say it, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable

import pytest

from appliance.access import scram_keys
from appliance.access.sasl import LoginFailed, Proven
from appliance.access.scram_exchange import ScramExchange, saslname
from appliance.access.user_rows import Credential

PASSWORD = "pencil"
NONCE = "fyko+d2lbbFgONRv9qkxdawL"
OURS = "3rfcNHYJY1ZVvWVs7j"
SHA_256, SHA_512 = 1, 2


def credential(user: str = "user", mechanism: int = SHA_256, count: int = 4096) -> Credential:
    salt = b"salt of " + user.encode()
    key = scram_keys.salted(mechanism, PASSWORD, salt, count)
    return scram_keys.credential_of(user, mechanism, salt, key, count)


def no_token(token_id: str, mechanism: int) -> tuple[Credential, Proven]:
    raise AssertionError("nobody wants to log in by a token")


def token_of(token_id: str, mechanism: int) -> tuple[Credential, Proven]:
    return credential(token_id, mechanism), Proven("owner", 7, is_by_token=True)


def exchange(mechanism: int = SHA_256, user: str = "user") -> ScramExchange:
    return ScramExchange(
        mechanism, lambda name, of: credential(user, of), token_of, lambda: OURS
    )


def step(found: ScramExchange, text: str) -> str:
    answer = found.step(text.encode())
    assert isinstance(answer, bytes)
    return answer.decode()


def final(
    first: str, answer: str, password: str = PASSWORD, mechanism: int = SHA_256,
    header: str = "n,,", nonce: str = "",
) -> str:  # fmt: skip
    """What a client answers that knows this password."""
    said = dict(each.split("=", 1) for each in answer.split(","))
    name, salt = scram_keys.HASHES[mechanism], base64.b64decode(said["s"])
    key = hashlib.pbkdf2_hmac(name, password.encode(), salt, int(said["i"]))
    client_key = hmac.digest(key, b"Client Key", name)
    unproven = f"c={base64.b64encode(header.encode()).decode()},r={nonce or said['r']}"
    message = f"{first.removeprefix(header)},{answer},{unproven}".encode()
    signature = hmac.digest(hashlib.new(name, client_key).digest(), message, name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{unproven},p={base64.b64encode(proof).decode()}"


FIRST = f"n,,n=user,r={NONCE}"


def test_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    key = scram_keys.salted(SHA_256, PASSWORD, salt, 4096)
    kept = scram_keys.credential_of("user", SHA_256, salt, key, 4096)
    ours = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    found = ScramExchange(SHA_256, lambda *_: kept, no_token, lambda: ours)
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    answer = step(found, "n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert answer == f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert found.claimed == "user"
    assert found.proven is None
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    answer = step(found, f"c=biws,r={nonce},p={proof}")
    assert answer == "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert found.proven is not None
    assert found.proven.name == "user"


def test_the_example_of_rfc_5802(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is of SHA-1, which nobody offers any more: the messages are the same."""
    monkeypatch.setitem(scram_keys.HASHES, 0, "sha1")
    salt = base64.b64decode("QSXCR+Q6sek8bf92")
    kept = scram_keys.credential_of(
        "user", 0, salt, scram_keys.salted(0, PASSWORD, salt, 4096), 4096
    )
    found = ScramExchange(0, lambda *_: kept, no_token, lambda: OURS)
    nonce = f"fyko+d2lbbFgONRv9qkxdawL{OURS}"
    assert step(found, FIRST) == f"r={nonce},s=QSXCR+Q6sek8bf92,i=4096"
    answer = step(found, f"c=biws,r={nonce},p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=")
    assert answer == "v=rmF9pqV8S7suAoZWja4dJRkFsKQ="


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize(
    ("header", "name"),
    [("n,,", "user"), ("y,,", "user"), ("n,a=,", "user"), ("n,a=user,", "user"),
     ("n,,", "a=2Cb=3Dc"), ("n,a=a=2Cb=3Dc,", "a=2Cb=3Dc"), ("n,,", "J\u00f6rg")],
)  # fmt: skip
def test_a_client_with_the_password_is_let_in(mechanism: int, header: str, name: str) -> None:
    found = exchange(mechanism)
    first = f"{header}n={name},r={NONCE},tokenauth=no"
    answer = step(found, first)
    last = step(found, final(first, answer, mechanism=mechanism, header=header))
    assert last.startswith("v=")
    assert found.proven is not None
    assert found.proven.name == name.replace("=2C", ",").replace("=3D", "=")


@pytest.mark.parametrize(
    "first",
    [
        "", "n,,", f"n=user,r={NONCE}", f"p=tls-unique,,n=user,r={NONCE}", f"x,,n=user,r={NONCE}",
        f"n,,m=x,n=user,r={NONCE}", f"n,a=admin,n=user,r={NONCE}", f"n,,n=,r={NONCE}",
        f"n,,n=a=b,r={NONCE}", f"n,,n=a=2c,r={NONCE}", f"n,,n=a=,r={NONCE}", "n,,n=user,r=",
        "n,,n=user,r=short", f"n,,n=user,r={NONCE}\u00e4", f"n,,n=user,r={NONCE} x",
        f"n,,n=user,r={'x' * 600}", f"n,,n={'x' * 600},r={NONCE}", f"n,,n=user,r={NONCE},",
        f"n,,n=user,r={NONCE},=x", f"n,,n=user,r={NONCE}\n", f"n,,n=us\0er,r={NONCE},0=1",
    ],
)  # fmt: skip
def test_a_first_message_that_is_none_is_refused(first: str) -> None:
    found = exchange()
    with pytest.raises(LoginFailed):
        found.step(first.encode())
    assert found.proven is None


@pytest.mark.parametrize("data", [b"\xff\xfe", b"n,,n=\xc3,r=" + b"x" * 20, b"n" * 20_000])
def test_bytes_that_are_no_text_are_refused(data: bytes) -> None:
    with pytest.raises(LoginFailed):
        exchange().step(data)


def with_proof(change: Callable[[bytes], bytes]) -> Callable[[str], str]:
    def changed(last: str) -> str:
        rest, _, proof = last.partition(",p=")
        return f"{rest},p={base64.b64encode(change(base64.b64decode(proof))).decode()}"

    return changed


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda it: it.replace(OURS, OURS[:-1]), "nonce"),
        (lambda it: it.replace(OURS, OURS + "x"), "nonce"),
        (lambda it: it.replace(NONCE, NONCE[1:]), "nonce"),
        (lambda it: it.replace(NONCE + OURS, OURS), "nonce"),
        (lambda it: it.replace("c=biws", "c=eSws"), "header"),
        (lambda it: it.replace("c=biws", "c=biw"), "base64"),
        (lambda it: it.replace("c=biws,", ""), "cannot be read"),
        (lambda it: it.replace(",p=", ",x=1,p="), "wrong"),
        (lambda it: it.partition(",p=")[0], "cannot be read"),
        (lambda it: it + ",p=x", "cannot be read"),
        (with_proof(lambda it: bytes([it[0] ^ 1]) + it[1:]), "wrong"),
        (with_proof(lambda it: bytes(len(it))), "wrong"),
        (with_proof(lambda it: it[:-1]), "has 31 bytes"),
        (with_proof(lambda it: it + b"x"), "has 33 bytes"),
    ],
)
def test_a_last_message_that_was_changed_is_refused(
    change: Callable[[str], str], why: str
) -> None:
    found = exchange()
    answer = step(found, FIRST)
    with pytest.raises(LoginFailed, match=why):
        found.step(change(final(FIRST, answer)).encode())
    assert found.proven is None
    with pytest.raises(LoginFailed):  # there is no second try
        found.step(final(FIRST, answer).encode())


def test_the_nonce_of_an_old_librdkafka_is_good() -> None:
    """Before 2.6.1 it sends its own part twice; kcat of Debian 12 has 2.0.2."""
    found = exchange()
    answer = step(found, FIRST)
    step(found, final(FIRST, answer, nonce=f"{NONCE}{NONCE}{OURS}"))
    assert found.proven is not None


def test_an_answer_is_good_for_one_exchange() -> None:
    first = exchange()
    last = final(FIRST, step(first, FIRST))
    step(first, last)
    other = ScramExchange(SHA_256, lambda *_: credential(), no_token)
    step(other, FIRST)
    with pytest.raises(LoginFailed, match="nonce"):
        other.step(last.encode())
    with pytest.raises(LoginFailed, match="after the last"):
        first.step(last.encode())


def test_another_iteration_count_than_ours_does_not_help() -> None:
    found = exchange()
    answer = step(found, FIRST).replace("i=4096", "i=1")
    with pytest.raises(LoginFailed, match="wrong"):
        found.step(final(FIRST, answer).encode())


def test_a_wrong_password_is_refused() -> None:
    found = exchange()
    with pytest.raises(LoginFailed, match="the name or the password is wrong"):
        found.step(final(FIRST, step(found, FIRST), password="crayon").encode())


def test_our_nonce_is_new_each_time() -> None:
    many = (ScramExchange(1, lambda *_: credential(), no_token) for _ in range(20))
    nonces = {step(each, FIRST)[2:80] for each in many}
    assert len(nonces) == 20


def test_a_name_that_does_not_exist_looks_like_one_that_does() -> None:
    secret = b"x" * 32
    made = scram_keys.credentials_of("ann", PASSWORD)
    for real in made:
        fake = scram_keys.stand_in(secret, "eve", real.mechanism, [real.iterations])
        assert fake == scram_keys.stand_in(secret, "eve", real.mechanism, [real.iterations])
        assert fake.iterations == real.iterations
        assert len(fake.stored_key) == len(real.stored_key)
        assert len(fake.salt) == len(real.salt)
        assert set(fake.salt) <= set(scram_keys.SALT_LETTERS)
        others = [scram_keys.stand_in(key, name, real.mechanism, [real.iterations])
                  for key, name in ((b"y" * 32, "eve"), (secret, "eva"))]
        assert all(each.salt != fake.salt for each in others)
        assert not scram_keys.fits(fake, PASSWORD)
    assert {each.iterations for each in made} == {scram_keys.ITERATIONS}


def test_the_iterations_of_a_stand_in_are_those_of_some_user() -> None:
    found = {scram_keys.stand_in(b"x" * 32, f"u{i}", 1, [4096, 8192, 4096]).iterations
             for i in range(50)}
    assert found == {4096, 8192}


def test_escapes_stand_for_comma_and_equals_sign() -> None:
    assert saslname("a=2Cb=3Dc") == "a,b=c"
    assert saslname("=3D=2C=3D") == "=,="
    assert saslname("=3D2C") == "=2C"
    for wrong in ("=", "a=", "a=2", "=2c", "=3d", "==3D"):
        with pytest.raises(LoginFailed):
            saslname(wrong)


def test_a_token_is_named_by_its_id_and_lets_its_owner_in() -> None:
    first = f"n,,n=token-id,r={NONCE},other=x,tokenauth=true"
    found = exchange()
    step(found, final(first, step(found, first)))
    assert (found.claimed, found.proven) == ("token-id", Proven("owner", 7, is_by_token=True))


@pytest.mark.parametrize("extension", ["", ",tokenauth=false", ",tokenauth=", ",other=true"])
def test_without_the_extension_a_name_is_a_users(extension: str) -> None:
    found = exchange()
    first = FIRST + extension
    step(found, final(first, step(found, first)))
    assert found.proven == Proven("user")
