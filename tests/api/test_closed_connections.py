"""What the log says of connections that were closed."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from appliance.api.closed_connections import PEERS_MAX, TEXTS, ClosureLog, words_of
from appliance.network._handed_out import CLOSURE_NAMES
from appliance.process import event_log


class Closure(NamedTuple):
    peer: str = "10.0.0.1"
    kind: str = "frame size"
    got: int = 7
    wanted: int = 100
    key: int = -1
    version: int = -1


class Clock:
    now = 5.0

    def __call__(self) -> float:
        return self.now


def facts(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.facts for record in caplog.records]  # type: ignore[attr-defined]


def test_every_reason_has_words_with_its_numbers() -> None:
    assert set(CLOSURE_NAMES.values()) == set(TEXTS)
    for kind in set(TEXTS) - {"login other", "handshake", "not tls"}:  # which have none
        told = words_of(Closure(kind, got=4711, wanted=4712, key=4713))
        assert any(each in told for each in ("4711", "4712", "4713")), kind


@pytest.mark.parametrize(
    ("begin", "what"),
    [
        (b"GET ", "an HTTP request"),
        (b"SSH-", "an SSH banner"),
        (b"\x16\x03\x01\x02", "a TLS handshake"),
        (b"\x16\x03\x04\x01", "a TLS handshake"),
    ],
)
def test_other_protocols_are_named(begin: bytes, what: str) -> None:
    assert words_of(Closure(got=int.from_bytes(begin, "big"))).endswith(f"it begins like {what}")


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 7, 2**31 - 1])
def test_a_length_that_is_only_wrong_is_no_protocol(size: int) -> None:
    assert words_of(Closure(got=size)).endswith("(socket.request.max.bytes)")


def test_an_address_gets_one_line_a_minute_for_each_reason(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(event_log.repeats, "_clock", clock)
    closures = ClosureLog(clock)
    for _ in range(3):
        closures.note(Closure())
        closures.note(Closure(peer="10.0.0.2"))
        closures.note(Closure(kind="malformed"))
        clock.now += 19
    told = facts(caplog)
    assert [each["peer"] for each in told] == ["10.0.0.1", "10.0.0.2", "10.0.0.1"]
    clock.now += 60
    closures.note(Closure())
    assert facts(caplog)[3]["left_out"] == 2
    clock.now += 60
    closures.note(Closure())
    assert "left_out" not in facts(caplog)[4]


def test_a_network_of_ipv6_counts_as_one_address(caplog: pytest.LogCaptureFixture) -> None:
    closures = ClosureLog(Clock())
    for peer in ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::"):
        closures.note(Closure(peer=peer))
    assert [each["peer"] for each in facts(caplog)] == ["2001:db8::1", "2001:db8:0:1::"]


def test_as_many_addresses_as_there_are_take_bounded_memory() -> None:
    closures = ClosureLog(Clock())
    for number in range(PEERS_MAX * 2 + 10):
        closures.note(Closure(peer=str(number)))
    assert len(closures._said) <= PEERS_MAX


def test_what_was_too_fast_to_tell_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    closures = ClosureLog(Clock())
    closures.note_left_out(0)
    closures.note_left_out(12)
    assert facts(caplog) == [{"count": 12}]
