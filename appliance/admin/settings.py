"""Settings: the effective values, their sources, and whether a change needs a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypedDict

from appliance import config as configuration
from appliance.admin.config_rows import plain_texts
from appliance.admin.rights import ALTER_CLUSTER_CONFIGS, DESCRIBE_CLUSTER_CONFIGS
from appliance.admin.route import ADMIN, Call, get, patch
from appliance.config import Setting
from appliance.config.config_key import changes_to
from appliance.config.config_words import examples, in_words
from appliance.config.dynamic_broker_config import ConfigEntry, ConfigSource, listener_of

AT_RUN_TIME = "changed at run time"
DYNAMIC = (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER)


class SettingRow(TypedDict):
    name: str
    value: str
    words: str  # "": the value says it
    default: str
    source: str  # default, file PATH, environment NAME, --set, flag, changed at run time
    needs_restart: bool
    unit: str
    accepts: str
    reason: str
    environment: str


class Settings(TypedDict):
    settings: list[SettingRow]


class SettingsChange(TypedDict):
    configs: dict[str, str | None]  # None: restores the configured value


def list_settings(call: Call) -> Settings:
    broker, config = call.broker, call.process.config
    entries = {each.name: each for each in broker.configs.in_force.broker_entries()}
    changed = {name: each for name, each in entries.items() if each.source in DYNAMIC}
    rows = []
    for name, value in configuration.values_of(config).items():
        row = setting_row(configuration.settings()[name], value, config.origins.get(name))
        if name in changed:
            row["value"], row["source"] = changed[name].value, AT_RUN_TIME
            row["words"] = in_words(name, row["value"])
        row["needs_restart"] = name not in entries or entries[name].read_only
        rows.append(row)
    rows += [limit_row(entries[name], config.origins) for name in limits_that_are_set(entries)]
    return {"settings": sorted(rows, key=lambda row: row["name"])}


def setting_row(row: Setting, value: Any, origin: str | None) -> SettingRow:
    more = examples(row.name)
    return {
        "name": row.name,
        "value": row.text(value),
        "words": in_words(row.name, row.text(value)),
        "default": row.default_text,
        "source": origin or "default",
        "needs_restart": True,
        "unit": row.unit,
        "accepts": f"{row.wanted}; {more}" if more else row.wanted,
        "reason": row.reason,
        "environment": row.environment,
    }


def limits_that_are_set(entries: Mapping[str, ConfigEntry]) -> list[str]:
    """Of single listeners."""
    return [
        name
        for name, each in entries.items()
        if listener_of(name) is not None and each.source != ConfigSource.DEFAULT
    ]


def limit_row(entry: ConfigEntry, origins: Mapping[str, str]) -> SettingRow:
    name = entry.name
    of_all = configuration.settings()[name.split(".", 3)[3]]
    row = setting_row(replace(of_all, name=name), entry.value, origins.get(name))
    if entry.source in DYNAMIC:
        row["source"] = AT_RUN_TIME
    row["needs_restart"] = False
    return row


async def change_settings(call: Call) -> Settings:
    await call.broker.configs.alter_broker(changes_to(plain_texts(call.body["configs"])))
    return list_settings(call)


ROUTES = [
    get(
        "/settings",
        list_settings,
        Settings,
        "Effective settings, with their sources.",
        rights=(DESCRIBE_CLUSTER_CONFIGS,),
    ),
    patch(
        "/settings",
        change_settings,
        Settings,
        "Change settings that need no restart.",
        body=SettingsChange,
        role=ADMIN,
        rights=(ALTER_CLUSTER_CONFIGS,),
    ),
]
