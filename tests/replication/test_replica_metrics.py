"""Metrics of a broker of a cluster: under these names, explained, and right."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from appliance.zookeeper.server import ZooKeeperServer
from tests.admin.test_admin_metrics import OF_REPLICAS
from tests.support.logs import until
from tests.support.three_brokers import brokers

PAGE = Path(__file__).parents[2] / "docs" / "admin-api.md"


def metrics(admin: str) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {
        sample.name.removeprefix("appliance_"): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.labels
    }


def test_metrics_of_replicas(server: ZooKeeperServer, tmp_path: Path) -> None:
    """And each is explained."""
    with brokers(server, "/tests/metrics", tmp_path) as cluster:
        cluster.start(1)
        cluster.create("t", partitions=3, factor=1)
        cluster.produce("t", ["a"])
        found = metrics(cluster.running[1].admin)
    assert found.keys() >= OF_REPLICAS
    assert {name: found[name] for name in OF_REPLICAS} == {
        "active_controller_count": 1,
        "at_min_isr_partition_count": 0,  # it has all
        "isr_expands_total": 0,
        "isr_shrinks_total": 0,
        "leader_count": 3,
        "leader_elections_total": 3,
        "offline_partitions_count": 0,
        "offline_replica_count": 0,
        "partition_count": 3,
        "replica_fetcher_failed_partitions_count": 0,
        "replica_fetcher_max_lag": 0,
        "under_min_isr_partition_count": 0,
        "under_replicated_partitions": 0,
    }
    assert set(re.findall(r"`(\w+)`", PAGE.read_text())) >= OF_REPLICAS


@pytest.mark.release("three brokers")
def test_metrics_when_a_broker_is_gone(server: ZooKeeperServer, tmp_path: Path) -> None:
    with brokers(server, "/tests/metrics-of-three", tmp_path) as cluster:
        cluster.start(1, 2, 3)
        cluster.create("t", partitions=3, factor=3, min_insync_replicas="2")
        cluster.until("t", lambda each: len(each.isrs) == 3)
        cluster.stop(3)
        pages = [cluster.running[each].admin for each in (1, 2)]

        def total(name: str) -> float:
            return sum(metrics(each)[name] for each in pages)

        until(lambda: total("under_replicated_partitions") == 3)
        assert total("at_min_isr_partition_count") == total("leader_count") == 3
        assert total("active_controller_count") == 1
        assert total("under_min_isr_partition_count") == total("offline_partitions_count") == 0
        cluster.stop(2)
        until(lambda: metrics(pages[0])["under_min_isr_partition_count"] == 3)
        cluster.start(2, 3)
        until(lambda: metrics(pages[0])["under_replicated_partitions"] == 0)
