"""All topics: made, extended, configured, deleted, and told to who must know of each change.

Changes come one after the other, and each is on disk before anybody sees it: the directories, the
catalog's row (`topic_directories.py`), then the data plane; of configs the catalog, then the logs.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from appliance._log import Log
from appliance.catalog import kafka_uuid
from appliance.config import LogConfig, TopicsConfig, topic_config
from appliance.config.topic_config import Configs, TopicConfigs
from appliance.data_dir.log_dirs import LogDirs
from appliance.data_dir.partition_names import Key
from appliance.errors import ApplianceError, Refused, raise_first
from appliance.process import event_log
from appliance.process.detached_tasks import Changes
from appliance.protocol import ErrorCode
from appliance.topics import topic_directories
from appliance.topics.topic import (
    DEFAULT,
    Topic,
    TopicDeletionDisabled,
    TopicExists,
    TopicUnavailable,
    TopicUnknown,
    check_more,
    check_name,
    check_new_name,
    check_own,
    check_partitions,
    clashing,
)
from appliance.topics.topic_announcements import TopicTable, put
from appliance.topics.topic_rows import TopicRow, TopicRows
from appliance.topics.unfinished_deletions import Failures, UnfinishedDeletions

events = event_log.named("broker")

NO_CONFIGS: Configs = {}
NO_REPLICAS: Sequence[Sequence[int]] = ()
COMPACTED: Configs = {"cleanup.policy": "compact"}


@dataclass(frozen=True)
class NewTopic:
    name: str
    partitions: int
    configs: Configs
    factor: int = DEFAULT  # how many replicas each partition has
    replicas: Sequence[Sequence[int]] = NO_REPLICAS  # or which, by partition


@dataclass(frozen=True)
class MorePartitions:
    name: str
    total: int
    replicas: Sequence[Sequence[int]] = NO_REPLICAS  # of those that are new


class Moving(NamedTuple):
    """A partition on its way to other brokers."""

    replicas: Sequence[int]  # all that have it or are to
    adding: Sequence[int]
    removing: Sequence[int]


class Cluster(Protocol):
    """Where topics are the cluster's: who decides of them, in ZooKeeper. Each returns when this
    broker knows of it."""

    async def hear_of(self, name: str) -> None:
        """What any broker was told of a topic of that name until now is known when it returns."""
        ...

    async def hear_of_id(self, topic_id: uuid.UUID) -> None: ...

    async def create(self, wanted: NewTopic) -> Topic: ...

    async def create_partitions(
        self, topic: Topic, total: int, replicas: Sequence[Sequence[int]]
    ) -> None: ...

    async def delete(self, name: str, topic_id: uuid.UUID | None) -> None:
        """Refuses one that has another id by now. None: whichever has the name."""
        ...

    async def configure(self, topic: Topic, after: Callable[[Configs], Configs]) -> None: ...

    async def reassign(
        self, name: str, wanted: Mapping[int, Sequence[int] | None]
    ) -> None:
        """By partition: its replicas from now on; None: no more those that it was moving to."""
        ...

    def moving(self) -> Mapping[str, Mapping[int, Moving]]:
        """By topic, the partitions that are under way to other brokers."""
        ...

    async def elect(self, keys: Collection[Key], unclean: bool = False) -> Mapping[Key, int]:
        """Preferred leaders, or anybody where nobody leads; Kafka's code for each."""
        ...


