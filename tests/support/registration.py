"""A broker that registers in ZooKeeper, and who looks at both."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError

from appliance.zookeeper.server import ZooKeeperServer
from tests.support.serving import Serving
from tests.support.warm_serving import WarmServing
from tests.support.zookeeper import DEADLINE_S

SHORT_MS, LONG_MS = 1000, 10_000


def all_below(client: KazooClient, path: str) -> tuple[list[bytes], list[str]]:
    """What can be read, and where it is refused."""
    try:
        data, _ = client.get(path)
        below = [all_below(client, f"{path}/{each}") for each in client.get_children(path)]
    except NoAuthError:
        return [], [path]
    except NoNodeError:
        return [], []
    return ([data or b"", *(one for each in below for one in each[0])],
            [one for each in below for one in each[1]])  # fmt: skip


class Looker:
    """ZooKeeper below one path, as anybody sees it."""

    def __init__(self, server: ZooKeeperServer, root: str, **login: Any) -> None:
        self.server, self.root = server, root
        self.client = KazooClient(
            str(server.address),
            timeout=LONG_MS / 1000,
            connection_retry={"max_tries": -1, "max_delay": 0.2},
            **login,
        )

    def __enter__(self) -> Looker:
        self.client.start(DEADLINE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop()
        self.client.close()

    @property
    def settings(self) -> dict[str, str]:
        return {
            "zookeeper.format": "original",
            "zookeeper.connect": f"{self.server.address}{self.root}",
            "zookeeper.session.timeout.ms": str(LONG_MS),
            "zookeeper.connection.timeout.ms": "10000",  # of a machine that does much else
        }

    def data(self, path: str) -> str | None:
        try:
            data, _ = self.client.retry(self.client.get, self.root + path)
        except NoNodeError:
            return None
        assert data is not None
        return str(data, "utf-8")

    def owner(self, path: str) -> int:
        """The session of an ephemeral node, 0 of one that stays."""
        stat = self.client.exists(self.root + path)
        assert stat is not None, path
        owner: int = stat.ephemeralOwner
        return owner

    def names(self, path: str) -> list[str]:
        try:
            return sorted(self.client.retry(self.client.get_children, self.root + path))
        except NoNodeError:
            return []

    def topics(self) -> dict[str, str | None]:
        """Partitions by topic, as broker 1 tells them."""
        names = self.names("/brokers/topics")
        return {name: self.data(f"/brokers/topics/{name}/1") for name in names}


class Admin:
    def __init__(self, bootstrap: str) -> None:
        self.client = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, name: str, partitions: int) -> None:
        self._done(self.client.create_topics([NewTopic(name, partitions)]))

    def extend(self, name: str, partitions: int) -> None:
        self._done(self.client.create_partitions([NewPartitions(name, partitions)]))

    def delete(self, name: str) -> None:
        self._done(self.client.delete_topics([name]))

    def _done(self, answers: dict[str, Any]) -> None:
        for answer in answers.values():
            answer.result(DEADLINE_S)


def health(admin: str) -> dict[str, Any]:
    url = f"http://{admin}/healthz"
    try:
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            code, body = answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            code, body = error.code, json.load(error)
    assert (code == 200) == (body["status"] in ("ok", "degraded"))
    return dict(body)


@contextmanager
def serving(folder: Path, settings: dict[str, str]) -> Iterator[Serving]:
    broker = WarmServing(folder, **settings)
    try:
        yield broker
    finally:
        broker.stop(signal.SIGKILL)


def bootstrap(broker: Serving) -> str:
    return "{}:{}".format(*broker.kafka)
