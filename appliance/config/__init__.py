"""Every setting, in a file per area: each with its name, unit, limits and reason.

storage       the data directory as a whole: commit, recovery, space
log           one partition: segments, retention, compaction, what it accepts
network       clients at the data plane: threads, memory, connections, fetches, quotas
control       the control plane: how much it does at a time
topics        how topics come and go, and how many there may be
groups        consumer groups of both protocols, and their offsets
share_groups  share groups: the pace of their members, and how records are given out
share_state   share groups: where it is kept what became of records
streams_groups  groups of Kafka Streams: the pace of their members, and copies of state
transactions  transactions, and the topic in which they are kept
replication   followers: how they fetch from their leaders
zookeeper     registration in a ZooKeeper
tls           the certificate of this broker
admin         the admin pages: who may reach them, and what may be done
oidc          logins to the admin pages at a service (OpenID Connect)
alerts        mail and webhook: where to, how soon, and how often
schema_registry  where schemas of records are looked up, to show records decoded
export        bulk export: how fast, and how much at a time
access        logins and rights
delegation_tokens  how long tokens are good that users hand on
broker        directory, addresses and timers; it holds the parts above

Below them `setting`, what a setting is, `addresses`, `listeners`, `names` and `given_twice`; above
them `sources`, where values come from. Names are Kafka's where Kafka has the setting. The table in
`docs/operations.md` is printed by `python -m appliance.config`.
"""

from appliance.config.access import AccessConfig
from appliance.config.addresses import (
    EVERY_INTERFACE,
    NO_ADDRESS,
    NO_ENSEMBLE,
    NO_HOSTS,
    Address,
    Ensemble,
    Hosts,
)
from appliance.config.admin import AdminConfig
from appliance.config.alerts import AlertsConfig
from appliance.config.broker import PARTS, BrokerConfig, settings
from appliance.config.control_plane import ControlConfig
from appliance.config.delegation_tokens import DelegationTokensConfig
from appliance.config.export import ExportConfig
from appliance.config.groups import ConsumerGroupsConfig, GroupsConfig
from appliance.config.kept_limits import KeptConfig
from appliance.config.machine import MachineConfig
from appliance.config.network import NetworkConfig
from appliance.config.oidc import OidcConfig
from appliance.config.partition_log import LogConfig
from appliance.config.replication import ReplicationConfig
from appliance.config.schema_registry import SchemaRegistryConfig
from appliance.config.setting import LONG_MAX, SECOND_MS, Setting, SettingInvalid, settings_of
from appliance.config.share_groups import ShareGroupsConfig
from appliance.config.share_state import ShareStateConfig
from appliance.config.sources import as_markdown, load, values_of
from appliance.config.storage import StorageConfig
from appliance.config.streams_groups import StreamsGroupsConfig
from appliance.config.tls import NO_FILE, TlsConfig
from appliance.config.topics import TopicsConfig
from appliance.config.transactions import TransactionsConfig
from appliance.config.zookeeper import ZooKeeperConfig

__all__ = [
    "EVERY_INTERFACE",
    "LONG_MAX",
    "NO_ADDRESS",
    "NO_ENSEMBLE",
    "NO_FILE",
    "NO_HOSTS",
    "PARTS",
    "SECOND_MS",
    "AccessConfig",
    "Address",
    "AdminConfig",
    "AlertsConfig",
    "BrokerConfig",
    "ConsumerGroupsConfig",
    "ControlConfig",
    "DelegationTokensConfig",
    "Ensemble",
    "ExportConfig",
    "GroupsConfig",
    "Hosts",
    "KeptConfig",
    "LogConfig",
    "MachineConfig",
    "NetworkConfig",
    "OidcConfig",
    "ReplicationConfig",
    "SchemaRegistryConfig",
    "Setting",
    "SettingInvalid",
    "ShareGroupsConfig",
    "ShareStateConfig",
    "StorageConfig",
    "StreamsGroupsConfig",
    "TlsConfig",
    "TopicsConfig",
    "TransactionsConfig",
    "ZooKeeperConfig",
    "as_markdown",
    "load",
    "settings",
    "settings_of",
    "values_of",
]
