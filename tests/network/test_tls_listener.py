"""TLS at Kafka's port: real sockets, Python's client, both versions."""

from __future__ import annotations

import shutil
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.config import load
from appliance.errors import TlsInvalid
from appliance.network.listener_tls import ListenerTls
from appliance.protocol import ErrorCode
from appliance.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from appliance.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from appliance.record._batch_builder import batch
from appliance.testing import RunningBroker, running_broker
from tests.support.certificates import Authority, openssl
from tests.support.tls_client import VERSIONS, TlsClient, ssl_settings, trusting
from tests.support.wire_client import fetch_frame, frame_of, produce_frame

LARGE = 2 << 20
LOGIN_S = 10  # `connection.login.timeout.ms`, after which a connection without a login ends anyway


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    settings = ssl_settings(authority)
    with running_broker(tmp_path_factory.mktemp("broker") / "data", settings) as made:
        yield made


def records(count: int, size: int) -> bytes:
    return bytes(batch([(0, None, bytes(size))] * count))


def filled(client: TlsClient, topic: str, size: int = LARGE) -> bytes:
    """A topic of batches that are 512 KiB; the result: all that is in it."""
    client.create_topic(topic)
    one, count = records(512, 1024), size // (512 * 1024)
    for _ in range(count):
        (part,) = client.produce(one, topic=topic, acks=-1)
        assert part.error_code == 0
    (answer,) = client.fetch(0, topic=topic, partition_max_bytes=2 * size).responses
    return bytes(answer.partitions[0].records)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_produced_is_fetched(
    broker: RunningBroker, authority: Authority, version: str
) -> None:
    topic = version.replace(" ", "-")
    with TlsClient(broker.bootstrap, trusting(authority.trust, version)) as client:
        assert client.tls.version() == version.replace(" ", "v")
        all_bytes = filled(client, topic)
        assert len(all_bytes) > LARGE
        assert client.fetch_one(0, topic=topic, partition_max_bytes=2 * LARGE).records == all_bytes


def test_a_small_answer_comes_alone(broker: RunningBroker, authority: Authority) -> None:
    with TlsClient(broker.bootstrap, trusting(authority.trust)) as client:
        client.create_topic("small")
        (part,) = client.produce(records(1, 10), topic="small", acks=-1)
        assert part.base_offset == 0
        assert len(client.fetch_one(0, topic="small").records) < 200


def test_requests_in_one_record_are_all_answered(
    broker: RunningBroker, authority: Authority
) -> None:
    """OpenSSL holds those behind the first; epoll does not tell of them."""
    with TlsClient(broker.bootstrap, trusting(authority.trust)) as client:
        client.create_topic("many")
        frames = produce_frame(records(1, 10), topic="many") * 60
        client.socket.sendall(frames)
        for _ in range(60):
            client.receive()


def test_more_than_a_read_takes_is_read_on(broker: RunningBroker, authority: Authority) -> None:
    """A request of megabytes, and one behind it that comes with its last bytes."""
    with TlsClient(broker.bootstrap, trusting(authority.trust)) as client:
        client.create_topic("rest")
        large, small = records(3000, 1000), records(1, 10)
        client.socket.sendall(produce_frame(large, topic="rest")
                              + produce_frame(small, topic="rest") * 200)
        for _ in range(201):
            client.receive()


def test_what_is_appended_in_several_turns_is_followed_by_what_came_behind_it(
    broker: RunningBroker, authority: Authority
) -> None:
    with TlsClient(broker.bootstrap, trusting(authority.trust)) as client:
        client.create_topic("turns", 12)
        large = produce_frame(*[records(700, 1000)] * 12, topic="turns", timeout_ms=20_000)
        small = produce_frame(records(1, 10), topic="turns")
        client.socket.sendall((large + small * 50) * 2)
        for offset in (0, 750):
            assert [(part.error_code, part.base_offset) for part in client.produced()] == [
                (0, offset)] + [(0, 700 * (offset > 0))] * 11
            assert [client.produced()[0].base_offset for _ in range(50)] == list(
                range(offset + 700, offset + 750))


def test_bytes_may_come_one_by_one(broker: RunningBroker, authority: Authority) -> None:
    with TlsClient(broker.bootstrap, trusting(authority.trust)) as client:
        client.create_topic("slowly")
        for byte in produce_frame(records(1, 10), topic="slowly"):
            client.socket.sendall(bytes([byte]))
        assert len(client.receive()) > 10


