"""What was set for groups, whether there is one of that name or not, and what holds for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

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
from appliance.config import (
    BrokerConfig,
    ConsumerGroupsConfig,
    ShareGroupsConfig,
    StreamsGroupsConfig,
    group_config,
)
from appliance.config.config_key import ConfigChange, changed
from appliance.config.dynamic_broker_config import BrokerConfigs, ConfigEntry
from appliance.config.group_config import Configs
from appliance.process import event_log

events = event_log.named("broker")

NO_CONFIGS: Configs = {}


class GroupConfigs:
    """All of them, in memory and in the catalog."""

    kind, is_secret = "groups", False

    def __init__(
        self, rows: ConfigRows[str, str], config: BrokerConfig, change: Facts, kept: Kept
    ) -> None:
        self._rows = rows
        self._config = config
        self._change = change
        self._kept = kept
        self._configs, self.faults = group_config.stored(config, rows.all())
        for group_id, own in self._configs.items():
            kept.put(("group", group_id), size_of(own))

    def names(self) -> list[str]:
        return sorted(self._configs)

    def entries(self, group_id: str, broker: BrokerConfigs) -> list[ConfigEntry]:
        return group_config.entries(self._of(group_id), broker)

    def _of(self, group_id: str) -> Configs:
        return self._configs.get(group_id, NO_CONFIGS)

    def of_consumers(self, group_id: str) -> ConsumerGroupsConfig:
        return group_config.consumer_groups(self._of(group_id), self._config.consumer_groups)

    def of_sharers(self, group_id: str) -> ShareGroupsConfig:
        return group_config.share_groups(self._of(group_id), self._config.share_groups)

    def of_streams(self, group_id: str) -> StreamsGroupsConfig:
        return group_config.streams_groups(self._of(group_id), self._config.streams_groups)

    async def as_new_as_now(self) -> None:
        """In a cluster, what was set at any broker."""
        await self._change.as_new_as_now()

    async def set(self, group_id: str, configs: Configs, validate_only: bool = False) -> None:
        await self._change(lambda: self._set(group_id, lambda _: configs, validate_only))

    async def alter(
        self, group_id: str, changes: Iterable[ConfigChange], validate_only: bool = False
    ) -> None:
        def after(configs: Configs) -> Configs:
            return changed(configs, changes, group_config.find, lambda key: key.default)

        await self._change(lambda: self._set(group_id, after, validate_only))

    async def _set(
        self, group_id: str, after: Callable[[Configs], Configs], validate_only: bool
    ) -> None:
        before = self._of(group_id)
        configs = group_config.validate(after(before), self._config)
        check_name("group", group_id)
        if configs:
            self._kept.check(("group", group_id), size_of(configs) - size_of(before))
        if validate_only:
            return
        await self._change.publish(self.kind, {group_id: config_of(configs)})
        await self._apply(group_id, configs)

    async def _apply(self, group_id: str, configs: dict[str, str]) -> None:
        await asyncio.to_thread(self._rows.set, {group_id: configs})
        if configs:
            self._configs[group_id] = configs
            self._kept.put(("group", group_id), size_of(configs))
        else:
            self._configs.pop(group_id, None)
            self._kept.drop(("group", group_id))
        events.info("group configured", group=group_id, configs=configs)

    # As one of a cluster's facts

    def facts(self) -> dict[str, Value]:
        return {group_id: {"config": {**each}} for group_id, each in self._configs.items()}

    async def take(self, values: Values) -> Troubles:
        good, troubles = readable(values, self._read)
        for group_id, configs in good.items():
            await self._apply(group_id, configs or {})
        return troubles

    def _read(self, group_id: str, value: Value) -> dict[str, str]:
        check_name("group", group_id)
        return group_config.validate(texts_of(value), self._config)
