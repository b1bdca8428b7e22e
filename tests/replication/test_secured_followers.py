"""Followers that come by TLS, and log in: what holds, and what is said where something is wrong."""

from __future__ import annotations

import shutil
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.config import ReplicationConfig, TlsConfig
from appliance.network.listener_tls import ListenerTls, TlsToBrokers
from appliance.replication._replica_fetcher import Fetcher
from appliance.replication.inter_broker_login import InterBrokerLogin
from appliance.testing import Login, RunningBroker, running_broker
from loadtest.ports import lasting_port
from tests.support.certificates import Authority
from tests.support.logs import batch, one_log, until
from tests.support.replica_site import ReplicaNode, on_disk, wait_until_equal
from tests.support.wire_client import TOPIC_ID

PASSWORD = "correct horse battery"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def leader(tmp_path: Path, authority: Authority) -> Iterator[ReplicaNode]:
    """Wants a certificate of its authority."""
    config = TlsConfig(
        keystore=authority.keystore(), truststore=authority.trust, client_auth="required"
    )
    made = ReplicaNode(
        tmp_path / "1", 1, port=lasting_port(),
        listens_with=ListenerTls("SSL", config, is_login=False).context,
    )  # fmt: skip
    made.lead(1, [2])
    yield made
    made.stop()


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[ReplicaNode]:
    made = ReplicaNode(tmp_path / "2", 2)
    yield made
    made.stop()


def tls_of(authority: Authority, own: Authority | None = None) -> TlsToBrokers:
    store = (own or authority).keystore(file="follower.pem")
    config = TlsConfig(keystore=store, truststore=authority.trust)
    return TlsToBrokers("SSL", config, is_login=False)


def failure_of(follower: ReplicaNode, leader: ReplicaNode) -> str:
    fetcher = follower.fetchers[leader.node]
    return until(lambda: fetcher.failure)


def test_followers_by_tls_get_everything(
    leader: ReplicaNode, follower: ReplicaNode, authority: Authority
) -> None:
    """Also what does not fit into a record, or into what the socket takes at once."""
    follower.security = {"tls": tls_of(authority).context}
    on_disk(leader.log, *[batch("x" * 900_000) for _ in range(5)])
    follower.follow(1, leader)
    wait_until_equal(leader, follower)
    on_disk(leader.log, batch("b"))
    wait_until_equal(leader, follower)


def test_a_leader_of_another_authority_is_not_followed(
    leader: ReplicaNode, follower: ReplicaNode, authority: Authority, tmp_path: Path
) -> None:
    """And is tried again ever more slowly."""
    others = Authority(tmp_path / "others", "Others")
    follower.security = {"tls": tls_of(others, own=authority).context}
    follower.follow(1, leader)
    assert "certificate verify failed: self-signed certificate" in failure_of(follower, leader)
    begun, before = time.monotonic(), follower.fetchers[1].counters()["connects"]
    time.sleep(0.5)
    more = follower.fetchers[1].counters()["connects"] - before
    assert more <= 1 + time.monotonic() - begun, "a second and longer is between two"
    assert follower.log.log_end_offset == 0


@pytest.mark.release("it waits for what does not happen")
def test_a_leader_that_refuses_is_tried_again_up_to_ten_seconds_later(
    leader: ReplicaNode, follower: ReplicaNode, authority: Authority, tmp_path: Path
) -> None:
    others = Authority(tmp_path / "others", "Others")
    follower.security = {"tls": tls_of(others, own=authority).context}
    follower.follow(1, leader)
    failure_of(follower, leader)
    time.sleep(6)  # after one second, then two, then four
    assert follower.fetchers[1].counters()["connects"] <= 3


def test_the_leaders_certificate_is_for_its_host(
    leader: ReplicaNode, follower: ReplicaNode, authority: Authority
) -> None:
    config = TlsConfig(
        keystore=authority.keystore("elsewhere.example"), truststore=authority.trust
    )
    tls = ListenerTls("SSL", config, is_login=False)
    leader.data_plane.stop(1000)
    leader.listens_with = tls.context
    leader.serve()
    follower.security = {"tls": tls_of(authority).context}
    follower.follow(1, leader)
    assert "IP address mismatch" in failure_of(follower, leader)


def test_a_follower_without_a_good_certificate_is_told(
    leader: ReplicaNode, follower: ReplicaNode, authority: Authority, tmp_path: Path
) -> None:
    follower.security = {"tls": tls_of(authority, own=Authority(tmp_path / "others")).context}
    follower.follow(1, leader)
    assert "TLS with the leader came to nothing: " in failure_of(follower, leader)
    assert follower.log.log_end_offset == 0


