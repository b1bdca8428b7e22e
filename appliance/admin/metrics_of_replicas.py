"""Metrics of a broker of a cluster, under Kafka's names: of what it leads, of what it follows, and
of the cluster where it is the controller.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from appliance.admin.metrics_of_broker import counter, gauge, one
from appliance.cluster import reassignment

if TYPE_CHECKING:
    from appliance.broker.in_cluster import InCluster


def families(here: InCluster) -> Iterator[Metric]:
    yield one(gauge("active_controller_count", "1: it is the controller."),
              here.cluster.is_controller)  # fmt: skip
    yield from of_led(here)
    yield from of_followed(here)
    leaderless = offline_partitions(here) if here.cluster.is_controller else 0
    text = "Partitions without a leader that lives, of the cluster; only the controller tells."
    yield one(gauge("offline_partitions_count", text), leaderless)


def of_led(here: InCluster) -> Iterator[Metric]:
    under, few, at_least = 0, 0, 0
    for (topic, partition), _ in here.roles.led():
        state, known = here.cluster.states.get((topic, partition)), here.cluster.topics.get(topic)
        if state is None or known is None:
            continue
        isr, count = len(state.isr), len(reassignment.before(known, partition))
        least = here.cluster.least_in_sync(topic, partition)
        under += isr < count
        few += isr < least
        at_least += isr == least and isr < count
    yield one(gauge("leader_count", "Partitions that it leads."), len(here.roles.led()))
    yield one(gauge("under_replicated_partitions", "Of these, with replicas out of sync."), under)
    text = "Of these, with fewer in sync than min.insync.replicas: nothing counts."
    yield one(gauge("under_min_isr_partition_count", text), few)
    text = "Of these, with as few in sync, and others out of it: one more, and nothing counts."
    yield one(gauge("at_min_isr_partition_count", text), at_least)
    text = "Replicas that left the ISR of a partition that it leads."
    yield one(counter("isr_shrinks", text), here.in_sync.shrinks)
    text = "Replicas that came back into it."
    yield one(counter("isr_expands", text), here.in_sync.expands)
    text = "Times that it was elected the leader of a partition."
    yield one(counter("leader_elections", text), here.roles.elections)


def of_followed(here: InCluster) -> Iterator[Metric]:
    replicas = [
        log
        for topic in here.broker.topics.values() if topic.is_replicated
        for number, log in enumerate(topic.logs) if topic.here is None or number in topic.here
    ]  # fmt: skip
    yield one(gauge("partition_count", "Partitions of which it has a replica."), len(replicas))
    text = "Of these, those that are not open, or whose disk failed."
    offline = sum(log is None or log.failed is not None for log in replicas)
    yield one(gauge("offline_replica_count", text), offline)
    text = "Records that count and that its replicas lack: the most of one partition."
    yield one(gauge("replica_fetcher_max_lag", text), max(here.fetchers.lags.values(), default=0))
    text = "Partitions that it cannot follow; health says why."
    yield one(gauge("replica_fetcher_failed_partitions_count", text),
              sum(here.fetchers.troubles.values()))  # fmt: skip


def offline_partitions(here: InCluster) -> int:
    living = here.cluster.brokers
    return sum(each.leader not in living for each in here.cluster.states.values())
