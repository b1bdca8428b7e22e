"""Encodes records, and chooses a partition for each."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from typing import Any

from appliance.client.batch import Group
from appliance.client.broker_partition import BrokerPartition
from appliance.client.cluster import Cluster
from appliance.client.outcome import Headers, HookFailed, Records
from appliance.client.producer_config import ProducerConfig
from appliance.client.producer_hooks import Encoder, Partitioner
from appliance.record._producer_batch_builder import (
    check_fields,
    encode_headers,
    split_by_key,
)

Fields = list[bytes | None]


class Router:
    def __init__(
        self, cluster: Cluster, config: ProducerConfig, encoder: Encoder, partitioner: Partitioner
    ) -> None:
        self.cluster, self.config = cluster, config
        self.encoder, self.partitioner = encoder, partitioner
        # Hooks that do nothing are not called for each record.
        self.is_encoded = type(encoder) is Encoder
        self.is_hashed = type(partitioner) is Partitioner

    def check(self, records: Records) -> None:
        """Raises TypeError for values that no batch can hold, in the caller's thread."""
        if self.is_encoded:
            check_fields(records.values, "value")
            if records.keys is not None:
                check_fields(records.keys, "key")

    def choice(self, topic: str, avoid: Collection[int]) -> list[BrokerPartition]:
        """The partitions to choose from; brokers in `avoid` only if there are no others."""
        known = self.cluster.partitions(topic, self.config.create_topics)
        return [each for each in known if each.broker not in avoid] or [*known]

    def route(self, records: Records, choice: list[BrokerPartition]) -> list[Group]:
        """Groups records by partition, in order."""
        values, keys = self._encoded(records)
        if keys is None:
            return [group(records, random.choice(choice), values, None)]
        if self.is_encoded and self.is_hashed and records.headers is None:
            parts = split_by_key(keys, values, len(choice))
            return [
                group(Records(records.topic, of, with_keys, records.timestamp), to, of, with_keys)
                for to, (with_keys, of) in zip([*choice, random.choice(choice)], parts, strict=True)
                if of
            ]
        return self._split(records, values, keys, choice)

    def _encoded(self, records: Records) -> tuple[Fields, Fields | None]:
        if self.is_encoded:
            return records.values, records.keys
        try:
            values = [self.encoder.encode(each) for each in records.values]
            keys = records.keys
            if keys is not None:
                keys = [None if each is None else self.encoder.encode_key(each) for each in keys]
            check_fields(values, "encoded value")
            check_fields(keys or [], "encoded key")
        except Exception as error:
            raise HookFailed(f"{type(self.encoder).__name__}: {error!r}") from error
        return values, keys

    def _split(
        self, records: Records, values: Fields, keys: Fields, among: list[BrokerPartition]
    ) -> list[Group]:
        """Chooses record by record, with the user's hooks."""
        indices: dict[BrokerPartition, list[int]] = {}
        for i, key in enumerate(keys):
            to = random.choice(among) if key is None else among[self._partition(key, len(among))]
            indices.setdefault(to, []).append(i)
        given_keys, headers = records.keys or [], records.headers
        return [
            group(
                Records(
                    records.topic,
                    pick(records.values, of),
                    pick(given_keys, of),
                    records.timestamp,
                    None if headers is None else pick(headers, of),
                ),
                to,
                pick(values, of),
                pick(keys, of),
            )
            for to, of in indices.items()
        ]

    def _partition(self, key: bytes, count: int) -> int:
        try:
            chosen = self.partitioner.partition(key, count)
        except Exception as error:
            raise HookFailed(f"{type(self.partitioner).__name__}: {error!r}") from error
        if not isinstance(chosen, int) or not 0 <= chosen < count:
            name = type(self.partitioner).__name__
            raise HookFailed(f"{name}: got partition {chosen!r}, wanted 0 to {count - 1}")
        return chosen


def pick(given: list[Any], indices: Iterable[int]) -> list[Any]:
    return [given[i] for i in indices]


def group(given: Records, to: BrokerPartition, values: Fields, keys: Fields | None) -> Group:
    return Group(given.topic, to, given, values, keys, given.timestamp, encoded(given.headers))


def encoded(headers: list[Headers] | None) -> Fields | None:
    if headers is None:
        return None
    made = {
        each: encode_headers([(name.encode(), value) for name, value in each]) if each else None
        for each in {*headers}
    }
    return [made[each] for each in headers]


def merged(groups: Iterable[Group]) -> list[Group]:
    """Joins the records of a partition, so that records that were sent one by one share a batch."""
    by_partition: dict[tuple[str, BrokerPartition], list[Group]] = {}
    for each in groups:
        by_partition.setdefault((each.topic, each.partition), []).append(each)
    return [of[0] if len(of) == 1 else joined(of) for of in by_partition.values()]


def joined(groups: list[Group]) -> Group:
    first = groups[0]
    values = [value for each in groups for value in each.values]
    given = [value for each in groups for value in each.given.values]
    times = [each.given.timestamp for each in groups for _ in each.values]
    keys: Fields | None = None
    given_keys: list[Any] | None = None
    if any(each.keys is not None for each in groups):
        keys = [key for each in groups for key in each.keys or [None] * len(each.values)]
        given_keys = [key for each in groups for key, _ in each.given]
    headers: list[Headers] | None = None
    if any(each.headers is not None for each in groups):
        headers = [one for each in groups for one in each.given.headers or [()] * len(each.given)]
    records = Records(first.topic, given, given_keys, first.given.timestamp, headers)
    return Group(first.topic, first.partition, records, values, keys, times, encoded(headers))
