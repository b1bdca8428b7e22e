"""What the coordinators of groups and of share groups ask: topics, the internal topics that have
their records, and what was set for a group."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from appliance._log import Log
from appliance.config import BrokerConfig, ConsumerGroupsConfig, ShareGroupsConfig
from appliance.groups.group_configs import GroupConfigs
from appliance.groups.modern_group import TopicFacts
from appliance.topics.topic import OFFSETS, SHARE_STATE, Topic
from appliance.topics.topics import Topics

KEPT_FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


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

    def offsets_topic(self) -> Topic | None:
        return self._topics.get(OFFSETS)

    async def make_offsets_topic(self) -> Sequence[Log | None]:
        config = self._config.groups
        return await self._topics.internal(
            OFFSETS, config.offsets_partitions, config.offsets_segment_bytes
        )

    def share_state_logs(self) -> list[Log]:
        return self._topics.logs_of(SHARE_STATE)

    async def make_share_state_topic(self) -> Sequence[Log | None]:
        config = self._config.share_state
        return await self._topics.internal(
            SHARE_STATE, config.partitions, config.segment_bytes, KEPT_FOR_EVER
        )