@pytest.mark.parametrize("version", VERSIONS)
def test_a_slow_reader_gets_every_byte(
    broker: RunningBroker, authority: Authority, version: str
) -> None:
    """Writes stop within records and go on: many answers wait, of memory and of files."""
    topic = version.replace(" ", "-slow-")
    with TlsClient(broker.bootstrap, trusting(authority.trust, version)) as client:
        all_bytes = filled(client, topic)
        client.tls.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        small = fetch_frame(0, topic=topic, partition_max_bytes=100)
        large = fetch_frame(0, topic=topic, partition_max_bytes=2 * LARGE)
        client.socket.sendall((small + large) * 2)
        for _ in range(2):
            assert len(slowly(client)) < 600_000  # one batch, as the first always comes
            assert slowly(client).endswith(all_bytes[-1000:] + b"\0\0\0")


def slowly(client: TlsClient) -> bytes:
    size, found = int.from_bytes(client.socket.recv(4), "big"), bytearray()
    while len(found) < size:
        found += client.socket.recv(min(20_000, size - len(found)))
    return bytes(found)


def test_a_session_is_resumed_by_every_thread(
    broker: RunningBroker, authority: Authority
) -> None:
    for version in VERSIONS:
        context = trusting(authority.trust, version)
        with TlsClient(broker.bootstrap, context) as client:
            topic = version.replace(" ", "-resumed-")
            client.create_topic(topic)  # the ticket of TLS 1.3 comes before this answer
            session = client.tls.session
        for _ in range(4):  # there are two threads, and they take turns
            with TlsClient(broker.bootstrap, context, session) as client:
                client.produce(records(1, 10), topic=topic)
                assert client.tls.session_reused
                session = client.tls.session


