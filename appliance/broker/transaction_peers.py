"""What transactions ask of the brokers of a cluster: coordinators about first writes, and leaders
of partitions for markers.

This broker answers by itself what it is asked; the others by Kafka's AddPartitionsToTxn and
WriteTxnMarkers, which they take from brokers alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from appliance.broker.members import NOBODY, Members
from appliance.broker.peers import Peers
from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode
from appliance.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from appliance.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from appliance.topics.topic import TRANSACTIONS
from appliance.txn.coordinator import Coordinator
from appliance.txn.first_writes import Refused
from appliance.txn.markers import Marker
from appliance.txn.markers_at_leaders import Codes
from appliance.txn.states import TransactionRefused
from appliance.txn.transaction import Partition, Producer

ADD_VERSION, MARKERS_VERSION = 5, 1

# A client that writes waits for it; it asks again when it has no answer.
ADD_S = 10.0
# No longer than the broker leads (`markers_at_leaders.py`), and it has time to write.
MARKERS_S = 30.0


@dataclass(eq=False)
class TransactionPeers:
    _node_id: int
    _members: Members
    _peers: Peers
    _transactions: Coordinator

    # Coordinators

    async def ask_coordinator(
        self, name: str, producer: Producer, places: frozenset[Partition], may_add: bool
    ) -> Refused:
        try:
            node = self._coordinator_of(name)
            if node == self._node_id:
                return await self._ask_here(name, producer, places, may_add)
            return await self._ask(node, name, producer, places, may_add)
        except ApplianceError as error:
            refusal = TransactionRefused(error.kafka_code, str(error))
            return dict.fromkeys(places, refusal)

    def _coordinator_of(self, name: str) -> int:
        number = self._transactions.table.led.number_of(name)
        place = None if number is None else Partition(TRANSACTIONS, number)
        node = None if place is None else self.leader_of(place)
        if node is None or node == NOBODY:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            raise TransactionRefused(code, f"transactional id {name} has no coordinator now")
        return node

    async def _ask_here(
        self, name: str, producer: Producer, places: frozenset[Partition], may_add: bool
    ) -> Refused:
        if not may_add:
            return await self._transactions.verify(name, producer, places)
        await self._transactions.add(name, producer, places)
        return {}

    async def _ask(
        self, node: int, name: str, producer: Producer, places: frozenset[Partition], may_add: bool
    ) -> Refused:
        one = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            name, producer.id, producer.epoch, not may_add,
            [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(topic, numbers)
             for topic, numbers in by_topic(places).items()],
        )  # fmt: skip
        request = AddPartitionsToTxnRequest(transactions=[one])
        answer = await self._peers.ask(node, request, ADD_VERSION, ADD_S)
        if answer.error_code:
            raise _refusal(answer.error_code, node)
        return {
            Partition(topic.name, each.partition_index): _refusal(each.partition_error_code, node)
            for own in answer.results_by_transaction
            for topic in own.topic_results
            for each in topic.results_by_partition
            if each.partition_error_code
        }

    # Leaders

    def leader_of(self, place: Partition) -> int | None:
        return self._members.leader_of(*place)

    async def write_markers(
        self, node: int, marker: Marker, places: Collection[Partition]
    ) -> Codes:
        if node == self._node_id:
            return await self._transactions.mark_led(marker, places)
        one = WriteTxnMarkersRequest.WritableTxnMarker(
            marker.producer.id, marker.producer.epoch, marker.is_commit,
            [WriteTxnMarkersRequest.WritableTxnMarkerTopic(topic, numbers)
             for topic, numbers in by_topic(places).items()],
            marker.coordinator_epoch,
        )  # fmt: skip
        request = WriteTxnMarkersRequest([one])
        answer = await self._peers.ask(node, request, MARKERS_VERSION, MARKERS_S)
        return {
            Partition(topic.name, each.partition_index): each.error_code
            for own in answer.markers
            for topic in own.topics
            for each in topic.partitions
        }


def by_topic(places: Iterable[Partition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for each in sorted(places):
        found.setdefault(each.topic, []).append(each.partition)
    return found


def _refusal(code: int, node: int) -> TransactionRefused:
    """As the coordinator says it where it is this broker."""
    if code == ErrorCode.TRANSACTION_ABORTABLE:
        code = ErrorCode.INVALID_TXN_STATE
    return TransactionRefused(code, f"the coordinator, broker {node}, has refused it")
