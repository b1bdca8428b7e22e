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
from appliance.errors import NotLeader, Refused
from appliance.process.spoken import some
from appliance.protocol import ErrorCode
from appliance.protocol.messages.delete_records import DeleteRecordsRequest
from appliance.protocol.messages.list_offsets import ListOffsetsRequest
from appliance.protocol.messages.produce import ProduceRequest
from appliance.topics.topic import Topic

EARLIEST, LATEST = -2, -1
HIGH_WATERMARK = -1  # of DeleteRecords
ASK_S = 10.0
WRITE_S = 30.0  # as long as what is produced here may take
CATCH_UP_S, LOOK_S = 5.0, 0.005
NAMED_MAX = 5
PRODUCE_VERSION, LIST_OFFSETS_VERSION, DELETE_RECORDS_VERSION = 9, 6, 2


class Us(Protocol):
    """The broker."""

    node_id: int
    members: Members
    peers: Peers | None


@dataclass(eq=False)
class PartitionLeaders:
    _us: Us

    # Who leads

    def is_led_here(self, topic: Topic, partition: int) -> bool:
        """Also where there is one broker, which leads all that it has."""
        log = topic.logs[partition]
        is_elsewhere = topic.here is not None and partition not in topic.here
        return not is_elsewhere and (log is None or log.role in ("alone", "leader"))

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
        others = [each for each in found.replicas if each != found.leader]
        also = f", which {', '.join(map(str, others))} follow" if len(others) > 1 else ""
        also = f", which {others[0]} follows" if len(others) == 1 else also
        return f"{name} is led by broker {found.leader} ({known[found.leader]}){also}"

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
        logs = {each: topic.log(each) for each in partitions}
        followed = [each for each, log in logs.items() if log.role not in ("alone", "leader")]
        ends = {each: log.leads_from for each, log in logs.items() if log.role == "leader"}
        ends |= await self.offsets(topic, dict.fromkeys(followed, LATEST)) if followed else {}
        until_s = time.monotonic() + CATCH_UP_S
        for each, end in ends.items():
            await self._until(topic, logs[each], end, until_s)
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

    async def offsets(self, topic: Topic, wanted: Mapping[int, int]) -> dict[int, int]:
        """`wanted`: EARLIEST, LATEST or a time in milliseconds, of partitions that others lead.
        -1: no record is as new as that time."""
        asked = ListOffsetsRequest.ListOffsetsPartition
        found: dict[int, int] = {}
        for node, own in self._by_leader(topic, wanted).items():
            rows = [asked(partition_index=each, timestamp=wanted[each]) for each in own]
            request = ListOffsetsRequest(
                replica_id=NOBODY, isolation_level=0,
                topics=[ListOffsetsRequest.ListOffsetsTopic(topic.name, rows)],
            )  # fmt: skip
            answer = await self._ask(node, request, LIST_OFFSETS_VERSION, ASK_S)
            for each in answer.topics[0].partitions:
                self._check(each.error_code, topic, each.partition_index, node)
                found[each.partition_index] = each.offset
        return found

    async def produce(self, topic: Topic, partition: int, batch: bytes) -> int:
        """To a partition that another broker leads: the first record's offset, when it counts."""
        (node,) = self.led_elsewhere(topic, [partition]).values()
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

    async def _ask(self, node: int, request: Any, version: int, timeout_s: float) -> Any:
        if self._us.peers is None:
            raise NotLeader("this broker has not joined its cluster yet: ask again")
        return await self._us.peers.ask(node, request, version, timeout_s)

    def _check(
        self, code: int, topic: Topic, partition: int, node: int, text: str = ""
    ) -> None:
        if code:
            error = ErrorCode(code)
            raise Refused(
                error, f"{topic.name}-{partition}: its leader, broker {node}, has refused it: "
                f"{error.name}{f', {text}' if text else ''}",
            )  # fmt: skip
