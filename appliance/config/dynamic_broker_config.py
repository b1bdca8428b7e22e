"""Configs as clients see them: where each value comes from, and which may change at run time.

A topic's config is, the first that is set: the topic's own, the one set for this broker, the one
set for all brokers (there is one, so the two differ in name only), the operator's setting, the
default. What may be set at run time is what gives topics their defaults, and those settings of ours
that Kafka too lets clients change while it runs, some of them for one listener
(`listener.name.<name>.`); everything else is read once, at the start, and shown as read-only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

from appliance.config import (
    LONG_MAX,
    BrokerConfig,
    LogConfig,
    Setting,
    settings,
    topic_config,
    values_of,
)
from appliance.config.config_key import ConfigInvalid, ConfigKey, ConfigType, text_of
from appliance.config.setting import limit_of
from appliance.config.sources import FACTOR, OF_LISTENER
from appliance.errors import RequestInvalid


class ConfigSource(IntEnum):
    """As DescribeConfigs numbers them."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True)
class ConfigSynonym:
    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True)
class ConfigEntry:
    """One line of DescribeConfigs. The first of the synonyms is the value in force."""

    name: str
    value: str
    default_value: str
    source: ConfigSource
    type: ConfigType
    read_only: bool
    synonyms: list[ConfigSynonym]
    doc: str


EXPIRATION = "producer.id.expiration.ms"
CLEANER_BACKOFF = "log.cleaner.backoff.ms"
CONNECTIONS_PER_IP = "max.connections.per.ip"
CONNECTIONS = "max.connections"
CREATION_RATE = "max.connection.creation.rate"
FAILED_RATE = "max.failed.authentication.rate"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
# Limits of a listener, and of all together: both count
LISTENER_LIMITS = (CONNECTIONS, CREATION_RATE, FAILED_RATE)
_SETTINGS = settings()


# The topic config that each of the broker's is the default of.
TOPIC_KEYS = {key.synonym: key for key in topic_config.KEYS.values() if key.synonym}

DYNAMIC: dict[str, ConfigKey] = {
    **{name: replace(key, name=name, synonym="") for name, key in TOPIC_KEYS.items()},
    **{
        name: ConfigKey.of(_SETTINGS[name], name, ConfigType.LONG, synonym="")
        for name in (EXPIRATION, CLEANER_BACKOFF, CONNECTIONS_PER_IP)
    },
    **{
        name: ConfigKey.of(_SETTINGS[name], name, ConfigType.INT, synonym="")
        for name in LISTENER_LIMITS
    },
    # Test suites of clients set this one to see whether a broker's configs can be changed at all.
    "sasl.kerberos.min.time.before.relogin": ConfigKey(
        "sasl.kerberos.min.time.before.relogin",
        ConfigType.LONG,
        "60000",
        "No effect: there is no Kerberos here.",
        minimum=0,
    ),
    # kafka-reassign-partitions sets these for a move, and clears them when it is asked how it went.
    **{
        name: ConfigKey(name, ConfigType.LONG, str(LONG_MAX), doc, minimum=0)
        for name, doc in (
            (LEADER_RATE, "Bytes a second that followers get from here that are not in sync, of "
             "partitions that leader.replication.throttled.replicas of their topic names."),
            (FOLLOWER_RATE, "Bytes a second that this broker fetches of what it lacks, of "
             "partitions that follower.replication.throttled.replicas of their topic names."),
            ("replica.alter.log.dirs.io.max.bytes.per.second",
             "No effect while the broker runs: the setting of this name is read at the start."),
        )
    },
}

TYPES: dict[type, ConfigType] = {
    bool: ConfigType.BOOLEAN,
    int: ConfigType.LONG,
    float: ConfigType.DOUBLE,
}


def name_of_limit(listener: str, name: str) -> str:
    """The name of a listener's own limit. Listeners are in small letters there, as in Kafka."""
    return f"{OF_LISTENER}{listener.lower()}.{name}"


def listener_and_limit(name: str) -> tuple[str, str] | None:
    """Whose limit this is, and which; None: it is not one of a listener."""
    listener, _, limit = name.removeprefix(OF_LISTENER).partition(".")
    is_one = name.startswith(OF_LISTENER) and limit in LISTENER_LIMITS
    return (listener.upper(), limit) if is_one and listener == listener.lower() else None