def test_new_certificates_are_taken_while_it_runs(
    leader: ReplicaNode, follower: ReplicaNode, authority: Authority, tmp_path: Path
) -> None:
    others = Authority(tmp_path / "others")
    tls = tls_of(authority, own=others)
    follower.security = {"tls": tls.context}
    follower.follow(1, leader)
    failure_of(follower, leader)
    shutil.copy(authority.keystore(file="good.pem"), others.folder / "follower.pem")
    assert tls.reload() == 1
    on_disk(leader.log, batch("a"))
    wait_until_equal(leader, follower)


def test_a_leader_that_is_killed_is_connected_to_at_once(
    leader: ReplicaNode, follower: ReplicaNode, authority: Authority
) -> None:
    """It has refused nobody."""
    follower.security = {"tls": tls_of(authority).context}
    follower.follow(1, leader)
    fetcher = follower.fetchers[1]
    until(lambda: fetcher.is_connected)
    leader.data_plane.stop(0)
    failure = until(lambda: fetcher.failure)
    assert "TLS" not in failure
    leader.serve(fetcher.port)
    on_disk(leader.log, batch("a"))
    wait_until_equal(leader, follower)


# Logins


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("broker")
    settings = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
        "connection.failed.authentication.delay.ms": "1",
    }
    logins = [Login("broker", PASSWORD)]
    with running_broker(folder / "data", settings, logins=logins, tls=True) as running:
        yield running


@pytest.fixture
def fetch_from(broker: RunningBroker, tmp_path: Path) -> Iterator[Any]:
    made: list[Fetcher] = []
    config = TlsConfig(keystore=Authority(tmp_path).keystore(), truststore=Path(broker.ca_file))
    tls = TlsToBrokers("SASL_SSL", config, is_login=False)
    host, port = broker.bootstrap.split(":")
    with one_log(tmp_path / "log") as log:
        log.follow(1, 1)

        def fetch(**given: Any) -> Fetcher:
            replication = login_config(tmp_path, **given)
            made.append(Fetcher(1, host, int(port), 2, 1, replication, tls.context,
                                InterBrokerLogin(replication)))  # fmt: skip
            made[-1].add(TOPIC_ID.bytes, "t", 0, log)
            made[-1].start()
            return made[-1]

        yield fetch
        for each in made:
            assert each.stop(5000)


def login_config(
    folder: Path, user: str = "broker", password: str = PASSWORD, **given: Any
) -> ReplicationConfig:
    file = folder / "password"
    file.touch(0o600)
    file.write_text(f"{password}\n")
    return ReplicationConfig(user=user, password_file=file, fetch_backoff_ms=100, **given)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
def test_a_follower_logs_in(fetch_from: Any, mechanism: str) -> None:
    fetcher = fetch_from(mechanism=mechanism)
    (state,) = until(lambda: [each for each in fetcher.states() if each.error])
    assert state.reason == "UNKNOWN_TOPIC_ID"  # that broker has no topics: it was asked, then
    assert fetcher.is_connected


def test_a_wrong_password_is_said_and_not_tried_all_the_time(fetch_from: Any) -> None:
    fetcher = fetch_from(password="something else")
    failure = until(lambda: fetcher.failure)
    assert "user 'broker' by SCRAM-SHA-512: Authentication failed" in failure
    assert "something else" not in failure
    begun, before = time.monotonic(), fetcher.counters()["connects"]
    time.sleep(0.5)
    more = fetcher.counters()["connects"] - before
    assert more <= 1 + time.monotonic() - begun, "a second and longer is between two"


def test_a_password_that_others_can_read_is_not_used(fetch_from: Any, tmp_path: Path) -> None:
    login_config(tmp_path).password_file.chmod(0o644)
    fetcher = fetch_from()
    assert "has mode 0644" in until(lambda: fetcher.failure)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (struct.pack(">i", 1 << 30), "what came is no answer"),
        (struct.pack(">i", -1), "what came is no answer"),
        (struct.pack(">i", 4) + bytes(4), "the login at the leader failed"),
        (b"", "the leader closed the connection"),
    ],
)
def test_what_is_no_answer_to_a_login(tmp_path: Path, answer: bytes, why: str) -> None:
    """Nothing is kept of one that claims to be large."""
    replication = login_config(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server, one_log(tmp_path / "log") as log:
        log.follow(1, 1)
        fetcher = Fetcher(1, *server.getsockname(), 2, 1, replication, None,
                          InterBrokerLogin(replication))  # fmt: skip
        fetcher.add(TOPIC_ID.bytes, "t", 0, log)
        fetcher.start()
        server.settimeout(30)
        with server.accept()[0] as connection:
            connection.recv(1000)
            connection.sendall(answer)
        assert why in until(lambda: fetcher.failure)
        assert fetcher.stop(5000)
