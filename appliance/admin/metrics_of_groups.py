"""Metrics of consumer groups: how far each is behind, by topic, as it was last measured.

Whoever reaches the port makes groups, and each would have its rows here and in whatever takes them.
There are as many as lag is kept of over time, those that were there first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.core import Metric

from appliance.admin.metrics_of_broker import gauge, one
from appliance.admin.metrics_of_topics import Column, in_slices
from appliance.broker.broker import Broker
from appliance.groups.lag import GroupLag


class LagRow(NamedTuple):
    group: str
    topic: str
    records: int
    lost: int
    no_commit: int
    unknown: int  # partitions
    seconds: float  # NaN: not known


COLUMNS = (
    Column(
        gauge,
        "group_lag_records",
        "Records that may be read, less those that were committed; from the log's start where "
        "members have or want a partition without a commit.",
        lambda row: row.records,
    ),
    Column(
        gauge,
        "group_lag_seconds",
        "Age of the oldest record that was not consumed; 0: there is none; NaN: not known.",
        lambda row: row.seconds,
    ),
    Column(
        gauge,
        "group_lost_records",
        "Of them, records that were deleted before the group read them.",
        lambda row: row.lost,
    ),
    Column(
        gauge,
        "group_no_commit_records",
        "Of the lag, records of partitions for which nothing was committed yet.",
        lambda row: row.no_commit,
    ),
    Column(
        gauge,
        "group_lag_unknown_partitions",
        "Partitions that are in no sum: other brokers do not tell where they end, or where the "
        "group is.",
        lambda row: row.unknown,
    ),
)


def families(broker: Broker) -> Iterator[Metric | None]:
    """None after each slice that was only looked at."""
    rows: list[LagRow] = []
    snapshot, kept = broker.lag.snapshot(), frozenset(broker.lag.series)
    for number, group in enumerate(snapshot.groups):
        rows += [row for row in lag_rows(group) if (row.group, row.topic) in kept]
        if number % 20 == 19:
            yield None
    left_out = gauge("group_lag_left_out", "Groups and topics beyond group.lag.series.max.")
    yield one(left_out, snapshot.series_left_out)
    for column in COLUMNS:
        yield from in_slices(column, ["group", "topic"], rows, lambda row: [row.group, row.topic])


def lag_rows(group: GroupLag) -> list[LagRow]:
    found: dict[str, LagRow] = {}
    for each in group.partitions:
        row = found.get(each.topic) or LagRow(
            group.group, each.topic, 0, 0, 0, 0, float("nan")
        )  # fmt: skip
        seconds = row.seconds
        if each.seconds is not None and not seconds >= each.seconds:
            seconds = each.seconds
        no_commit = each.records if each.committed is None else 0
        found[each.topic] = LagRow(
            group.group,
            each.topic,
            row.records + each.records,
            row.lost + each.lost,
            row.no_commit + no_commit,
            row.unknown + (each.end is None),
            seconds,
        )
    return [*found.values()]