def listener_of(name: str) -> str | None:
    """The listener whose limit this is."""
    found = listener_and_limit(name)
    return None if found is None else found[0]


def key_of(name: str) -> ConfigKey | None:
    """None: it may not change at run time, or there is no such config."""
    found = listener_and_limit(name)
    return DYNAMIC.get(name) if found is None else replace(DYNAMIC[found[1]], name=name)


def find(name: str) -> ConfigKey:
    """The key of what may change at run time."""
    key = key_of(name)
    if key is not None:
        return key
    if name in _SETTINGS or name in FACTS:
        raise RequestInvalid(
            f"{name}: is read once, at the start of the broker; what can change while it runs are "
            f"the defaults of topics (log.*, message.max.bytes, ...), {EXPIRATION}, "
            f"{CLEANER_BACKOFF}, {CONNECTIONS_PER_IP}, {', '.join(LISTENER_LIMITS)}"
        )
    raise ConfigInvalid(f"{name}: there is no such broker config")


# What tools look for under Kafka's names, and ours are called otherwise, or say it otherwise: why
# (if it is no setting of ours), and the value.
FACTS: dict[str, tuple[str, Callable[[BrokerConfig], object]]] = {
    "broker.id": ("The same as node.id.", lambda config: config.node_id),
    "log.dirs": ("", lambda config: ",".join(map(str, config.record_dirs))),
}


@dataclass(frozen=True)
class BrokerConfigs:
    """The operator's settings and what was set over them. A change makes a new one."""

    config: BrokerConfig
    own: Mapping[str, str]
    default: Mapping[str, str]

    def changed(self, configs: Mapping[str, str], is_default: bool) -> BrokerConfigs:
        for name in configs.keys() - self.own.keys() - self.default.keys():
            listener = listener_of(name)
            if listener is not None and listener not in self._listeners:
                raise ConfigInvalid(
                    f"{name}: no listener has this name; wanted one of "
                    f"{', '.join(sorted(each.lower() for each in self._listeners))}"
                )
        return self.holding(configs, is_default)

    def holding(self, configs: Mapping[str, str], is_default: bool) -> BrokerConfigs:
        """The same, also with limits of listeners that are not there now: they may come back."""
        checked = {name: text_of(find(name).parse(text)) for name, text in configs.items()}
        return replace(self, default=checked) if is_default else replace(self, own=checked)

    @property
    def _listeners(self) -> set[str]:
        return {each.name for each in self.config.listeners}

    def log_config(self) -> LogConfig:
        """What logs do whose topic says nothing."""
        made, texts = self.config.log, {**self.default, **self.own}
        if EXPIRATION in texts:
            made = replace(made, producer_id_expiration_ms=int(texts[EXPIRATION]))
        of_topics = {TOPIC_KEYS[name].name: texts[name] for name in texts if name in TOPIC_KEYS}
        return topic_config.to_log_config(of_topics, made)

    def number(self, name: str) -> int:
        """The value in force of one that is a number."""
        return int(self.synonyms(name)[0].value)

    def is_on(self, name: str) -> bool:
        """The same of one that is true or false."""
        return self.synonyms(name)[0].value == "true"

    def limit(self, name: str, listener: str = "") -> int:
        """One of `LISTENER_LIMITS`, of a listener by its name, or of all together; 0: none."""
        return limit_of(self.number(name_of_limit(listener, name) if listener else name))

    # What DescribeConfigs shows

    @cached_property
    def _static(self) -> dict[str, str]:
        texts = {name: Setting.text(value) for name, value in values_of(self.config).items()}
        own = {
            name_of_limit(listener, name): Setting.text(values[name])
            for listener, values in self.config.of_listeners.items()
            for name in LISTENER_LIMITS
            if name in values
        }
        facts = {name: str(value(self.config)) for name, (_, value) in FACTS.items()}
        return texts | own | facts

    def synonyms(self, name: str) -> list[ConfigSynonym]:
        """Where the value of a broker's config comes from, the one in force first."""
        found = [
            ConfigSynonym(name, layer[name], source)
            for layer, source in (
                (self.own, ConfigSource.DYNAMIC_BROKER),
                (self.default, ConfigSource.DYNAMIC_DEFAULT_BROKER),
            )
            if name in layer
        ]
        default = self._default(name)
        static = self._static.get(name, default)
        if static != default or name in FACTS.keys() - _SETTINGS.keys():
            found.append(ConfigSynonym(name, static, ConfigSource.STATIC_BROKER))
        return [*found, ConfigSynonym(name, default, ConfigSource.DEFAULT)]

    def _default(self, name: str) -> str:
        key = key_of(name)
        if key is not None:
            return key.default
        row = _SETTINGS.get(name)
        if row is None or (name == FACTOR and not self.config.is_in_cluster):
            return self._static[name]
        return row.text(row.default)

    def broker_entries(self) -> list[ConfigEntry]:
        names = sorted({*_SETTINGS, *DYNAMIC, *FACTS, *self.listener_limits()})
        return [self._broker_entry(name, self.synonyms(name)) for name in names]

    def listener_limits(self) -> Iterable[str]:
        """By the names of configs."""
        return (name_of_limit(each, name) for each in self._listeners for name in LISTENER_LIMITS)

    def default_entries(self) -> list[ConfigEntry]:
        """Only what was set for all brokers, even where this broker's own value is in force."""
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER
        return [
            self._broker_entry(name, [ConfigSynonym(name, text, source)])
            for name, text in sorted(self.default.items())
        ]

    def _broker_entry(self, name: str, synonyms: list[ConfigSynonym]) -> ConfigEntry:
        row, key = _SETTINGS.get(name), key_of(name)
        doc = key.doc if key else row.reason if row else FACTS[name][0]
        return ConfigEntry(
            name,
            synonyms[0].value,
            self._default(name),
            synonyms[0].source,
            key.type if key else _type_of(row),
            read_only=key is None,
            synonyms=synonyms,
            doc=doc,
        )

    def topic_entries(self, configs: Mapping[str, str]) -> list[ConfigEntry]:
        """Every config of a topic with these of its own."""
        return [self._topic_entry(key, configs) for key in topic_config.KEYS.values()]

    def topic_value(self, name: str, configs: Mapping[str, str]) -> str:
        own = configs.get(name)
        return own if own is not None else self._value_for_topics(topic_config.find(name))

    def _value_for_topics(self, key: ConfigKey) -> str:
        """Of those that say nothing. Asked for every topic of a list, so it is looked up once."""
        known = self._for_topics.get(key.name)
        if known is None:
            known = self._for_topics[key.name] = self._topic_entry(key, {}).value
        return known

    @cached_property
    def _for_topics(self) -> dict[str, str]:
        return {}

    def _topic_entry(self, key: ConfigKey, configs: Mapping[str, str]) -> ConfigEntry:
        synonyms = [
            *([ConfigSynonym(key.name, configs[key.name], ConfigSource.TOPIC)]
              if key.name in configs else []),
            *(self.synonyms(key.synonym) if key.synonym else
              [ConfigSynonym(key.name, key.default, ConfigSource.DEFAULT)]),
        ]
        return entry_of(key, synonyms)


