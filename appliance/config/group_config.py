"""Configs of groups: those of one group, over what the operator set for all.

`consumer.*` is for groups of consumers, `share.*` for share groups, `streams.*` for those of Kafka
Streams. They may be set before the group exists, and stay when it goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import TypeVar

from appliance.config import (
    BrokerConfig,
    ConsumerGroupsConfig,
    ShareGroupsConfig,
    StreamsGroupsConfig,
)
from appliance.config.config_key import ConfigInvalid, ConfigKey, ConfigType, text_of
from appliance.config.dynamic_broker_config import (
    BrokerConfigs,
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    entry_of,
)
from appliance.errors import ApplianceError

CONSUMER, SHARE, STREAMS = "consumer.", "share.", "streams."
SESSION, HEARTBEAT = "session.timeout.ms", "heartbeat.interval.ms"
OFFSET_RESET = f"{SHARE}auto.offset.reset"
BY_OPERATOR = {"minimum": None, "maximum": None}  # the limits are those in force
TYPES = {int: ConfigType.INT, str: ConfigType.STRING, bool: ConfigType.BOOLEAN}


def _keys() -> Iterator[ConfigKey]:
    kinds = ConsumerGroupsConfig, ShareGroupsConfig, StreamsGroupsConfig
    for each in [each for kind in kinds for each in fields(kind)]:
        row = each.metadata.get("setting")
        if row and (row.least or row.of_group):
            name = row.name.removeprefix("group.")
            limits = BY_OPERATOR if row.least else {}
            yield ConfigKey.of(row, name, TYPES[row.kind], field=each.name, **limits)
        elif row := each.metadata.get("own"):
            yield ConfigKey.of(row, row.name, TYPES[row.kind], field=each.name, synonym="")


KEYS = {each.name: each for each in _keys()}
Configs = Mapping[str, str]
OfGroups = TypeVar("OfGroups", ConsumerGroupsConfig, ShareGroupsConfig, StreamsGroupsConfig)

# Nine digits of days are longer ago than any record.
_DURATION = re.compile(
    r"P(?!$)(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?"
    r"(?:(\d{1,9})(?:\.(\d{1,9}))?S)?)?",
    re.IGNORECASE,
)
_BY_DURATION = "by_duration:"


def find(name: str) -> ConfigKey:
    if name not in KEYS:
        raise ConfigInvalid(f"{name}: there is no such group config; there are {', '.join(KEYS)}")
    return KEYS[name]


def validate(configs: Configs, base: BrokerConfig) -> dict[str, str]:
    """Each as the one way to write it; together they make what the operator allows."""
    checked = {name: text_of(find(name).parse(text)) for name, text in configs.items()}
    consumer_groups(checked, base.consumer_groups)
    share_groups(checked, base.share_groups)
    streams_groups(checked, base.streams_groups)
    return checked


def consumer_groups(configs: Configs, base: ConsumerGroupsConfig) -> ConsumerGroupsConfig:
    return _in_force(CONSUMER, configs, base)


def share_groups(configs: Configs, base: ShareGroupsConfig) -> ShareGroupsConfig:
    settings = _in_force(SHARE, configs, base)
    reset = settings.auto_offset_reset
    if reset not in ("earliest", "latest") and reset_duration_ms(reset) is None:
        raise ConfigInvalid(
            f"{OFFSET_RESET}: got {reset!r}, wanted earliest, latest, or {_BY_DURATION} and a "
            "duration, for example PT1H or P7D"
        )
    return settings


def streams_groups(configs: Configs, base: StreamsGroupsConfig) -> StreamsGroupsConfig:
    return _in_force(STREAMS, configs, base)


def _in_force(prefix: str, configs: Configs, base: OfGroups) -> OfGroups:
    own = {name: text for name, text in configs.items() if name.startswith(prefix)}
    if not own:
        return base
    settings = replace(base, **{find(name).field: find(name).parse(own[name]) for name in own})
    if settings.heartbeat_interval_ms >= settings.session_timeout_ms:
        raise ConfigInvalid(
            f"{prefix}{HEARTBEAT}: got {settings.heartbeat_interval_ms}, wanted less than "
            f"{prefix}{SESSION}, which is {settings.session_timeout_ms}"
        )
    return settings


def reset_duration_ms(auto_offset_reset: str) -> int | None:
    """How far back `by_duration:PT1H` goes. None: it is something else."""
    kind, colon, text = auto_offset_reset.partition(":")
    match = _DURATION.fullmatch(text) if f"{kind}{colon}" == _BY_DURATION else None
    if match is None:
        return None
    days, hours, minutes, seconds = (int(each or 0) for each in match.groups()[:4])
    fraction_ms = int((match[5] or "").ljust(3, "0")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + fraction_ms


def entries(configs: Configs, broker: BrokerConfigs) -> list[ConfigEntry]:
    """What DescribeConfigs shows."""
    return [_entry(key, configs, broker) for key in KEYS.values()]


def _entry(key: ConfigKey, configs: Configs, broker: BrokerConfigs) -> ConfigEntry:
    synonyms = [ConfigSynonym(key.name, key.default, ConfigSource.DEFAULT)]
    if key.synonym:
        synonyms = broker.synonyms(key.synonym)
    if key.name in configs:
        synonyms.insert(0, ConfigSynonym(key.name, configs[key.name], ConfigSource.GROUP))
    return entry_of(key, synonyms)


def stored(
    config: BrokerConfig, stored_configs: Mapping[str, Configs]
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """For configs that other settings may have allowed: those that can be used, and what is wrong
    with the rest."""
    good: dict[str, dict[str, str]] = {}
    faults = []
    for group_id, configs in stored_configs.items():
        try:
            good[group_id] = validate(configs, config)
        except ApplianceError as error:
            faults.append(f"group {group_id}: {error}")
    return good, faults
