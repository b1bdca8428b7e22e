"""All brokers of one path in a ZooKeeper, and their topics, as anybody may read them. Both forms of
nodes are read (`nodes.py`). Calls wait for ZooKeeper."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from appliance.config import Ensemble
from appliance.errors import ApplianceError
from appliance.zookeeper.nodes import IDS, TOPICS, address_in, from_json

TOPICS_MAX = 10_000  # that are read


class ClusterUnread(ApplianceError):
    """The text says why."""


@dataclass(frozen=True)
class RegisteredBroker:
    id: int
    address: str  # of its first listener
    topics: dict[str, int]  # partitions


def brokers_of(ensemble: Ensemble, timeout_s: float) -> list[RegisteredBroker]:
    with connected(ensemble, timeout_s) as client:
        tree = ReadTree(client, ensemble.root)
        found = {each: address_in(tree.content(f"{IDS}/{each}")) for each in tree.brokers()}
        topics: dict[int, dict[str, int]] = {each: {} for each in found}
        for name in sorted(tree.children(TOPICS))[:TOPICS_MAX]:
            for broker, partitions in tree.partitions(name).items():
                if broker in topics:
                    topics[broker][name] = partitions
    return [RegisteredBroker(each, found[each], topics[each]) for each in sorted(found)]


@contextmanager
def connected(ensemble: Ensemble, timeout_s: float) -> Iterator[KazooClient]:
    servers = ",".join(map(str, ensemble.servers))
    quiet = logging.getLogger("appliance.zookeeper.cluster")  # the error that is raised says all
    quiet.setLevel(logging.CRITICAL)
    client = KazooClient(servers, timeout=timeout_s, logger=quiet)
    try:
        client.start(timeout_s)
        yield client
    except (KazooException, KazooTimeoutError) as error:
        raise ClusterUnread(f"ZooKeeper {servers}: {error!r}") from error
    finally:
        client.stop()
        client.close()


@dataclass(frozen=True)
class ReadTree:
    client: KazooClient
    root: str

    def brokers(self) -> list[int]:
        return [int(each) for each in self.children(IDS) if is_number(each)]

    def partitions(self, topic: str) -> dict[int, int]:
        """By broker."""
        path = f"{TOPICS}/{topic}"
        fields = from_json(self.content(path))
        if isinstance(fields, dict) and isinstance(fields.get("partitions"), dict):
            brokers = fields["partitions"].values()
            leaders = [each[0] for each in brokers if isinstance(each, list) and each]
            return Counter(each for each in leaders if isinstance(each, int))
        counts = {each: self.content(f"{path}/{each}") for each in self.children(path)}
        return {
            int(broker): int(data)
            for broker, data in counts.items()
            if is_number(broker) and data.isdigit() and len(data) < 10
        }

    def children(self, path: str) -> list[str]:
        try:
            return list(self.client.get_children(self.root + path))
        except NoNodeError:
            return []

    def content(self, path: str) -> bytes:
        try:
            data, _ = self.client.get(self.root + path)
        except NoNodeError:
            return b""  # it went meanwhile
        return data or b""


def is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) < 11
