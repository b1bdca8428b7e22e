"""The nodes of a consumer in ZooKeeper.

    /consumers/[group]/ids/[host:uuid]                      subscription       ephemeral
    /consumers/[group]/owners/[topic]/[broker-partition]    host:uuid-stream   ephemeral
    /consumers/[group]/offsets/[topic]/[broker-partition]   offset             persistent
    /consumers/[group]/topic-ids/[topic]/[broker-partition] the id of the      persistent
                                                            offset's topic

The owner's node makes sure that only one stream reads a partition: only one stream can create it,
and it ends with its session. Calls wait for ZooKeeper; those for offsets have a timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.protocol.states import WatchedEvent

from appliance.client import subscription
from appliance.client.errors import BrokerUnavailable
from appliance.client.range_assignor import StreamId, TopicPartition
from appliance.client.subscription import Subscription
from appliance.process import event_log

log = event_log.named("consumer")

Watch = Callable[[WatchedEvent], None]


class GroupNodes:
    def __init__(self, client: KazooClient, group: str, consumer: str) -> None:
        self.client, self.consumer = client, consumer
        self.root = f"/consumers/{group}"
        self._told: set[str] = set()  # consumers whose invalid subscription was logged

    # consumers

    def register(self, wanted: Subscription) -> None:
        """Creates our node in this session, after removing one of a former session."""
        path, data = f"{self.root}/ids/{self.consumer}", wanted.text().encode()
        while not self._create(path, data):
            self._remove(path, lambda owner: True)

    def deregister(self) -> None:
        self._remove(f"{self.root}/ids/{self.consumer}", self._is_ours)

    def members(self, watch: Watch) -> dict[str, Subscription]:
        """All consumers of the group. A consumer with an invalid subscription is left out, and each
        consumer does the same."""
        path, subscriptions = f"{self.root}/ids", {}
        for name in self.client.get_children(path, watch=watch):
            with suppress(NoNodeError):  # it left meanwhile; the watch has fired
                data, _ = self.client.get(f"{path}/{name}")
                try:
                    subscriptions[name] = subscription.parse((data or b"").decode())
                except ValueError as error:
                    self._tell(name, error)
        return subscriptions

    def _tell(self, consumer: str, error: ValueError) -> None:
        if consumer not in self._told:
            self._told.add(consumer)
            log.warning("takes no part in its group", consumer=consumer, error=error)

    # owners

    def owner(self, of: TopicPartition) -> str | None:
        try:
            data, _ = self.client.get(self._owner(of))
        except NoNodeError:
            return None
        return (data or b"").decode("utf-8", "backslashreplace")

    def claim(self, of: TopicPartition, stream: StreamId, watch: Watch) -> bool:
        """Whether this stream owns the partition now. If not, `watch` fires when its owner goes."""
        path, data = self._owner(of), str(stream).encode()
        while not self._create(path, data):
            stat = self.client.exists(path, watch=watch)
            if stat is None:
                continue  # gone meanwhile
            if not self._is_ours(stat.ephemeralOwner):
                return False
            self.client.set(path, data)  # created by a call whose answer was lost
            return True
        return True

    def release(self, of: TopicPartition) -> None:
        self._remove(self._owner(of), self._is_ours)

    # offsets

    def offset(self, of: TopicPartition, timeout_s: float) -> int | None:
        asked = self.client.get_async(self._offset(of))
        try:
            data, _ = self._answer(asked, timeout_s)
        except NoNodeError:
            return None
        if not (data or b"").isdigit():
            raise OffsetInvalid(f"{self._offset(of)} in ZooKeeper: {data!r}, wanted an offset")
        return int(data)

    def put_offsets(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        self._put({self._offset(of): b"%d" % each for of, each in offsets.items()}, timeout_s)

    def topic_id(self, of: TopicPartition, timeout_s: float) -> UUID | None:
        """None: the offset was committed by an older version of this library, without an id."""
        asked = self.client.get_async(self._topic_id(of))
        try:
            data, _ = self._answer(asked, timeout_s)
        except NoNodeError:
            return None
        try:
            return UUID((data or b"").decode())
        except ValueError as error:
            where = f"{self._topic_id(of)} in ZooKeeper"
            raise OffsetInvalid(f"{where}: {data!r}, wanted a topic id") from error

    def put_topic_id(self, of: TopicPartition, topic_id: UUID, timeout_s: float) -> None:
        self._put({self._topic_id(of): str(topic_id).encode()}, timeout_s)

    def _put(self, nodes: Mapping[str, bytes], timeout_s: float) -> None:
        """Writes all at once; creates new ones one by one."""
        asked = {path: self.client.set_async(path, data) for path, data in nodes.items()}
        for path, each in asked.items():
            try:
                self._answer(each, timeout_s)
            except NoNodeError:
                made = self.client.create_async(path, nodes[path], makepath=True)
                self._answer(made, timeout_s)

    def _answer(self, asked: Any, timeout_s: float) -> Any:
        try:
            return asked.get(timeout=timeout_s)
        except self.client.handler.timeout_exception as error:
            waited = f"no answer within {timeout_s * 1000:.0f} ms"
            raise BrokerUnavailable(f"ZooKeeper, offsets below {self.root}: {waited}") from error

    # nodes

    def _owner(self, of: TopicPartition) -> str:
        return f"{self.root}/owners/{of}"

    def _offset(self, of: TopicPartition) -> str:
        return f"{self.root}/offsets/{of}"

    def _topic_id(self, of: TopicPartition) -> str:
        return f"{self.root}/topic-ids/{of}"

    def _is_ours(self, owner: int) -> bool:
        identity = self.client.client_id
        return identity is not None and owner == identity[0]

    def _create(self, path: str, data: bytes) -> bool:
        """Creates an ephemeral node; False: it exists already."""
        try:
            self.client.create(path, data, ephemeral=True, makepath=True)
        except NodeExistsError:
            return False
        return True

    def _remove(self, path: str, may_go: Callable[[int], bool]) -> None:
        with suppress(NoNodeError):
            stat = self.client.exists(path)
            if stat and may_go(stat.ephemeralOwner):
                self.client.delete(path)


class OffsetInvalid(BrokerUnavailable):
    """A committed offset with invalid content."""
