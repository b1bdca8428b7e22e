"""The page of all brokers of a ZooKeeper path, and what one says that is by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser, expect

from appliance.testing import RunningBroker, running_broker
from tests.console.conftest import WAIT_S, Console, Faults, opened
from tests.support.zookeeper import serving_zookeeper_in


def make_topic(broker: RunningBroker, partitions: int, factor: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("orders", partitions, factor)])["orders"].result(WAIT_S)


def test_replicas_are_seen_for_the_cluster_and_for_a_topic(
    browser: Browser, tmp_path: Path, axe: Faults
) -> None:
    with serving_zookeeper_in(tmp_path / "zookeeper") as server:
        settings = {"zookeeper.connect": f"{server.address}/prod", "zookeeper.format": "cluster"}
        with running_broker(tmp_path / "1", {**settings, "node.id": "1"}) as broker:
            with running_broker(tmp_path / "2", {**settings, "node.id": "2"}) as other:
                make_topic(other, 2, 2)
                with opened(browser, broker) as console:
                    page = console.open("cluster")
                    rows = page.locator("#brokers tbody tr")
                    expect(rows).to_have_count(2)
                    expect(rows.first).to_contain_text("this one")
                    expect(rows.first).to_contain_text("1 of 1 preferred")
                    expect(page.get_by_text("All replicas of 2 partitions are in")).to_be_visible()
                    assert axe(page) == []
                    page = console.open("topics/orders?tab=replicas")
                    followers = page.locator("#replicas-orders tbody tr").filter(has_text="2: in")
                    expect(followers).to_have_count(1)
                    assert axe(page) == []
            with opened(browser, broker) as console:
                page = console.open("cluster")
                rows = page.locator("#brokers tbody tr")
                expect(rows.last).to_contain_text("not there")
                expect(page.locator("#troubles tbody tr")).to_have_count(2)
                expect(page.get_by_text("2 of 2 partitions are behind")).to_be_visible()
                assert axe(page) == []


@pytest.mark.release("brokers that are only found in ZooKeeper are the older form")
def test_all_brokers_of_a_path_are_one_page(browser: Browser, tmp_path: Path, axe: Faults) -> None:
    with serving_zookeeper_in(tmp_path / "zookeeper") as server:
        settings = {"zookeeper.connect": f"{server.address}/shop",
                    "zookeeper.format": "original",
                    "zookeeper.connection.timeout.ms": "10000"}  # fmt: skip
        with running_broker(tmp_path / "2", {**settings, "node.id": "2"}) as other:
            pages = {"node.id": "1", "cluster.admin.urls": f"2=http://{other.admin}"}
            with running_broker(tmp_path / "1", {**settings, **pages}) as broker:
                make_topic(broker, 2)
                make_topic(other, 3)
                with opened(browser, broker) as console:
                    page = console.open("cluster")
                    rows = page.locator("#brokers tbody tr")
                    expect(rows).to_have_count(2)
                    expect(rows.first).to_contain_text("this one")
                    expect(rows.last).to_contain_text(f"http://{other.admin}")
                    expect(rows.last).not_to_contain_text("unreachable")
                    topics = page.locator("#together tbody tr")
                    expect(topics).to_have_count(1)
                    expect(topics).to_contain_text("orders")
                    expect(topics).to_contain_text("1, 2")
                    expect(page.get_by_role("link", name="Cluster")).to_be_visible()
                    assert axe(page) == []


def test_a_broker_by_itself_has_no_such_page_in_its_menu(console: Console) -> None:
    page = console.open("cluster")
    expect(page.get_by_text("zookeeper.connect=HOST:2181/PATH")).to_be_visible()
    expect(page.get_by_role("link", name="Machine")).to_be_visible()
    expect(page.get_by_role("link", name="Cluster")).to_have_count(0)
