"""Partitions of a cluster as people and programs at the admin port have them: what is here and
counts is read here, what changes a partition is for its leader, wherever that is.

A follower has what counts, as far as its leader has told it. Here the leader is asked how far that
is, and what is read is not less. Requests to leaders are those of clients, by this broker's login.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from appliance._log import Log
from appliance.broker.members import NOBODY, Members
from appliance.broker.peers import Peers
from appliance.data_dir.partition_names import Key
from appliance.errors import ApplianceError, NotLeader, Refused
from appliance.process.spoken import some
from appliance.protocol import ErrorCode
from appliance.protocol.messages.delete_records import DeleteRecordsRequest
from appliance.protocol.messages.fetch import FetchRequest
from appliance.protocol.messages.list_offsets import ListOffsetsRequest
from appliance.protocol.messages.produce import ProduceRequest
from appliance.topics.topic import Topic

EARLIEST, LATEST = -2, -1
UNCOMMITTED, COMMITTED = 0, 1
HIGH_WATERMARK = -1  # of DeleteRecords
ASK_S = 10.0
WRITE_S = 30.0  # as long as what is produced here may take
CATCH_UP_S, LOOK_S = 5.0, 0.005
NAMED_MAX = 5
LED = ("alone", "leader")

Place = tuple[Topic, int]
Shown = tuple[Topic, Log]
PRODUCE_VERSION, FETCH_VERSION, LIST_OFFSETS_VERSION, DELETE_RECORDS_VERSION = 9, 12, 6, 2


class Us(Protocol):
    """The broker."""

    node_id: int
    members: Members
    peers: Peers | None
    bulk_peers: Peers | None


@dataclass(eq=False)
class PartitionLeaders:
    _us: Us

    # Who leads

    def is_led_here(self, topic: Topic, partition: int) -> bool:
        """Also where there is one broker, which leads all that it has."""
        log = topic.logs[partition]
        is_elsewhere = topic.here is not None and partition not in topic.here
        return not is_elsewhere and (log is None or log.role in LED)

    def led_elsewhere(self, topic: Topic, partitions: Iterable[int]) -> dict[int, int]:
        """By partition the broker; those that are led here are left out. Raises where nobody
        leads."""
        found: dict[int, int] = {}
        for each in partitions:
            if self.is_led_here(topic, each):
                topic.log(each)  # one that is not open is refused
            else:
                found[each] = self._leader(topic, each)
        return found

    def _leader(self, topic: Topic, partition: int) -> int:
        found = self._us.members.placement(topic, partition).leader
        if found in (NOBODY, self._us.node_id):  # the log here does not know of it yet
            raise NotLeader(f"{topic.name}-{partition} has no leader now: ask again")
        return found

    def where(self, topic: Topic, partition: int) -> str:
        """In words."""
        found = self._us.members.placement(topic, partition)
        known = {each.node_id: f"{each.host}:{each.port}" for each in self._us.members.nodes(0)}
        name = f"{topic.name}-{partition}"
        if found.leader not in known:
            return f"{name} has no leader now; its brokers are {[*found.replicas]}"
        return f"{name} is led by broker {found.leader} ({known[found.leader]})"

    # Reading

    def elsewhere(self, topic: Topic, partitions: Iterable[int]) -> list[int]:
        """Those of which nothing is here."""
        return [each for each in partitions if topic.here is not None and each not in topic.here]

    async def readable(self, topic: Topic, partitions: Collection[int]) -> list[Log]:
        """Their logs here, which show all that counted before this was asked. Raises, in words,
        where one is on other brokers alone, or is behind its leader."""
        if missing := self.elsewhere(topic, partitions):
            named = "; ".join(self.where(topic, each) for each in missing[:NAMED_MAX])
            more = len(missing) - NAMED_MAX
            raise NotLeader(
                f"of topic {topic.name} {some(len(missing), 'partition')} that was asked for "
                f"{'is' if len(missing) == 1 else 'are'} not on this broker, {self._us.node_id}: "
                f"{named}{f'; and {more} more' if more > 0 else ''}. Ask these brokers"
            )
        return await self._caught_up([(topic, each) for each in partitions])

    async def shown(self, topics: Iterable[Topic]) -> tuple[list[Shown], dict[Key, str]]:
        """The logs here that show all that counted before this was asked; of the other partitions
        why they do not."""
        places = [(topic, each) for topic in topics for each in range(len(topic.logs))]
        return await self.shown_of(places)

    async def shown_of(
        self, places: Collection[Place]
    ) -> tuple[list[Shown], dict[Key, str]]:
        away: dict[Key, str] = {}
        for topic, each in places:
            if self.elsewhere(topic, [each]):
                away[topic.name, each] = f"not on this broker: {self.where(topic, each)}"
            elif each in topic.unserved:
                away[topic.name, each] = topic.unserved[each]
        here = [place for place in places if (place[0].name, place[1]) not in away]
        try:
            logs = await self._caught_up(here)
            return [(topic, log) for (topic, _), log in zip(here, logs, strict=True)], away
        except ApplianceError:
            return await self._each_shown(here, away)  # not all of them

    async def _each_shown(
        self, here: list[Place], away: dict[Key, str]
    ) -> tuple[list[Shown], dict[Key, str]]:
        asked = (self._caught_up([each]) for each in here)
        found = await asyncio.gather(*asked, return_exceptions=True)
        shown: list[Shown] = []
        for (topic, number), told in zip(here, found, strict=True):
            if isinstance(told, ApplianceError):
                away[topic.name, number] = str(told)
            elif isinstance(told, BaseException):
                raise told
            else:
                shown.append((topic, told[0]))
        return shown, away

    async def _caught_up(self, places: Collection[Place]) -> list[Log]:
        logs = {(topic.name, number): topic.log(number) for topic, number in places}
        starts = {key: log.leads_from for key, log in logs.items()}
        ends = {key: start for key, start in starts.items() if start >= 0}
        followed = {key: LATEST for key, start in starts.items()
                    if start < 0 and logs[key].role != "alone"}  # fmt: skip
        topics = {topic.name: topic for topic, _ in places}
        ends |= await self._offsets(topics, followed)
        until_s = time.monotonic() + CATCH_UP_S
        for key, end in ends.items():
            await self._until(topics[key[0]], logs[key], end, until_s)
        return [*logs.values()]

    async def _until(self, topic: Topic, log: Log, end: int, until_s: float) -> None:
        while log.high_watermark < end:
            if time.monotonic() > until_s:
                raise NotLeader(
                    f"{log.name}: what counts is known here up to {log.high_watermark}, wanted "
                    f"{end}, up to which it may count; {self.where(topic, log.partition)}"
                )
            await asyncio.sleep(LOOK_S)

    # What leaders are asked

    async def offsets(
        self, topic: Topic, wanted: Mapping[int, int], isolation: int = UNCOMMITTED
    ) -> dict[int, int]:
        """`wanted`: EARLIEST, LATEST or a time in milliseconds, of partitions that others lead.
        -1: no record is as new as that time."""
        asked = {(topic.name, each): what for each, what in wanted.items()}
        found = await self._offsets({topic.name: topic}, asked, isolation)
        return {number: offset for (_, number), offset in found.items()}

    async def _offsets(
        self,
        topics: Mapping[str, Topic],
        wanted: Mapping[Key, int],
        isolation: int = UNCOMMITTED,
    ) -> dict[Key, int]:
        """A request for each leader."""
        by_node: dict[int, dict[str, list[int]]] = {}
        for name, number in wanted:
            node = self._leader(topics[name], number)
            by_node.setdefault(node, {}).setdefault(name, []).append(number)
        found: dict[Key, int] = {}
        asks = [self._ask_offsets(node, own, wanted, isolation) for node, own in by_node.items()]
        for node, answer in zip(by_node, await asyncio.gather(*asks), strict=True):
            for of_topic in answer.topics:
                for each in of_topic.partitions:
                    topic = topics[of_topic.name]
                    self._check(each.error_code, topic, each.partition_index, node)
                    found[of_topic.name, each.partition_index] = each.offset
        return {key: found[key] for key in wanted}

    async def _ask_offsets(
        self, node: int, own: Mapping[str, list[int]], wanted: Mapping[Key, int], isolation: int
    ) -> Any:
        row, topic = ListOffsetsRequest.ListOffsetsPartition, ListOffsetsRequest.ListOffsetsTopic
        request = ListOffsetsRequest(
            replica_id=NOBODY, isolation_level=isolation,
            topics=[
                topic(name, [row(partition_index=each, timestamp=wanted[name, each])
                             for each in numbers])
                for name, numbers in own.items()
            ],
        )  # fmt: skip
        return await self._ask(node, request, LIST_OFFSETS_VERSION, ASK_S)

    async def told_by(
        self, node: int, places: Collection[Key], what: int
    ) -> dict[Key, int]:
        """EARLIEST or LATEST of what that broker leads; without what it refuses."""
        own: dict[str, list[int]] = {}
        for name, number in places:
            own.setdefault(name, []).append(number)
        wanted = dict.fromkeys(places, what)
        answer = await self._ask_offsets(node, own, wanted, UNCOMMITTED)
        return {
            (topic.name, each.partition_index): each.offset
            for topic in answer.topics
            for each in topic.partitions
            if not each.error_code
        }

    async def fetch(
        self, topic: Topic, partition: int, offset: int, max_bytes: int, isolation: int
    ) -> Any:
        """What its leader has from there on, as a consumer gets it. By a connection of its own:
        nothing else waits behind that."""
        node = self._leader(topic, partition)
        row = FetchRequest.FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes
        )
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, isolation_level=isolation,
            topics=[FetchRequest.FetchTopic(topic=topic.name, partitions=[row])],
        )  # fmt: skip
        answer = await self._ask(node, request, FETCH_VERSION, WRITE_S, self._us.bulk_peers)
        found = answer.responses[0].partitions[0]
        self._check(found.error_code, topic, partition, node)
        return found

    async def produce(self, topic: Topic, partition: int, batch: bytes) -> int:
        """To a partition that another broker leads: the first record's offset, when it counts."""
        node = self._leader(topic, partition)
        data = ProduceRequest.PartitionProduceData(partition, batch)
        request = ProduceRequest(
            acks=-1, timeout_ms=round(WRITE_S * 1000),
            topic_data=[ProduceRequest.TopicProduceData(name=topic.name, partition_data=[data])],
        )  # fmt: skip
        answer = await self._ask(node, request, PRODUCE_VERSION, WRITE_S + ASK_S)
        (told,) = answer.responses[0].partition_responses
        self._check(told.error_code, topic, partition, node, told.error_message or "")
        return int(told.base_offset)

    async def delete_all(self, topic: Topic, partitions: Collection[int]) -> dict[int, int]:
        """Of partitions that others lead: what counts. Where each begins now."""
        row = DeleteRecordsRequest.DeleteRecordsPartition
        found: dict[int, int] = {}
        for node, own in self._by_leader(topic, partitions).items():
            rows = [row(each, HIGH_WATERMARK) for each in own]
            request = DeleteRecordsRequest(
                [DeleteRecordsRequest.DeleteRecordsTopic(topic.name, rows)], round(WRITE_S * 1000)
            )
            answer = await self._ask(node, request, DELETE_RECORDS_VERSION, WRITE_S + ASK_S)
            for each in answer.topics[0].partitions:
                self._check(each.error_code, topic, each.partition_index, node)
                found[each.partition_index] = each.low_watermark
        return found

    def _by_leader(self, topic: Topic, partitions: Iterable[int]) -> dict[int, list[int]]:
        by_node: dict[int, list[int]] = {}
        for each in partitions:
            by_node.setdefault(self._leader(topic, each), []).append(each)
        return by_node

    async def _ask(
        self, node: int, request: Any, version: int, timeout_s: float, by: Peers | None = None
    ) -> Any:
        peers = by or self._us.peers
        if peers is None:
            raise NotLeader("this broker has not joined its cluster yet: ask again")
        return await peers.ask(node, request, version, timeout_s)

    def _check(
        self, code: int, topic: Topic, partition: int, node: int, text: str = ""
    ) -> None:
        if code:
            error = ErrorCode(code)
            raise Refused(
                error, f"{topic.name}-{partition}: its leader, broker {node}, has refused it: "
                f"{error.name}{f', {text}' if text else ''}",
            )  # fmt: skip
