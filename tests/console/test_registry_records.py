"""Messages by the schemas of a registry, in a real browser."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, Page, expect

from appliance.testing import RunningBroker, running_broker
from tests.admin.test_admin_topic_schemas import avro, order
from tests.admin.test_schema_registry import ROW, WHOLE_ORDER, by_schema
from tests.console.conftest import WAIT_S, opened
from tests.support.registry_schemas import recorded
from tests.support.registry_servers import RepeatingRegistry
from tests.support.rest import Rest

UNKNOWN = 77


@pytest.fixture
def registry() -> Iterator[RepeatingRegistry]:
    server = RepeatingRegistry(recorded("karapace"))
    yield server
    server.close()


@pytest.fixture
def sales(registry: RepeatingRegistry, tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data", {"schema.registry.url": registry.url}) as broker:
        Rest(broker.admin).post("/topics", {"name": "orders", "partitions": 1})
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        heads = [struct.pack(">BI", 0, number) for number in
                 (registry.ids["orders-value"], registry.ids["paid-value"], UNKNOWN)]  # fmt: skip
        values = [heads[0] + avro(WHOLE_ORDER, ROW), heads[1] + b"\0" + order(id=7, who_is="Ada"),
                  heads[2] + b"abcd"]
        for each in values:
            producer.produce("orders", each)
        assert producer.flush(WAIT_S) == 0
        by_schema(Rest(broker.admin), "orders")  # from here on they are known
        yield broker


def test_values_are_shown_by_the_registry(
    sales: RunningBroker, registry: RepeatingRegistry, browser: Browser
) -> None:
    with opened(browser, sales) as console:
        show(console.open("topics/orders?tab=messages"), registry)


def show(page: Page, registry: RepeatingRegistry) -> None:
    table = page.locator("#messages")
    expect(table.locator("tbody tr")).to_have_count(3)
    expect(table).to_contain_text(json.dumps(ROW))
    expect(table).to_contain_text('{"id": "7", "who_is": "Ada"}')
    expect(table.locator("tbody tr", has_text="warning:")).to_have_count(1)
    table.get_by_role("button", name="0", exact=True).click()
    dialog = page.get_by_role("dialog")
    number = registry.ids["orders-value"]
    expect(dialog).to_contain_text(f"avro · schema {number} · shop.Order · orders-value v1")
    page.keyboard.press("Escape")
    table.get_by_role("button", name="2", exact=True).click()
    why = f"schema {UNKNOWN}: {registry.url} has no /schemas/ids/{UNKNOWN} (404)"
    expect(dialog).to_contain_text(why)
    page.keyboard.press("Escape")
    expect(page.get_by_label("Values as")).to_contain_text("registry")
    page.get_by_label("Values as").select_option("plain")
    page.get_by_role("button", name="Search").click()
    expect(table).not_to_contain_text('Ada"}')
    page.get_by_role("button", name="Schemas").click()
    expect(dialog).to_contain_text(f"are decoded by the registry at {registry.url}")
