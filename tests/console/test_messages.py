"""The page of a topic's messages in a real browser."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Locator, Page, expect

from appliance.testing import RunningBroker
from tests.console.conftest import MARKUP, ORDERS, WAIT_S, Console, Faults, delivered
from tests.support.rest import Rest

DESK, TELEPHONE = (1366, 768), (360, 740)
NONE = "\u2013"  # of a field


def keys(page: Page) -> list[str]:
    return page.locator("#messages tbody td[data-label=Key]").all_inner_texts()


@pytest.mark.parametrize("size", [DESK, TELEPHONE])
def test_the_first_message_is_in_sight_and_the_counter_is_right(
    console: Console, size: tuple[int, int]
) -> None:
    page = console.open("topics/orders?tab=messages")
    row = page.locator("#messages tbody tr").first.bounding_box()
    assert row is not None
    assert row["y"] + row["height"] <= size[1]
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    expect(page.get_by_role("status")).to_have_text(
        f"100 matches in 100 offsets; {ORDERS + 1 - 100} not searched"
    )


@pytest.mark.parametrize("size", [TELEPHONE])
def test_on_a_telephone_the_fields_of_a_search_are_folded(
    console: Console, size: tuple[int, int]
) -> None:
    page = console.open("topics/orders?tab=messages&from=offset&partition=0")
    fields = page.locator(".unfold")
    expect(fields).to_have_text("▸ offset ? · partition 0 · at most 100")
    expect(page.get_by_label("Key")).not_to_be_visible()
    page.get_by_role("button", name="Search").click()  # a field that is wrong is shown
    page.get_by_role("textbox", name="Offset").fill("7")
    page.get_by_role("button", name="Search").click()
    expect(fields).to_have_text("▸ offset 7 · partition 0 · at most 100")
    # a search that begins at an offset has this offset on top
    expect(page.locator("#messages tbody tr").first).to_contain_text("order-7")
    assert keys(page)[:2] == ["order-7", "order-8"]


def test_fields_are_columns_and_the_address_keeps_them(
    shapes: str, console: Console, axe: Faults
) -> None:
    page = console.open(f"topics/{shapes}?tab=messages")
    expect(page.locator("#messages tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Columns").click()
    dialog = page.get_by_role("dialog")
    for path in ("value.exact", f"value.{MARKUP}.dotted.name, 10 %", "value.list", "header.count"):
        dialog.get_by_label(path).check()
    assert axe(page) == []
    dialog.get_by_role("button", name="Close").click()
    page.reload()  # all is in the address
    table = page.locator("#messages")
    row = table.locator("tbody tr", has_text="large")
    fields = row.locator("td.field")
    expect(fields).to_have_text(["12345678901234567890", "1.5", "[ 5 000 items ]", NONE])
    other = table.locator("tbody tr", has_text="00 00 01 8b").locator("td.field")
    expect(other).to_have_text([NONE, NONE, NONE, "ff ff ff f9 (int32 -7)"])
    table.get_by_role("button", name="Remove the column value.list").click()
    expect(fields).to_have_count(3)
    assert page.evaluate("window.hacked") is None


# One message


def message(page: Page, key: str) -> Locator:
    """Its detail, opened from the list."""
    page.locator("#messages tbody tr", has_text=key).first.get_by_role("button").click()
    return page.get_by_role("dialog")


def test_one_message_is_read_after_the_other(console: Console) -> None:
    page = console.open("topics/orders?tab=messages&from=offset&offset=7&partition=0")
    dialog = message(page, "order-7")
    expect(dialog).to_contain_text("orders-0, offset 7")
    expect(dialog.get_by_role("button", name="Previous")).to_be_disabled()
    for step, place, key in (("ArrowRight", "2 of 100", "order-8"), ("Next", "3 of 100", "order-9"),
                             ("Previous", "2 of 100", "order-8"), ("ArrowLeft", "1 of", "order-7")):
        if step.startswith("Arrow"):
            page.keyboard.press(step)
        else:
            dialog.get_by_role("button", name=step).click()
        expect(dialog.get_by_role("status")).to_contain_text(place)
        expect(dialog.locator("pre").first).to_have_text(key)
    assert "record=0%3A7" in page.url
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert "record" not in page.url


def test_a_link_opens_exactly_this_record(console: Console) -> None:
    page = console.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=console.base)
    console.open("topics/orders?tab=messages&from=oldest&where=value.id+%3E+41")
    message(page, "order-42").get_by_role("button", name="copy link").click()
    expect(page.get_by_text("copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    page.goto("about:blank")
    page.goto(link)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("orders-0, offset 42")
    expect(dialog.locator("pre").first).to_have_text("order-42")
    page.keyboard.press("ArrowLeft")  # without the filter that found it
    expect(dialog.locator("pre").first).to_have_text("order-41")


def test_a_record_that_is_not_there_is_said_to_be_so(console: Console) -> None:
    page = console.open("topics/orders?tab=messages&from=oldest&limit=50&record=0:100000")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_contain_text("readers see up to 300")
    page.keyboard.press("ArrowRight")
    expect(dialog.get_by_role("status")).to_have_text("this is the last")
    page.keyboard.press("ArrowLeft")  # beyond the list the steps are those of the partition
    expect(dialog).to_contain_text("orders-0, offset 299")
    expect(dialog.locator("pre").first).to_have_text("order-299")
    page.keyboard.press("ArrowLeft")
    expect(dialog.locator("pre").first).to_have_text("order-298")


def test_a_value_is_copied_where_the_browser_gives_no_clipboard(console: Console) -> None:
    """As to every page without TLS that is not on loopback."""
    page = console.page
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    console.open("topics/orders?tab=messages&from=offset&offset=7&partition=0")
    dialog = message(page, "order-7")
    dialog.get_by_role("button", name="copy value").click()
    expect(dialog.get_by_text("copied")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_label("Filter").focus()
    page.keyboard.press("Control+V")
    assert json.loads(page.get_by_label("Filter").input_value())["id"] == 7


@pytest.fixture
def shapes(broker: RunningBroker) -> Iterator[str]:
    """A topic with what is hard to show. Tests name it before the page."""
    rest = Rest(broker.admin)
    configs = {"segment.bytes": "1000000"}
    rest.post("/topics", {"name": "shapes", "partitions": 1, "configs": configs})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "on_delivery": delivered})
    large = {"exact": 12345678901234567890, "list": [[n] for n in range(5000)],
             "text": "x" * 5000, MARKUP: {"inner": MARKUP, "none": None, "dotted.name, 10 %": 1.50}}
    producer.produce("shapes", json.dumps(large), "large")
    producer.produce(
        "shapes", b"\x89PNG\x00" + bytes(range(256)) * 40, struct.pack(">q", 1_700_000_000_000),
        headers=[("count", struct.pack(">i", -7)), ("word", b"abcd"), ("name", "Zo\xeb".encode()),
                 ("bytes", b"\xff\xfe"), ("float", struct.pack(">d", 1.5)), ("none", None)],
    )
    assert producer.flush(WAIT_S) == 0
    yield "shapes"
    rest.ask("DELETE", "/topics/shapes")


def test_json_is_a_tree_of_bounded_size(shapes: str, console: Console, axe: Faults) -> None:
    page = console.open(f"topics/{shapes}?tab=messages")
    dialog = message(page, "large")
    tree = dialog.locator(".tree")
    expect(tree.locator(".j-number").first).to_have_text("12345678901234567890")  # not rounded
    expect(tree).to_contain_text("[ 5 000 items ]")
    expect(tree).to_contain_text("5 002 characters")
    expect(tree.locator("li")).to_have_count(8)
    tree.get_by_role("button", name="list").click()
    expect(tree.locator("li")).to_have_count(8 + 101)  # a part of the list, and how many more
    tree.get_by_role("button", name="100 more of 5000").click()
    expect(tree.locator("li")).to_have_count(8 + 201)
    assert axe(page) == []
    dialog.locator("section", has_text="Value").get_by_role("button", name="text").click()
    expect(dialog.locator("pre").last).to_contain_text('"exact": 12345678901234567890')
    assert page.evaluate("window.hacked") is None


def test_bytes_are_beside_ascii_and_headers_are_read(shapes: str, console: Console) -> None:
    page = console.open(f"topics/{shapes}?tab=messages")
    key = "00 00 01 8b cf e5 68 00"
    dialog = message(page, key)
    expect(dialog.locator("pre.hex").first).to_contain_text(key)
    expect(dialog).to_contain_text("int64 1700000000000, as a time 2023-11-14 22:13:20.000")
    value = dialog.locator("pre.hex").last
    expect(value).to_contain_text("0000  89 50 4e 47 00 00 01 02 03 04 05 06 07 08 09 0a  .PNG....")
    assert len(value.inner_text().splitlines()) == 256
    dialog.get_by_role("button", name="6 149 bytes more").click()
    assert len(value.inner_text().splitlines()) == 641
    shown = dialog.locator(".headers dd .mono").all_inner_texts()
    assert shown == ["ff ff ff f9 (int32 -7)", "abcd", "Zo\xeb", "ff fe", "3f f8 00 00 00 00 00 00"]
