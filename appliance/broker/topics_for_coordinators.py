"""What coordinators ask of the broker: topics, and the internal topics that have their records.

`GroupPlaces` is for groups and share groups, and knows what was set for one; `TransactionPlaces`
has the logs where transactions end, and producer ids.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from appliance._log import Log
from appliance.config import (
    BrokerConfig,
    ConsumerGroupsConfig,
    ShareGroupsConfig,
    StreamsGroupsConfig,
    TransactionsConfig,
)
from appliance.groups.availability import Availability, Term
from appliance.groups.group_config_overrides import GroupConfigs
from appliance.groups.modern_group import TopicFacts
from appliance.topics.topic import OFFSETS, SHARE_STATE, TRANSACTIONS, Topic
from appliance.topics.topics import COMPACTED, Topics
from appliance.txn.producer_ids import ProducerIds

KEPT_FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}

# In a cluster what is decided is on two disks at least, where there are two replicas: Kafka's
# default of transaction.state.log.min.isr and share.coordinator.state.topic.min.isr.
ON_TWO = {"min.insync.replicas": "2"}
# As Kafka makes it: a setting for all topics is no word for this one, of which every end of a
# transaction is told.
DECIDED = {**ON_TWO, "unclean.leader.election.enable": "false"}


class GroupPlaces:
    def __init__(self, config: BrokerConfig, topics: Topics, configs: GroupConfigs) -> None:
        self._config = config
        self._topics = topics
        self._configs = configs

    @property
    def topics_version(self) -> int:
        return self._topics.version

    def topic_names(self) -> Iterable[str]:
        return self._topics.keys()

    def topic_facts(self, name: str) -> TopicFacts | None:
        topic = self._topics.get(name)
        return None if topic is None else TopicFacts(topic.id, len(topic.logs))

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        return self._topics.name_of(topic_id)

    def topic_of_id(self, topic_id: uuid.UUID) -> Topic | None:
        return self._topics.of_id(topic_id)

    def may_know_topic(self, topic_id: uuid.UUID) -> bool:
        return self._topics.name_of(topic_id) is not None

    def consumer_group_config(self, group_id: str) -> ConsumerGroupsConfig:
        return self._configs.of_consumers(group_id)

    def share_group_config(self, group_id: str) -> ShareGroupsConfig:
        return self._configs.of_sharers(group_id)

    def streams_group_config(self, group_id: str) -> StreamsGroupsConfig:
        return self._configs.of_streams(group_id)

    async def newest_configs(self) -> None:
        await self._configs.as_new_as_now()

    @property
    def is_in_cluster(self) -> bool:
        return self._topics.cluster is not None

    def offsets_topic(self) -> Topic | None:
        return self._topics.get(OFFSETS)

    async def make_offsets_topic(self) -> Sequence[Log | None]:
        config = self._config.groups
        return await self._topics.internal(
            OFFSETS, config.offsets_partitions, config.offsets_segment_bytes
        )

    def share_state_topic(self) -> Topic | None:
        return self._topics.get(SHARE_STATE)

    def share_state_logs(self) -> list[Log]:
        return self._topics.logs_of(SHARE_STATE)

    async def make_share_state_topic(self) -> Sequence[Log | None]:
        config = self._config.share_state
        return await self._topics.internal(
            SHARE_STATE, config.partitions, config.segment_bytes,
            {**KEPT_FOR_EVER, **ON_TWO} if self.is_in_cluster else KEPT_FOR_EVER,
        )  # fmt: skip


@dataclass(eq=False)
class TransactionPlaces:
    _config: TransactionsConfig
    _topics: Topics
    _offsets: Availability  # which partitions of these the groups have read
    _producer_ids: ProducerIds

    async def new_producer_id(self) -> int:
        return await self._producer_ids.new()

    @property
    def is_in_cluster(self) -> bool:
        return self._topics.cluster is not None

    def transaction_topic(self) -> Topic | None:
        return self._topics.get(TRANSACTIONS)

    def led_log(self, topic: str, partition: int) -> Log | None:
        return self._topics.served_log(topic, partition)

    def offsets_term(self, partition: int) -> Term:
        return self._offsets.check_term(partition)

    def transaction_logs(self) -> list[Log]:
        return self._topics.logs_of(TRANSACTIONS)

    async def make_transaction_topic(self) -> Sequence[Log | None]:
        return await self._topics.internal(
            TRANSACTIONS, self._config.log_partitions, self._config.log_segment_bytes,
            {**COMPACTED, **DECIDED} if self.is_in_cluster else COMPACTED,
        )  # fmt: skip

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
