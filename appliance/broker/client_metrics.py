"""Subscriptions to clients' metrics (KIP-714): what kafka-client-metrics keeps, and no more.

They are kept and shown; nothing here takes metrics, so no client is ever asked for any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from appliance.access.kept_per_address import Kept, check_name, size_of
from appliance.catalog.config_rows import ConfigRows
from appliance.catalog.facts import (
    Facts,
    Troubles,
    Value,
    Values,
    config_of,
    readable,
    texts_of,
)
from appliance.config.config_key import ConfigChange, ConfigInvalid, ConfigKey, ConfigType, changed
from appliance.config.dynamic_broker_config import (
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    entry_of,
)
from appliance.errors import RequestInvalid
from appliance.process import event_log, patterns

events = event_log.named("client_metrics")

KEYS = {
    each.name: each
    for each in (
        ConfigKey("metrics", ConfigType.LIST, "", "Prefixes of names of metrics; * is all."),
        ConfigKey(
            "interval.ms",
            ConfigType.INT,
            "300000",
            "How often a client should push.",
            minimum=100,
            maximum=3_600_000,
        ),
        ConfigKey("match", ConfigType.LIST, "", "Whose metrics: NAME=PATTERN for each selector."),
    )
}
SELECTORS = {
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
}


def find(name: str) -> ConfigKey:
    if name not in KEYS:
        raise RequestInvalid(f"{name}: there is no such config, only {', '.join(KEYS)}")
    return KEYS[name]


def check(configs: Mapping[str, str]) -> None:
    for name, text in configs.items():
        find(name).parse(text)
    for each in filter(None, configs.get("match", "").split(",")):
        selector, _, pattern = each.partition("=")
        if selector.strip() not in SELECTORS or not _is_pattern(pattern.strip()):
            raise ConfigInvalid(
                f"match: got {each!r}, wanted NAME=PATTERN, a regular expression of RE2, "
                f"for a NAME of {', '.join(sorted(SELECTORS))}"
            )


def _is_pattern(text: str) -> bool:
    try:
        return text != "" and "=" not in text and patterns.compiled(text) is not None
    except patterns.PatternInvalid:
        return False


class ClientMetrics:
    """All subscriptions, by name, in memory and in the catalog."""

    kind, is_secret = "metrics", False

    def __init__(self, rows: ConfigRows[str, str], change: Facts, kept: Kept) -> None:
        self._rows = rows
        self._change = change
        self._kept = kept
        self._subscriptions = rows.all()
        for each, configs in self._subscriptions.items():
            kept.put(("metrics", each), size_of(configs))

    def names(self) -> list[str]:
        return sorted(self._subscriptions)

    def entries(self, subscription: str) -> list[ConfigEntry]:
        """Those that were set, as Kafka lists them."""
        configs = self._subscriptions.get(subscription, {})
        return [_entry(KEYS[name], text) for name, text in sorted(configs.items())]

    async def set(
        self, subscription: str, configs: Mapping[str, str], validate_only: bool = False
    ) -> None:
        """All of them; with none the subscription is gone."""
        await self._change(lambda: self._set(subscription, lambda _: configs, validate_only))

    async def alter(
        self, subscription: str, changes: Iterable[ConfigChange], validate_only: bool = False
    ) -> None:
        def after(configs: Mapping[str, str]) -> Mapping[str, str]:
            return changed(configs, changes, find, lambda key: key.default)

        await self._change(lambda: self._set(subscription, after, validate_only))

    async def _set(
        self,
        subscription: str,
        after: Callable[[Mapping[str, str]], Mapping[str, str]],
        validate_only: bool,
    ) -> None:
        before = self._subscriptions.get(subscription, {})
        configs = dict(after(before))
        check(configs)
        check_name("subscription", subscription)
        if configs:
            self._kept.check(("metrics", subscription), size_of(configs) - size_of(before))
        if validate_only:
            return
        await self._change.publish(self.kind, {subscription: config_of(configs)})
        await self._apply(subscription, configs)

    async def _apply(self, subscription: str, configs: dict[str, str]) -> None:
        await asyncio.to_thread(self._rows.set, {subscription: configs})
        self._subscriptions.pop(subscription, None)
        self._kept.drop(("metrics", subscription))
        if configs:
            self._subscriptions[subscription] = configs
            self._kept.put(("metrics", subscription), size_of(configs))
        events.info("client metrics configured", subscription=subscription, configs=configs)

    # As one of a cluster's facts

    def facts(self) -> dict[str, Value]:
        return {name: {"config": {**each}} for name, each in self._subscriptions.items()}

    async def take(self, values: Values) -> Troubles:
        good, troubles = readable(values, _read)
        for subscription, configs in good.items():
            await self._apply(subscription, configs or {})
        return troubles


def _read(subscription: str, value: Value) -> dict[str, str]:
    configs = texts_of(value)
    check(configs)
    check_name("subscription", subscription)
    return configs


def _entry(key: ConfigKey, text: str) -> ConfigEntry:
    source = ConfigSource.CLIENT_METRICS
    return entry_of(key, [ConfigSynonym(key.name, text, source)])
