"""The mirror's producer id and its transactions, with the requests from before TV2.

    begin, with the first added partitions           AddPartitionsToTxn
    commit                                           EndTxn

CONCURRENT_TRANSACTIONS: the broker is still ending the last transaction; the request is repeated.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

from appliance.client.errors import BrokerRefused
from appliance.mirror.errors import MirrorFenced, TopicRefused
from appliance.mirror.pipeline import FENCED
from appliance.mirror.site import TRANSACTION, Site, TopicPartition
from appliance.protocol import ErrorCode
from appliance.protocol.messages.add_partitions_to_txn import API as ADD_PARTITIONS
from appliance.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from appliance.protocol.messages.end_txn import API as END_TXN
from appliance.protocol.messages.end_txn import EndTxnRequest
from appliance.protocol.messages.init_producer_id import API as INIT_PRODUCER_ID
from appliance.protocol.messages.init_producer_id import InitProducerIdRequest

BEFORE_TV2_ADD, BEFORE_TV2_END = 3, 4
AGAIN_S = 0.02  # a broker needs some milliseconds to end a transaction
SEQUENCES = 2**31  # sequences wrap

AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


class Producer:
    """With `transactional_id` None it is idempotent, without transactions."""

    def __init__(self, site: Site, transactional_id: str | None, timeout_ms: int) -> None:
        self._site, self._timeout_ms = site, timeout_ms
        self.transactional_id = transactional_id
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        self._coordinator = self._find_coordinator()
        self.id, self.epoch = self._init()

    @property
    def is_open(self) -> bool:
        return bool(self._added)

    def sequence(self, partition: TopicPartition, records: int) -> int:
        """The sequence of the next batch, which has `records` records."""
        first = self._sequences.get(partition, 0)
        self._sequences[partition] = (first + records) % SEQUENCES
        return first

    def _find_coordinator(self) -> int | None:
        """The first request waits until the cluster has created its topic of transactions."""
        name = self.transactional_id
        if name is None:
            return None
        answer = self._until_done(
            "FindCoordinator",
            lambda: self._site.find_coordinator(name, TRANSACTION),
            lambda answer: {answer.error_code},
        )
        return int(answer.node_id)

    def _init(self) -> tuple[int, int]:
        """Ends every transaction that a mirror of this name left open."""
        request = InitProducerIdRequest(self.transactional_id, self._timeout_ms)
        answer = self._until_done(
            "InitProducerId",
            lambda: self._site.ask(INIT_PRODUCER_ID, request, self._coordinator),
            lambda answer: {answer.error_code},
        )
        return answer.producer_id, answer.producer_epoch

    def add(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Adds partitions; returns those that were not in the transaction yet."""
        missing = [each for each in partitions if each not in self._added]
        if not missing or self.transactional_id is None:
            return []
        topics: dict[str, list[int]] = defaultdict(list)
        for each in missing:
            topics[each.topic].append(each.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name, numbers)
                for name, numbers in topics.items()
            ],
        )
        self._until_done(
            "AddPartitionsToTxn",
            lambda: self._site.ask(ADD_PARTITIONS, request, self._coordinator, BEFORE_TV2_ADD),
            self._codes_of_added,
        )
        self._added.update(missing)
        return missing

    def _codes_of_added(self, answer: AddPartitionsToTxnResponse) -> set[int]:
        codes = set()
        for topic in answer.results_by_topic_v3_and_below:
            for row in topic.results_by_partition:
                codes.add(row.partition_error_code)
                if row.partition_error_code == ErrorCode.POLICY_VIOLATION:
                    raise TopicRefused(topic.name, "is read-only for clients in the target")
        return codes

    def commit(self) -> None:
        if not self.is_open or self.transactional_id is None:
            return
        request = EndTxnRequest(self.transactional_id, self.id, self.epoch, True)
        self._until_done(
            "EndTxn",
            lambda: self._site.ask(END_TXN, request, self._coordinator, BEFORE_TV2_END),
            lambda answer: {answer.error_code},
        )
        self._added.clear()

    def _until_done(
        self, what: str, ask: Callable[[], Any], codes_of: Callable[[Any], set[int]]
    ) -> Any:
        end = time.monotonic() + self._timeout_ms / 1000
        while True:
            answer = ask()
            codes = codes_of(answer) - {0}
            if not codes:
                return answer
            code = next(iter(codes))
            error = BrokerRefused(code, f"{what} of {self.transactional_id}")
            if code in FENCED:
                raise MirrorFenced(f"another mirror of this name has taken over: {error}")
            if not codes <= AGAIN or time.monotonic() > end:
                raise error
            time.sleep(AGAIN_S)
