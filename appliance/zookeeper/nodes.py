"""The nodes that a broker writes into ZooKeeper, and their formats.

    original   /brokers/ids/[id]              host:port
               /brokers/topics/[topic]/[id]   number of partitions
    json       /brokers/ids/[id]                                    address, endpoints, timestamp
               /brokers/topics/[topic]                              partition -> its brokers
               /brokers/topics/[topic]/partitions/[number]/state    its leader

A node is ephemeral: it ends with the broker's session. The json form's `[topic]` is not, because
ephemeral nodes have no children. It has space for one broker only.

Calls of `Tree` wait for ZooKeeper and must run on a thread. Anybody can write nodes there, so their
content is checked.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
)
from kazoo.protocol.states import WatchedEvent, ZnodeStat
from kazoo.security import ACL

from appliance.config.listeners import Listeners, Protocols
from appliance.errors import ApplianceError
from appliance.process.event_log import quote

IDS, TOPICS = "/brokers/ids", "/brokers/topics"
OURS = "appliance"  # the field with our cluster id; readers of the later format skip it
SHOWN_MAX = 200  # bytes of a foreign node in a message


class NodeIdTaken(ApplianceError):
    """Another broker is registered under our id."""


class TopicTaken(ApplianceError):
    """The json form has one broker per topic, and another broker has this topic."""


@dataclass(frozen=True)
class Node:
    path: str
    data: bytes
    is_ephemeral: bool = True


class Form(Protocol):
    """A format for the nodes of a broker and its topics."""

    has_persistent: bool  # nodes that outlive the session

    def broker(self, listeners: Listeners, protocols: Protocols) -> Node: ...

    def topic(self, name: str, partitions: int) -> list[Node]: ...

    def is_ours(self, data: bytes) -> bool:
        """Whether this broker may change a topic's persistent node with this data."""
        ...


class Original:
    has_persistent = False

    def __init__(self, node_id: int, cluster_id: str) -> None:
        self.node_id = node_id

    def broker(self, listeners: Listeners, protocols: Protocols) -> Node:
        """The first listener: there is room for one."""
        return Node(f"{IDS}/{self.node_id}", str(listeners.all[0].address).encode())

    def topic(self, name: str, partitions: int) -> list[Node]:
        return [Node(f"{TOPICS}/{name}/{self.node_id}", b"%d" % partitions)]

    def is_ours(self, data: bytes) -> bool:
        return False


class Json:
    """The format of Kafka 0.10 to 3.x, for a cluster whose only broker this is. Persistent nodes
    have our cluster id, so that we never change nodes of others."""

    has_persistent = True

    def __init__(self, node_id: int, cluster_id: str) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.started_ms = time.time_ns() // 1_000_000

    def broker(self, listeners: Listeners, protocols: Protocols) -> Node:
        address = listeners.all[0].address
        fields = {
            "version": 4,
            "host": address.host,
            "port": address.port,
            "endpoints": list(map(str, listeners)),
            "listener_security_protocol_map": {
                each.name: protocols.of(each.name) for each in listeners
            },
            "jmx_port": -1,
            "timestamp": str(self.started_ms),
        }
        return Node(f"{IDS}/{self.node_id}", as_json(fields))

    def topic(self, name: str, partitions: int) -> list[Node]:
        brokers = {str(number): [self.node_id] for number in range(partitions)}
        fields = {"version": 1, "partitions": brokers, OURS: self.cluster_id}
        return [
            Node(f"{TOPICS}/{name}", as_json(fields), is_ephemeral=False),
            *(self._state(f"{TOPICS}/{name}/partitions/{number}/state") for number in brokers),
        ]

    def _state(self, path: str) -> Node:
        fields = {
            "version": 1,
            "controller_epoch": 0,
            "leader": self.node_id,
            "leader_epoch": 0,
            "isr": [self.node_id],
        }
        return Node(path, as_json(fields))

    def is_ours(self, data: bytes) -> bool:
        fields = from_json(data)
        return isinstance(fields, dict) and fields.get(OURS) == self.cluster_id


FORMS: dict[str, Callable[[int, str], Form]] = {"original": Original, "json": Json}