def test_the_client_is_told_of_the_end(authority: Authority, tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", ssl_settings(authority)) as broker:
        context = trusting(authority.trust)
        client = TlsClient(broker.bootstrap, context)
        client.create_topic("t")
        ended = threading.Thread(target=broker.stop)
        ended.start()
        assert client.tls.recv(1) == b""  # an SSLEOFError without close_notify
        ended.join()
        client.socket.close()


def test_a_failed_login_ends_the_connection_behind_its_answer(
    authority: Authority, tmp_path: Path
) -> None:
    login = {"listeners": "SASL_SSL://127.0.0.1:0", "sasl_enabled_mechanisms": "PLAIN"}
    settings = ssl_settings(authority, **login)
    with running_broker(tmp_path / "data", settings) as broker:
        client = TlsClient(broker.bootstrap, trusting(authority.trust))
        with client:
            client.send(frame_of(SaslHandshakeRequest("PLAIN"), 17, 1))
            assert client.answer(SaslHandshakeResponse, 17, 1).error_code == 0
            client.send(frame_of(SaslAuthenticateRequest(b"\0nobody\0wrong"), 36, 2))
            refused = client.answer(SaslAuthenticateResponse, 36, 2)
            assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            client.socket.settimeout(LOGIN_S / 2)
            with pytest.raises((EOFError, ConnectionError)):
                client.receive()


def test_what_is_old_is_refused(broker: RunningBroker, authority: Authority) -> None:
    context = trusting(authority.trust)
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        TlsClient(broker.bootstrap, context)


def test_weak_ciphers_are_refused(broker: RunningBroker, authority: Authority) -> None:
    context = trusting(authority.trust, "TLS 1.2")
    context.set_ciphers("AES128-SHA:ECDHE-ECDSA-AES128-SHA")
    with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
        TlsClient(broker.bootstrap, context)


def test_one_version_can_be_asked_for(authority: Authority, tmp_path: Path) -> None:
    settings = ssl_settings(authority, ssl_enabled_protocols="TLSv1.3")
    with running_broker(tmp_path / "data", settings) as broker:
        with TlsClient(broker.bootstrap, trusting(authority.trust)) as client:
            assert client.tls.version() == "TLSv1.3"
        with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
            TlsClient(broker.bootstrap, trusting(authority.trust, "TLS 1.2"))


# What the kernel encrypts

TCP_ULP = 31  # of linux/tcp.h
KERNEL_TLS = Path("/proc/net/tls_stat")


def no_kernel_tls() -> str:
    """Why the kernel encrypts nothing; "": it does."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(
        server.getsockname()
    ) as client:  # fmt: skip
        try:
            client.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
        except OSError as error:
            return f"the kernel has no TLS (modprobe tls): setsockopt(TCP_ULP): {error.strerror}"
    return ""


def encrypted_by_the_kernel() -> int:
    """How many connections it was given to encrypt what they send, since its start."""
    rows = dict(line.split() for line in KERNEL_TLS.read_text().splitlines())
    return int(rows["TlsTxSw"]) + int(rows["TlsTxDevice"])


@pytest.mark.alone  # others would count as well
@pytest.mark.skipif(bool(no_kernel_tls()), reason=no_kernel_tls())
@pytest.mark.parametrize("version", VERSIONS)
def test_where_the_kernel_encrypts_it_does_and_every_byte_comes(
    broker: RunningBroker, authority: Authority, version: str
) -> None:
    """By sendfile and sendmsg, to a reader that is slow, too."""
    before, topic = encrypted_by_the_kernel(), version.replace(" ", "-kernel-")
    with TlsClient(broker.bootstrap, trusting(authority.trust, version)) as client:
        all_bytes = filled(client, topic)
        assert encrypted_by_the_kernel() == before + 1
        small = fetch_frame(0, topic=topic, partition_max_bytes=100)
        large = fetch_frame(0, topic=topic, partition_max_bytes=2 * LARGE)
        client.tls.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.socket.sendall((small + large) * 2)
        for _ in range(2):
            assert len(slowly(client)) < 600_000
            assert slowly(client).endswith(all_bytes[-1000:] + b"\0\0\0")
        assert client.fetch_one(0, topic=topic, partition_max_bytes=2 * LARGE).records == all_bytes


# Files

def context_of(**settings: object) -> ListenerTls:
    pairs = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
    return ListenerTls("SSL", load(pairs=pairs).tls, is_login=False)


def test_a_key_may_have_a_password(authority: Authority, tmp_path: Path) -> None:
    made, word = authority.issue("closed", password="wonder"), tmp_path / "word"
    word.write_text("wonder\n")
    files = {"ssl_keystore_location": made.both, "ssl_keystore_password_file": word}
    assert len(context_of(**files).certificates) == 1
    word.write_text("other\n")
    with pytest.raises(TlsInvalid, match=f"ssl.keystore.location: {made.both}: the private key "
                                         "cannot be read, or its password is another"):
        context_of(**files)


def test_a_key_may_be_in_a_file_of_its_own(authority: Authority) -> None:
    made = authority.issue("apart")
    found = context_of(ssl_keystore_location=made.certificate, ssl_key_location=made.key)
    assert found.certificates[0].subject.endswith(b"apart")
    other = authority.issue("another")
    with pytest.raises(TlsInvalid, match="the private key is not that of the first certificate"):
        context_of(ssl_keystore_location=made.certificate, ssl_key_location=other.key)


def test_a_keystore_may_be_pkcs12(authority: Authority, tmp_path: Path) -> None:
    made, store, word = authority.issue("packed"), tmp_path / "store.p12", tmp_path / "word"
    openssl("pkcs12", "-export", "-in", str(made.certificate), "-inkey", str(made.key), "-certfile",
            str(authority.trust), "-out", str(store), "-passout", "pass:wonder")
    word.write_text("wonder")
    files = {"ssl_keystore_location": store, "ssl_keystore_type": "PKCS12",
             "ssl_keystore_password_file": word}
    assert len(context_of(**files).certificates) == 2
    word.write_text("other")
    with pytest.raises(TlsInvalid, match="it cannot be opened, or its password is another"):
        context_of(**files)
    store.write_bytes(b"no PKCS#12")
    with pytest.raises(TlsInvalid, match="it is no PKCS#12 file"):
        context_of(**files)


def test_a_file_without_a_certificate_is_told_of(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    with pytest.raises(TlsInvalid, match=f"{empty}: there is no certificate in it"):
        context_of(ssl_keystore_location=empty)


def test_new_files_are_for_new_connections(authority: Authority, tmp_path: Path) -> None:
    store = tmp_path / "server.pem"
    shutil.copy(authority.issue("before").both, store)
    settings = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(store)}
    with running_broker(tmp_path / "data", settings) as broker:
        context = trusting(authority.trust)
        with TlsClient(broker.bootstrap, context) as old:
            old.create_topic("t")
            assert common_name(old) == "before"
            shutil.copy(authority.issue("after").both, store)
            end = time.monotonic() + 30
            while seen_by_a_new_client(broker, context) != "after":
                assert time.monotonic() < end, "the new certificate is not served"
            (part,) = old.produce(records(1, 10))
            assert part.error_code == 0


def seen_by_a_new_client(broker: RunningBroker, context: ssl.SSLContext) -> str:
    with TlsClient(broker.bootstrap, context) as client:
        return common_name(client)


def common_name(client: TlsClient) -> str:
    certificate = client.tls.getpeercert()
    assert certificate is not None
    subject: Any = certificate["subject"]
    return str(dict(row[0] for row in subject)["commonName"])


def test_a_bad_file_leaves_the_former_in_force(authority: Authority, tmp_path: Path) -> None:
    store = tmp_path / "server.pem"
    shutil.copy(authority.issue("good").both, store)
    found = context_of(ssl_keystore_location=store)
    assert found.reload() == 0
    store.write_text("half of a certificate")
    for _ in range(2):  # it is told of until it is mended
        with pytest.raises(TlsInvalid):
            found.reload()
    assert found.certificates[0].subject.endswith(b"good")
    shutil.copy(authority.issue("better").both, store)
    assert found.reload() == 1
    assert found.certificates[0].subject.endswith(b"better")
