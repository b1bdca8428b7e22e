"""The owner of control state: what there is, made of one another, opened and closed in order.

Everything here runs on the one asyncio thread; what touches the disk goes to a thread beside it.
Changes come one after the other (`change`), and one that has begun comes to its end even if who
asked for it is gone. Each is on disk before anybody sees it.

    topics            `topics/topics.py`; their configs and the broker's are `configs`
    groups            with `share_groups` and `share_partitions`, and `group_configs`
    transactions      and `producer_ids`

The records of groups and transactions live in internal topics, each made when the first of them
needs it; `topics_for_coordinators` says where. ACLs, credentials, quotas and
subscriptions to clients' metrics have owners, too, whose changes take their turn with all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Protocol
from uuid import UUID

from appliance.access import sasl_mechanisms
from appliance.access.acl_rows import AclRows
from appliance.access.acls import Acls
from appliance.access.audit import Asking, AuditTrail
from appliance.access.audit_rows import AuditRows
from appliance.access.authorizer import Authorizer
from appliance.access.certificate_logins import CERTIFICATE, CertificateLogins
from appliance.access.client_quotas import ClientQuotas
from appliance.access.delegation_token_rows import DelegationTokenRows
from appliance.access.delegation_tokens import DelegationTokens
from appliance.access.kept_per_address import Kept
from appliance.access.login_attempts import LoginAttempts
from appliance.access.logins import DataPlane as LoginPlane
from appliance.access.logins import ListenerLogins, Logins
from appliance.access.principal import ANONYMOUS, Principal
from appliance.access.scram import ScramCredentials, Trust
from appliance.access.topic_decisions import CLUSTER, Question, TopicDecisions
from appliance.access.user_facts import LoginSecrets
from appliance.access.user_rows import UserRows
from appliance.access.users import UserTable
from appliance.broker.backup_points import BackupPoints
from appliance.broker.backup_reports import BackupReports
from appliance.broker.client_metrics import ClientMetrics
from appliance.broker.config_overrides import RunTimeConfigs
from appliance.broker.members import NOBODY, Members, OneBroker
from appliance.broker.partition_leaders import PartitionLeaders
from appliance.broker.peers import Peers
from appliance.broker.topics_for_coordinators import GroupPlaces, TransactionPlaces
from appliance.catalog.catalog import NAME, Catalog
from appliance.catalog.config_rows import ConfigRows
from appliance.catalog.facts import Facts, Owner
from appliance.catalog.log_directory_rows import LogDirectoryRows
from appliance.catalog.loss_ledger import Ledger
from appliance.catalog.loss_ledger_rows import LedgerRows
from appliance.catalog.producer_id_rows import ProducerIdRows
from appliance.config import Address, BrokerConfig, dynamic_broker_config
from appliance.config.dynamic_broker_config import BrokerConfigs
from appliance.data_dir import data_format, unfinished_restore
from appliance.data_dir.control_dir import ControlDir
from appliance.data_dir.log_dirs import LogDirs
from appliance.data_dir.log_writes import LogWrites
from appliance.data_dir.recovery import RecoveryProgress
from appliance.errors import ApplianceError
from appliance.export.definitions_and_runs import Book
from appliance.export.export_rows import ExportRows
from appliance.export.hold_rows import HoldRows
from appliance.export.holds import Holds
from appliance.groups import coordinator as groups
from appliance.groups.group_config_overrides import GroupConfigs
from appliance.groups.group_table import GroupTable
from appliance.groups.lag import Lag, Source
from appliance.groups.streams.internal_topics import InternalTopics
from appliance.groups.zookeeper_groups import ZooKeeperGroups
from appliance.process.detached_tasks import Changes
from appliance.repair.refused_reads import RefusedReads
from appliance.repair.scrub import Scrubber, missing_entries
from appliance.share.coordinator import ShareCoordinator
from appliance.share.partitions import SharePartitions
from appliance.topics.partition_moves import PartitionMoves
from appliance.topics.reconciliation import Reconciliation
from appliance.topics.reopening import Reopening
from appliance.topics.topic import OFFSETS, TopicUnavailable
from appliance.topics.topic_announcements import PlaneTable
from appliance.topics.topic_rows import TopicRows
from appliance.topics.topics import Topics
from appliance.txn import coordinator as transactions
from appliance.txn.producer_ids import ProducerIds


class Plane(PlaneTable, LoginPlane, Protocol):
    """What the broker tells of itself."""

    def put_racks(self, own: str, racks: Mapping[int, str]) -> None: ...
    def limit_followers(self, rate: int) -> None: ...


class Broker:
    """`open` is the constructor."""

    def __init__(
        self,
        config: BrokerConfig,
        catalog: Catalog,
        log_dir: LogDirs,
        ledger: Ledger,
        holds: Holds,
    ) -> None:
        self.config = config
        self.catalog = catalog
        self.log_dir = log_dir
        self.ledger = ledger
        self.holds = holds
        self.clock = log_dir.clock
        self.node_id = config.node_id
        self.cluster_id = catalog.cluster_id
        self.told = [config.advertised(each) for each in config.listeners]  # by listener
        self.software: dict[int, tuple[str, str]] = {}  # name and version, by connection
        self.kept_from_cluster = ""  # why it serves as one box although it is to be in one
        self.change = Changes()
        self.facts = Facts(self.change)
        self.members: Members = OneBroker(self)
        self.peers: Peers | None = None  # None: there are no others
        self.bulk_peers: Peers | None = None  # for what is large
        self.leaders = PartitionLeaders(self)
        self.data_plane: Plane | None = None  # no clients are let in yet
        self.log_writes = LogWrites()
        self._own_topics()
        self._own_groups()
        self._own_access()
        self.reopening = Reopening(self.topics, self.transactions, self.change)
        if not config.is_in_cluster:
            self.topics.undeleted.forget = self._forget_own
        self.moves = PartitionMoves(
            self.topics, self.transactions, self.change,
            lambda: config.storage.move_bytes_per_second,
        )  # fmt: skip
        self.backup_points = BackupPoints(
            self.topics, log_dir, catalog, self, self.change,
            self.transactions.decided_ends,
        )  # fmt: skip
        self.backup_reports = BackupReports(config.data_dir, config.backup_overdue_ms)
        is_of_newer = data_format.is_of_newer(config.data_dir)
        self.exports = Book(ExportRows(catalog), config.export.runs_max, is_of_newer=is_of_newer)
        self.scrubber = Scrubber(log_dir)
        self.refused_reads = RefusedReads(log_dir, self.scrubber)

    def _own_topics(self) -> None:
        rows: ConfigRows[bool, str] = ConfigRows(self.catalog, "broker_configs", "is_default")
        stored = rows.all()
        found = dynamic_broker_config.stored(
            self.config, stored.get(False, {}), stored.get(True, {})
        )
        in_force, self._config_faults = found
        self.topics = Topics(
            TopicRows(self.catalog), self.log_dir, self.config.topics, in_force.log_config(),
            self.change,
        )  # fmt: skip
        self.configs = RunTimeConfigs(rows, in_force, self.topics, self.facts)

    def _own_groups(self) -> None:
        config, clock, kept = self.config, self.clock, self.config.kept
        self.entities = Kept.of_entities(kept)
        rows: ConfigRows[str, str] = ConfigRows(self.catalog, "group_configs", "group_id")
        self.group_configs = GroupConfigs(rows, config, self.facts, self.entities)
        self.group_places = places = GroupPlaces(config, self.topics, self.group_configs)
        of_groups = Kept.of_groups(kept)
        table = GroupTable(config.groups, places, clock, of_groups, kept.member_max_bytes)
        self.share_partitions = SharePartitions(config, places, wall=clock)
        self.share_groups = ShareCoordinator(table, places, self.share_partitions)
        self.groups = groups.Coordinator(config.groups, table, places, self.share_groups, clock)
        self.streams_topics = InternalTopics(self._create_internal)
        self.producer_ids = ProducerIds(ProducerIdRows(self.catalog))
        self.transaction_places = TransactionPlaces(
            config.transactions, self.topics, self.groups.availability, self.producer_ids
        )
        self.transactions = transactions.Coordinator(
            config.transactions, self.transaction_places, self.groups.loading.known,
            self.groups.commits.end_transaction, self.log_writes, clock,
            Kept.of_transactions(kept),
        )  # fmt: skip
        sources: list[Source] = [self.groups.progress, self.share_groups]
        self.zookeeper_groups: ZooKeeperGroups | None = None  # with a ZooKeeper
        self.lag = Lag(
            config.groups, self.topics.served_log, sources, self.groups.loading.loaded,
            clock.now_ms,
        )  # fmt: skip
        self.groups.on_unloaded = self.lag.forget

    async def _create_internal(
        self, name: str, partitions: int, configs: dict[str, str], factor: int
    ) -> None:
        """Of Kafka Streams: a topic like any other, for an application."""
        await self.topics.check_new(name)
        self.members.check_factor(name, factor)
        await self.topics.create(name, partitions, configs, factor)

    def _own_access(self) -> None:
        catalog, change, entities = self.catalog, self.facts, self.entities
        access, rows = self.config.access, AclRows(catalog)
        self.authorizer = Authorizer(
            self.config.enforces_rights, access.super_users.all, access.allows_without_rule
        )
        if self.authorizer.is_enforced:
            rows.begin_enforcement(self.clock.now_ms())
        self.acls_enforced_since_ms = rows.enforced_since_ms()
        self.acls = Acls(rows, change, entities, self.authorizer.is_enforced)
        self.acls.on_change(self.authorizer.change)
        self.audit = AuditTrail(
            AuditRows(catalog), to_log=access.audit_is_logged, file=access.audit_file
        )
        self.decisions = TopicDecisions(self.authorizer, self._fetch_refused)
        self.authorizer.on_change(lambda _: self.share_partitions.look_again())
        self.users = UserTable(UserRows(catalog), change, entities)
        self.users.on_change(self._tell_roles)
        self._tell_roles()
        self.delegation_tokens = DelegationTokens(
            DelegationTokenRows(catalog), self.users, entities, self.config.delegation_tokens,
            self.clock.latest_ms,
        )  # fmt: skip
        self.login_secrets = LoginSecrets(self.users, self.delegation_tokens)
        self.login_attempts = LoginAttempts()
        self.logins = self._logins()
        self.users.on_withdrawn(self.logins.withdraw)
        trust = Trust(self.config.enforces_rights, bool(self.config.open_listeners))
        self.scram = ScramCredentials(self.users, entities, trust, self.clock.latest_ms)
        rules = {
            number: self.config.tls_of(each.name).principal_rules
            for number, each in enumerate(self.config.listeners)
            if self.config.is_login(each)
        }
        self.certificate_logins = CertificateLogins(rules, self.users.is_withdrawn)
        self.users.on_withdrawn(self.certificate_logins.withdraw)
        quotas: ConfigRows[str, float] = ConfigRows(catalog, "client_quotas", "entity")
        self.quotas = ClientQuotas(quotas, change, entities)
        metrics: ConfigRows[str, str] = ConfigRows(catalog, "client_metrics", "subscription")
        self.client_metrics = ClientMetrics(metrics, change, entities)

    def _logins(self) -> Logins:
        config, found = self.config, []
        known = sasl_mechanisms.Known(self.users, self.delegation_tokens)
        for each in config.listeners:
            access, asks = config.access_of(each.name), config.asks_login(each)
            mechanisms = sasl_mechanisms.of_listener(access, known) if asks else {}
            found.append(ListenerLogins(each.name, asks, access, mechanisms))
        return Logins(found, config.access, self.login_attempts, self.audit, self.clock.latest_ms)

    def owners_of_facts(self) -> list[Owner]:
        """Of all that must be one in a cluster, in the order in which they are taken."""
        return [
            self.login_secrets, self.users, self.acls, self.quotas, self.configs,
            self.group_configs, self.client_metrics, self.delegation_tokens,
        ]  # fmt: skip

    def asking(self, connection: int, principal: Principal, peer: str) -> Asking:
        """Who that is in the audit trail."""
        found = self.logins.mechanism_of(connection)
        if not found and self.certificate_logins.principal_of(connection) not in (None, ANONYMOUS):
            found = CERTIFICATE
        return Asking(principal.name, peer, mechanism=found)

    def _fetch_refused(self, question: Question, topic: str) -> None:
        """By the data plane, which keeps that: it is counted when it is decided."""
        principal = Principal.parse(question.principal)
        asking = self.asking(question.connection, principal, question.host)
        wanted = "CLUSTER_ACTION CLUSTER" if topic == CLUSTER else f"READ TOPIC {topic}"
        self.audit.refused(asking, "Fetch", [wanted])

    def _tell_roles(self) -> None:
        self.authorizer.set_administrators(self.users.administrators())
        self.authorizer.set_roles(
            {each.name: (each.role, bool(each.may_read)) for each in self.users.all()}
        )

    @classmethod
    def open(
        cls, config: BrokerConfig, progress: RecoveryProgress = lambda done, found: None
    ) -> Broker:
        """Recovers the data directory and makes it agree with the catalog. Blocks: for a thread."""
        unfinished_restore.check(config.data_dir)
        with ExitStack() as undo:
            control = ControlDir.lock(config)
            undo.callback(control.release)
            now_ms = control.belief.clock.now_ms()
            data_format.take(control.path, now_ms)
            catalog = Catalog.open(config.data_dir / NAME)
            undo.callback(catalog.close)
            ledger = Ledger(LedgerRows(catalog))
            holds = Holds(HoldRows(catalog), lambda keys: log_dir.is_full_for(keys))
            log_dir = LogDirs(
                control, config, LogDirectoryRows(catalog), ledger, holds,
                may_hold_records=not TopicRows(catalog).is_settled,
            )  # fmt: skip
            undo.callback(log_dir.abandon)
            is_replicated = config.is_in_cluster or TopicRows(catalog).has_replicated()
            needs = {**log_dir.needs, **(data_format.REPLICATED if is_replicated else {})}
            data_format.take(control.path, now_ms, needs)
            broker = cls(config, catalog, log_dir, ledger, holds)
            broker._recover(progress)
            undo.pop_all()
        return broker

    def _recover(self, progress: RecoveryProgress) -> None:
        start = Reconciliation(self.topics, self.config.topics)
        self.log_dir.recover(progress, start.log_config)
        self.ledger.note(missing_entries(self.log_dir, self.ledger.entries()))
        notes = self.log_dir.report.notes
        notes += [f"{each}. Nothing is cleaned by default." for each in self._config_faults]
        start.run(self.holds.forget_topics)
        self.moves.load()
        faults = self.group_configs.faults
        notes += [f"{each}. The group has the settings of all." for each in faults]

    def is_group_here(self, name: str) -> bool:
        found = self.groups.table.groups.get(name)
        return found is not None and not found.is_dead

    def knows_groups_in(self, zookeeper: ZooKeeperGroups) -> None:
        """Their lag is measured with that of all others."""
        self.zookeeper_groups = zookeeper
        self.lag.sources.append(zookeeper)

    @property
    def groups_version(self) -> tuple[int, int]:
        """Of the groups that there are, here and in ZooKeeper."""
        elsewhere = self.zookeeper_groups
        return self.groups.table.version, -1 if elsewhere is None else elsewhere.version

    @property
    def advertised(self) -> Address:
        """Where clients are told to connect who ask elsewhere: that of the first listener."""
        return self.told[0]

    def listens(self, kafka: Sequence[Address], admin: Address) -> None:
        """Where in fact: of a configured port 0 the kernel made another."""
        bound = self.config.bound(kafka)
        self.told = [each.address for each in bound.advertised_listeners]
        self.configs.listens(self.config, kafka, admin)

    def connect(self, data_plane: Plane, connections_max: int = 0) -> None:
        """Tells the data plane every topic, quota and limit, and from here on every change. It may
        take fewer connections than are configured, and then says how many."""
        self.data_plane = data_plane
        self.quotas.connect(data_plane)
        self.logins.connect(data_plane)
        self.certificate_logins.connect(data_plane)
        self.topics.tell(data_plane)
        network = self.config.network
        connections_max = connections_max or network.max_connections
        share = max(1, connections_max * network.connections_percent_per_ip // 100)
        self.configs.tell(lambda configs: data_plane.limit_connections_per_ip(
            min(share, configs.number(dynamic_broker_config.CONNECTIONS_PER_IP))))
        self.configs.tell(lambda configs: self._limit_listeners(data_plane, configs))

    def _limit_listeners(self, data_plane: Plane, configs: BrokerConfigs) -> None:
        """And all of them together, which is number -1 and has no name."""
        names = enumerate(each.name for each in self.config.listeners)
        for listener, name in [(-1, ""), *names]:
            most = configs.limit(dynamic_broker_config.CONNECTIONS, name)
            rate = configs.limit(dynamic_broker_config.CREATION_RATE, name)
            failed = configs.limit(dynamic_broker_config.FAILED_RATE, name)
            data_plane.limit_connections(most, rate, listener)
            self.logins.limit_failures(failed, listener)

    async def forget_topic(self, name: str) -> None:
        """In a cluster, which has deleted it. What stays was told of; offsets are tried again."""
        topic = self.topics.get(name)
        topic_id = None if topic is None else topic.id  # its logs are not to stay in memory
        del topic
        await self.topics.remove(name)
        if topic_id is not None:
            with suppress(ApplianceError):
                await self._forget({name: topic_id})

    async def _forget_own(self, topics: Mapping[str, UUID]) -> dict[str, ApplianceError]:
        """On one box: once it is known what groups have. Why something of some stays."""
        unread = ""
        if self.groups.table.topic.is_used:
            await self.groups.loading.known()
            # As it is before: what is read meanwhile begins its deletions, and may not end them.
            unread = self.groups.availability.unread_names()
        failures = await self._forget(topics)
        if not unread:
            return failures
        error = TopicUnavailable(f"what groups committed is not known yet: {unread} is not read")
        return dict.fromkeys(topics, error)

    async def _forget(self, topics: Mapping[str, UUID]) -> dict[str, ApplianceError]:
        """Offsets of groups, holds, states of share groups: each whatever becomes of the others."""
        try:
            return await self.groups.commits.forget_topics(topics, self._unled(OFFSETS))
        finally:
            ids = {*topics.values()}
            self.share_groups.forget_topics(ids)
            try:
                await asyncio.to_thread(self.holds.forget_topics, topics)
            finally:
                await self.share_partitions.states.forget_topics(ids)

    def _unled(self, name: str) -> dict[int, int]:
        """In a cluster: partitions that nobody leads now, and the leader epoch of each."""
        topic = self.topics.get(name)
        if topic is None or self.topics.cluster is None:
            return {}
        places = [self.members.placement(topic, each) for each in range(len(topic.logs))]
        return {i: each.leader_epoch for i, each in enumerate(places) if each.leader == NOBODY}

    async def close(self) -> None:
        """After the last change that has begun."""
        await self.share_groups.settled()
        await self.streams_topics.settled()
        await self.share_partitions.close()
        await self.transactions.close()
        await self.groups.close()
        await self.logins.close()
        await self.delegation_tokens.settled()
        await self.audit.close()
        await self.change.settled()
        await self.log_writes.close()
        await asyncio.to_thread(self.scrubber.close)
        try:
            await asyncio.to_thread(self.log_dir.close)
        finally:
            await asyncio.to_thread(self.catalog.close)