def as_json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def from_json(data: bytes) -> Any:
    """None if it is no address."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def address_in(data: bytes) -> str:
    """The broker's address in its node, in either format; other data as it is."""
    fields = from_json(data[: SHOWN_MAX * 10])
    if isinstance(fields, dict) and {"host", "port"} <= fields.keys():
        return quote(f"{fields['host']}:{fields['port']}"[:SHOWN_MAX])
    return quote(data[:SHOWN_MAX].decode("utf-8", "backslashreplace"))


@dataclass(frozen=True)
class Tree:
    """Our nodes in ZooKeeper, in one session. `sessions` are this one and earlier ones of this
    broker, whose nodes may still exist and are ours."""

    client: KazooClient
    root: str
    acl: tuple[ACL, ...]
    form: Form
    session: int
    sessions: frozenset[int]

    def claim(self, broker: Node, watch: Callable[[WatchedEvent], None]) -> None:
        """Creates the broker's own node, unless another broker has it. `watch` gets its changes."""

        def check(data: bytes, stat: ZnodeStat) -> None:
            if stat.ephemeralOwner not in self.sessions:
                raise NodeIdTaken(
                    f"{self.root}{broker.path} in ZooKeeper is taken by {address_in(data)}, "
                    f"session {stat.ephemeralOwner:#x}. Give one of the two another node.id; if "
                    "that one has died, its node goes at the end of its session"
                )

        while True:
            self.put(broker, check)
            stat = self.client.exists(self.root + broker.path, watch=watch)
            if stat and stat.ephemeralOwner == self.session:
                return

    def put_topics(self, nodes: Iterable[Node]) -> None:
        """Writes all of them, even if some fail."""
        taken: list[TopicTaken] = []
        for node in nodes:
            try:
                self._put_topic(node)
            except TopicTaken as error:
                taken.append(error)
        if taken:
            raise taken[0]

    def _put_topic(self, node: Node) -> None:
        """The owner of the id owns its nodes: those of another session are old."""

        def check(data: bytes, stat: ZnodeStat) -> None:
            if data and not node.is_ephemeral and not self.form.is_ours(data):
                raise TopicTaken(
                    f"{self.root}{node.path} in ZooKeeper is another broker's: {address_in(data)}. "
                    "With zookeeper.format=json each broker needs a path of its own"
                )

        self.put(node, check)

    def put(self, node: Node, check: Callable[[bytes, ZnodeStat], None]) -> None:
        """Makes sure that the node exists in our session; `check` may object to an existing one.
        A node of a former session is replaced in one step: watchers never miss the broker."""
        path, owner = self.root + node.path, self.session if node.is_ephemeral else 0
        while True:
            try:
                self.client.create(
                    path, node.data, self.acl, ephemeral=node.is_ephemeral, makepath=True
                )
                return
            except NodeExistsError:
                pass
            except NoNodeError:
                continue  # another broker removed the empty parent just now
            try:
                value, stat = self.client.get(path)
                data = value or b""
                check(data, stat)
                if stat.ephemeralOwner != owner:
                    self._replace(path, node, stat)
                elif data != node.data:
                    self.client.set(path, node.data)
                return
            except (NoNodeError, BadVersionError):
                continue  # it changed or vanished meanwhile

    def _replace(self, path: str, node: Node, stat: ZnodeStat) -> None:
        change = self.client.transaction()
        change.delete(path, stat.version)
        change.create(path, node.data, self.acl, ephemeral=node.is_ephemeral)
        faults = [each for each in change.commit() if isinstance(each, Exception)]
        for fault in faults:
            if not isinstance(fault, RolledBackError):  # another operation failed
                raise fault

    def remove(self, node: Node) -> None:
        """Removes it with its empty parents, up to the list of topics."""
        path = node.path
        while path != TOPICS:
            try:
                self.client.delete(self.root + path)
            except NotEmptyError:
                return
            except NoNodeError:
                pass
            path = path.rpartition("/")[0]

    def sweep(self, wanted: Container[str]) -> None:
        """Removes the persistent nodes of our topics that were deleted while ZooKeeper was
        away."""
        if not self.form.has_persistent:
            return
        try:
            names = self.client.get_children(self.root + TOPICS)
        except NoNodeError:
            return  # there were never any topics
        for path in (f"{TOPICS}/{name}" for name in names):
            with suppress(NoNodeError):  # another broker removed its own
                data, _ = self.client.get(self.root + path)
                if path not in wanted and self.form.is_ours(data or b""):
                    self.client.delete(self.root + path, recursive=True)
