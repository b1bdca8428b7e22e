"""What the state of share partitions is asked of: the leaders of `__share_group_state`, this broker
or others, by Kafka's APIs of share group states.

Who asks cannot do without the answer, so it asks again for a while, as long as there is no
coordinator, or it is reading.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from appliance.broker.members import NOBODY, Members
from appliance.broker.peers import Peers
from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode
from appliance.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from appliance.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
)
from appliance.protocol.messages.read_share_group_state import ReadShareGroupStateRequest
from appliance.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
)
from appliance.protocol.messages.write_share_group_state import WriteShareGroupStateRequest
from appliance.share.state_checks import state_batches
from appliance.share.state_coordinator import State, StateCoordinator, Summary
from appliance.share.state_log import SharePartitionKey
from appliance.share.state_store import StatePlaces
from appliance.share.states import ShareRefused
from appliance.topics.topic import SHARE_STATE

ASK_S = 10.0
AGAIN_S, AGAIN_MAX_S = 0.02, 0.5

LATER = frozenset({
    int(ErrorCode.NOT_COORDINATOR), int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    int(ErrorCode.COORDINATOR_NOT_AVAILABLE), int(ErrorCode.NETWORK_EXCEPTION),
})  # fmt: skip

Found = TypeVar("Found")


@dataclass(eq=False)
class SharePeers:
    _node_id: int
    _members: Members
    _peers: Peers
    _places: StatePlaces
    _own: StateCoordinator

    async def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int
    ) -> None:
        asked = InitializeShareGroupStateRequest
        row = asked.PartitionData(key.partition, state_epoch, start_offset)
        request = asked(key.group, [asked.InitializeStateData(key.topic_id, [row])])
        own = self._own.initialize
        await self._ask(key, lambda: own(key, state_epoch, start_offset), request, 0, _nothing)

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> State:
        asked = ReadShareGroupStateRequest
        row = asked.PartitionData(key.partition, leader_epoch)
        request = asked(key.group, [asked.ReadStateData(key.topic_id, [row])])
        return await self._ask(
            key, lambda: self._own.read(key, leader_epoch), request, 0,
            lambda found: State(found.state_epoch, found.start_offset,
                                state_batches(key, found.state_batches)),
        )  # fmt: skip

    async def write(self, key: SharePartitionKey, leader_epoch: int, change: State) -> None:
        asked = WriteShareGroupStateRequest
        rows = [asked.StateBatch(*each) for each in change.batches]
        row = asked.PartitionData(
            key.partition, change.state_epoch, leader_epoch, change.start_offset,
            delivery_complete_count=0 if change.is_anew else -1, state_batches=rows,
        )  # fmt: skip
        request = asked(key.group, [asked.WriteStateData(key.topic_id, [row])])
        own = self._own.write
        await self._ask(key, lambda: own(key, leader_epoch, change), request, 1, _nothing)

    async def summary(self, key: SharePartitionKey) -> Summary:
        asked = ReadShareGroupStateSummaryRequest
        request = asked(key.group, [asked.ReadStateSummaryData(
            key.topic_id, [asked.PartitionData(key.partition, -1)])])  # fmt: skip

        async def own() -> Summary:
            return self._own.summary(key)

        return await self._ask(key, own, request, 1, _summary)

    async def summaries(
        self, keys: Collection[SharePartitionKey]
    ) -> dict[SharePartitionKey, Summary]:
        """Of one group, by one request to each broker; without what is not told now."""
        found: dict[SharePartitionKey, Summary] = {}
        by_node: dict[int, list[SharePartitionKey]] = {}
        for key in keys:
            node = self._leader_of(key)
            if node == self._node_id:
                with suppress(ShareRefused):  # it was not led here, after all
                    found[key] = self._own.summary(key)
            elif node is not None:
                by_node.setdefault(node, []).append(key)
        asked = (self._summaries_at(node, own) for node, own in by_node.items())
        for told in await asyncio.gather(*asked):
            found |= told
        return found

    async def _summaries_at(
        self, node: int, keys: Collection[SharePartitionKey]
    ) -> dict[SharePartitionKey, Summary]:
        asked = ReadShareGroupStateSummaryRequest
        rows: dict[UUID, list[Any]] = {}
        for each in keys:
            rows.setdefault(each.topic_id, []).append(asked.PartitionData(each.partition, -1))
        (group,) = {each.group for each in keys}
        request = asked(group, [asked.ReadStateSummaryData(*each) for each in rows.items()])
        try:
            answer = await self._peers.ask(node, request, 1, ASK_S)
        except ApplianceError:
            return {}  # who asked tells what is unknown
        return {
            SharePartitionKey(group, topic.topic_id, row.partition): _summary(row)
            for topic in answer.results
            for row in topic.partitions
            if not row.error_code
        }

    async def delete(self, key: SharePartitionKey) -> None:
        asked = DeleteShareGroupStateRequest
        row = asked.PartitionData(key.partition)
        request = asked(key.group, [asked.DeleteStateData(key.topic_id, [row])])
        await self._ask(key, lambda: self._own.delete(key), request, 0, _nothing)

    # At whom

    async def _ask(
        self,
        key: SharePartitionKey,
        own: Callable[[], Awaitable[Found]],
        request: Any,
        version: int,
        found: Callable[[Any], Found],
    ) -> Found:
        end_s, wait_s = time.monotonic() + ASK_S, AGAIN_S
        while True:
            try:
                node = await self._coordinator_of(key)
                if node == self._node_id:
                    return await own()
                answer = await self._peers.ask(node, request, version, ASK_S)
                return found(_row(answer, node))
            except ApplianceError as error:
                if error.kafka_code not in LATER or time.monotonic() >= end_s:
                    raise
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, AGAIN_MAX_S)

    async def _coordinator_of(self, key: SharePartitionKey) -> int:
        if self._places.share_state_topic() is None:
            try:
                await self._places.make_share_state_topic()
            except ApplianceError as error:
                raise ShareRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        node = self._leader_of(key)
        if node is None:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            raise ShareRefused(code, f"{key.owner} has no share coordinator now")
        return node

    def _leader_of(self, key: SharePartitionKey) -> int | None:
        number = self._own.led.number_of(key.owner)
        node = None if number is None else self._members.leader_of(SHARE_STATE, number)
        return None if node == NOBODY else node


def _row(answer: Any, node: int) -> Any:
    """Of the only partition that was asked for."""
    rows = [row for topic in answer.results for row in topic.partitions]
    if len(rows) != 1:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        raise ShareRefused(code, f"share coordinator {node}: got {len(rows)} rows, wanted 1")
    (row,) = rows
    if row.error_code:
        text = row.error_message or "it has refused it"
        raise ShareRefused(row.error_code, f"share coordinator {node}: {text}")
    return row


def _summary(row: Any) -> Summary:
    return Summary(
        row.state_epoch, row.leader_epoch, row.start_offset, row.delivery_complete_count
    )


def _nothing(row: Any) -> None:
    return None
