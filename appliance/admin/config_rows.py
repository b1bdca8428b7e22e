"""What the REST API says of a config: its value in words, what it means, and what may be set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict, TypeVar

from appliance.admin.rights import (
    CREATE_SOME_TOPIC,
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_CONFIGS_SOME_TOPIC,
)
from appliance.admin.route import Call, get
from appliance.broker.broker import Broker
from appliance.config import topic_config
from appliance.config.config_key import ConfigType
from appliance.config.config_words import examples, in_words, plain
from appliance.config.dynamic_broker_config import ConfigEntry, ConfigSource
from appliance.config.topic_config_groups import APART, ORDER, group_of, no_effect
from appliance.topics.topic import Topic

Text = TypeVar("Text", str, "str | None")  # None: back to the broker's

ORIGINS = {
    ConfigSource.TOPIC: "this topic",
    ConfigSource.DYNAMIC_BROKER: "the broker, at run time",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "all brokers, at run time",
    ConfigSource.STATIC_BROKER: "the broker's settings",
}


class Config(TypedDict):
    name: str
    value: str
    words: str  # "": the value says it
    source: str
    origin: str  # the source in words
    default: str  # Kafka's word for it: what a broker without settings has
    broker_value: str  # what a topic has that says nothing
    broker_words: str
    accepts: str
    choices: list[str]  # of the value, or of each in a list
    group: str
    no_effect: str  # why it changes nothing for this topic; "": it does, or `doc` says it
    is_sensitive: bool
    is_read_only: bool
    type: str
    doc: str


class ConfigList(TypedDict):
    configs: list[Config]


def topic_config_rows(broker: Broker, topic: Topic) -> list[Config]:
    """In the order in which people look for them."""
    return config_rows(broker, topic.configs, topic.is_replicated)


def config_rows(broker: Broker, own: Mapping[str, str], is_replicated: bool) -> list[Config]:
    entries = broker.configs.in_force.topic_entries(own)
    policy = next(each.value for each in entries if each.name == "cleanup.policy")
    rows = [config_row(each, policy, is_replicated) for each in entries]
    return sorted(rows, key=lambda each: (each["group"] == APART, ORDER[each["name"]]))


def config_row(entry: ConfigEntry, policy: str, is_replicated: bool) -> Config:
    name, key = entry.name, topic_config.find(entry.name)
    base = next(each for each in entry.synonyms if each.source != ConfigSource.TOPIC)
    more = examples(name)
    return {
        "name": name,
        "value": entry.value,
        "words": in_words(name, entry.value),
        "source": entry.source.name.lower(),
        "origin": ORIGINS.get(entry.source, "default"),
        "default": entry.default_value,
        "broker_value": base.value,
        "broker_words": in_words(name, base.value),
        "accepts": f"{key.wanted}; {more}" if more else key.wanted,
        "choices": list(key.choices),
        "group": group_of(name, is_replicated),
        "no_effect": no_effect(name, policy, is_replicated),
        "is_sensitive": False,
        "is_read_only": entry.read_only,
        "type": ConfigType(entry.type).name.lower(),
        "doc": entry.doc,
    }


def plain_texts(configs: Mapping[str, Text]) -> dict[str, Text]:
    """As people write them: 3d is a number of milliseconds."""
    return {name: text if text is None else plain(name, text) for name, text in configs.items()}


def list_topic_configs(call: Call) -> ConfigList:
    broker = call.broker
    return {"configs": config_rows(broker, {}, broker.topics.cluster is not None)}


ROUTES = [
    get(
        "/topic-configs",
        list_topic_configs,
        ConfigList,
        "What a topic can be configured with, and what one has that says nothing.",
        rights=(),
        either=(DESCRIBE_CLUSTER_CONFIGS, CREATE_SOME_TOPIC, DESCRIBE_CONFIGS_SOME_TOPIC),
    ),
]
