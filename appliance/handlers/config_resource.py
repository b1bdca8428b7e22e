"""What a config request is about: a topic, this broker, all brokers, a subscription to clients'
metrics, or a consumer group.

A broker is named by its number. The empty name means what is set for all brokers; there is one, so
the two differ only in which of them wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Protocol

from appliance.broker import Broker
from appliance.handlers.call import Refused
from appliance.wire import ErrorCode

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
ALL_BROKERS = ""


class Resource(Protocol):
    resource_type: int
    resource_name: str


def check(
    broker: Broker, resource: Resource, twice: Collection[tuple[int, str]] = frozenset()
) -> None:
    """Raises for what has no configs here, and for what the request names `twice`."""
    if (resource.resource_type, resource.resource_name) in twice:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{resource.resource_name!r} is named twice")
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


def named_twice(resources: Iterable[Resource]) -> set[tuple[int, str]]:
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    return {each for each, count in times.items() if count > 1}
