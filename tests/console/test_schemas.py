"""Messages with schemas, and mirrors, in a real browser."""

from __future__ import annotations

import base64
import io
import json
import re
import shlex
from collections.abc import Iterator
from itertools import product
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from appliance.testing import RunningBroker
from tests.admin.test_admin_mirrors import REPORT
from tests.admin.test_admin_topic_schemas import SET, order
from tests.console.conftest import MARKUP, WAIT_S, Console, Faults
from tests.support.release import gate_has
from tests.support.rest import Rest

SCHEMA = {"type": "record", "name": "Sale", "fields": [
    {"name": "id", "type": "long"}, {"name": "note", "type": "string"}]}  # fmt: skip


def sale(number: int, note: str) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), {"id": number, "note": note})
    return out.getvalue()


@pytest.fixture
def sales(broker: RunningBroker) -> Iterator[Rest]:
    """A topic with three Avro values, one of them with Confluent's header, and one invalid value;
    keys in Protobuf. Tests name it before the page, so that no page outlives its topic."""
    rest = Rest(broker.admin)
    rest.post("/topics", {"name": "sales", "partitions": 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    values = [sale(1, "tea"), b"\x00\x00\x00\x00\x2a" + sale(2, "milk"), sale(3, MARKUP), b"\xff"]
    for value in values:
        producer.produce("sales", value, order(id=7, who_is=MARKUP))
    assert producer.flush(WAIT_S) == 0
    yield rest
    rest.ask("DELETE", "/topics/sales")


def use_avro(page: Page) -> None:
    page.get_by_role("button", name="Schemas").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Schema, as JSON").fill(json.dumps(SCHEMA))
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)


def test_values_are_shown_by_a_schema_in_avro(sales: Rest, console: Console) -> None:
    page = console.open("topics/sales?tab=messages")
    expect(page.locator("#messages tbody tr")).to_have_count(4)
    expect(page.locator("#messages")).not_to_contain_text('"note": "milk"')
    use_avro(page)
    table = page.locator("#messages")
    expect(table).to_contain_text('{"id": 2, "note": "milk"}')
    expect(page.get_by_label("Values as")).to_contain_text("Avro: Sale")
    wrong = table.locator("tbody tr", has_text="warning:")
    expect(wrong).to_have_count(1)
    table.get_by_role("button", name="1", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("avro · schema 42")
    dialog.locator("section", has_text="Value").get_by_role("button", name="text").click()
    expect(dialog.locator("pre").nth(1)).to_have_text(
        json.dumps({"id": 2, "note": "milk"}, indent=2)
    )
    page.keyboard.press("Escape")
    wrong.get_by_role("button").click()
    expect(dialog).to_contain_text("avro: ends after 1 bytes")
    assert page.evaluate("window.hacked") is None


def test_how_values_are_shown_is_in_the_address(sales: Rest, console: Console) -> None:
    page = console.open("topics/sales?tab=messages")
    use_avro(page)
    expect(page.locator("#messages")).to_contain_text('"milk"')
    page.get_by_label("Values as").select_option("plain")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#messages")).not_to_contain_text('"note": "milk"')
    assert "value_as=plain" in page.url
    page.reload()
    expect(page.locator("#messages tbody tr")).to_have_count(4)
    expect(page.locator("#messages")).not_to_contain_text('"note": "milk"')


def test_keys_are_shown_by_a_descriptor_set(sales: Rest, console: Console) -> None:
    page = console.open("topics/sales?tab=messages")
    page.get_by_role("button", name="Schemas").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Schema of").select_option("key")
    dialog.get_by_label("Format").select_option("protobuf")
    file: Any = {"name": "orders.desc", "mimeType": "application/octet-stream",
                 "buffer": base64.b64decode(SET)}  # fmt: skip
    dialog.get_by_label("Descriptor set").set_input_files(file)
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("wanted one of shop.Line, shop.Order")
    dialog.get_by_label(re.compile("^Message")).fill("shop.Order")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(page.locator("#messages")).to_contain_text('"who_is": "<img')
    assert page.evaluate("window.hacked") is None
    page.get_by_role("button", name="Schemas").click()
    dialog.get_by_label("Schema of").select_option("key")
    expect(dialog).to_contain_text("Current: Protobuf shop.Order")
    dialog.get_by_role("button", name="remove").click()
    expect(page.get_by_label("Keys as")).to_have_count(0)
    assert [each.partition(":")[0] for each in console.wrong] == ["400"]
    console.wrong.clear()


# Mirrors


@pytest.fixture
def mirrored(broker: RunningBroker) -> Iterator[Rest]:
    rest = Rest(broker.admin)
    names = ("t", "stuck", "alone")
    for name in names:
        rest.post("/topics", {"name": name, "configs": {"mirror.source": "abc/def"}})
    refused = {"stuck": f"the source's topic was made anew {MARKUP}"}
    assert rest.ask("PUT", "/mirrors/site", {**REPORT, "refused": refused}).status == 200
    yield rest
    rest.ask("DELETE", "/mirrors/site")
    for name in names:
        rest.ask("DELETE", f"/topics/{name}")


def test_mirrors_tell_how_far_behind_they_are(mirrored: Rest, console: Console) -> None:
    page = console.open("mirrors")
    row = page.locator("#mirrors tbody tr", has=page.get_by_role("link", name="t", exact=True))
    for text in ("behind", "10 (3 lost)", "2.5 s", "site", "abc"):
        expect(row).to_contain_text(text)
    expect(row.locator("code")).to_have_attribute("title", "abc/def")
    expect(row.locator(".badge.warn")).to_have_count(0)  # 2.5 s of lag need no warning
    stuck = page.locator("#mirrors tbody tr", has_text="stuck")
    expect(stuck.locator(".badge.bad")).to_have_count(1)
    expect(stuck).to_contain_text("refused")
    expect(stuck).to_contain_text("made anew")
    expect(page.locator("#mirrors tbody tr", has_text="alone")).to_contain_text("not reported")
    expect(page.get_by_text("started with --report")).to_be_visible()
    expect(page.locator("main")).to_contain_text("From site:9092: 1 topic, 100 records")
    page.get_by_role("button", name="Forget site").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(row).to_contain_text("not reported")
    assert page.evaluate("window.hacked") is None


def test_a_mirror_is_paused_and_resumed(mirrored: Rest, console: Console) -> None:
    page = console.open("mirrors")
    expect(page.get_by_text("10 records, 2.5 s behind, as with any busy source.")).to_be_visible()
    page.get_by_role("button", name="pause site").click()
    expect(page.get_by_text("It pauses with its next report.")).to_be_visible()
    answer = mirrored.ask("PUT", "/mirrors/site", {**REPORT, "state": "paused"})
    assert answer.body == {"is_paused": True}
    expect(page.get_by_text("Resume lets it go on where it was;")).to_be_visible()
    page.get_by_role("button", name="resume site").click()
    expect(page.get_by_role("button", name="pause site")).to_be_visible()
    assert mirrored.ask("PUT", "/mirrors/site", REPORT).body == {"is_paused": False}


def test_a_broker_without_mirrors_says_how_to_begin(console: Console) -> None:
    page = console.open("mirrors")
    expect(page.get_by_text("No mirror writes to this broker.")).to_be_visible()
    page.get_by_role("button", name="New mirror").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("Still wanted: source, topics.")).to_be_visible()
    dialog.get_by_label("From").fill("site:9092")
    dialog.get_by_label("Topics").fill("it's|alarms")
    where = console.base.removeprefix("http://")
    words = shlex.split(dialog.locator("pre").inner_text())
    assert words[:6] == ["appliance", "mirror", "--name", "mirror", "--from", "site:9092"]
    assert words[8:] == ["--topics", "it's|alarms", "--report", where]
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)


@pytest.mark.parametrize(
    ("size", "colours"),
    gate_has([((1320, 900), "dark"), ((360, 740), "light")], "each size in the other colours",
             product(((1320, 900), (360, 740)), ("light", "dark"))),
)
def test_mirrors_and_schemas_are_accessible(
    mirrored: Rest, sales: Rest, console: Console, axe: Faults, colours: str, size: tuple[int, int]
) -> None:
    for place in ("mirrors", "topics/sales?tab=messages"):
        page = console.open(place)
        if "sales" in place:
            if (fields := page.locator(".unfold")).is_visible():  # on a telephone
                fields.click()
            page.get_by_role("button", name="Schemas").click()
        assert axe(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        page.keyboard.press("Escape")
