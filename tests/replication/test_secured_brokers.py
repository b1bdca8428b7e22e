"""Three brokers that know each other by certificates and a login, and one that does not."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from appliance.cli.moves.registered import Way, registered
from appliance.config import Ensemble
from appliance.embedded import Login, make_users
from appliance.testing import RunningBroker
from appliance.zookeeper.server import ZooKeeperServer
from tests.support.certificates import Authority
from tests.support.logs import until
from tests.support.people import logged_in
from tests.support.rest import Rest
from tests.support.three_brokers import Brokers, brokers

PASSWORD = "correct horse battery"
WAIT_S = 30.0


class Secured:
    """Clients come by PLAINTEXT on loopback, and brokers to each other by INTERNAL."""

    def __init__(self, cluster: Brokers, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.authority = Authority(folder / "authority")
        self.password = folder / "password"
        self.people: dict[str, Rest] = {}
        self.password.touch(0o600)
        self.password.write_text(PASSWORD)

    def start(self, *nodes: int, **given: object) -> None:
        for node in nodes:
            with suppress(FileExistsError):
                logins = [Login("broker", PASSWORD, "none"), Login("ada", PASSWORD)]
                make_users(self.folder / str(node) / "data", logins)
        self.cluster.start(*nodes, **{**self.settings, **given})

    @property
    def settings(self) -> dict[str, Any]:
        store = self.authority.keystore()
        return {
            "more_listeners": ",INTERNAL://127.0.0.1:0",
            "listener.security.protocol.map": "INTERNAL:SASL_SSL",
            "inter.broker.listener.name": "INTERNAL",
            "inter.broker.user": "broker",
            "inter.broker.password.file": self.password,
            "super.users": "User:broker;User:ANONYMOUS",
            "ssl.keystore.location": store,
            "ssl.truststore.location": self.authority.trust,
            "listener.name.internal.ssl.client.auth": "required",
            "replica.fetch.backoff.ms": 200,
            "zookeeper.secrets.unprotected": "true",
        }

    def told(self, node: int) -> str:
        """What health says of the leaders that it follows, to who has logged in."""
        broker = self.cluster.running[node]
        if broker.admin not in self.people:
            self.people[broker.admin] = logged_in(cast(RunningBroker, broker), "ada")
        found = self.people[broker.admin].raw("GET", "/healthz").body
        assert "data_dir" in found
        return str(found["reasons"])

    def until_told(self, node: int, words: str) -> None:
        until(lambda: words in self.told(node), WAIT_S)

    def reasons(self, node: int) -> tuple[str, ...]:
        """What `appliance cluster status` says of it."""
        place = Ensemble.parse(self.cluster.zookeeper)
        return registered(place, Way("PLAINTEXT"))[0][node].reasons

    def isr_is(self, *nodes: int, partition: int = 0) -> None:
        self.cluster.until("t", lambda each: sorted(each.isrs) == [*nodes], partition)

    def led_by(self, node: int) -> int:
        """A partition, of as many as there are brokers."""
        return next(it for it in range(3) if self.cluster.partition("t", it).leader == node)


@pytest.fixture
def three(
    server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Secured]:
    root = "/tests/" + re.sub(r"\W", "-", request.node.name)
    with brokers(server, root, tmp_path) as found:
        yield Secured(found, tmp_path)


@pytest.mark.release("three brokers; tests/replication/test_secured_followers.py has two")
def test_brokers_follow_each_other_by_tls_and_login(three: Secured) -> None:
    three.start(1, 2, 3)
    cluster = three.cluster
    cluster.create("t", min_insync_replicas="2")
    three.isr_is(1, 2, 3)
    cluster.produce("t", ["a", "b"])
    first = cluster.partition("t").leader
    cluster.stop(first, signal.SIGKILL)
    cluster.until("t", lambda each: each.leader not in (-1, first))
    cluster.produce("t", ["c"])
    three.start(first)
    three.isr_is(1, 2, 3)
    assert cluster.consume("t", 3) == ["a", "b", "c"]
    assert all("cannot be followed" not in three.told(node) for node in (1, 2, 3))


def wrong_password(three: Secured) -> tuple[dict[str, object], Callable[[], None]]:
    other = three.folder / "other password"
    other.touch(0o600)
    other.write_text("something else")
    return {"inter.broker.password.file": other}, lambda: void(other.write_text(PASSWORD))


def wrong_authority(three: Secured) -> tuple[dict[str, object], Callable[[], None]]:
    trust = three.folder / "trust.pem"
    shutil.copy(Authority(three.folder / "others", "Others").trust, trust)
    return {"ssl.truststore.location": trust}, lambda: void(
        shutil.copy(three.authority.trust, trust))


def void(_: object) -> None:
    pass


@pytest.mark.release("three brokers; tests/replication/test_secured_followers.py has two")
@pytest.mark.parametrize(
    ("mistake", "words"),
    [(wrong_password, "Authentication failed"), (wrong_authority, "certificate verify failed")],
)
def test_a_broker_that_is_refused_says_so_and_comes_when_that_is_mended(
    three: Secured, mistake: Any, words: str
) -> None:
    given, mend = mistake(three)
    three.start(1, 2)
    three.start(3, **given)
    three.cluster.create("t", partitions=3, min_insync_replicas="2")
    three.until_told(3, words)
    until(lambda: any(words in why for why in three.reasons(3)), WAIT_S)
    partition = three.led_by(1)
    three.isr_is(1, 2, partition=partition)
    assert PASSWORD not in three.told(3)
    mend()
    # After five wrong passwords one is looked at in a minute.
    until(lambda: len(three.cluster.partition("t", partition).isrs) == 3, 100.0)
    until(lambda: words not in three.told(3), WAIT_S)
    until(lambda: three.reasons(3) == (), WAIT_S)


@pytest.mark.release("three brokers; tests/replication/test_secured_followers.py has two")
def test_who_has_no_right_to_it_does_not_follow(three: Secured) -> None:
    three.start(1, 2, 3, **{"super.users": "User:ANONYMOUS"})
    three.cluster.create("t", min_insync_replicas="1")
    node = next(each for each in (1, 2, 3) if each != three.cluster.partition("t").leader)
    three.until_told(node, "has no right to ClusterAction")
    rule = AclBinding(
        ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "User:broker", "*",
        AclOperation.CLUSTER_ACTION, AclPermissionType.ALLOW,
    )  # fmt: skip
    admin = AdminClient({"bootstrap.servers": three.cluster.address(1)})
    for done in admin.create_acls([rule]).values():
        done.result(WAIT_S)
    three.isr_is(1, 2, 3)
