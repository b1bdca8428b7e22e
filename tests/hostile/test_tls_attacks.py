"""TLS under attack: half handshakes, floods, plain bytes, renegotiation, wrong certificates."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.record._batch_builder import batch
from tests.support.certificates import Authority
from tests.support.serving import Serving
from tests.support.tls_client import TlsClient, trusting

LIMITS = {
    "ssl.max.handshakes.total": "40",
    "ssl.max.handshakes.per.ip": "20",
    "ssl.handshake.timeout.ms": "4000",  # of all that are begun at once, and of whole ones
}
# The beginning of a ClientHello: a record of 512 bytes, of which nothing follows.
HALF_HELLO = bytes.fromhex("160301020001 0001fc0303")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("broker")
    own = {"ssl.keystore.location": authority.issue("server").both}
    made = Serving(folder, protocol="SSL", **own, **LIMITS)
    yield made
    assert made.stop() == 0


def address(broker: Serving) -> str:
    return f"{broker.kafka[0]}:{broker.kafka[1]}"


def plain(broker: Serving, source: str, data: bytes = b"") -> socket.socket:
    made = socket.create_connection(broker.kafka, 20, (source, 0))
    made.sendall(data)
    return made


def ends(made: socket.socket) -> bool:
    """Within the client's patience."""
    try:
        while made.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


def serves(broker: Serving, authority: Authority) -> None:
    with TlsClient(address(broker), trusting(authority.trust)) as client:
        client.create_topic(f"t{time.monotonic_ns()}")


def test_plain_bytes_are_told_of(broker: Serving, authority: Authority) -> None:
    for source, data, told in (
        ("127.0.3.1", bytes.fromhex("0000001a00120003"), "did not begin with it\""),
        ("127.0.3.2", b"GET / HTTP/1.1\r\n\r\n", "did not begin with it; it begins like an HTTP"),
        ("127.0.3.3", b"\x16", ""),
    ):
        with plain(broker, source, data) as made:
            if told:
                assert ends(made)
                broker.wait_for_log(f"connection closed peer={source} why=.*{told}")
    serves(broker, authority)


def test_half_handshakes_have_a_deadline(broker: Serving, authority: Authority) -> None:
    begin = time.monotonic()
    held = [plain(broker, "127.0.3.4", data) for data in (b"", HALF_HELLO[:3], HALF_HELLO)]
    for each in held:
        assert ends(each)
        each.close()
    assert time.monotonic() - begin > 4
    broker.wait_for_log("connection closed peer=127.0.3.4 why=.*not agreed upon within 4000 ms")
    serves(broker, authority)


def test_one_address_has_its_share_of_handshakes(broker: Serving, authority: Authority) -> None:
    held = [plain(broker, "127.0.3.5", HALF_HELLO) for _ in range(20)]
    with plain(broker, "127.0.3.5") as one_more:
        assert ends(one_more)
    broker.wait_for_log("connection closed peer=127.0.3.5 why=.*are 20 handshakes of TLS of this")
    serves(broker, authority)  # another address
    for each in held:
        assert ends(each)  # at their deadline
        each.close()


def test_all_addresses_have_theirs(broker: Serving, authority: Authority) -> None:
    held = [plain(broker, f"127.0.3.{6 + at % 3}", HALF_HELLO) for at in range(40)]
    with plain(broker, "127.0.3.9") as one_more:
        assert ends(one_more)
    broker.wait_for_log("connection closed peer=127.0.3.9 why=.*are 40 handshakes of TLS under way")
    for each in held:
        assert ends(each)
        each.close()
    serves(broker, authority)


def test_a_flood_of_handshakes_leaves_room_for_who_is_there(
    broker: Serving, authority: Authority
) -> None:
    """200 whole handshakes, and a client that was there before gets its answers in between."""
    context, slowest = trusting(authority.trust), 0.0
    with TlsClient(address(broker), context) as client:
        client.create_topic("busy")
        one = bytes(batch([(0, None, b"x")]))
        for at in range(200):
            with TlsClient(address(broker), context):
                if at % 10 == 0:
                    begin = time.monotonic()
                    (part,) = client.produce(one, topic="busy")
                    slowest = max(slowest, time.monotonic() - begin)
                    assert part.error_code == 0
    assert slowest < 5


