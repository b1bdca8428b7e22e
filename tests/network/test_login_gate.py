"""The login gate of a listener, over real sockets; the test is the control plane."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.protocol.messages.produce import ProduceResponse
from tests.support.small_control import (
    ANONYMOUS,
    API_VERSIONS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SmallControl,
    batch,
    request,
    small_control,
)
from tests.support.wire_client import WireClient, produce_frame, with_length

HOUR_NS = 3600 * 10**9
ALICE = "User:alice"


@pytest.fixture
def control(tmp_path: Path) -> Iterator[SmallControl]:
    with small_control(tmp_path) as made:
        yield made


@pytest.fixture
def client(control: SmallControl) -> Iterator[WireClient]:
    with control.client(is_gated=True) as made:
        yield made


def principals(control: SmallControl) -> set[str]:
    found = control.plane.connections(5000)
    assert found is not None
    return {each.principal for each in found}


def ends(client: WireClient) -> bool:
    try:
        client.receive()
    except (EOFError, ConnectionError):
        return True
    return False


@pytest.mark.parametrize("frame", [SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE])
def test_the_requests_of_a_login_are_passed_on(
    control: SmallControl, client: WireClient, frame: bytes
) -> None:
    client.send(frame)
    punt = control.punt()
    assert (punt.frame, punt.is_raw, punt.listener) == (frame, False, 1)
    control.reply(punt, b"answer")
    assert client.receive() == b"answer"


@pytest.mark.parametrize("key", [0, 1, 2, 3, 19, 16, 35, 37, 60, -1, 1000])
def test_any_other_request_ends_the_connection(
    control: SmallControl, client: WireClient, key: int
) -> None:
    client.send(request(key, 9))
    assert ends(client)
    closure = control.closure()
    assert (closure.kind, closure.key, closure.version) == ("login key", key, 9)
    assert control.plane.counters()["connections_closed_login"] == 1
    assert control.has_nothing()


def test_a_produce_is_written_after_the_login_alone(control: SmallControl) -> None:
    with control.client(is_gated=True) as early:
        early.send_produce(batch())
        assert ends(early)
    client, _ = control.logged_in(ALICE)
    with client:
        assert client.produce(batch())[0].base_offset == 0


def test_what_is_pipelined_behind_a_login_waits_for_its_answer(
    control: SmallControl, client: WireClient
) -> None:
    """All in one packet: 100 KB of it, more than a frame may have before the login."""
    large = produce_frame(batch(bytes(100_000)))
    client.socket.sendall(with_length(SASL_AUTHENTICATE) + large + produce_frame(batch()))
    punt = control.punt()
    with control.client() as other:
        other.produce(batch(), partition=1)
    assert control.logs[0].log_end_offset == 0
    assert control.has_nothing()
    control.plane.log_in(punt.connection, ALICE)
    control.reply(punt, b"welcome")
    assert client.receive() == b"welcome"
    for offset in range(2):
        (topic,) = client.answer(ProduceResponse, 0, 9).responses
        assert topic.partition_responses[0].base_offset == offset


def test_what_is_pipelined_behind_a_failed_login_is_not_done(
    control: SmallControl, client: WireClient
) -> None:
    client.socket.sendall(with_length(SASL_AUTHENTICATE) + produce_frame(batch()))
    punt = control.punt()
    control.plane.close_after(punt.connection, punt.slot)
    control.reply(punt, b"no")
    assert client.receive() == b"no"
    assert ends(client)
    assert control.logs[0].log_end_offset == 0


def test_a_refused_login_that_goes_on_is_still_none(
    control: SmallControl, client: WireClient
) -> None:
    client.socket.sendall(with_length(SASL_AUTHENTICATE) + produce_frame(batch()))
    control.reply(control.punt(), b"once more")
    assert client.receive() == b"once more"
    assert ends(client)
    assert control.closure().kind == "login key"


def test_each_request_before_the_login_waits_for_the_one_before(
    control: SmallControl, client: WireClient
) -> None:
    client.socket.sendall(3 * with_length(API_VERSIONS))
    for number in range(3):
        punt = control.punt()
        assert control.has_nothing()
        control.reply(punt, b"%d" % number)
        assert client.receive() == b"%d" % number


def test_a_frame_before_the_login_is_small(tmp_path: Path) -> None:
    with small_control(tmp_path, login_max_bytes=2048) as control:
        for size in (2049, 3000, 100_000, 1 << 30):
            with control.client(is_gated=True) as client:
                client.socket.sendall(size.to_bytes(4, "big") + SASL_AUTHENTICATE + bytes(2000))
                closure = control.closure()
                assert (closure.kind, closure.got, closure.wanted) == ("login size", size, 2048)
                assert ends(client)
        with control.client(is_gated=True) as client:
            frame = SASL_AUTHENTICATE + bytes(2048 - len(SASL_AUTHENTICATE))
            client.send(frame)
            assert control.punt().frame == frame
        client, _ = control.logged_in(ALICE)
        with client:
            assert client.produce(batch(bytes(100_000)))[0].error_code == 0


def test_a_login_has_a_deadline(tmp_path: Path) -> None:
    """However much is said meanwhile, and whoever is waited for."""
    with small_control(tmp_path, login_timeout_ms=4000) as control:
        silent, asking = control.client(is_gated=True), control.client(is_gated=True)
        with silent, asking, control.client() as free:
            asking.send(API_VERSIONS)
            control.reply(control.punt(), b"versions")
            asking.send(SASL_AUTHENTICATE)
            assert ends(silent)
            assert asking.receive() == b"versions"
            assert ends(asking)
            found = [control.closure() for _ in range(2)]
            assert {(each.kind, each.wanted) for each in found} == {("login timeout", 4000)}
            assert {each.got for each in found} == {0, 2}
            assert free.produce(batch())[0].error_code == 0
            control.punt()
        client, _ = control.logged_in(ALICE)
        with client:
            control.until(lambda: control.plane.counters()["connections_open"] == 1)
            time.sleep(4.5)  # nothing else tells that it was not closed
            assert client.produce(batch())[0].error_code == 0


def test_connections_show_who_is_there(control: SmallControl) -> None:
    with control.client(), control.client(is_gated=True):
        client, _ = control.logged_in("User:Zoë")
        with client:
            control.until(lambda: principals(control) == {ANONYMOUS, "", "User:Zoë"})


# Tokens without a header

def test_tokens_without_a_header_are_passed_on_and_answered_as_they_are(
    control: SmallControl, client: WireClient
) -> None:
    client.send(SASL_HANDSHAKE)
    punt = control.punt()
    control.plane.expect_raw(punt.connection)
    control.reply(punt, b"mechanisms")
    assert client.receive() == b"mechanisms"
    for token in (b"n,,n=alice,r=nonce", b"", b"\0\3"):
        client.send(token)
        punt = control.punt()
        assert (punt.frame, punt.is_raw) == (token, True)
        control.reply(punt, token[::-1])
        assert client.receive() == token[::-1]
    client.send(b"last")
    punt = control.punt()
    control.plane.log_in(punt.connection, ALICE)
    control.reply(punt, b"")
    assert client.receive() == b""
    assert client.produce(batch())[0].error_code == 0


def test_a_handshake_and_a_token_in_one_packet(control: SmallControl, client: WireClient) -> None:
    client.socket.sendall(with_length(SASL_HANDSHAKE) + with_length(b"tok") + with_length(b"en"))
    punt = control.punt()
    control.plane.expect_raw(punt.connection)
    control.reply(punt, b"mechanisms")
    for token in (b"tok", b"en"):
        punt = control.punt()
        assert (punt.frame, punt.is_raw) == (token, True)
        control.reply(punt, b"")


def test_a_failed_token_ends_the_connection_without_an_answer(
    control: SmallControl, client: WireClient
) -> None:
    client.send(SASL_HANDSHAKE)
    punt = control.punt()
    control.plane.expect_raw(punt.connection)
    control.reply(punt, b"mechanisms")
    client.receive()
    client.socket.sendall(with_length(b"wrong") + produce_frame(batch()))
    punt = control.punt()
    control.plane.close_after(punt.connection, punt.slot)
    control.reply(punt, None)
    assert ends(client)


@pytest.mark.parametrize("claim", [-1, -(2**31), 70_000, 2**31 - 1])
def test_a_token_of_a_size_that_cannot_be(
    control: SmallControl, client: WireClient, claim: int
) -> None:
    client.send(SASL_HANDSHAKE)
    punt = control.punt()
    control.plane.expect_raw(punt.connection)
    control.reply(punt, b"mechanisms")
    client.receive()
    client.socket.sendall(claim.to_bytes(4, "big", signed=True) + b"token")
    assert ends(client)
    assert control.closure().got == claim


# Logins that end

def test_after_its_end_a_login_lets_only_another_one_in(control: SmallControl) -> None:
    client, connection = control.logged_in(ALICE, time.monotonic_ns() + HOUR_NS)
    with client:
        assert client.produce(batch())[0].error_code == 0
        control.until(lambda: principals(control) == {ALICE})
        log_in_again(control, client, connection, time.monotonic_ns())  # one that is over
        client.send(SASL_AUTHENTICATE)
        punt = control.punt()
        control.plane.log_in(connection, ALICE, time.monotonic_ns() + HOUR_NS)
        control.reply(punt, b"again")
        assert client.receive() == b"again"
        assert client.produce(batch())[0].base_offset == 1


def log_in_again(
    control: SmallControl, client: WireClient, connection: int, expires_ns: int
) -> None:
    client.send(SASL_AUTHENTICATE)
    punt = control.punt()
    control.plane.log_in(connection, ALICE, expires_ns)
    control.reply(punt, b"for so long")
    assert client.receive() == b"for so long"


def test_after_its_end_a_request_ends_the_connection(control: SmallControl) -> None:
    client, _ = control.logged_in(ALICE, time.monotonic_ns() + 1)
    with client:
        client.send_produce(batch())
        assert ends(client)
    closure = control.closure()
    assert (closure.kind, closure.key, closure.version) == ("login over", 0, 9)
    assert control.logs[0].log_end_offset == 0


def test_what_is_pipelined_behind_a_new_login_waits_for_it(control: SmallControl) -> None:
    client, connection = control.logged_in(ALICE, time.monotonic_ns() + HOUR_NS)
    with client:
        client.socket.sendall(with_length(SASL_AUTHENTICATE) + produce_frame(batch()))
        punt = control.punt()
        control.plane.close_after(connection, punt.slot)
        control.reply(punt, b"no")
        assert client.receive() == b"no"
        assert ends(client)
    assert control.logs[0].log_end_offset == 0


def test_a_fetch_that_waits_is_answered_after_the_end_of_its_login(control: SmallControl) -> None:
    client, connection = control.logged_in(ALICE, time.monotonic_ns() + HOUR_NS)
    with client:
        client.send_fetch(0, wait_ms=1000)
        control.until(lambda: control.plane.counters()["fetch_partitions"] == 1)
        control.plane.log_in(connection, ALICE, time.monotonic_ns())  # one that is over
        assert client.receive()
        client.send_fetch(0)
        assert ends(client)


def test_the_end_after_an_answer_comes_after_those_before_it(control: SmallControl) -> None:
    client, connection = control.logged_in(ALICE)
    with client:
        client.send(API_VERSIONS)
        client.send(API_VERSIONS)
        first, second = control.punt(), control.punt()
        control.plane.close_after(connection, second.slot)
        control.reply(second, b"two")
        control.reply(first, b"one")
        assert [client.receive(), client.receive()] == [b"one", b"two"]
        assert ends(client)