def entry_of(key: ConfigKey, synonyms: list[ConfigSynonym]) -> ConfigEntry:
    """Of a config that clients may change: the first of the synonyms is what holds."""
    return ConfigEntry(
        key.name,
        synonyms[0].value,
        key.default,
        synonyms[0].source,
        key.type,
        read_only=False,
        synonyms=synonyms,
        doc=key.doc,
    )


def _type_of(row: Setting | None) -> ConfigType:
    return TYPES.get(row.kind, ConfigType.STRING) if row else ConfigType.STRING


def stored(
    config: BrokerConfig, own: Mapping[str, str], default: Mapping[str, str]
) -> tuple[BrokerConfigs, list[str]]:
    """For configs that another version, or other settings, may have allowed: those that can be
    used, and what is wrong with the rest. As long as one is not understood nothing is cleaned by
    default, since that one may have said so."""
    configs, faults = BrokerConfigs(config, {}, {}), []
    for is_default, layer in ((True, default), (False, own)):
        for name, text in layer.items():
            before = configs.default if is_default else configs.own
            try:
                after = configs.holding({**before, name: text}, is_default)
                after.log_config()
            except (ConfigInvalid, RequestInvalid) as error:
                faults.append(str(error))
            else:
                configs = after
    if faults:
        configs = configs.holding({**configs.own, "log.cleanup.policy": ""}, is_default=False)
    return configs, faults
