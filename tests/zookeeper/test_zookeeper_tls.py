"""Registration over TLS in a real ZooKeeper that wants our certificate, and what keeps us away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.config import SettingInvalid, load
from appliance.testing import running_broker
from appliance.zookeeper.server import ZooKeeperServer
from appliance.zookeeper.tls import tls_of, trouble_with
from loadtest.ports import lasting_port
from tests.support.certificates import Authority
from tests.support.embedded_cluster import embedded_cluster, eventually
from tests.support.registration import Looker, all_below
from tests.support.zookeeper import serving_zookeeper_in

SECURE = "secureClientPort"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secure(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[ZooKeeperServer]:
    more = {
        SECURE: lasting_port(),
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": authority.keystore(file="zookeeper.pem"),
        "ssl.trustStore.location": authority.trust,
        "ssl.clientAuth": "need",
    }
    with serving_zookeeper_in(tmp_path_factory.mktemp("zookeeper"), more) as server:
        yield server


def settings(secure: ZooKeeperServer, authority: Authority, **more: object) -> dict[str, str]:
    given = {
        "connect": f"127.0.0.1:{secure.more[SECURE]}/tls",
        "format": "original",
        "ssl.client.enable": "true",
        "ssl.truststore.location": authority.trust,
        "ssl.keystore.location": authority.keystore("broker", file="client.pem"),
        **more,
    }
    return {f"zookeeper.{name}": str(value) for name, value in given.items()}


def test_a_broker_registers_over_tls(
    secure: ZooKeeperServer, authority: Authority, tmp_path: Path
) -> None:
    given = settings(secure, authority, **{"connection.timeout.ms": 20_000})
    with running_broker(tmp_path, given) as broker, Looker(secure, "/tls") as looker:
        assert looker.data("/brokers/ids/1") == broker.bootstrap


def test_what_keeps_a_broker_away_is_told(
    secure: ZooKeeperServer, authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other")
    wrong = settings(secure, authority, **{"ssl.truststore.location": other.trust})
    zookeeper = load(pairs=[f"{name}={value}" for name, value in wrong.items()]).zookeeper
    assert "an authority that is not trusted here" in trouble_with(zookeeper)
    plain = settings(secure, authority, connect=f"{secure.address}/tls")
    zookeeper = load(pairs=[f"{name}={value}" for name, value in plain.items()]).zookeeper
    assert trouble_with(zookeeper) != ""
    good = settings(secure, authority)
    zookeeper = load(pairs=[f"{name}={value}" for name, value in good.items()]).zookeeper
    assert trouble_with(zookeeper) == ""


@pytest.mark.parametrize("name", ["truststore", "keystore"])
def test_a_file_that_cannot_be_used_is_told_at_the_start(name: str, tmp_path: Path) -> None:
    for data, why in ((None, "No such file"), (b"noise", "wanted it in PEM")):
        file = tmp_path / "file.pem"
        if data is not None:
            file.write_bytes(data)
        pairs = [f"zookeeper.ssl.{name}.location={file}", "zookeeper.ssl.client.enable=true"]
        with pytest.raises(SettingInvalid, match=rf"zookeeper\.ssl\.{name}\.location: .*{why}"):
            tls_of(load(pairs=pairs).zookeeper)


def test_with_a_login_by_certificate_secrets_are_the_brokers(
    secure: ZooKeeperServer, authority: Authority, tmp_path: Path
) -> None:
    """Of all whose certificates have the same subject."""
    root = "/secrets"
    more = {
        "connect": f"127.0.0.1:{secure.more[SECURE]}{root}", "format": "cluster",
        "auth.mechanism": "certificate", "connection.timeout.ms": 20_000,
    }  # fmt: skip
    with embedded_cluster(secure, root, tmp_path / "cluster") as cluster:
        cluster.logs_in = False
        for node in (1, 2):
            store = authority.keystore("broker", file=f"{node}.pem")
            cluster.start(
                node, **settings(secure, authority, **more, **{"ssl.keystore.location": store})
            )
        cluster.make_user(1, "ann", "ann's password")
        eventually(lambda: cluster.iterations(2, "ann") == [4096])
        assert cluster.may_log_in(2, "ann", "ann's password")
        with Looker(secure, root) as looker:
            readable, refused = all_below(looker.client, root)
            assert {path.rpartition("/")[2] for path in refused} >= {"users", "secrets"}
            assert not any(b"stored_key" in each for each in readable)
            acl, _ = looker.client.get_acls(f"{root}/appliance/facts")
            assert ("x509", "CN=broker", 31) in [(it.id.scheme, it.id.id, it.perms) for it in acl]
