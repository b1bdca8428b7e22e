"""Clients that say who they are by a certificate."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from appliance.protocol.messages.api_versions import ApiVersionsRequest
from appliance.record._batch_builder import batch
from appliance.testing import RunningBroker, running_broker
from tests.support.certificates import Authority, Certificate, openssl
from tests.support.tls_client import VERSIONS, TlsClient, ssl_settings, trusting
from tests.support.wire_client import frame_of, with_length

DENIED = 29  # TOPIC_AUTHORIZATION_FAILED
ONE = bytes(batch([(0, None, b"x")]))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def ann(authority: Authority) -> Certificate:
    return authority.issue("ann", hosts=(), subject="/O=Box/OU=sales/CN=Ann")


@pytest.fixture(scope="module")
def broker(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    settings = ssl_settings(
        authority, ssl_client_auth="required", ssl_truststore_location=str(authority.trust),
        ssl_principal_mapping_rules="RULE:^CN=(.*),OU=sales,O=Box$/$1/L",
        super_users="User:ann",
    )  # fmt: skip
    with running_broker(tmp_path_factory.mktemp("broker") / "data", settings) as made:
        yield made


@pytest.mark.parametrize("version", VERSIONS)
def test_the_certificate_says_who_it_is(
    broker: RunningBroker, authority: Authority, ann: Certificate, version: str
) -> None:
    """Before the control plane has said it, nothing that the client sent is read."""
    topic = version.replace(" ", "-")
    with TlsClient(broker.bootstrap, trusting(authority.trust, version, ann)) as client:
        client.create_topic(topic)
        (part,) = client.produce(ONE, topic=topic, acks=-1)
        assert part.error_code == 0
        assert len(client.fetch_one(0, topic=topic).records) == len(ONE)


@pytest.mark.parametrize("version", VERSIONS)
def test_it_is_the_same_in_a_session_that_is_resumed(
    broker: RunningBroker, authority: Authority, ann: Certificate, version: str
) -> None:
    context, topic = trusting(authority.trust, version, ann), version.replace(" ", "-resumed-")
    with TlsClient(broker.bootstrap, context) as client:
        client.create_topic(topic)
        session = client.tls.session
    with TlsClient(broker.bootstrap, context, session) as client:
        (part,) = client.produce(ONE, topic=topic, acks=-1)
        assert (part.error_code, client.tls.session_reused) == (0, True)


def test_a_request_that_comes_with_the_end_of_the_handshake_is_answered(
    broker: RunningBroker, authority: Authority, ann: Certificate
) -> None:
    """In one packet: OpenSSL has read it before anybody knows whose it is."""
    arrived, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = trusting(authority.trust, "TLS 1.3", ann)
    tls = context.wrap_bio(arrived, leaving, server_hostname="localhost")
    host, _, port = broker.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), 20) as plain:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(leaving.read())
                arrived.write(plain.recv(1 << 16))
        tls.write(with_length(frame_of(ApiVersionsRequest(), 18, 0)))
        plain.sendall(leaving.read())
        answer = b""
        while not answer:
            arrived.write(plain.recv(1 << 16))
            with suppress(ssl.SSLWantReadError):  # only tickets so far
                answer = tls.read(1 << 16)
    assert len(answer) > 4


def test_without_a_certificate_nobody_gets_in(broker: RunningBroker, authority: Authority) -> None:
    with pytest.raises(ssl.SSLError, match=r"CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE"):
        ends(broker, trusting(authority.trust))


def ends(broker: RunningBroker, context: ssl.SSLContext) -> None:
    """TLS 1.3 clients hear of a refusal when they read."""
    with TlsClient(broker.bootstrap, context) as client:
        client.create_topic("nothing")


def test_a_stranger_s_certificate_is_refused(
    broker: RunningBroker, authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "another").issue("ann", hosts=())
    with pytest.raises(ssl.SSLError, match="UNKNOWN_CA"):
        ends(broker, trusting(authority.trust, client=other))


def test_a_certificate_that_has_ended_is_refused(
    broker: RunningBroker, authority: Authority, tmp_path: Path
) -> None:
    key, request, made = (tmp_path / each for each in ("old.key", "old.csr", "old.pem"))
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", str(key), "-out", str(request), "-subj", "/O=Box/OU=sales/CN=Ann")
    openssl("x509", "-req", "-in", str(request), "-CA", str(authority.trust), "-CAkey",
            str(authority.folder / "ca.key"), "-CAcreateserial", "-days", "-1", "-out", str(made))
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_EXPIRED"):
        ends(broker, trusting(authority.trust, client=Certificate(made, key, made)))


def test_one_that_no_rule_fits_is_refused(broker: RunningBroker, authority: Authority) -> None:
    bob = authority.issue("bob", hosts=(), subject="/O=Other/CN=bob")
    with pytest.raises((EOFError, ConnectionError, ssl.SSLError)):
        ends(broker, trusting(authority.trust, client=bob))


def test_an_oversized_certificate_is_refused(broker: RunningBroker, authority: Authority) -> None:
    big = authority.issue("big", hosts=[f"host-{n}.{'x' * 60}.example" for n in range(600)])
    with pytest.raises((ConnectionError, ssl.SSLError)):
        ends(broker, trusting(authority.trust, client=big))


def test_where_it_is_only_requested_others_are_anonymous(
    authority: Authority, ann: Certificate, tmp_path: Path
) -> None:
    settings = ssl_settings(
        authority, ssl_client_auth="requested", ssl_truststore_location=str(authority.trust),
        super_users="User:CN=Ann,OU=sales,O=Box",
    )  # fmt: skip
    with running_broker(tmp_path / "data", settings) as broker:
        with TlsClient(broker.bootstrap, trusting(authority.trust, client=ann)) as client:
            client.create_topic("t")
        with TlsClient(broker.bootstrap, trusting(authority.trust)) as client:
            (part,) = client.produce(ONE)
            assert part.error_code == DENIED