class Topics(dict[str, Topic]):
    """By their names. Everything here runs on the one asyncio thread."""

    def __init__(
        self,
        rows: TopicRows,
        log_dir: LogDirs,
        limits: TopicsConfig,
        base: LogConfig,
        change: Changes,
    ) -> None:
        super().__init__()
        self.rows = rows
        self.log_dir = log_dir
        self.base = base  # what logs do whose topic says nothing
        self.undeleted = UnfinishedDeletions(rows, log_dir, change)
        self.version = 0  # counts what happens to topics
        self.limits = limits
        self._change = change
        self._names: dict[uuid.UUID, str] = {}
        self._tables: list[TopicTable] = []
        self.cluster: Cluster | None = None  # None: this broker decides

    # Asked by handlers; quick

    def named(self, name: str) -> Topic:
        if name not in self:
            raise TopicUnknown(f"there is no topic {name!r}")
        return self[name]

    def of_id(self, topic_id: uuid.UUID) -> Topic | None:
        name = self._names.get(topic_id)
        return None if name is None else self[name]

    def name_of(self, topic_id: uuid.UUID) -> str | None:
        return self._names.get(topic_id)

    def served_log(self, topic: str, partition: int) -> Log | None:
        """None: it is not served, or there is none."""
        found = self.get(topic)
        return found.logs[partition] if found and 0 <= partition < len(found.logs) else None

    def logs_of(self, name: str) -> list[Log]:
        """Raises where one is there and cannot be read: it is not empty."""
        topic = self.get(name)
        return [] if topic is None else topic.all_logs()

    def unserved(self) -> dict[Key, str]:
        """Partitions that nobody can look into, and why."""
        return {
            (topic.name, number): why
            for topic in self.values()
            for number, why in topic.unserved.items()
        }

    def not_open(self) -> dict[Key, str]:
        """The same with those of no topic."""
        return {**self.unserved(), **self.log_dir.unopened}

    def _partitions(self) -> int:
        return sum(len(each.logs) for each in self.values())

    # Made, extended, deleted

    async def check_new(self, name: str) -> None:
        """Asked first: many a client makes what it wants at each start, and goes on if it is there,
        however few brokers live by then."""
        check_own(name)
        if found := clashing(name, self):
            await self._hear_of(found)
        check_new_name(name, self)

    async def sought(self, name: str) -> Topic:
        """`named`, for who is to change it."""
        if name not in self:
            await self._hear_of(name)
        return self.named(name)

    async def name_sought(self, topic_id: uuid.UUID) -> str | None:
        if topic_id not in self._names and self.cluster is not None:
            await self.cluster.hear_of_id(topic_id)
        return self.name_of(topic_id)

    async def _hear_of(self, name: str) -> None:
        """Before somebody is refused for what is here, or is not: another broker may have told him
        otherwise just now."""
        if self.cluster is not None:
            await self.cluster.hear_of(name)

    def validate(
        self, name: str, partitions: int = DEFAULT, configs: Configs = NO_CONFIGS
    ) -> tuple[int, TopicConfigs]:
        """Whether it could be created now; how many partitions it would have, and its configs."""
        check_own(name)
        return self._validate(name, partitions, configs)

    def _validate(self, name: str, partitions: int, configs: Configs) -> tuple[int, TopicConfigs]:
        return self._checked_new(NewTopic(name, partitions, configs), self, self._partitions())

    def _checked_new(
        self, wanted: NewTopic, names: Collection[str], partitions: int
    ) -> tuple[int, TopicConfigs]:
        """Beside topics of these names, which have so many partitions."""
        name = wanted.name
        check_new_name(name, names)
        # A cluster has the name free at once; what is left here is set aside for the new one.
        if self.cluster is None and name in self.undeleted:
            why = self.undeleted[name]
            raise TopicUnavailable(f"the deletion of a topic {name} cannot be finished: {why}")
        checked = topic_config.validate(wanted.configs, self.base)
        return check_partitions(name, wanted.partitions, partitions, self.limits), checked

    async def create(
        self,
        name: str,
        partitions: int = DEFAULT,
        configs: Configs = NO_CONFIGS,
        factor: int = DEFAULT,
        replicas: Sequence[Sequence[int]] = NO_REPLICAS,
    ) -> Topic:
        (found,) = await self.create_all([NewTopic(name, partitions, configs, factor, replicas)])
        return _raised(found)

    async def create_all(self, wanted: Sequence[NewTopic]) -> list[Topic | ApplianceError]:
        """Each by itself: it, or why it is not made. What they wait for at the disk they wait for
        together."""
        if (cluster := self.cluster) is not None:
            return [await _outcome(self._create_in(cluster, each)) for each in wanted]
        return await self._change(self._create_all(wanted, check_own))

    async def _create_in(self, cluster: Cluster, wanted: NewTopic) -> Topic:
        check_own(wanted.name)
        await self.check_new(wanted.name)
        count, (kept, _) = self._validate(wanted.name, wanted.partitions, wanted.configs)
        return await cluster.create(replace(wanted, partitions=count, configs=kept))

    async def _create(self, name: str, partitions: int, configs: Configs) -> Topic:
        """One of the broker's own, too."""
        (found,) = await self._create_all([NewTopic(name, partitions, configs)], check_name)
        return _raised(found)

    async def _create_all(
        self, wanted: Sequence[NewTopic], check: Callable[[str], None]
    ) -> list[Topic | ApplianceError]:
        found: list[Topic | ApplianceError | TopicRow] = []
        begun: list[tuple[TopicRow, LogConfig]] = []
        names, partitions = set(self), self._partitions()
        for each in wanted:
            try:
                check(each.name)
                row, config = self._row_of(each, names, partitions)
            except ApplianceError as error:
                found.append(error)
                continue
            names.add(row.name)
            partitions += row.partitions
            begun.append((row, config))
            found.append(row)
        create = topic_directories.create
        made = iter(await asyncio.to_thread(create, self.rows, self.log_dir, begun))
        return [
            self._created(each, next(made)) if isinstance(each, TopicRow) else each
            for each in found
        ]

    def _row_of(
        self, wanted: NewTopic, names: Collection[str], partitions: int
    ) -> tuple[TopicRow, LogConfig]:
        count, (kept, config) = self._checked_new(wanted, names, partitions)
        now_ms = self.log_dir.clock.latest_ms()
        return TopicRow(wanted.name, kafka_uuid.new(), count, kept, now_ms), config

    def _created(
        self, row: TopicRow, outcome: list[Log] | ApplianceError
    ) -> Topic | ApplianceError:
        if isinstance(outcome, ApplianceError):
            return outcome
        topic = Topic(row.name, row.id, row.configs, outcome, row.created_ms)
        self.take(topic)
        events.info("topic created", topic=row.name, partitions=row.partitions)
        return topic

    async def internal(
        self, name: str, partitions: int, segment_bytes: int, kept: Configs = COMPACTED
    ) -> Sequence[Log | None]:
        """The logs of a topic of the broker's own, which is made when it is not there."""
        if name not in self:
            own = {"compression.type": "producer", "segment.bytes": str(segment_bytes)}
            await self._make(name, partitions, {**kept, **own})
        return (await self.sought(name)).logs

    async def _make(self, name: str, partitions: int, configs: Configs) -> None:
        if self.cluster is None:
            await self._change(self._make_internal(name, partitions, configs))
            return
        try:
            count, (checked, _) = self._validate(name, partitions, configs)
            await self.cluster.create(NewTopic(name, count, checked))
        except ApplianceError as error:
            if error.kafka_code != TopicExists.kafka_code:  # else another broker was faster
                raise

    async def _make_internal(self, name: str, partitions: int, configs: Configs) -> None:
        if name not in self:
            await self._create(name, partitions, configs)

    async def check_more(self, name: str, total: int) -> Topic:
        """Whether it could have so many now."""
        check_own(name)
        topic = await self.sought(name)
        if total <= len(topic.logs):  # another broker may have made it anew, with fewer
            await self._hear_of(name)
        return self._validate_partitions(name, total)

    def _validate_partitions(self, name: str, total: int, more: int = 0) -> Topic:
        """`more`: so many other topics get beside it."""
        topic = self.named(name)
        count = len(topic.logs)
        check_more(name, total, count)
        check_partitions(name, total, self._partitions() + more - count, self.limits)
        return topic

    async def create_partitions(
        self, name: str, total: int, replicas: Sequence[Sequence[int]] = NO_REPLICAS
    ) -> None:
        (error,) = await self.create_all_partitions([MorePartitions(name, total, replicas)])
        if error is not None:
            raise error

    async def create_all_partitions(
        self, wanted: Sequence[MorePartitions]
    ) -> list[ApplianceError | None]:
        """As `create_all`: why a topic has no more than before."""
        if (cluster := self.cluster) is not None:
            found = [await _outcome(self._extend_in(cluster, each)) for each in wanted]
        else:
            found = await self._change(self._extend(wanted))
        return [each if isinstance(each, ApplianceError) else None for each in found]

    async def _extend_in(self, cluster: Cluster, wanted: MorePartitions) -> Topic:
        topic = await self.check_more(wanted.name, wanted.total)
        await cluster.create_partitions(topic, wanted.total, wanted.replicas)
        return topic

    async def _extend(self, wanted: Sequence[MorePartitions]) -> list[Topic | ApplianceError]:
        found: list[Topic | ApplianceError] = []
        begun: list[tuple[TopicRow, int, LogConfig]] = []
        more = 0
        for each in wanted:
            try:
                check_own(each.name)
                topic = self._validate_partitions(each.name, each.total, more)
            except ApplianceError as error:
                found.append(error)
                continue
            config = topic_config.to_log_config(topic.configs, self.base)
            begun.append((TopicRow(topic.name, topic.id, len(topic.logs)), each.total, config))
            more += each.total - len(topic.logs)
            found.append(topic)
        extend = topic_directories.extend
        made = iter(await asyncio.to_thread(extend, self.rows, self.log_dir, begun))
        return [
            self._extended(each, next(made)) if isinstance(each, Topic) else each
            for each in found
        ]

    def _extended(
        self, topic: Topic, outcome: list[Log] | ApplianceError
    ) -> Topic | ApplianceError:
        if isinstance(outcome, ApplianceError):
            return outcome
        topic.logs = [*topic.logs, *outcome]
        self.show(topic)
        events.info("partitions created", topic=topic.name, partitions=len(topic.logs))
        return topic

    async def delete(self, name: str) -> None:
        raise_first((await self.delete_all({name: None})).values())

    async def delete_all(self, wanted: Mapping[str, uuid.UUID | None]) -> Failures:
        """By name the id that it is to have, or None. Why some are still there. What they wait for
        at the disk they wait for together."""
        failures: Failures = {}
        for name in wanted:
            try:
                self._check_deletion(name)
            except ApplianceError as error:
                failures[name] = error
        allowed = {name: wanted[name] for name in wanted if name not in failures}
        if (cluster := self.cluster) is None:
            return failures | await self._remove_all(allowed)
        for name, topic_id in allowed.items():
            try:
                await self._delete_in(cluster, name, topic_id)
            except ApplianceError as error:
                failures[name] = error
        return failures

    def _check_deletion(self, name: str) -> None:
        check_own(name)
        if not self.limits.may_delete:
            raise TopicDeletionDisabled(f"{name}: delete.topic.enable is false")

    async def _delete_in(
        self, cluster: Cluster, name: str, topic_id: uuid.UUID | None
    ) -> None:
        """The cluster is asked first: of a topic whose files are not yet gone here, it may have one
        of the same name again."""
        try:
            await self.sought(name)
        except TopicUnknown:
            if name not in self.undeleted:
                raise
            await self.undeleted.finish(name)
        else:
            await cluster.delete(name, topic_id)

    async def remove(self, name: str) -> None:
        """From this broker."""
        raise_first((await self._remove_all({name: None})).values())

    async def _remove_all(self, wanted: Mapping[str, uuid.UUID | None]) -> Failures:
        if not wanted:
            return {}
        failures = await self._change(self._begin_removal(wanted))
        await self.undeleted.go_on([each for each in wanted if each not in failures])
        return failures

    async def _begin_removal(self, wanted: Mapping[str, uuid.UUID | None]) -> Failures:
        failures: Failures = {}
        begun: list[str] = []
        for name, topic_id in wanted.items():
            try:
                if name not in self.undeleted:
                    _check_id(self.named(name), topic_id)
                begun.append(name)
            except ApplianceError as error:
                failures[name] = error
        if not begun:
            return failures
        try:
            await asyncio.to_thread(self.rows.begin_deletions, begun)
        except ApplianceError as error:
            return failures | dict.fromkeys(begun, error)
        for name in begun:
            self.hide(name)
        await self.undeleted.begin(begun)
        return failures

    # Configs

    async def configure(
        self, name: str, after: Callable[[Configs], Configs], validate_only: bool = False
    ) -> None:
        """`after` tells all configs from those that it has."""
        if self.cluster is None:
            await self._change(self._configure(name, after, validate_only))
            return
        topic = await self.sought(name)
        self._checked(topic.configs, after)
        if not validate_only:
            await self.cluster.configure(topic, lambda configs: self._checked(configs, after)[0])

    def _checked(
        self, before: Configs, after: Callable[[Configs], Configs]
    ) -> tuple[Configs, LogConfig]:
        kept, config = topic_config.validate(after(before), self.base)
        topic_config.check_source(before, kept)
        return kept, config

    async def _configure(
        self, name: str, after: Callable[[Configs], Configs], validate_only: bool
    ) -> None:
        topic = self.named(name)
        kept, config = self._checked(topic.configs, after)
        if validate_only:
            return
        await asyncio.to_thread(self.rows.set_configs, name, kept)
        was_mirror = bool(topic.mirror_source)
        topic.configs = {**kept}
        topic.configure_logs(config)
        if was_mirror and not topic.mirror_source:
            self.show(topic)
        events.info("topic configured", topic=name, configs=kept)

    def on_base(self, base: LogConfig) -> dict[str, LogConfig]:
        """What the logs of each topic would do; raises where one cannot live with it."""
        return {each.name: topic_config.to_log_config(each.configs, base) for each in self.values()}

    def rebase(self, base: LogConfig, of_topics: Mapping[str, LogConfig]) -> None:
        self.base = base
        for name, config in of_topics.items():
            self[name].configure_logs(config)

    # Who must know

    def tell(self, table: TopicTable) -> None:
        """Of every topic, and from here on every change."""
        self._tables.append(table)
        for each in self.values():
            put(table, each)

    def take(self, topic: Topic) -> None:
        """From now on it is served."""
        self._names[topic.id] = topic.name
        self[topic.name] = topic
        self.show(topic)

    def show(self, topic: Topic) -> None:
        self.version += 1
        for table in self._tables:
            put(table, topic)

    def hide(self, name: str) -> None:
        topic = self.pop(name, None)
        if topic:
            self.version += 1
            del self._names[topic.id]
            for table in self._tables:
                table.remove_topic(name)


async def _outcome(topic: Awaitable[Topic]) -> Topic | ApplianceError:
    try:
        return await topic
    except ApplianceError as error:
        return error


def _check_id(topic: Topic, topic_id: uuid.UUID | None) -> None:
    if topic_id not in (None, topic.id):
        why = f"{topic.name} was made anew: it has id {topic.id}, and {topic_id} was asked for"
        raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, why)


def _raised(found: Topic | ApplianceError) -> Topic:
    if isinstance(found, ApplianceError):
        raise found
    return found
