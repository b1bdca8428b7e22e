"""One broker: its directory, its addresses, its timers, and the settings of each area."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from appliance.config.access import SHOWING, AccessConfig
from appliance.config.addresses import EVERY_INTERFACE, NO_ADDRESS, NO_ENSEMBLE, Address
from appliance.config.admin import AUTO, ON, AdminConfig
from appliance.config.alerts import AlertsConfig
from appliance.config.control_plane import ControlConfig
from appliance.config.delegation_tokens import DelegationTokensConfig
from appliance.config.export import ExportConfig
from appliance.config.groups import ConsumerGroupsConfig, GroupsConfig
from appliance.config.kept_limits import KeptConfig
from appliance.config.listeners import (
    ENCRYPTED,
    NO_LISTENERS,
    NO_PROTOCOLS,
    PLAINTEXT,
    PROTOCOLS,
    SASL_SSL,
    SSL,
    WITH_LOGIN,
    Listener,
    Listeners,
    Protocols,
)
from appliance.config.machine import MachineConfig
from appliance.config.names import NO_PATHS, Paths
from appliance.config.network import NetworkConfig
from appliance.config.oidc import OidcConfig
from appliance.config.partition_log import LogConfig
from appliance.config.replication import ReplicationConfig
from appliance.config.schema_registry import SchemaRegistryConfig
from appliance.config.setting import (
    DAY_MS,
    SECOND_MS,
    Part,
    Setting,
    SettingInvalid,
    setting,
    settings_of,
)
from appliance.config.share_groups import ShareGroupsConfig
from appliance.config.share_state import ShareStateConfig
from appliance.config.storage import StorageConfig
from appliance.config.streams_groups import StreamsGroupsConfig
from appliance.config.tls import CLIENT_AUTH, NO_FILE, NONE, REQUIRED, TlsConfig
from appliance.config.topics import TopicsConfig
from appliance.config.transactions import TransactionsConfig
from appliance.config.zookeeper import CLUSTER, ZooKeeperConfig

PORT_MAX = 65535

Kind = TypeVar("Kind", bound=Part)


@dataclass(frozen=True)
class BrokerConfig(Part):
    data_dir: Path = setting(
        "data.dir",
        Path("data"),
        "The directory that holds everything the broker knows. One broker at a time may use it.",
    )
    log_dirs: Paths = setting(
        "log.dirs",
        NO_PATHS,
        "Directories that hold the records, one for each disk. A disk that fails takes its own "
        "partitions alone. A new partition goes where most room is for it. `data.dir` holds all "
        "else then, and may be one of them.",
        default_words="data.dir alone",
    )
    data_marker: str = setting(
        "data.marker",
        "",
        "What the file `marker` in the data directory must hold; `appliance install` writes both. "
        "A start without it is refused, so that nothing is written where the data's file system "
        "is not mounted.",
        default_words="none",
    )
    node_id: int = setting(
        "node.id",
        1,
        "The number by which clients know this broker. Nothing on disk depends on it.",
        minimum=0,
        maximum=2**31 - 1,
    )
    rack: str = setting(
        "broker.rack",
        "",
        "Where this broker stands, by whatever may fail as one: a rack, a room. The replicas of a "
        "partition are in different ones, as far as there are enough.",
        default_words="none",
    )
    listeners: Listeners = setting(
        "listeners",
        Listeners((Listener(PLAINTEXT, Address("127.0.0.1", 9092)),)),
        "Where clients of the Kafka protocol are served: PLAINTEXT, or SASL_PLAINTEXT with a "
        "login, and encrypted SSL and SASL_SSL. The first is in the ready line. Without a login a "
        "listener is on loopback. Former versions had one, `listen.address`.",
    )
    advertised_listeners: Listeners = setting(
        "advertised.listeners",
        NO_LISTENERS,
        "Where clients of the listener of the same name are told to connect: a name or address "
        "that reaches this machine from theirs. Port 0 means the one that is listened on. Former "
        "versions had `advertised.address`.",
        default_words="the listening addresses",
    )
    protocols: Protocols = setting(
        "listener.security.protocol.map",
        NO_PROTOCOLS,
        "The protocol of listeners with names of their own, as EXTERNAL.",
        default_words="the names are protocols",
    )
    may_be_open: bool = setting(
        "allow.open.listeners",
        False,
        "Whether a listener without login may be reached from other machines: then everybody on "
        "the network may read, write and delete everything. Health warns as long as one is.",
    )
    admin_address: Address = setting(
        "admin.address",
        Address("127.0.0.1", 8780),
        "Where health and the admin pages are served. Before the first password it is loopback, "
        "whatever is set.",
    )
    metrics_partitions_max: int = setting(
        "metrics.partitions.max",
        1000,
        "Largest number of partitions with rows of their own in /metrics; above it only topics "
        "have rows. A partition has seven rows, and ten thousand take half a second of work for "
        "every page.",
        minimum=0,
    )
    log_similar_lines_max: int = setting(
        "log.similar.lines.max",
        200,
        "Lines of the same text per minute in the log, with any facts; the rest are counted. A "
        "person can read as many, and more would fill the disk.",
        minimum=1,
    )
    retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms",
        30 * SECOND_MS,
        "How often retention looks for segments to delete. Kafka's five minutes would make a "
        "retention of one hour mean up to 65 minutes.",
        minimum=10,
    )
    backup_overdue_ms: int = setting(
        "backup.overdue.ms",
        2 * DAY_MS,
        "Age of the last whole backup's point at which health says that one is overdue. Nothing is "
        "said before the first backup. 0: never.",
        minimum=0,
    )
    cleaner_backoff_ms: int = setting(
        "log.cleaner.backoff.ms",
        15 * SECOND_MS,
        "How often compaction looks for a log that is due.",
        minimum=10,
    )
    topics: TopicsConfig = field(default_factory=TopicsConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)
    machine: MachineConfig = field(default_factory=MachineConfig)
    log: LogConfig = field(default_factory=LogConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    control: ControlConfig = field(default_factory=ControlConfig)
    groups: GroupsConfig = field(default_factory=GroupsConfig)
    transactions: TransactionsConfig = field(default_factory=TransactionsConfig)
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    zookeeper: ZooKeeperConfig = field(default_factory=ZooKeeperConfig)
    consumer_groups: ConsumerGroupsConfig = field(default_factory=ConsumerGroupsConfig)
    admin: AdminConfig = field(default_factory=AdminConfig)
    export: ExportConfig = field(default_factory=ExportConfig)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)  # by setting's name
    share_groups: ShareGroupsConfig = field(default_factory=ShareGroupsConfig)
    share_state: ShareStateConfig = field(default_factory=ShareStateConfig)
    streams_groups: StreamsGroupsConfig = field(default_factory=StreamsGroupsConfig)
    kept: KeptConfig = field(default_factory=KeptConfig)
    access: AccessConfig = field(default_factory=AccessConfig)
    tls: TlsConfig = field(default_factory=TlsConfig)
    oidc: OidcConfig = field(default_factory=OidcConfig)
    alerts: AlertsConfig = field(default_factory=AlertsConfig)
    schema_registry: SchemaRegistryConfig = field(default_factory=SchemaRegistryConfig)
    delegation_tokens: DelegationTokensConfig = field(default_factory=DelegationTokensConfig)
    # What was set for one listener: values by the name of the setting, by the listener's name
    of_listeners: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for each in self.listeners:
            self._check_listener(each)
        for told in self.advertised_listeners:
            self._check_advertised(told)
        for name in self.of_listeners:
            self._check_own(name)
        check_reachable("export.advertised.address", self.export.advertised_address)
        self._check_tls()
        self._check_inter_broker()
        if self.export_listens.port > PORT_MAX:
            raise SettingInvalid(
                f"export.address: admin.address is {self.admin_address}, and there is no port "
                "behind it; wanted export.address with it"
            )

    def _check_listener(self, each: Listener) -> None:
        protocol = self.protocols.of(each.name)
        if protocol not in PROTOCOLS:
            raise SettingInvalid(
                f"listeners: got {each}, and {protocol} is no protocol; wanted {PLAINTEXT}, or "
                f"listener.security.protocol.map={each.name}:{PLAINTEXT} with it"
            )
        if protocol in WITH_LOGIN:
            self._check_secrets(each, protocol)
        if protocol in ENCRYPTED and not self.tls_of(each.name).has_keystore:
            raise SettingInvalid(
                f"listeners: got {each}, and there is no certificate for it; wanted "
                "ssl.keystore.location with it"
            )
        if each in self.open_listeners and not self.may_be_open:
            raise SettingInvalid(
                f"listeners: got {each}, which other machines can reach, and there is no login; "
                "wanted an address of loopback, or allow.open.listeners=true with it, and then "
                "everybody on the network may read, write and delete everything"
            )
        if self._told(each.name) is None and each.address.host in EVERY_INTERFACE:
            raise SettingInvalid(
                f"listeners: got {each}, which is every interface, so clients must be told which "
                "one to connect to; wanted advertised.listeners with it, for example "
                f"advertised.listeners={each.name}://{socket.gethostname()}:{each.address.port}"
            )

    def _check_secrets(self, each: Listener, protocol: str) -> None:
        access = self.access_of(each.name)
        found = [it for it in access.mechanisms.all if it in SHOWING]
        if protocol not in ENCRYPTED and found and not access.may_show_secrets:
            raise SettingInvalid(
                f"sasl.enabled.mechanisms: got {access.mechanisms} for {each}, which is not "
                f"encrypted: everybody on the way could read what {' and '.join(found)} send, and "
                "log in with it; wanted SCRAM only, or sasl.secrets.without.encryption=true with it"
            )

    def _check_own(self, name: str) -> None:
        """Settings of a listener."""
        if all(each.name != name for each in self.listeners):
            raise SettingInvalid(
                f"listener.name.{name.lower()}.: no listener has this name; wanted names of "
                f"listeners ({self.listeners})"
            )

    def _check_advertised(self, told: Listener) -> None:
        check_reachable("advertised.listeners", told.address)
        if all(each.name != told.name for each in self.listeners):
            raise SettingInvalid(
                f"advertised.listeners: got {told}, and no listener has this name; "
                f"wanted names of listeners ({self.listeners})"
            )

    def _check_tls(self) -> None:
        for name, told in (("admin.tls", self.admin.tls), ("export.tls", self.export.tls)):
            if told == ON and not self.tls.has_keystore:
                raise SettingInvalid(
                    f"{name}: got {told}, and there is no certificate; wanted "
                    "ssl.keystore.location with it"
                )

    def _check_inter_broker(self) -> None:
        name = self.replication.inter_broker_listener
        if name and all(each.name != name for each in self.listeners):
            raise SettingInvalid(
                f"inter.broker.listener.name: got {name}, and no listener has this name; wanted "
                f"one of {', '.join(each.name for each in self.listeners)}"
            )
        if self.zookeeper.ensemble == NO_ENSEMBLE or self.zookeeper.format != CLUSTER:
            return
        each, protocol = self.inter_broker_listener, self.inter_broker_protocol
        if protocol in ENCRYPTED and not self.tls_of(each.name).has_truststore:
            raise SettingInvalid(
                f"inter.broker.listener.name: got {each}, and the certificates of other brokers "
                "cannot be checked; wanted ssl.truststore.location with it"
            )
        if protocol in WITH_LOGIN:
            self._check_inter_broker_login(each.name)

    def _check_inter_broker_login(self, listener: str) -> None:
        config, offered = self.replication, self.access_of(listener).mechanisms.all
        if not config.user or config.password_file == NO_FILE:
            raise SettingInvalid(
                f"inter.broker.user: got {config.user!r}, and listener {listener} wants a login of "
                "other brokers; wanted it, and inter.broker.password.file"
            )
        if config.mechanism not in offered:
            raise SettingInvalid(
                f"sasl.mechanism.inter.broker.protocol: got {config.mechanism}, which listener "
                f"{listener} does not offer; wanted one of {', '.join(offered)}"
            )

    @property
    def inter_broker_listener(self) -> Listener:
        """By which brokers of a cluster ask each other."""
        name = self.replication.inter_broker_listener
        return next((it for it in self.listeners if it.name == name), self.listeners.all[0])

    @property
    def inter_broker_protocol(self) -> str:
        return self.protocols.of(self.inter_broker_listener.name)

    def _told(self, name: str) -> Address | None:
        """What clients of a listener are told, if it is not where they came in."""
        return next((it.address for it in self.advertised_listeners if it.name == name), None)

    @property
    def record_dirs(self) -> list[Path]:
        """Directories that hold records."""
        return [Path(each).absolute() for each in self.log_dirs.all] or [self.data_dir.absolute()]

    @property
    def export_listens(self) -> Address:
        """Where bulk data is to be served: beside the admin port, if nothing else is said."""
        told, admin = self.export.address, self.admin_address
        return Address(admin.host, admin.port and admin.port + 1) if told == NO_ADDRESS else told

    @property
    def admin_has_tls(self) -> bool:
        """By what is set, not by where it listens before the first password: links stay good."""
        is_beyond = self.tls.has_keystore and not self.admin_address.is_loopback
        return is_beyond if self.admin.tls == AUTO else self.admin.tls == ON

    @property
    def export_has_tls(self) -> bool:
        """Who was sent here over TLS must not go on without it."""
        is_beyond = self.tls.has_keystore and not self.export_listens.is_loopback
        is_meant = is_beyond or self.admin_has_tls
        return is_meant if self.export.tls == AUTO else self.export.tls == ON

    @property
    def open_listeners(self) -> list[Listener]:
        """Those that other machines can reach, and that ask nobody who they are."""
        return [
            each
            for each in self.listeners
            if not each.address.is_loopback and not self.asks_who(each)
        ]

    def asks_login(self, listener: Listener) -> bool:
        """By SASL."""
        return self.protocols.of(listener.name) in WITH_LOGIN

    def asks_who(self, listener: Listener) -> bool:
        """Whether its clients must say and prove who they are."""
        is_required = self.tls_of(listener.name).client_auth == REQUIRED
        return self.asks_login(listener) or (self.is_login(listener) and is_required)

    def is_login(self, listener: Listener) -> bool:
        """Whether a client's certificate says who it is, or that it is nobody."""
        is_ssl = self.protocols.of(listener.name) == SSL
        return is_ssl and self.tls_of(listener.name).client_auth != NONE

    @property
    def is_in_cluster(self) -> bool:
        """Topics have replicas on other brokers, and ZooKeeper says where."""
        return self.zookeeper.is_cluster

    @property
    def enforces_rights(self) -> bool:
        """One listener that asks is enough: another must not undo what it asks for."""
        return bool(self.access.authorizer) or any(
            self.asks_who(each) or self.is_login(each) for each in self.listeners
        )

    def access_of(self, listener: str) -> AccessConfig:
        """Logins at the listener of this name."""
        return self._of_listener(self.access, listener)

    def tls_of(self, listener: str) -> TlsConfig:
        """TLS at the listener of this name."""
        found = self._of_listener(self.tls, listener)
        own = self.of_listeners.get(listener, {})
        # As in Kafka: what is meant for certificates as logins does not ask those who log in.
        if self.protocols.of(listener) == SASL_SSL and CLIENT_AUTH not in own:
            return replace(found, client_auth=NONE)
        return found

    def _of_listener(self, part: Kind, listener: str) -> Kind:
        """A part of the settings with what was set for this listener."""
        own = self.of_listeners.get(listener, {})
        found = {f: own.get(row.name, getattr(part, f)) for f, row in part.rows.items()}
        return type(part)(**found)

    def bound(self, addresses: Sequence[Address]) -> BrokerConfig:
        """With what is so in fact, where the broker came to listen at these addresses."""
        listening = [
            Listener(it.name, address)
            for it, address in zip(self.listeners, addresses, strict=True)
        ]
        told = [Listener(it.name, self.advertised(it)) for it in listening]
        return replace(
            self, listeners=Listeners(tuple(listening)), advertised_listeners=Listeners(tuple(told))
        )

    def advertised(self, listening: Listener) -> Address:
        """What clients of a listener are told."""
        told, own = self._told(listening.name), listening.address
        return own if told is None else Address(told.host, told.port or own.port)


def check_reachable(name: str, told: Address) -> None:
    if told.host in EVERY_INTERFACE:
        raise SettingInvalid(
            f"{name}: got {told}, which is every interface of this machine and no address that a "
            "client can connect to; wanted a name or address of this machine"
        )


# The parts of a BrokerConfig by the field that holds them; "" is BrokerConfig itself.
PARTS: dict[str, type] = {"": BrokerConfig}
for each in fields(BrokerConfig):
    if isinstance(made := each.default_factory, type) and issubclass(made, Part):
        PARTS[each.name] = made


def settings() -> dict[str, Setting]:
    """Every setting by its name."""
    return {row.name: row for part in PARTS.values() for row in settings_of(part).values()}
