"""All brokers of one path in a ZooKeeper, and their topics, as anybody may read them. Both forms of
nodes are read (`nodes.py`). Calls wait for ZooKeeper."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from appliance.config import Ensemble
from appliance.zookeeper.cluster_health import ClusterUnread, RegisteredBroker
from appliance.zookeeper.nodes import IDS, TOPICS, address_in, from_json
from appliance.zookeeper.questions import answers

BROKERS_MAX, TOPICS_MAX = 1000, 10_000  # that are read
AT_ONCE = 100  # topics: anybody may have written a megabyte into the node of each


def brokers_of(ensemble: Ensemble, timeout_s: float) -> list[RegisteredBroker]:
    """By a session of its own."""
    with connected(ensemble, timeout_s) as client:
        return brokers_in(client, ensemble.root, timeout_s)


def brokers_in(client: KazooClient, root: str, timeout_s: float) -> list[RegisteredBroker]:
    with explained(str(root or "/")):
        tree = ReadTree(client, root, timeout_s)
        names = sorted(filter(is_number, tree.children_of(IDS)), key=int)[:BROKERS_MAX]
        nodes = tree.contents(f"{IDS}/{each}" for each in names)
        found = {int(each): address_in(nodes.get(f"{IDS}/{each}", b"")) for each in names}
        topics: dict[int, dict[str, int]] = {each: {} for each in found}
        for topic, partitions in tree.partitions():
            for broker, count in partitions.items():
                if broker in topics:
                    topics[broker][topic] = count
    return [RegisteredBroker(each, found[each], topics[each]) for each in found]


@contextmanager
def connected(ensemble: Ensemble, timeout_s: float) -> Iterator[KazooClient]:
    servers = ",".join(map(str, ensemble.servers))
    quiet = logging.getLogger("appliance.zookeeper.cluster")  # the error that is raised says all
    quiet.setLevel(logging.CRITICAL)
    client = KazooClient(servers, timeout=timeout_s, logger=quiet)
    try:
        with explained(servers):
            client.start(timeout_s)
        yield client
    finally:
        client.stop()
        client.close()


@contextmanager
def explained(where: str) -> Iterator[None]:
    try:
        yield
    except (KazooException, KazooTimeoutError) as error:
        raise ClusterUnread(f"ZooKeeper {where}: {error!r}") from error


@dataclass(frozen=True)
class ReadTree:
    client: KazooClient
    root: str
    timeout_s: float

    def partitions(self) -> Iterator[tuple[str, dict[int, int]]]:
        """Of each topic, by broker."""
        names = sorted(self.children_of(TOPICS))[:TOPICS_MAX]
        for first in range(0, len(names), AT_ONCE):
            yield from self._of(names[first:][:AT_ONCE])

    def _of(self, names: Sequence[str]) -> Iterator[tuple[str, dict[int, int]]]:
        nodes = self.contents(f"{TOPICS}/{each}" for each in names)
        as_json = {each: in_json(nodes.get(f"{TOPICS}/{each}", b"")) for each in names}
        others = self._counts(each for each in names if as_json[each] is None)
        for each in names:
            yield each, as_json[each] or others.get(each, {})

    def _counts(self, names: Iterable[str]) -> dict[str, dict[int, int]]:
        """In the original form: /brokers/topics/[topic]/[broker] has a number."""
        below = self._children(f"{TOPICS}/{each}" for each in names)
        nodes = self.contents(
            f"{path}/{each}" for path, found in below.items() for each in found if is_number(each)
        )
        counts: dict[str, dict[int, int]] = {}
        for path, data in nodes.items():
            if data.isdigit() and len(data) < 10:
                topic, broker = path.removeprefix(f"{TOPICS}/").split("/")
                counts.setdefault(topic, {})[int(broker)] = int(data)
        return counts

    def children_of(self, path: str) -> list[str]:
        return self._children([path]).get(path, [])

    def _children(self, paths: Iterable[str]) -> dict[str, list[str]]:
        return dict(self._answers(self.client.get_children_async, paths))

    def contents(self, paths: Iterable[str]) -> dict[str, bytes]:
        found = self._answers(self.client.get_async, paths)
        return {path: data or b"" for path, (data, _) in found}

    def _answers(self, question: Any, paths: Iterable[str]) -> Iterator[tuple[str, Any]]:
        return answers(question, self.root, paths, self.timeout_s)


def in_json(data: bytes) -> dict[int, int] | None:
    """None: it has the original form."""
    fields = from_json(data)
    if not isinstance(fields, dict) or not isinstance(fields.get("partitions"), dict):
        return None
    brokers = fields["partitions"].values()
    leaders = [each[0] for each in brokers if isinstance(each, list) and each]
    return Counter(each for each in leaders if isinstance(each, int))


def is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) < 11
