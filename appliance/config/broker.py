"""One broker: its directory, its addresses, its timers, and the settings of each area."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from appliance.config.addresses import EVERY_INTERFACE, NO_ADDRESS, Address
from appliance.config.admin import AdminConfig
from appliance.config.control_plane import ControlConfig
from appliance.config.export import ExportConfig
from appliance.config.groups import ConsumerGroupsConfig, GroupsConfig
from appliance.config.kept_limits import KeptConfig
from appliance.config.network import NetworkConfig
from appliance.config.partition_log import LogConfig
from appliance.config.setting import (
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
from appliance.config.topics import TopicsConfig
from appliance.config.transactions import TransactionsConfig
from appliance.config.zookeeper import ZooKeeperConfig

PORT_MAX = 65535


@dataclass(frozen=True)
class BrokerConfig(Part):
    data_dir: Path = setting(
        "data.dir",
        Path("data"),
        "The directory that holds everything the broker knows. One broker at a time may use it.",
    )
    node_id: int = setting(
        "node.id",
        1,
        "The number by which clients know this broker. Nothing on disk depends on it.",
        minimum=0,
        maximum=2**31 - 1,
    )
    listen_address: Address = setting(
        "listen.address",
        Address("127.0.0.1", 9092),
        "Where clients of the Kafka protocol are served. There is no login yet, so it is loopback.",
    )
    advertised_address: Address = setting(
        "advertised.address",
        NO_ADDRESS,
        "Where clients are told to connect: a name or address that reaches this machine from "
        "theirs. Port 0 means the one that is listened on.",
        default_words="the listening address",
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
    cleaner_backoff_ms: int = setting(
        "log.cleaner.backoff.ms",
        15 * SECOND_MS,
        "How often compaction looks for a log that is due.",
        minimum=10,
    )
    topics: TopicsConfig = field(default_factory=TopicsConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)
    log: LogConfig = field(default_factory=LogConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    control: ControlConfig = field(default_factory=ControlConfig)
    groups: GroupsConfig = field(default_factory=GroupsConfig)
    transactions: TransactionsConfig = field(default_factory=TransactionsConfig)
    zookeeper: ZooKeeperConfig = field(default_factory=ZooKeeperConfig)
    consumer_groups: ConsumerGroupsConfig = field(default_factory=ConsumerGroupsConfig)
    admin: AdminConfig = field(default_factory=AdminConfig)
    export: ExportConfig = field(default_factory=ExportConfig)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)  # by setting's name
    share_groups: ShareGroupsConfig = field(default_factory=ShareGroupsConfig)
    share_state: ShareStateConfig = field(default_factory=ShareStateConfig)
    kept: KeptConfig = field(default_factory=KeptConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        told = self.advertised_address
        check_reachable("advertised.address", told)
        check_reachable("export.advertised.address", self.export.advertised_address)
        if self.export_listens.port > PORT_MAX:
            raise SettingInvalid(
                f"export.address: admin.address is {self.admin_address}, and there is no port "
                "behind it; wanted export.address with it"
            )
        if told == NO_ADDRESS and self.listen_address.host in EVERY_INTERFACE:
            raise SettingInvalid(
                f"listen.address: got {self.listen_address}, which is every interface, so clients "
                "must be told which one to connect to; wanted advertised.address with it, "
                f"for example advertised.address={socket.gethostname()}:{self.listen_address.port}"
            )

    @property
    def export_listens(self) -> Address:
        """Where bulk data is to be served: beside the admin port, if nothing else is said."""
        told, admin = self.export.address, self.admin_address
        return Address(admin.host, admin.port and admin.port + 1) if told == NO_ADDRESS else told

    def advertised(self, listening: Address) -> Address:
        """What clients are told, when this is where the broker came to listen."""
        told = self.advertised_address
        return listening if told == NO_ADDRESS else Address(told.host, told.port or listening.port)


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
