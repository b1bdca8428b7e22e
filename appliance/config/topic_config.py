"""The configs of a topic: the 33 of Kafka 4.3, and `mirror.source` and `visibility`, our own.

A config that a log acts on is named after a field of `LogConfig` and takes its limits, its default
and its reason from that field's setting, which is also the broker's default for all topics; so are
those that a cluster acts on. The others mean something only where there are tiers, or a broker that
compresses again: they are checked and kept, so that tools and mirrors which set them work, and
their documentation says that they change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from appliance.config import SECOND_MS, LogConfig, ReplicationConfig, settings_of
from appliance.config.config_key import ConfigInvalid, ConfigKey, ConfigType, text_of

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)

NO_TIERS = "No effect: there is no remote storage."
NOT_AGAIN = "No effect: a batch stays as its producer compressed it."
CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer")
POLICIES = ("compact", "delete")
# PARTITION:BROKER,... or * for all
THROTTLED = re.compile(r"\*|(?:[0-9]+:[0-9]+(?:,[0-9]+:[0-9]+)*)?")

SOURCE = "mirror.source"


def _log_key(field: str, kind: ConfigType, **facts: Any) -> ConfigKey:
    row = settings_of(LogConfig)[field]
    return ConfigKey.of(row, field.replace("_", "."), kind, field=field, **facts)


def _replica_key(field: str, kind: ConfigType) -> ConfigKey:
    """What the cluster acts on, and no log."""
    row = settings_of(ReplicationConfig)[field]
    return ConfigKey.of(row, row.name, kind)


_KEYS = [
    _log_key("cleanup_policy", LIST, choices=POLICIES),
    ConfigKey(
        "compression.type",
        STRING,
        "producer",
        "Batches are kept as their producer compressed them, whatever this says: the broker does "
        "not compress again.",
        synonym="compression.type",
        choices=CODECS,
    ),
    ConfigKey(
        "compression.gzip.level",
        INT,
        "-1",
        NOT_AGAIN,
        synonym="compression.gzip.level",
        choices=("-1", *map(str, range(1, 10))),
    ),
    ConfigKey(
        "compression.lz4.level",
        INT,
        "9",
        NOT_AGAIN,
        synonym="compression.lz4.level",
        minimum=1,
        maximum=17,
    ),
    ConfigKey(
        "compression.zstd.level",
        INT,
        "3",
        NOT_AGAIN,
        synonym="compression.zstd.level",
        minimum=-131_072,
        maximum=22,
    ),
    _log_key("delete_retention_ms", LONG),
    ConfigKey(
        "file.delete.delay.ms",
        LONG,
        str(60 * SECOND_MS),
        "No effect: a deleted segment's file goes when its last reader lets go of it.",
        synonym="log.segment.delete.delay.ms",
        minimum=0,
    ),
    _log_key("flush_messages", LONG),
    _log_key("flush_ms", LONG),
    ConfigKey(
        "follower.replication.throttled.replicas",
        LIST,
        "",
        "Of a cluster: partitions, as PARTITION:BROKER,... or * for all, that follow no faster "
        "than the broker's follower.replication.throttled.rate until they are in sync.",
        pattern=THROTTLED,
    ),
    _log_key("index_interval_bytes", INT),
    ConfigKey(
        "leader.replication.throttled.replicas",
        LIST,
        "",
        "Of a cluster: partitions, as PARTITION:BROKER,... or * for all, that followers which are "
        "not in sync get no faster than the leader's leader.replication.throttled.rate.",
        pattern=THROTTLED,
    ),
    ConfigKey(
        "local.retention.bytes",
        LONG,
        "-2",
        NO_TIERS,
        synonym="log.local.retention.bytes",
        minimum=-2,
    ),
    ConfigKey(
        "local.retention.ms", LONG, "-2", NO_TIERS, synonym="log.local.retention.ms", minimum=-2
    ),
    _log_key("max_compaction_lag_ms", LONG),
    _log_key("max_message_bytes", INT),
    _log_key("message_timestamp_after_max_ms", LONG),
    _log_key("message_timestamp_before_max_ms", LONG),
    _log_key("message_timestamp_type", STRING),
    _log_key("min_cleanable_dirty_ratio", DOUBLE),
    _log_key("min_compaction_lag_ms", LONG),
    _replica_key("min_insync", INT),
    ConfigKey(
        SOURCE,
        STRING,
        "",
        "The topic, as CLUSTER/TOPIC-ID, whose records and offsets this one repeats: a mirror "
        "alone writes to it. Given when the topic is made; once removed, it is an ordinary topic.",
        field="mirror_source",
        pattern=re.compile(r"(?:[!-~]{1,200})?"),
        why="printable, without spaces",
    ),
    ConfigKey(
        "preallocate",
        BOOLEAN,
        "false",
        "No effect: files grow as they are written.",
        synonym="log.preallocate",
    ),
    ConfigKey("remote.log.copy.disable", BOOLEAN, "false", NO_TIERS),
    ConfigKey("remote.log.delete.on.disable", BOOLEAN, "false", NO_TIERS),
    ConfigKey(
        "remote.storage.enable",
        BOOLEAN,
        "false",
        "There is no remote storage, so it can only be off.",
        choices=("false",),
        why="there is no remote storage",
    ),
    _log_key("retention_bytes", LONG),
    _log_key("retention_ms", LONG),
    _log_key("segment_bytes", INT),
    _log_key("segment_index_bytes", INT),
    ConfigKey(
        "segment.jitter.ms",
        LONG,
        "0",
        "No effect: a segment is sealed at its age; one disk gains nothing from spreading it.",
        synonym="log.roll.jitter.ms",
        minimum=0,
    ),
    _log_key("segment_ms", LONG),
    _replica_key("is_unclean", BOOLEAN),
    _log_key("visibility", STRING),
]

Configs = Mapping[str, str]
KEYS: dict[str, ConfigKey] = {key.name: key for key in _KEYS}

NOT_CLEANED = {"cleanup.policy": ""}
_KEEP_ALL: dict[str, Any] = {"retention_ms": -1, "retention_bytes": -1, "cleanup_policy": "delete"}


class TopicConfigs(NamedTuple):
    """Of one topic, checked once."""

    kept: dict[str, str]  # its own, as the catalog has them
    log: LogConfig  # what its logs do: its own over the broker's


def find(name: str) -> ConfigKey:
    if name not in KEYS:
        raise ConfigInvalid(f"{name}: there is no such topic config")
    return KEYS[name]


def validate(configs: Mapping[str, str | None], broker: LogConfig) -> TopicConfigs:
    """Raises for the first that cannot be."""
    values = {name: find(name).parse(text) for name, text in configs.items()}
    kept = {name: text_of(value) for name, value in values.items()}
    return TopicConfigs(kept, _log_config(values, broker))


def check_source(before: Configs, after: Configs) -> None:
    """Whether a topic that is there may change so."""
    was, wanted = before.get(SOURCE, ""), after.get(SOURCE, "")
    if wanted not in ("", was):
        # what is in it already has offsets of its own, and may be part of open transactions
        raise ConfigInvalid(
            f"{SOURCE}: is {was!r}, got {wanted!r}; it is given when a topic is made, and can only "
            "be removed later"
        )


def to_log_config(configs: Configs, broker: LogConfig) -> LogConfig:
    """What a topic's logs do: its own configs over the broker's."""
    return _log_config({name: find(name).parse(text) for name, text in configs.items()}, broker)


def _log_config(parsed: Mapping[str, Any], broker: LogConfig) -> LogConfig:
    values = {field: parsed[name] for name in parsed if (field := KEYS[name].field)}
    if "cleanup_policy" in values:
        # an empty list is legal since Kafka 4.2 and means that nothing is ever cleaned
        policy = values.pop("cleanup_policy")
        values |= {"cleanup_policy": ",".join(policy)} if policy else _KEEP_ALL
    least = values.get("min_compaction_lag_ms", broker.min_compaction_lag_ms)
    most = values.get("max_compaction_lag_ms", broker.max_compaction_lag_ms)
    if least > most:
        raise ConfigInvalid(
            f"min.compaction.lag.ms: got {least}, wanted at most max.compaction.lag.ms, {most}"
        )
    return replace(broker, **values)


def readable(configs: Configs, broker: LogConfig) -> tuple[TopicConfigs, list[str]]:
    """For configs that another version, or other settings, may have allowed: those that can be
    used, and what is wrong with the rest. A log with a config that is not understood cleans
    nothing, since that one may have said so."""
    kept: dict[str, str] = {}
    log, faults = broker, []
    for name, text in configs.items():
        try:
            log = to_log_config({**kept, name: text}, broker)
        except ConfigInvalid as error:
            faults.append(str(error))
        else:
            kept[name] = text
    if faults:
        kept |= NOT_CLEANED
        log = to_log_config(kept, broker)
    return TopicConfigs(kept, log), faults
