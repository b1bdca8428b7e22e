"""The brokers and partitions that are registered in ZooKeeper, kept up to date by watches.

    /brokers/ids/[id]             host:port, or a JSON object with both
    /brokers/topics/[topic]/[id]  number of the topic's partitions on this broker
    /brokers/topics/[topic]       a JSON object, in Kafka's later format

A watch fires once and only means "read again": its path becomes due, and one thread reads due paths
and watches them again. After a reconnect all paths are due. A topic is read at its first use, and
watched from then on.

While ZooKeeper is unreachable, the last state stays valid.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.protocol.states import WatchedEvent

from appliance.client.broker_partition import BrokerPartition
from appliance.client.config import ClientConfig
from appliance.client.connection import Address
from appliance.client.errors import BrokerUnavailable, ConfigInvalid
from appliance.client.security_config import PLAINTEXT
from appliance.process import event_log

log = event_log.named("client")

IDS, TOPICS = "/brokers/ids", "/brokers/topics"
RECONNECT_MAX_S = 2.0  # between two attempts: short, to notice a returning ZooKeeper
AGAIN_S = 0.5  # after ZooKeeper did not answer
SHOWN_MAX = 200  # bytes of a node in a message
# Some releases put their creator's name in front.
ADDRESS = re.compile(r"(?:.*:)?(\[[^\]]+\]|[^:\[\]]+):(\d+)")


class RegistrationInvalid(BrokerUnavailable):
    """A node in ZooKeeper with invalid content."""


Counts = Mapping[int, int]  # number of partitions by broker id
# Of a topic in the later format its partitions; whose they are is known to the brokers. Without
# any the node has none that we can read, and the brokers count them.
Numbers = frozenset[int]


class Registry:
    def __init__(self, config: ClientConfig, changed: Callable[[], None]) -> None:
        self.config, self._changed = config, changed
        self.brokers: dict[int, Address] = {}
        self.topics: list[str] = []
        self._counts: dict[str, Counts | Numbers] = {}  # of used topics
        self._reading = threading.Lock()  # a slow read must not overwrite a later one
        self._lock = threading.Condition()  # guards the fields below, and wakes waiting threads
        self._due: set[str] = {IDS, TOPICS}
        self._is_closing = False
        self.client = KazooClient(
            config.zk_connect,
            timeout=config.zk_session_timeout_ms / 1000,
            connection_retry={"max_tries": -1, "max_delay": RECONNECT_MAX_S},
            command_retry={"max_tries": 1, "max_delay": RECONNECT_MAX_S},
        )
        self.client.add_listener(self._on_state)
        self._connect()
        self._read([IDS, TOPICS])
        self._thread = threading.Thread(target=self._follow, name="zookeeper", daemon=True)
        self._thread.start()

    def _connect(self) -> None:
        self.client.start_async().wait(self.config.zk_connection_timeout_ms / 1000)
        if not self.client.connected:
            self._is_closing = True
            self.client.stop()
            self.client.close()
            raise BrokerUnavailable(
                f"ZooKeeper {self.config.zk_connect} did not answer within "
                f"{self.config.zk_connection_timeout_ms} ms"
            )

    def close(self) -> None:
        with self._lock:
            self._is_closing = True
            self._lock.notify_all()
        self.client.stop()
        self._thread.join()
        self.client.close()

    def partitions(self, topic: str) -> tuple[BrokerPartition, ...] | None:
        """None if only the brokers know."""
        if topic not in self._counts:
            self._read([f"{TOPICS}/{topic}"])
        counts = self._counts[topic]
        if isinstance(counts, frozenset):
            return None
        alive = sorted(counts.keys() & self.brokers.keys())
        return tuple(BrokerPartition(each, n) for each in alive for n in range(counts[each]))

    def numbers(self, topic: str) -> Numbers:
        """Those of a topic in the later format."""
        counts = self._counts.get(topic)
        return counts if isinstance(counts, frozenset) else frozenset()

    def has(self, topic: str, partition: BrokerPartition) -> bool:
        """Whether it is registered with its broker, by the last read."""
        counts = self._counts.get(topic)
        if not isinstance(counts, dict):
            return False
        is_alive = partition.broker in self.brokers
        return is_alive and 0 <= partition.partition < counts.get(partition.broker, 0)

    def wait_for(self, topic: str, brokers: Iterable[int]) -> None:
        """Waits until these brokers have registered a new topic, or for a timeout."""
        wanted, end = set(brokers), time.monotonic() + self.config.zk_connection_timeout_ms / 1000
        with self._lock:
            while time.monotonic() < end:
                counts = self._counts.get(topic, {})
                if isinstance(counts, frozenset) or wanted & self.brokers.keys() <= counts.keys():
                    return
                self._lock.wait(end - time.monotonic())

    # called by kazoo's threads

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            with self._lock:
                self._due |= {IDS, TOPICS, *(f"{TOPICS}/{topic}" for topic in self._counts)}
                self._lock.notify_all()
        elif not self._is_closing:
            log.warning("ZooKeeper is away: brokers as known", servers=self.config.zk_connect)

    def _on_node(self, event: WatchedEvent) -> None:
        if event.path is None:  # the connection is lost with its watches; a reconnect makes all due
            return
        path = "/".join(event.path.split("/")[:4])  # below a topic the topic is due
        with self._lock:
            self._due.add(IDS if path.startswith(IDS) else path)
            self._lock.notify_all()

    # on our thread

    def _follow(self) -> None:
        while True:
            with self._lock:
                while not self._due and not self._is_closing:
                    self._lock.wait()
                if self._is_closing:
                    return
                due, self._due = sorted(self._due), set()
            try:
                self._read(due)
            except (KazooException, BrokerUnavailable) as error:
                self._try_again(due, error)
            except Exception as error:  # without this thread nobody would see a change any more
                log.exception("reading ZooKeeper failed unexpectedly")
                self._try_again(due, error)

    def _try_again(self, due: list[str], error: Exception) -> None:
        """Marks unread paths as due; a reconnect makes all due anyway."""
        with self._lock:
            self._due |= set(due)
            if not self._is_closing:
                log.warning("not read from ZooKeeper", paths=len(due), error=repr(error))
                self._lock.wait(AGAIN_S)

    # any thread

    def _read(self, paths: Iterable[str]) -> None:
        """Reads all of them, even if some are invalid."""
        invalid: list[RegistrationInvalid] = []
        with self._reading:
            before = (self.brokers, self.topics, self._counts)
            for path in paths:
                try:
                    self._read_one(path)
                except RegistrationInvalid as error:
                    invalid.append(error)
            has_changed = before != (self.brokers, self.topics, self._counts)
        with self._lock:
            self._lock.notify_all()
        if has_changed:
            self._changed()
        if invalid:
            raise invalid[0]

    def _read_one(self, path: str) -> None:
        if path == IDS:
            self.brokers = self._read_brokers()
        elif path == TOPICS:
            self.topics = self._children(TOPICS)
            self._look_again_at_topics()
        else:
            topic = path.rpartition("/")[2]
            self._counts = {**self._counts, topic: self._read_topic(path)}

    def _look_again_at_topics(self) -> None:
        """Marks topics as due whose creation or deletion the watch below them missed."""
        with self._lock:
            for topic, counts in self._counts.items():
                if (topic in self.topics) != (counts != {}):
                    self._due.add(f"{TOPICS}/{topic}")

    def _read_brokers(self) -> dict[int, Address]:
        brokers = {}
        for name in self._children(IDS):
            data = self._data(f"{IDS}/{name}")
            if data is not None and name.isdecimal():
                protocol = self.config.security_protocol
                brokers[int(name)] = address_in(f"{IDS}/{name}", data, protocol)
        return brokers

    def _read_topic(self, path: str) -> Counts | Numbers:
        data = self._data(path)
        if data is None:
            return {}
        if data.startswith(b"{"):
            return numbers_in(data)
        counts = {}
        for name in self._children(path):
            text = self._data(f"{path}/{name}")
            if text is not None and name.isdecimal():
                counts[int(name)] = count_in(f"{path}/{name}", text)
        return counts

    def _children(self, path: str) -> list[str]:
        try:
            return sorted(self.client.get_children(path, watch=self._on_node))
        except NoNodeError:
            # no broker is registered; this watch fires when one is
            if self.client.exists(path, watch=self._on_node):
                return self._children(path)
            return []

    def _data(self, path: str) -> bytes | None:
        try:
            data, _ = self.client.get(path, watch=self._on_node)
            return data or b""
        except NoNodeError:
            return None  # deleted meanwhile; its parent's watch has fired


def address_in(path: str, data: bytes, protocol: str = PLAINTEXT) -> Address:
    text = data.decode("utf-8", "backslashreplace")
    if text.startswith("{"):
        text = address_in_json(text, protocol)
    match = ADDRESS.fullmatch(text.strip())
    try:
        return Address.parse(f"{match[1]}:{match[2]}" if match else "")
    except ConfigInvalid:
        shown = data[:SHOWN_MAX]
        raise RegistrationInvalid(f"{path} in ZooKeeper: wanted host:port, got {shown!r}") from None


def address_in_json(text: str, protocol: str) -> str:
    """That of the first listener with this protocol, or the one address of older brokers."""
    try:
        fields: Any = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    named = fields.get("endpoints")
    known = fields.get("listener_security_protocol_map")
    protocols = known if isinstance(known, dict) else {}
    for each in map(str, named if isinstance(named, list) else []):
        name, _, address = each.partition("://")
        if protocols.get(name, name) == protocol:
            return address
    return f"{fields.get('host')}:{fields.get('port')}"


def numbers_in(data: bytes) -> Numbers:
    try:
        named = json.loads(data).get("partitions")
        return frozenset(int(each) for each in named if each.isdecimal())
    except (ValueError, TypeError, AttributeError, RecursionError):
        return frozenset()


def count_in(path: str, data: bytes) -> int:
    if not data.isdigit():
        raise RegistrationInvalid(
            f"{path} in ZooKeeper: wanted a number of partitions, got {data[:SHOWN_MAX]!r}"
        )
    return int(data)
