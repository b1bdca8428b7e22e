"""What is set at run time for topics, for this broker and for all brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
    Address,
    BrokerConfig,
    LogConfig,
    dynamic_broker_config,
    topic_config,
)
from appliance.config.config_key import ConfigChange, ConfigKey, changed
from appliance.config.dynamic_broker_config import BrokerConfigs
from appliance.config.topic_config import Configs
from appliance.process import event_log
from appliance.topics.topics import Topics

events = event_log.named("broker")

Tell = Callable[[BrokerConfigs], None]

ALL_BROKERS = "default"  # as a fact of a cluster; the others have numbers


@dataclass(eq=False)
class RunTimeConfigs:
    """A change is in the catalog before the logs and those who are told act on it."""

    rows: ConfigRows[bool, str]
    in_force: BrokerConfigs
    _topics: Topics
    _change: Facts
    _told: list[Tell] = field(default_factory=list)
    kind = "brokers"
    is_secret = False

    def listens(self, config: BrokerConfig, kafka: Sequence[Address], admin: Address) -> None:
        found = replace(config.bound(kafka), admin_address=admin)
        self.in_force = replace(self.in_force, config=found)

    def tell(self, tell: Tell) -> None:
        """How the broker is configured, now and after every change."""
        self._told.append(tell)
        tell(self.in_force)

    # Topics

    def of_topic(self, topic: str, name: str) -> str:
        """The value in force."""
        return self.in_force.topic_value(name, self._topics.named(topic).configs)

    async def set_topic(self, name: str, configs: Configs, validate_only: bool = False) -> None:
        """All of them: those not given are back at the broker's."""
        await self._topics.configure(name, lambda _: configs, validate_only)

    async def alter_topic(
        self, name: str, changes: Iterable[ConfigChange], validate_only: bool = False
    ) -> None:
        def after(configs: Configs) -> Configs:
            return changed(configs, changes, topic_config.find, default)

        def default(key: ConfigKey) -> str:
            return self.in_force.topic_value(key.name, {})

        await self._topics.configure(name, after, validate_only)

    # The broker

    async def set_broker(
        self, configs: Configs, is_default: bool = False, validate_only: bool = False
    ) -> None:
        """All that was set at run time: what is not given is back at the operator's setting."""
        await self._change(lambda: self._set_broker(lambda _: configs, is_default, validate_only))

    async def alter_broker(
        self,
        changes: Iterable[ConfigChange],
        is_default: bool = False,
        validate_only: bool = False,
    ) -> None:
        def after(configs: Configs) -> Configs:
            return changed(configs, changes, dynamic_broker_config.find, default)

        def default(key: ConfigKey) -> str:
            return self.in_force.synonyms(key.name)[0].value

        await self._change(lambda: self._set_broker(after, is_default, validate_only))

    async def _set_broker(
        self, after: Callable[[Configs], Configs], is_default: bool, validate_only: bool
    ) -> None:
        before = self.in_force.default if is_default else self.in_force.own
        configs = self.in_force.changed(after(before), is_default)
        base = configs.log_config()
        of_topics = self._topics.on_base(base)
        if validate_only:
            return
        kept = configs.default if is_default else configs.own
        await self._change.publish(self.kind, {self._name(is_default): config_of(kept)})
        await self._apply(configs, {is_default: kept}, base, of_topics)

    async def _apply(
        self,
        configs: BrokerConfigs,
        kept: Mapping[bool, Mapping[str, str]],
        base: LogConfig,
        of_topics: Mapping[str, LogConfig],
    ) -> None:
        await asyncio.to_thread(self.rows.set, kept)
        self.in_force = configs
        self._topics.rebase(base, of_topics)
        for tell in self._told:
            tell(configs)
        events.info("broker configured", configs=kept)

    # As one of a cluster's facts

    def _name(self, is_default: bool) -> str:
        return ALL_BROKERS if is_default else str(self.in_force.config.node_id)

    def facts(self) -> dict[str, Value]:
        found = {True: self.in_force.default, False: self.in_force.own}
        return {
            self._name(each): {"config": {**configs}} for each, configs in found.items() if configs
        }

    async def take(self, values: Values) -> Troubles:
        """Those of other brokers are theirs."""
        names = {self._name(each): each for each in (True, False)}
        wanted = {name: each for name, each in values.items() if name in names}
        good, troubles = readable(wanted, lambda _, value: texts_of(value))
        kept = {names[name]: configs or {} for name, configs in good.items()}
        now = {True: {**self.in_force.default}, False: {**self.in_force.own}} | kept
        config = self.in_force.config
        configs, faults = dynamic_broker_config.stored(config, now[False], now[True])
        base = configs.log_config()
        if kept:
            await self._apply(configs, kept, base, self._topics.on_base(base))
        return {**troubles, **(dict.fromkeys(good, "; ".join(faults)) if faults else {})}
