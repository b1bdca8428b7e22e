"""The groups of consumers that keep their members and offsets in a ZooKeeper, as others may read
them.

    /consumers/[group]/ids/[consumer]                        its subscription     ephemeral
    /consumers/[group]/owners/[topic]/[broker-partition]     the stream that reads it
    /consumers/[group]/offsets/[topic]/[broker-partition]    the next offset
    /consumers/[group]/topic-ids/[topic]/[broker-partition]  of the offset's topic

Consumers of Kafka's original design write them, ours too (`client/group_nodes.py`). With the json
form the last name is the partition alone. Only partitions of this broker are read.

Anybody may write there, and any number: a look reads `GROUPS_MAX` groups and `NODES_MAX` nodes, and
says how many it left out. Calls wait for ZooKeeper: for a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from uuid import UUID

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from appliance.errors import ApplianceError
from appliance.zookeeper.group_in_zookeeper import GroupInZooKeeper, Look, Place
from appliance.zookeeper.questions import IN_FLIGHT, answers

GROUPS_MAX = 1000
NODES_MAX = 100_000  # a node takes some 50 us, and 200 bytes of memory
NAME_MAX = 249  # characters of a group's, as of a topic's
DATA_MAX = 1000  # bytes of a node that are looked at


class ZooKeeperRefused(ApplianceError):
    """It is away, or does not let us; the text says which."""

    kafka_code = 15


class ConsumerNodes:
    def __init__(
        self, client: KazooClient, root: str, node_id: int, is_alone: bool, timeout_s: float
    ) -> None:
        """`is_alone`: no other broker is below this path, and partitions have no broker's name."""
        self._client, self._timeout_s = client, timeout_s
        self._root = f"{root}/consumers"
        self._prefix = "" if is_alone else f"{node_id}-"

    def look(self) -> Look:
        if not self._client.connected:
            raise ZooKeeperRefused("ZooKeeper is away")
        try:
            return self._look()
        except (KazooException, KazooTimeoutError) as error:
            raise ZooKeeperRefused(f"ZooKeeper, {self._root}: {error!r}") from error

    def _look(self) -> Look:
        found = self._children([""]).get("", [])
        names = sorted(name for name in found if len(name) <= NAME_MAX)
        groups = {name: GroupInZooKeeper(name) for name in names[:GROUPS_MAX]}
        left = NODES_MAX
        for first in range(0, len(groups), IN_FLIGHT):
            some = [*groups.values()][first : first + IN_FLIGHT]
            left -= self._read(some, left)
            if left <= 0:
                read = first + len(some)
                groups = {each: groups[each] for each in names[:read]}
                break
        return Look(groups, len(names) - len(groups))

    def _read(self, groups: Sequence[GroupInZooKeeper], most: int) -> int:
        """How many nodes were read; above `most` the rest of their offsets is not."""
        by_name = {each.name: each for each in groups}
        kinds = ("ids", "owners", "offsets", "topic-ids")
        found = self._children([f"/{name}/{kind}" for name in by_name for kind in kinds])
        for name, group in by_name.items():
            group.members = sorted(found.get(f"/{name}/ids", []))
            group.has_topic_ids = bool(found.get(f"/{name}/topic-ids"))
        topics = [
            f"/{name}/{kind}/{topic}"
            for name in by_name
            for kind in ("owners", "offsets")
            for topic in found.get(f"/{name}/{kind}", [])
        ]
        leaves = [
            f"{path}/{leaf}"
            for path, names in self._children(topics[:most]).items()
            for leaf in names
            if self._partition(leaf) is not None
        ][:most]
        for path, (data, modified_ms) in self._data(leaves):
            self._put(by_name, path, data, modified_ms)
        return len(found) + len(topics) + len(leaves)

    def _put(
        self, groups: Mapping[str, GroupInZooKeeper], path: str, data: bytes, modified_ms: int
    ) -> None:
        _, name, kind, topic, leaf = path.split("/")
        partition = self._partition(leaf)
        assert partition is not None, leaf
        group, place = groups[name], (topic, partition)
        if kind == "owners":
            # of the stream CONSUMER-NUMBER
            owner = data[:DATA_MAX].decode("utf-8", "backslashreplace")
            group.owners[place] = owner.rpartition("-")[0] or owner
        elif data.isdigit() and len(data) < 19:
            group.offsets[place] = int(data), modified_ms

    def _partition(self, leaf: str) -> int | None:
        """None: it is another broker's."""
        number = leaf.removeprefix(self._prefix)
        is_ours = leaf.startswith(self._prefix) and number.isascii() and number.isdecimal()
        return int(number) if is_ours and len(number) < 10 else None

    # changes

    def put_offsets(
        self, group: GroupInZooKeeper, offsets: Mapping[Place, int], ids: Mapping[str, UUID]
    ) -> None:
        """The offset before the id: who reads the first alone takes it for the old topic's, and
        begins with the new one once more."""
        for place, offset in offsets.items():
            self._store(group, "offsets", place, b"%d" % offset)
            if group.has_topic_ids and place[0] in ids:
                self._store(group, "topic-ids", place, str(ids[place[0]]).encode())

    def delete(self, group: GroupInZooKeeper) -> None:
        with explained(f"delete {self._root}/{group.name}"):
            self._client.delete(f"{self._root}/{group.name}", recursive=True)

    def members(self, group: GroupInZooKeeper) -> list[str]:
        """Now: before it is changed."""
        path = f"/{group.name}/ids"
        with explained(f"read {self._root}{path}"):
            return self._children([path]).get(path, [])

    def _store(self, group: GroupInZooKeeper, kind: str, place: Place, data: bytes) -> None:
        topic, partition = place
        path = f"{self._root}/{group.name}/{kind}/{topic}/{self._prefix}{partition}"
        with explained(f"change {path}"):
            try:
                self._client.set(path, data)
            except NoNodeError:
                self._client.create(path, data, makepath=True)

    # questions

    def _children(self, paths: Iterable[str]) -> dict[str, list[str]]:
        question = self._client.get_children_async
        return dict(answers(question, self._root, paths, self._timeout_s))

    def _data(self, paths: Iterable[str]) -> Iterator[tuple[str, tuple[bytes, int]]]:
        question = self._client.get_async
        for path, (data, stat) in answers(question, self._root, paths, self._timeout_s):
            yield path, (data or b"", stat.mtime)


@contextmanager
def explained(what: str) -> Iterator[None]:
    try:
        yield
    except (KazooException, KazooTimeoutError) as error:
        raise ZooKeeperRefused(f"ZooKeeper does not let this broker {what}: {error!r}") from error
