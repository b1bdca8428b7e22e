"""A thread for each leader that this broker follows, and the partitions that each fetches."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from appliance._log import Log
from appliance.broker.inter_broker_security import InterBrokerSecurity
from appliance.config import Address, ReplicationConfig
from appliance.data_dir.partition_names import Key
from appliance.process import event_log
from appliance.protocol import ErrorCode
from appliance.replication._replica_fetcher import Fetcher, FollowersQuota, PartitionState

if TYPE_CHECKING:
    from appliance.cluster.forms import LivingBroker

events = event_log.named("replication")

LOOK_S = 2.0
REFUSED = f"{ErrorCode.TOPIC_AUTHORIZATION_FAILED.name}: as whom this broker comes has no right to "
REFUSED += "ClusterAction on the cluster there (inter.broker.user, super.users)"


class Followed(NamedTuple):
    topic_id: bytes
    log: Log
    leader: int
    unclean: int = -1  # the epoch of the last unclean election


class Seen(NamedTuple):
    """A fetcher, looked at."""

    leader: int
    where: str
    failure: str  # "": it is connected
    states: list[PartitionState]

    def __str__(self) -> str:
        return f"broker {self.leader} at {self.where}"


class ReplicaFetchers:
    """On the event loop. A fetcher without partitions ends."""

    def __init__(
        self, node_id: int, config: ReplicationConfig, security: InterBrokerSecurity
    ) -> None:
        self.troubles: dict[str, int] = {}  # why something is not followed, and how much
        self.lags: dict[Key, int] = {}  # records that count and are not here yet
        self.stranded: set[Key] = set()  # empty, and behind what their leaders have
        self.quota = FollowersQuota()
        self._node_id = node_id
        self._config = config
        self._security = security
        self._life = 0
        self._told: set[str] = set()
        self._living: set[int] = set()
        self._addresses: dict[int, Address | None] = {}  # None: it has no such listener
        self._fetchers: dict[int, Fetcher] = {}
        self._followed: dict[Key, Followed] = {}

    def follow(
        self, key: Key, topic_id: bytes, log: Log, leader: int, unclean: int = -1
    ) -> None:
        wanted = Followed(topic_id, log, leader, unclean)
        if self._followed.get(key) == wanted:
            return
        self.stop(key)
        self._followed[key] = wanted
        self._fetch(key)

    def stop(self, key: Key) -> None:
        followed = self._followed.pop(key, None)
        fetcher = None if followed is None else self._fetchers.get(followed.leader)
        if followed is not None and fetcher is not None:
            fetcher.remove(followed.topic_id, key[1])
            self._end_if_idle(followed.leader)

    def stop_topic(self, name: str) -> None:
        for key in [each for each in self._followed if each[0] == name]:
            self.stop(key)

    def _end_if_idle(self, leader: int) -> None:
        if not any(each.leader == leader for each in self._followed.values()):
            self._fetchers.pop(leader).stop(0)

    def brokers_are(self, brokers: Mapping[int, LivingBroker]) -> None:
        """Where they listen; one that moved is connected to anew."""
        found = {node: address_of(each, self._security.listener) for node, each in brokers.items()}
        moved = [node for node in self._fetchers if found.get(node, self._addresses.get(node))
                 != self._addresses.get(node)]  # fmt: skip
        self._addresses |= found
        self._living = {*found}
        for node in moved:
            self._fetchers.pop(node).stop(0)
        there = {*self._fetchers}
        for key, followed in self._followed.items():
            if followed.leader not in there:
                self._fetch(key)

    def life_is(self, life: int) -> None:
        self._life = life
        for each in self._fetchers.values():
            each.life = life

    def _fetch(self, key: Key) -> None:
        followed = self._followed[key]
        address = self._addresses.get(followed.leader)
        if address is None:
            return  # it is not registered, and will be fetched from when it is
        fetcher = self._fetchers.get(followed.leader)
        if fetcher is None:
            fetcher = self._fetchers[followed.leader] = self._made(followed.leader, address)
            fetcher.start()
        fetcher.add(followed.topic_id, key[0], key[1], followed.log, followed.unclean)

    def running(self) -> list[Fetcher]:
        return [*self._fetchers.values()]

    def _made(self, leader: int, address: Address) -> Fetcher:
        security = self._security
        tls = None if security.tls is None else security.tls.context
        return Fetcher(
            leader, address.host, address.port, self._node_id, self._life, self._config, tls,
            security.login, self.quota,
        )  # fmt: skip

    # How it goes

    async def watch(self) -> None:
        """For health and metrics. What is wrong for a moment only, as in an election, is nothing
        to tell."""
        before: dict[str, int] = {}
        while True:
            await asyncio.sleep(LOOK_S)
            seen = await asyncio.to_thread(seen_of, [*self._fetchers.values()])
            found = self._wrong(seen)
            self.troubles = {text: count for text, count in found.items() if text in before}
            self.lags = {
                (each.topic, each.partition): max(0, each.watermark - each.log_end_offset)
                for one in seen for each in one.states
            }  # fmt: skip
            self.stranded = {
                (each.topic, each.partition) for one in seen for each in one.states
                if each.error == ErrorCode.OFFSET_OUT_OF_RANGE
            }  # fmt: skip
            for text in self.troubles.keys() - self._told:
                events.warning("a leader is not followed", why=text)
            self._told = {*self.troubles}
            before = found

    def _wrong(self, seen: Iterable[Seen]) -> dict[str, int]:
        found = Counter(
            f"broker {each.leader} has no listener {self._security.listener}"
            for each in self._followed.values()
            if each.leader in self._living and self._addresses[each.leader] is None
        )
        for one in seen:
            if one.failure and one.leader in self._living:
                found[f"{one} cannot be followed: {one.failure}"] += len(one.states)
            elif not one.failure:
                found.update(
                    f"{one} refuses to be followed: {words_of(each)}"
                    for each in one.states if each.error > 0
                )  # fmt: skip
        return dict(found)

    def close(self) -> None:
        """Blocks until all threads have ended."""
        fetchers = [*self._fetchers.values()]
        self._fetchers.clear()
        self._followed.clear()
        for each in fetchers:
            each.stop(0)
        for each in fetchers:
            each.stop()


def seen_of(fetchers: Iterable[Fetcher]) -> list[Seen]:
    """Waits for what each one's thread does with one partition."""
    return [
        Seen(
            each.leader_node, f"{each.host}:{each.port}",
            "" if each.is_connected else each.failure, each.states(),
        )
        for each in fetchers
    ]  # fmt: skip


def words_of(state: PartitionState) -> str:
    return REFUSED if state.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED else state.reason


def address_of(broker: LivingBroker, listener: str) -> Address | None:
    return next((each.address for each in broker.listeners if each.name == listener), None)
