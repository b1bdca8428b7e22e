"""What the coordinator of transactions asks: its internal topic, the logs where transactions end,
and producer ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from appliance._log import Log
from appliance.config import TransactionsConfig
from appliance.groups.availability import Availability
from appliance.topics.topic import OFFSETS, TRANSACTIONS
from appliance.topics.topics import Topics
from appliance.txn.producer_ids import ProducerIds


@dataclass(eq=False)
class TransactionPlaces:
    _config: TransactionsConfig
    _topics: Topics
    _offsets: Availability  # which partitions of these the groups have read
    _producer_ids: ProducerIds

    async def new_producer_id(self) -> int:
        return await self._producer_ids.new()

    def transaction_logs(self) -> list[Log]:
        return self._topics.logs_of(TRANSACTIONS)

    async def make_transaction_topic(self) -> Sequence[Log | None]:
        return await self._topics.internal(
            TRANSACTIONS, self._config.log_partitions, self._config.log_segment_bytes
        )

    def find_log(self, topic: str, partition: int) -> Log | None:
        """None: there is no such partition, for certain. Raises where it is not served."""
        found = self._topics.get(topic)
        if found is None or not 0 <= partition < len(found.logs):
            return None
        if topic == OFFSETS:
            self._offsets.check_read(partition)
        return found.log(partition)

    def unserved_partitions(self) -> set[tuple[str, int]]:
        """Nobody knows what is in them. One of the offsets is known when groups have read it."""
        return {*self._topics.unserved(), *self._unread()}

    def all_logs(self) -> Iterable[Log]:
        unread = self._unread()
        logs = (log for topic in self._topics.values() for log in topic.open_logs)
        return [each for each in logs if (each.topic, each.partition) not in unread]

    def _unread(self) -> set[tuple[str, int]]:
        return {(OFFSETS, each) for each in self._offsets.unread}
