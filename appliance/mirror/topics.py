"""Creates in the target what the source has: topics, partitions, configs.

A topic that fails here is listed in `refused` and delays no other.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from appliance.client.errors import BrokerRefused, PartitionUnknown
from appliance.mirror import refusals
from appliance.mirror.config import MirrorConfig
from appliance.mirror.errors import OffsetsCannotBeKept, TopicRefused
from appliance.mirror.site import Site, Topic
from appliance.process import event_log, patterns
from appliance.protocol import ErrorCode
from appliance.protocol.messages.create_partitions import API as CREATE_PARTITIONS
from appliance.protocol.messages.create_partitions import CreatePartitionsRequest
from appliance.protocol.messages.create_topics import API as CREATE_TOPICS
from appliance.protocol.messages.create_topics import CreateTopicsRequest
from appliance.protocol.messages.describe_configs import API as DESCRIBE_CONFIGS
from appliance.protocol.messages.describe_configs import DescribeConfigsRequest
from appliance.protocol.messages.incremental_alter_configs import API as ALTER_CONFIGS
from appliance.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

log = event_log.named("mirror")

TOPIC, OWN, SET = 2, 1, 0  # a resource type, a config source, an operation
BROKERS_OWN = -1  # replication factor: the target's default
SOURCE = "mirror.source"
OURS = re.compile(r"mirror\..*\.(positions|offsets)")
ASKED_MAX = 200  # topics per DescribeConfigs
AGAIN_S = 0.05

# Configs that only an appliance has.
NOT_KAFKAS = {"visibility", SOURCE}
# Configs that concern the topic's cluster and not its records.
NOT_COPIED = {
    SOURCE,
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
    "remote.storage.enable",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "local.retention.ms",
    "local.retention.bytes",
}
# With these a target would reject old records of a producer, or stamp them.
OF_THE_FIRST_WRITE = {
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "message.timestamp.difference.max.ms",
}
# Copied even if it is the source broker's default: the target must accept every batch.
SIZE_MAX = "max.message.bytes"
ALWAYS = {SIZE_MAX}

Configs = dict[str, str]


def wanted(source: Site, config: MirrorConfig) -> list[Topic]:
    pattern = patterns.compiled(config.topics)
    return [
        topic
        for name, topic in sorted(source.topics.items())
        if pattern.fullmatch(name) and not OURS.fullmatch(name) and not name.startswith("__")
    ]


def source_of(site: Site, topic: Topic) -> str:
    """The source topic as `mirror.source` names it."""
    return f"{site.cluster_id}/{topic.id}"


def can_keep_offsets(target: Site, config: MirrorConfig) -> bool:
    """Whether the target supports `mirror.source` and the config wants it."""
    if config.offsets == "map":
        return False
    code, text = _create(target, f"mirror.{config.name}.probe", 1, {SOURCE: "a/b"}, only_check=True)
    if code == ErrorCode.INVALID_CONFIG:
        if config.offsets == "keep":
            raise OffsetsCannotBeKept(f"{target.config.broker_list} is no appliance: {text}")
        return False
    if code:
        raise BrokerRefused(code, f"asked whether offsets can be kept: {text}")
    return True


class Arrangement:
    def __init__(
        self, source: Site, target: Site, config: MirrorConfig, keeps_offsets: bool
    ) -> None:
        self._source, self._target, self._config = source, target, config
        self._keeps_offsets = keeps_offsets
        self.refused: dict[str, str] = {}
        self.refused_for_now: set[str] = set()  # those of them that need nobody to change anything
        self.batch_bytes_max: dict[str, int] = {}  # the smaller limit of both sides, by topic
        self.has_changed = False  # something was created in the target

    def arrange(self) -> list[Topic]:
        """Returns the topics that can be mirrored now."""
        topics = [
            each for each in wanted(self._source, self._config) if not self._is_away(each.name)
        ]
        there = self._own_configs(self._source, [each.name for each in topics], ALWAYS)
        here = self._own_configs(
            self._target,
            [each.name for each in topics if each.name in self._target.topics],
            ALWAYS,
        )
        self.batch_bytes_max = {
            name: min(int(own[SIZE_MAX]) for own in (configs, here.get(name, configs)))
            for name, configs in there.items()
        }
        found = []
        for topic in topics:
            try:
                self._topic(topic, self._copied(there.get(topic.name, {})), here.get(topic.name))
                found.append(topic)
            except TopicRefused as error:
                self._refuse(topic.name, str(error), error.is_for_now)
        if not self._keeps_offsets:
            self._own_topics()
        if self.has_changed:
            self._await_leaders(found)
        return found

    def _is_away(self, name: str) -> bool:
        """Whether one of its partitions has no leader, here or there: only this topic waits."""
        for where, site in (("source", self._source), ("target", self._target)):
            topic = site.topics.get(name)
            if topic is not None and not set(topic.leaders.values()) <= site.brokers.keys():
                why = f"one of its partitions has no leader in the {where} now"
                self._refuse(name, why, is_for_now=True)
        return name in self.refused

    def _refuse(self, name: str, why: str, is_for_now: bool) -> None:
        self.refused[name] = why
        if is_for_now:
            self.refused_for_now.add(name)

    def _await_leaders(self, topics: list[Topic]) -> None:
        """A cluster lists a new topic some moments before its partitions have leaders."""
        names = {each.name: len(each.leaders) for each in topics}
        if not self._keeps_offsets:
            names |= {self._config.positions_topic: 1, self._config.offsets_topic: 1}
        end = time.monotonic() + self._config.request_timeout_ms / 1000
        while True:
            self._target.refresh()
            if all(self._has_leaders(*each) for each in names.items()):
                return
            if time.monotonic() > end:
                raise PartitionUnknown(f"new topics have no leaders: {[*names]}")
            time.sleep(AGAIN_S)

    def _has_leaders(self, name: str, count: int) -> bool:
        topic = self._target.topics.get(name)
        if topic is None or len(topic.leaders) < count:
            return False
        return all(leader in self._target.brokers for leader in topic.leaders.values())

    def _topic(self, topic: Topic, configs: Configs, here: Configs | None) -> None:
        if here is None:
            if self._keeps_offsets:
                configs = {**configs, SOURCE: source_of(self._source, topic)}
            try:
                self._make(topic.name, len(topic.leaders), configs)
            except BrokerRefused as error:
                raise TopicRefused(topic.name, str(error), error.retriable) from error
            return
        self._check_source(topic, here.get(SOURCE, ""))
        self._grow(topic)
        if self._config.sync_configs:
            self._alter(topic.name, {k: v for k, v in configs.items() if here.get(k) != v})

    def _check_source(self, topic: Topic, recorded: str) -> None:
        own = source_of(self._source, topic)
        if recorded == (own if self._keeps_offsets else ""):
            return
        if not self._keeps_offsets:
            why = refusals.KEPT_BY_ANOTHER.format(source=recorded)
        elif not recorded:
            why = refusals.NO_MIRROR
        else:
            why = refusals.of_other_source(recorded, own, refusals.KEPT_OF_ONE)
        raise TopicRefused(topic.name, why)

    def _grow(self, topic: Topic) -> None:
        count, here = len(topic.leaders), len(self._target.topics[topic.name].leaders)
        if count <= here:
            return
        row = CreatePartitionsRequest.CreatePartitionsTopic(topic.name, count, None)
        request = CreatePartitionsRequest([row], self._config.request_timeout_ms)
        (answer,) = self._target.ask(CREATE_PARTITIONS, request, self._target.controller).results
        if answer.error_code:
            error = BrokerRefused(answer.error_code, answer.error_message or "")
            why = f"{count} partitions instead of {here}: {error}"
            raise TopicRefused(topic.name, why, error.retriable)
        self.has_changed = True
        log.info("partitions created in the target", topic=topic.name, partitions=count)

    def _make(self, name: str, partitions: int, configs: Configs) -> None:
        code, text = _create(self._target, name, partitions, configs)
        if code and code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise BrokerRefused(code, f"topic {name} cannot be created in the target: {text}")
        self.has_changed = True
        log.info("topic created in the target", topic=name, partitions=partitions)

    def _own_topics(self) -> None:
        """The mirror's topics for positions and map."""
        compacted = {"cleanup.policy": "compact"}
        kept = {"retention.ms": str(self._config.map_retention_ms)}
        rows = {self._config.positions_topic: compacted, self._config.offsets_topic: kept}
        for name, configs in rows.items():
            if name not in self._target.topics:
                self._make(name, 1, configs)

    # configs

    def _copied(self, configs: Configs) -> Configs:
        left_out = set(NOT_COPIED)
        if not self._keeps_offsets:
            left_out |= OF_THE_FIRST_WRITE | NOT_KAFKAS
        return {name: text for name, text in configs.items() if name not in left_out}

    def _own_configs(
        self, site: Site, names: list[str], always: Iterable[str] = ()
    ) -> dict[str, Configs]:
        """The configs that are set for each topic."""
        found: dict[str, Configs] = {}
        for i in range(0, len(names), ASKED_MAX):
            rows = [
                DescribeConfigsRequest.DescribeConfigsResource(TOPIC, name, None)
                for name in names[i : i + ASKED_MAX]
            ]
            for each in site.ask(DESCRIBE_CONFIGS, DescribeConfigsRequest(rows)).results:
                if each.error_code:
                    error = BrokerRefused(each.error_code, each.error_message or "configs")
                    self._refuse(each.resource_name, str(error), error.retriable)
                    continue
                found[each.resource_name] = {
                    row.name: row.value
                    for row in each.configs
                    if row.value is not None and (row.config_source == OWN or row.name in always)
                }
        return found

    def _alter(self, name: str, configs: Mapping[str, str]) -> None:
        if not configs:
            return
        rows = [
            IncrementalAlterConfigsRequest.AlterableConfig(key, SET, value)
            for key, value in configs.items()
        ]
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(TOPIC, name, rows)
        request = IncrementalAlterConfigsRequest([resource])
        (answer,) = self._target.ask(ALTER_CONFIGS, request, self._target.controller).responses
        if answer.error_code:
            # mirroring works without these configs
            error = BrokerRefused(answer.error_code, answer.error_message or "")
            log.warning("configs cannot be set in the target", topic=name, error=error, **configs)
        else:
            log.info("configs set in the target", topic=name, **configs)


def _create(
    target: Site, name: str, partitions: int, configs: Configs, only_check: bool = False
) -> tuple[int, str]:
    row = CreateTopicsRequest.CreatableTopic(name, partitions, BROKERS_OWN)
    row.configs = [
        CreateTopicsRequest.CreatableTopicConfig(key, value) for key, value in configs.items()
    ]
    request = CreateTopicsRequest([row], target.config.socket_timeout_ms, only_check)
    answer: Any = target.ask(CREATE_TOPICS, request, target.controller)
    (found,) = answer.topics
    return found.error_code, found.error_message or ""
