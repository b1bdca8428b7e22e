"""PLAIN: three parts, checked with the credential of SCRAM."""

from __future__ import annotations

import pytest

from appliance.access import scram_keys
from appliance.access.plain_exchange import PlainExchange
from appliance.access.sasl import LoginFailed

KEPT = {each.mechanism: each for each in scram_keys.credentials_of("ann", "s3cret\u00e9")}


def logged_in(data: bytes, mechanism: int = 1) -> PlainExchange:
    found = PlainExchange(lambda name: KEPT[mechanism])
    work = found.step(data)
    assert callable(work), "it takes milliseconds: for a thread"
    assert found.proven is None
    assert work() == b""
    return found


@pytest.mark.parametrize("mechanism", [1, 2])
@pytest.mark.parametrize("authzid", ["", "ann"])
def test_the_password_lets_in(mechanism: int, authzid: str) -> None:
    found = logged_in(f"{authzid}\0ann\0s3cret\u00e9".encode(), mechanism)
    assert found.proven is not None
    assert found.proven.name == found.claimed == "ann"


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\0", b"ann\0s3cret", b"\0ann\0", b"\0\0s3cret", b"\0ann\0s3cret\0", b"\0\0\0",
        b"bob\0ann\0s3cret", b"\0ann\0\xff", b"\0ann\0" + b"x" * 1001, b"\0" + b"x" * 600 + b"\0x",
        b"x" * 20_000,
    ],
)  # fmt: skip
def test_a_message_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(LoginFailed):
        PlainExchange(lambda name: KEPT[1]).step(data)


def test_a_wrong_password_is_refused() -> None:
    found = PlainExchange(lambda name: KEPT[1])
    work = found.step(b"\0ann\0s3cret")
    assert callable(work)
    with pytest.raises(LoginFailed, match="the name or the password is wrong"):
        work()
    assert found.proven is None
    with pytest.raises(LoginFailed):
        found.step(b"\0ann\0s3cret\xc3\xa9")
