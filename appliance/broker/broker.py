"""The owner of control state: topics, their configs, the broker's own.

Everything here runs on the one asyncio thread; what touches the disk goes to a thread beside it.
Changes come one after the other, and one that has begun goes on to its end even if whoever asked
for it is gone. Each is on disk before anybody sees it:

    topics    the catalog's row, the directories (`topic_directories.py`), then the data plane
    configs   the catalog, then the logs

Consumer groups, transactions and what share groups read have owners of their own on the same
thread, `groups`, `transactions` and `share_partitions`; their records live in internal topics, each
made when the first of them needs it. So have ACLs, credentials, quotas and subscriptions to
clients' metrics, whose changes take their turn with all others.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, TypeVar

from appliance._log import Log
from appliance.access.acl_rows import AclRows
from appliance.access.acls import Acls
from appliance.access.client_quotas import ClientQuotas
from appliance.access.kept import Kept, size_of
from appliance.access.kept import check_name as check_kept_name
from appliance.access.scram import ScramCredentials
from appliance.access.scram_rows import ScramRows
from appliance.broker.client_metrics import ClientMetrics
from appliance.catalog import kafka_uuid
from appliance.catalog.catalog import NAME, Catalog
from appliance.catalog.config_rows import ConfigRows
from appliance.catalog.ledger import Ledger
from appliance.catalog.ledger_rows import LedgerRows
from appliance.catalog.producer_id_rows import ProducerIdRows
from appliance.config import (
    Address,
    BrokerConfig,
    ConsumerGroupsConfig,
    LogConfig,
    ShareGroupsConfig,
    broker_configs,
    group_configs,
    topic_config,
)
from appliance.config.broker_configs import BrokerConfigs, ConfigEntry
from appliance.config.config_key import ConfigChange, ConfigKey, changed
from appliance.data_dir.locked_dir import LockedDir
from appliance.data_dir.log_dir import LogDir
from appliance.data_dir.recovery import Progress
from appliance.errors import ApplianceError
from appliance.export.book import Book
from appliance.export.export_rows import ExportRows
from appliance.export.hold_rows import HoldRows
from appliance.export.holds import Holds
from appliance.groups import coordinator as groups
from appliance.groups.group_table import GroupTable
from appliance.groups.lag import Lag, Source
from appliance.groups.modern_group import TopicFacts
from appliance.process import event_log
from appliance.process.unattended import outcome
from appliance.repair.refused_reads import RefusedReads
from appliance.repair.scrub import Scrubber, untold
from appliance.share.coordinator import ShareCoordinator
from appliance.share.partitions import SharePartitions
from appliance.topics import topic_directories
from appliance.topics.reconciliation import Reconciliation
from appliance.topics.reopening import Reopening
from appliance.topics.topic import (
    DEFAULT,
    OFFSETS,
    SHARE_STATE,
    TRANSACTIONS,
    PartitionsInvalid,
    Topic,
    TopicDeletionDisabled,
    TopicUnavailable,
    TopicUnknown,
    check_name,
    check_new_name,
    check_own,
    check_partitions,
)
from appliance.topics.topic_rows import TopicRow, TopicRows
from appliance.topics.topic_table import PlaneTable, TopicTable, put
from appliance.txn import coordinator as transactions

events = event_log.named("broker")

Result = TypeVar("Result")

NO_CONFIGS: Mapping[str, str] = {}
COMPACTED: Mapping[str, str] = {"cleanup.policy": "compact"}


class Broker:
    """`open` is the constructor."""

    def __init__(
        self,
        config: BrokerConfig,
        catalog: Catalog,
        log_dir: LogDir,
        ledger: Ledger,
        holds: Holds,
        configs: BrokerConfigs,
    ) -> None:
        self.config = config
        self.catalog = catalog
        self.topic_rows = TopicRows(catalog)
        self.broker_config_rows = broker_config_rows(catalog)
        self.group_config_rows: ConfigRows[str, str] = ConfigRows(
            catalog, "group_configs", "group_id"
        )
        self._producer_id_rows = ProducerIdRows(catalog)
        self.log_dir = log_dir
        self.node_id = config.node_id
        self.cluster_id = catalog.cluster_id
        self.advertised = config.advertised(config.listen_address)
        self.topics: dict[str, Topic] = {}
        self.undeleted: dict[str, str] = {}  # topics of which only files are left; why these are
        self.software: dict[int, tuple[str, str]] = {}  # name and version, by connection
        self.tables: list[TopicTable] = []
        self._configs = configs
        self._when_configured: list[Callable[[BrokerConfigs], None]] = []
        self._names: dict[uuid.UUID, str] = {}
        self._changing = asyncio.Lock()
        self._changes: set[asyncio.Task[Any]] = set()
        self._producer_ids: list[int] = []
        self._group_configs: dict[str, dict[str, str]] = {}
        self.topics_version = 0  # counts what happens to topics
        self._reserving = asyncio.Lock()
        self.clock = log_dir.clock
        kept = config.kept
        self.entities = Kept.of_entities(kept)
        table = GroupTable(
            config.groups, self, self.clock, Kept.of_groups(kept), kept.member_max_bytes
        )
        self.share_partitions = SharePartitions(config, self, wall=self.clock)
        self.share_groups = ShareCoordinator(table, self, self.share_partitions)
        self.groups = groups.Coordinator(
            config.groups, table, self, self.share_groups, self.clock
        )
        self.transactions = transactions.Coordinator(
            config.transactions, self, self.groups.loading.known,
            self.groups.commits.end_transaction, self.clock, Kept.of_transactions(kept),
        )  # fmt: skip
        sources: list[Source] = [self.groups.progress, self.share_groups]
        self.lag = Lag(
            config.groups, self.served_log, sources, self.groups.loading.loaded,
            self.clock.now_ms,
        )  # fmt: skip
        self.acls = Acls(AclRows(catalog), self._change, self.entities)
        self.scram = ScramCredentials(ScramRows(catalog), self._change, self.entities)
        quotas: ConfigRows[str, float] = ConfigRows(catalog, "client_quotas", "entity")
        self.quotas = ClientQuotas(quotas, self._change, self.entities)
        metrics: ConfigRows[str, str] = ConfigRows(catalog, "client_metrics", "subscription")
        self.client_metrics = ClientMetrics(metrics, self._change, self.entities)
        self.reopening = Reopening(self, self._change)
        self.exports = Book(ExportRows(catalog), config.export.runs_max)
        self.ledger = ledger
        self.scrubber = Scrubber(log_dir)
        self.refused_reads = RefusedReads(log_dir, self.scrubber)
        self.holds = holds

    @classmethod
    def open(
        cls, config: BrokerConfig, progress: Progress = lambda done, found: None
    ) -> Broker:
        """Recovers the data directory and makes it agree with the catalog. Blocks: for a thread."""
        with ExitStack() as undo:
            locked = LockedDir.lock(
                config.data_dir, config.storage, config.network.max_connections,
                config.admin.connections_max,
            )  # fmt: skip
            undo.callback(locked.release)
            catalog = Catalog.open(config.data_dir / NAME)
            undo.callback(catalog.close)
            ledger = Ledger(LedgerRows(catalog))
            holds = Holds(HoldRows(catalog), lambda: locked.engine.is_full)
            log_dir = LogDir(locked, ledger, holds)
            undo.callback(log_dir.abandon)
            of_broker = broker_config_rows(catalog).all()
            own, default = of_broker.get(False, NO_CONFIGS), of_broker.get(True, NO_CONFIGS)
            configs, faults = broker_configs.stored(config, own, default)
            broker = cls(config, catalog, log_dir, ledger, holds, configs)
            broker._recover(progress, faults)
            undo.pop_all()
        return broker

    def _recover(self, progress: Progress, faults: list[str]) -> None:
        """`faults` are those of the broker's stored configs."""
        log_dir, base = self.log_dir, self.log_config
        of_topics = {
            row.name: topic_config.to_log_config(topic_config.readable(row.configs, base)[0], base)
            for row in self.topic_rows.all()
        }
        log_dir.recover(progress, lambda topic, partition: of_topics.get(topic, base))
        self.ledger.note(untold(log_dir, self.ledger.entries()))
        log_dir.report.notes += [f"{each}. Nothing is cleaned by default." for each in faults]
        found = Reconciliation(self.topic_rows, log_dir, base, self.config.topics)
        found.run()
        self.topics, self.undeleted = found.topics, found.undeleted
        self._names = {each.id: each.name for each in found.topics.values()}
        of_groups = group_configs.stored(self.config, self.group_config_rows.all())
        self._group_configs, faults = of_groups
        for group_id, own in self._group_configs.items():
            self.entities.put(("group", group_id), size_of(own))
        log_dir.report.notes += [f"{each}. The group has the settings of all." for each in faults]

    def listens(self, kafka: Address, admin: Address) -> None:
        """Where in fact: of a configured port 0 the kernel made another."""
        self.advertised = self.config.advertised(kafka)
        found = replace(self.config, listen_address=kafka, admin_address=admin)
        self._configs = replace(self._configs, config=found)

    def connect(self, data_plane: PlaneTable, connections_max: int = 0) -> None:
        """Tells the data plane every topic, quota and limit, and from here on every change. It may
        take fewer connections than are configured, and then says how many."""
        self.quotas.connect(data_plane)
        self.tell_topics(data_plane)
        network = self.config.network
        connections_max = connections_max or network.max_connections
        share = max(1, connections_max * network.connections_percent_per_ip // 100)
        self.when_configured(lambda configs: data_plane.limit_connections_per_ip(
            min(share, configs.number(broker_configs.CONNECTIONS_PER_IP))))

    def when_configured(self, tell: Callable[[BrokerConfigs], None]) -> None:
        """Tells how the broker is configured, now and after every change."""
        self._when_configured.append(tell)
        tell(self._configs)

    def tell_topics(self, table: TopicTable) -> None:
        """Of every topic, and from here on every change."""
        self.tables.append(table)
        for each in self.topics.values():
            put(table, each)

    async def close(self) -> None:
        """After the last change that has begun."""
        await self.share_groups.settled()
        await self.share_partitions.close()
        await self.transactions.close()
        await self.groups.close()
        while self._changes:
            await asyncio.wait(self._changes)
        await asyncio.to_thread(self.scrubber.close)
        try:
            await asyncio.to_thread(self.log_dir.close)
        finally:
            await asyncio.to_thread(self.catalog.close)

    # Asked by handlers; quick

    def topic_of_id(self, topic_id: uuid.UUID) -> Topic | None:
        name = self._names.get(topic_id)
        return None if name is None else self.topics[name]

    def may_know_topic(self, topic_id: uuid.UUID) -> bool:
        """False only where it is certain that it was deleted."""
        return topic_id in self._names

    def check_topic_name(self, name: str) -> None:
        check_name(name)

    @property
    def log_config(self) -> LogConfig:
        """What logs do whose topic says nothing."""
        return self._configs.log_config()

    def topic_config(self, topic: str, name: str) -> str:
        """The value in force."""
        return self._configs.topic_value(name, self.topic(topic).configs)

    def topic_config_entries(self, topic: Topic) -> list[ConfigEntry]:
        return self._configs.topic_entries(topic.configs)

    def group_config_entries(self, group_id: str) -> list[ConfigEntry]:
        return group_configs.entries(self._group_configs.get(group_id, NO_CONFIGS), self._configs)

    def new_topic_config_entries(self, configs: Mapping[str, str]) -> list[ConfigEntry]:
        """Those of a topic that would be created with these."""
        return self._configs.topic_entries(topic_config.validate(configs, self.log_config))

    def broker_config_entries(self) -> list[ConfigEntry]:
        return self._configs.broker_entries()

    def default_config_entries(self) -> list[ConfigEntry]:
        """What was set for all brokers, whatever this broker has set for itself."""
        return self._configs.default_entries()

    def validate_topic(
        self, name: str, partitions: int = DEFAULT, configs: Mapping[str, str] = NO_CONFIGS
    ) -> int:
        """Whether it could be created now; how many partitions it would have."""
        check_own(name)
        return self._validate_topic(name, partitions, configs)

    def _validate_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> int:
        check_new_name(name, self.topics)
        if name in self.undeleted:
            why = self.undeleted[name]
            raise TopicUnavailable(f"the deletion of a topic {name} cannot be finished: {why}")
        topic_config.validate(configs, self.log_config)
        return check_partitions(name, partitions, self._partitions(), self.config.topics)

    def _partitions(self) -> int:
        return sum(len(each.logs) for each in self.topics.values())

    def topic(self, name: str) -> Topic:
        if name not in self.topics:
            raise TopicUnknown(f"there is no topic {name!r}")
        return self.topics[name]

    # Topics

    async def create_topic(
        self, name: str, partitions: int = DEFAULT, configs: Mapping[str, str] = NO_CONFIGS
    ) -> Topic:
        check_own(name)
        return await self._change(self._create_topic(name, partitions, configs))

    async def _create_topic(
        self, name: str, partitions: int, configs: Mapping[str, str]
    ) -> Topic:
        count = self._validate_topic(name, partitions, configs)
        kept = topic_config.validate(configs, self.log_config)
        row = TopicRow(name, kafka_uuid.new(), count, kept, self.clock.latest_ms())
        config = topic_config.to_log_config(kept, self.log_config)
        create = topic_directories.create
        logs = await asyncio.to_thread(create, self.topic_rows, self.log_dir, row, config)
        topic = Topic(name, row.id, kept, logs, row.created_ms)
        self.take(topic)
        events.info("topic created", topic=name, partitions=count)
        return topic

    async def create_partitions(self, name: str, total: int) -> None:
        await self._change(self._create_partitions(name, total))

    def validate_partitions(self, name: str, total: int) -> Topic:
        """Whether it could have so many now."""
        check_own(name)
        topic = self.topic(name)
        count = len(topic.logs)
        if total <= count:
            raise PartitionsInvalid(f"{name}: got {total} partitions, wanted more than its {count}")
        check_partitions(name, total, self._partitions() - count, self.config.topics)
        return topic

    async def _create_partitions(self, name: str, total: int) -> None:
        topic = self.validate_partitions(name, total)
        count = len(topic.logs)
        row = TopicRow(name, topic.id, count)
        config = topic_config.to_log_config(topic.configs, self.log_config)
        extend = topic_directories.extend
        more = await asyncio.to_thread(extend, self.topic_rows, self.log_dir, row, total, config)
        topic.logs = [*topic.logs, *more]
        self.show(topic)
        events.info("partitions created", topic=name, partitions=total)

    async def delete_topic(self, name: str) -> None:
        check_own(name)
        facts = self.topic_facts(name)
        await self._change(self._delete_topic(name))
        await asyncio.to_thread(self.holds.forget_topic, name)
        await self.groups.commits.forget_topic(name)
        if facts is not None:
            self.share_groups.forget_topic(facts.id)
            await self.share_partitions.states.forget_topic(facts.id)

    async def _delete_topic(self, name: str) -> None:
        if not self.config.topics.may_delete:
            raise TopicDeletionDisabled(f"{name}: delete.topic.enable is false")
        if name not in self.undeleted:
            self.topic(name)
        await asyncio.to_thread(self.topic_rows.begin_deletion, name)
        self._hide(name)
        try:
            finish = topic_directories.finish_deletion
            await asyncio.to_thread(finish, self.topic_rows, self.log_dir, name)
        except ApplianceError as error:
            # It is deleted, whatever becomes of the files: the next start tries again.
            self.undeleted[name] = str(error)
            events.error("a deleted topic's files stay for now", topic=name, error=error)
            return
        self.undeleted.pop(name, None)
        events.info("topic deleted", topic=name)

    # Configs

    async def set_topic_configs(
        self, name: str, configs: Mapping[str, str], validate_only: bool = False
    ) -> None:
        """All of them: those not given are back at the broker's."""
        await self._change(self._set_topic_configs(name, lambda _: configs, validate_only))

    async def alter_topic_configs(
        self, name: str, changes: Iterable[ConfigChange], validate_only: bool = False
    ) -> None:
        def after(configs: Mapping[str, str]) -> Mapping[str, str]:
            return changed(configs, changes, topic_config.find, default)

        def default(key: ConfigKey) -> str:
            return self._configs.topic_value(key.name, {})

        await self._change(self._set_topic_configs(name, after, validate_only))

    async def _set_topic_configs(
        self,
        name: str,
        after: Callable[[Mapping[str, str]], Mapping[str, str]],
        validate_only: bool,
    ) -> None:
        topic = self.topic(name)
        configs = topic_config.validate(after(topic.configs), self.log_config)
        topic_config.check_source(topic.configs, configs)
        if validate_only:
            return
        await asyncio.to_thread(self.topic_rows.set_configs, name, configs)
        was_mirror = bool(topic.mirror_source)
        topic.configs = configs
        self._configure(topic)
        if was_mirror and not topic.mirror_source:
            self.show(topic)
        events.info("topic configured", topic=name, configs=configs)

    async def set_broker_configs(
        self, configs: Mapping[str, str], is_default: bool = False, validate_only: bool = False
    ) -> None:
        """All that was set at run time: what is not given is back at the operator's setting."""
        await self._change(self._set_broker_configs(lambda _: configs, is_default, validate_only))

    async def alter_broker_configs(
        self,
        changes: Iterable[ConfigChange],
        is_default: bool = False,
        validate_only: bool = False,
    ) -> None:
        def after(configs: Mapping[str, str]) -> Mapping[str, str]:
            return changed(configs, changes, broker_configs.find, default)

        def default(key: ConfigKey) -> str:
            return self._configs.synonyms(key.name)[0].value

        await self._change(self._set_broker_configs(after, is_default, validate_only))

    async def _set_broker_configs(
        self,
        after: Callable[[Mapping[str, str]], Mapping[str, str]],
        is_default: bool,
        validate_only: bool,
    ) -> None:
        before = self._configs.default if is_default else self._configs.own
        configs = self._configs.changed(after(before), is_default)
        base = configs.log_config()
        for topic in self.topics.values():
            topic_config.to_log_config(topic.configs, base)
        if validate_only:
            return
        kept = configs.default if is_default else configs.own
        await asyncio.to_thread(self.broker_config_rows.set, {is_default: kept})
        self._configs = configs
        for topic in self.topics.values():
            self._configure(topic)
        for tell in self._when_configured:
            tell(configs)
        events.info("broker configured", configs=kept)

    async def set_group_configs(
        self, group_id: str, configs: Mapping[str, str], validate_only: bool = False
    ) -> None:
        await self._change(self._set_group_configs(group_id, lambda _: configs, validate_only))

    async def alter_group_configs(
        self, group_id: str, changes: Iterable[ConfigChange], validate_only: bool = False
    ) -> None:
        def after(configs: Mapping[str, str]) -> Mapping[str, str]:
            return changed(configs, changes, group_configs.find, lambda key: key.default)

        await self._change(self._set_group_configs(group_id, after, validate_only))

    async def _set_group_configs(
        self,
        group_id: str,
        after: Callable[[Mapping[str, str]], Mapping[str, str]],
        validate_only: bool,
    ) -> None:
        before = self._group_configs.get(group_id, NO_CONFIGS)
        configs = group_configs.validate(after(before), self.config)
        check_kept_name("group", group_id)
        more = size_of(configs) - size_of(before)
        if configs:
            self.entities.check(("group", group_id), more)
        if validate_only:
            return
        await asyncio.to_thread(self.group_config_rows.set, {group_id: configs})
        if configs:
            self._group_configs[group_id] = configs
            self.entities.put(("group", group_id), size_of(configs))
        else:
            self._group_configs.pop(group_id, None)
            self.entities.drop(("group", group_id))
        events.info("group configured", group=group_id, configs=configs)

    # Producer ids

    async def new_producer_id(self) -> int:
        async with self._reserving:
            if not self._producer_ids:
                block = await asyncio.to_thread(self._producer_id_rows.reserve)
                self._producer_ids = list(reversed(block))
            return self._producer_ids.pop()

    # What groups ask

    def topic_names(self) -> Iterable[str]:
        return self.topics.keys()

    def topic_facts(self, name: str) -> TopicFacts | None:
        topic = self.topics.get(name)
        return None if topic is None else TopicFacts(topic.id, len(topic.logs))

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        return self._names.get(topic_id)

    def configured_groups(self) -> list[str]:
        return sorted(name for name, configs in self._group_configs.items() if configs)

    def consumer_group_config(self, group_id: str) -> ConsumerGroupsConfig:
        configs = self._group_configs.get(group_id, NO_CONFIGS)
        return group_configs.consumer_groups(configs, self.config.consumer_groups)

    def share_group_config(self, group_id: str) -> ShareGroupsConfig:
        configs = self._group_configs.get(group_id, NO_CONFIGS)
        return group_configs.share_groups(configs, self.config.share_groups)

    # Internal topics

    def offsets_topic(self) -> Topic | None:
        return self.topics.get(OFFSETS)

    async def make_offsets_topic(self) -> Sequence[Log | None]:
        config = self.config.groups
        return await self._internal_topic(
            OFFSETS, config.offsets_partitions, config.offsets_segment_bytes
        )

    def transaction_logs(self) -> list[Log]:
        return self._logs_of(TRANSACTIONS)

    async def make_transaction_topic(self) -> Sequence[Log | None]:
        config = self.config.transactions
        return await self._internal_topic(
            TRANSACTIONS, config.log_partitions, config.log_segment_bytes
        )

    def share_state_logs(self) -> list[Log]:
        return self._logs_of(SHARE_STATE)

    async def make_share_state_topic(self) -> Sequence[Log | None]:
        config = self.config.share_state
        kept = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
        return await self._internal_topic(
            SHARE_STATE, config.partitions, config.segment_bytes, kept
        )

    def _logs_of(self, name: str) -> list[Log]:
        """Raises where one is there and cannot be read: it is not empty."""
        topic = self.topics.get(name)
        return [] if topic is None else topic.all_logs()

    async def _internal_topic(
        self,
        name: str,
        partitions: int,
        segment_bytes: int,
        kept: Mapping[str, str] = COMPACTED,
    ) -> Sequence[Log | None]:
        if name not in self.topics:
            configs = {
                **kept,
                "compression.type": "producer",
                "segment.bytes": str(segment_bytes),
            }
            await self._change(self._make_internal_topic(name, partitions, configs))
        return self.topics[name].logs

    async def _make_internal_topic(
        self, name: str, partitions: int, configs: Mapping[str, str]
    ) -> None:
        if name not in self.topics:
            await self._create_topic(name, partitions, configs)

    def served_log(self, topic: str, partition: int) -> Log | None:
        """None: it is not served, or there is none."""
        found = self.topics.get(topic)
        return found.logs[partition] if found and 0 <= partition < len(found.logs) else None

    # Where transactions end

    def find_log(self, topic: str, partition: int) -> Log | None:
        """None: there is no such partition, for certain. Raises where it is not served."""
        found = self.topics.get(topic)
        if found is None or not 0 <= partition < len(found.logs):
            return None
        if topic == OFFSETS:
            self.groups.availability.check_read(partition)
        return found.log(partition)

    def unserved_partitions(self) -> set[tuple[str, int]]:
        """Nobody knows what is in them. One of the offsets is known when groups have read it."""
        found = {(each.name, n) for each in self.topics.values() for n in each.unserved}
        return found | {(OFFSETS, each) for each in self.groups.availability.unread}

    def not_open(self) -> dict[tuple[str, int], str]:
        """Partitions, also of no topic, and why."""
        unserved = {
            (topic.name, number): why
            for topic in self.topics.values()
            for number, why in topic.unserved.items()
        }
        return {**unserved, **self.log_dir.unopened}

    def all_logs(self) -> Iterable[Log]:
        """Of the partitions that are served."""
        unread = {(OFFSETS, each) for each in self.groups.availability.unread}
        logs = (log for topic in self.topics.values() for log in topic.open_logs)
        return [each for each in logs if (each.topic, each.partition) not in unread]

    # How changes are made

    async def _change(self, job: Coroutine[Any, Any, Result]) -> Result:
        async def in_turn() -> Result:
            async with self._changing:
                return await job

        task = asyncio.get_running_loop().create_task(in_turn())
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await outcome(task)

    def take(self, topic: Topic) -> None:
        """From now on it is served."""
        self._names[topic.id] = topic.name
        self.topics[topic.name] = topic
        self.show(topic)

    def show(self, topic: Topic) -> None:
        self.topics_version += 1
        for table in self.tables:
            put(table, topic)

    def _hide(self, name: str) -> None:
        topic = self.topics.pop(name, None)
        if topic:
            self.topics_version += 1
            del self._names[topic.id]
            for table in self.tables:
                table.remove_topic(name)

    def _configure(self, topic: Topic) -> None:
        config = topic_config.to_log_config(topic.configs, self.log_config)
        for log in topic.open_logs:
            log.configure(config)


def broker_config_rows(catalog: Catalog) -> ConfigRows[bool, str]:
    return ConfigRows(catalog, "broker_configs", "is_default")