def test_bytes_that_are_no_tls_any_more_end_the_connection(
    broker: Serving, authority: Authority
) -> None:
    context = trusting(authority.trust)
    with plain(broker, "127.0.3.10") as line:
        secured = context.wrap_socket(line, server_hostname="localhost")
        with socket.socket(fileno=secured.detach()) as raw:
            raw.settimeout(20)
            raw.sendall(bytes.fromhex("1703030020") + bytes(32))  # a record with a wrong tag
            assert ends(raw)
    serves(broker, authority)


def test_a_renegotiation_is_refused(broker: Serving, authority: Authority) -> None:
    done = subprocess.run(
        ["openssl", "s_client", "-connect", address(broker), "-tls1_2", "-CAfile",
         str(authority.trust), "-legacy_renegotiation"],
        input="R\n", capture_output=True, text=True, timeout=60,
    )
    assert "no renegotiation" in done.stderr, done.stderr
    serves(broker, authority)


def test_a_client_that_does_not_trust_us_is_told_of(broker: Serving, tmp_path: Path) -> None:
    other = Authority(tmp_path, "another")
    with pytest.raises(ssl.SSLCertVerificationError):
        TlsClient(address(broker), trusting(other.trust))
    broker.wait_for_log("connection closed peer=127.0.0.1 why=.*TLS was not agreed upon: .*unknown")


def refuses(tls: ssl.SSLObject) -> bool:
    """Once all of the broker's certificate is there."""
    try:
        tls.do_handshake()
    except ssl.SSLCertVerificationError:
        return True
    except ssl.SSLWantReadError:
        return False
    raise AssertionError("the client trusts another authority's broker")


def test_an_alert_before_a_reset_is_told_of(broker: Serving, tmp_path: Path) -> None:
    context = trusting(Authority(tmp_path, "another").trust)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with plain(broker, "127.0.3.20") as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        made.sendall(outgoing.read())
        while not refuses(tls):
            incoming.write(made.recv(1 << 16))
        broker.process.send_signal(signal.SIGSTOP)  # so that it finds both at once
        made.sendall(outgoing.read())
    broker.process.send_signal(signal.SIGCONT)
    broker.wait_for_log("peer=127.0.3.20 why=.*TLS was not agreed upon: .*unknown")


CERTIFICATES = 3


def test_a_certificate_is_swapped_under_load(authority: Authority, tmp_path: Path) -> None:
    """Clients that are there go on, others come all the time, and each sees a certificate whole:
    the old one or the new one, and the new one soon."""
    store = tmp_path / "server.pem"
    shutil.copy(authority.issue("server-0").both, store)
    broker = Serving(tmp_path, protocol="SSL", **{"ssl.keystore.location": store})
    context, is_over = trusting(authority.trust), threading.Event()
    faults, seen, written = list[str](), list[str](), [0]

    def write(client: TlsClient) -> None:
        (part,) = client.produce(bytes(batch([(0, None, b"x" * 5000)])), topic="busy")
        assert part.error_code == 0, part
        written[0] += 1

    def stay() -> None:
        with TlsClient(address(broker), context) as client:
            while not is_over.is_set():
                write(client)

    def come() -> None:
        while not is_over.is_set():
            with TlsClient(address(broker), context) as client:
                seen.append(common_name(client.tls))
                write(client)

    def watched(work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except (OSError, EOFError, AssertionError) as fault:
            faults.append(repr(fault))

    with TlsClient(address(broker), context) as client:
        client.create_topic("busy")
    threads = [threading.Thread(target=watched, args=(each,)) for each in (stay, stay, come, come)]
    for each in threads:
        each.start()
    with contextlib.ExitStack() as after:
        after.callback(lambda: [is_over.set(), *(each.join() for each in threads)])
        for number in range(CERTIFICATES):
            swap(authority.issue(f"server-{number}").both, store)
            end = time.monotonic() + 30
            while not faults and (not seen or seen[-1] != f"server-{number}"):
                assert time.monotonic() < end, f"nobody sees server-{number}"
                time.sleep(0.02)
    print(f"{written[0]} answers, {len(seen)} new connections, {len(set(seen))} certificates")
    assert faults == []
    assert len(set(seen)) == CERTIFICATES
    assert broker.stop() == 0


def swap(new: Path, store: Path) -> None:
    """By a rename, so that nobody finds half a file."""
    beside = store.with_suffix(".new")
    shutil.copy(new, beside)
    os.replace(beside, store)


def common_name(line: ssl.SSLSocket) -> str:
    subject = (line.getpeercert() or {})["subject"]
    return str(dict(row[0] for row in subject)["commonName"])  # type: ignore[index,misc,arg-type]
