"""Configs of consumer groups: the pace of one group, over what the operator set for all.

They may be set before the group exists, and stay when it goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from appliance.broker_configs import (
    BrokerConfigs,
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    entry_of,
)
from appliance.config import BrokerConfig, ConsumerGroupsConfig, settings
from appliance.config_key import ConfigInvalid, ConfigKey, ConfigType, text_of
from appliance.errors import ApplianceError

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
FIELDS = {SESSION: "session_timeout_ms", HEARTBEAT: "heartbeat_interval_ms"}
Configs = Mapping[str, str]


def find(name: str) -> ConfigKey:
    if name not in FIELDS:
        raise ConfigInvalid(f"{name}: there is no such group config; there are {', '.join(FIELDS)}")
    row = settings()[f"group.{name}"]
    return ConfigKey(name, ConfigType.INT, str(row.default), row.reason, synonym=row.name)


def validate(configs: Configs, base: ConsumerGroupsConfig) -> dict[str, str]:
    """Each as the one way to write it; together they make a pace that the operator allows."""
    checked = {name: text_of(find(name).parse(text)) for name, text in configs.items()}
    in_force(checked, base)
    return checked


def in_force(configs: Configs, base: ConsumerGroupsConfig) -> ConsumerGroupsConfig:
    values = {FIELDS[name]: int(text) for name, text in configs.items()}
    found = replace(base, **values)  # type: ignore[arg-type]  # only the two whole numbers
    if found.heartbeat_interval_ms >= found.session_timeout_ms:
        raise ConfigInvalid(
            f"{HEARTBEAT}: got {found.heartbeat_interval_ms}, wanted less than {SESSION}, which is "
            f"{found.session_timeout_ms}"
        )
    return found


def entries(configs: Configs, broker: BrokerConfigs) -> list[ConfigEntry]:
    """What DescribeConfigs shows."""
    return [_entry(find(name), configs, broker) for name in FIELDS]


def _entry(key: ConfigKey, configs: Configs, broker: BrokerConfigs) -> ConfigEntry:
    synonyms = broker.synonyms(key.synonym)
    if key.name in configs:
        synonyms.insert(0, ConfigSynonym(key.name, configs[key.name], ConfigSource.GROUP))
    return entry_of(key, synonyms)


def stored(
    config: BrokerConfig, found: Mapping[str, Configs]
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """For configs that other settings may have allowed: those that can be used, and what is wrong
    with the rest."""
    good: dict[str, dict[str, str]] = {}
    faults = []
    for group_id, configs in found.items():
        try:
            good[group_id] = validate(configs, config.consumer_groups)
        except ApplianceError as error:
            faults.append(f"group {group_id}: {error}")
    return good, faults
