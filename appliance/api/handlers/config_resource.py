"""The resource of a config request: a topic, this broker, all brokers, a subscription to clients'
metrics, or a consumer group.

A broker is named by its number. The empty name means the configs of all brokers; with one broker
the two differ only in precedence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from appliance.access.acls import Operation
from appliance.api.handlers.authorization import check_cluster, check_group, check_topic
from appliance.api.handlers.call import Call
from appliance.api.handlers.partition_lookup import find_topic
from appliance.broker.broker import Broker
from appliance.config.dynamic_broker_config import ConfigEntry
from appliance.errors import ApplianceError, Refused
from appliance.protocol import ErrorCode

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
ALL_BROKERS = ""


class Resource(Protocol):
    resource_type: int
    resource_name: str


Asked = TypeVar("Asked", bound=Resource)
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Configs:
    """Where the configs of one resource are: `set` takes all of them, `alter` changes."""

    set: Callable[..., Awaitable[None]]
    alter: Callable[..., Awaitable[None]]
    entries: Callable[[], Iterable[ConfigEntry]]


def find(broker: Broker, resource: Resource) -> Configs:
    """Raises for what has no configs here."""
    _check(broker, resource)
    name, in_force = resource.resource_name, broker.configs.in_force
    if resource.resource_type == TOPIC:
        return Configs(
            partial(broker.configs.set_topic, name),
            partial(broker.configs.alter_topic, name),
            lambda: in_force.topic_entries(find_topic(broker, name).configs),
        )
    if resource.resource_type == CLIENT_METRICS:
        of = broker.client_metrics
        return Configs(partial(of.set, name), partial(of.alter, name), partial(of.entries, name))
    if resource.resource_type == GROUP:
        return Configs(
            partial(broker.group_configs.set, name),
            partial(broker.group_configs.alter, name),
            lambda: broker.group_configs.entries(name, in_force),
        )
    is_default = name == ALL_BROKERS
    return Configs(
        partial(broker.configs.set_broker, is_default=is_default),
        partial(broker.configs.alter_broker, is_default=is_default),
        in_force.default_entries if is_default else in_force.broker_entries,
    )


def check_twice(resource: Resource, twice: Collection[tuple[int, str]]) -> None:
    if (resource.resource_type, resource.resource_name) in twice:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{resource.resource_name!r} is named twice")


def _check(broker: Broker, resource: Resource) -> None:
    if resource.resource_type not in (TOPIC, BROKER, CLIENT_METRICS, GROUP):
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"got resource type {resource.resource_type}, wanted {TOPIC} (topic), {BROKER} "
            f"(broker), {CLIENT_METRICS} (client metrics) or {GROUP} (group)",
        )
    if resource.resource_type in (CLIENT_METRICS, GROUP) and not resource.resource_name:
        raise Refused(
            ErrorCode.INVALID_REQUEST, "the name of the group, or of the subscription, is empty"
        )
    if resource.resource_type == BROKER:
        wanted = str(broker.node_id)
        if resource.resource_name not in (ALL_BROKERS, wanted):
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"got broker {resource.resource_name!r}, wanted {wanted!r}, or '' for all brokers",
            )


def check_rights(call: Call, operation: Operation, resource: Resource) -> None:
    """What has configs without being a topic or a group is the cluster's."""
    if resource.resource_type == TOPIC:
        check_topic(call, operation, resource.resource_name)
    elif resource.resource_type == GROUP:
        check_group(call, operation, resource.resource_name)
    elif resource.resource_type in (BROKER, CLIENT_METRICS):
        check_cluster(call, operation)


async def change_all(
    broker: Broker,
    call: Call,
    resources: Sequence[Asked],
    answer: Callable[..., Answer],
    change: Callable[[Configs, Asked], Awaitable[None]],
) -> list[Answer]:
    """An error of one resource does not stop others."""
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    twice = {each for each, count in times.items() if count > 1}
    answers = []
    for each in resources:
        error_code, message = 0, None
        try:
            check_twice(each, twice)
            check_rights(call, Operation.ALTER_CONFIGS, each)
            await change(find(broker, each), each)
        except ApplianceError as error:
            error_code, message = error.kafka_code, str(error)
        answers.append(answer(error_code, message, each.resource_type, each.resource_name))
    return answers
