"""Every page in a real browser: it shows the data of the broker, and runs no script in them."""

from __future__ import annotations

import logging
import re
from itertools import product

import pytest
from confluent_kafka import Consumer, TopicPartition
from playwright.sync_api import Page, expect

from appliance.testing import RunningBroker
from tests.console.conftest import MARKUP, ORDERS, WAIT_S, Console, Faults
from tests.support.release import gate_has
from tests.support.rest import Rest

PAGES = {
    "": "Degraded: the last run of export daily failed",
    "topics": "orders",
    "topics/orders": "Durable",
    "topics/orders?tab=segments": "readers start at",
    "topics/orders?tab=messages": "order-299",
    "topics/orders?tab=consumers": "billing",
    "topics/orders?tab=producers": "No producer is known",
    "topics/orders?tab=rates": "Traffic",
    "topics/orders?tab=configs": "retention.ms",
    "groups": "billing",
    "groups/billing": "Committed",
    "exports": "daily",
    "exports/daily": "backfill",
    "clients": "Clients",
    "machine": "As it should be",
    "alerts": "Alerts go nowhere",
    "settings": "advertised.listeners",
    "rules": "Who may do what",
    "quotas": "No quotas",
    "ledger": "No open entries",
    "records": "Log",
    "records?tab=audit": "Audit",
}
COLOURS = ("light", "dark")
PHONE_HEIGHT_MAX = 5000  # px: some seven screens, however many rows there are


@pytest.mark.parametrize(
    ("place", "colours"),
    gate_has([(place, COLOURS[n % 2]) for n, place in enumerate(PAGES)],
             "each page in the other colours", product(PAGES, COLOURS)),
)
def test_every_page_shows_its_content_and_is_accessible(
    console: Console, axe: Faults, place: str, colours: str
) -> None:
    page = console.open(place)
    expect(page.get_by_text(PAGES[place]).first).to_be_visible()
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.dataset.theme") == colours
    assert axe(page) == []


def test_a_field_without_a_name_is_not_accessible(console: Console, axe: Faults) -> None:
    page = console.open()
    page.evaluate("document.querySelector('main').append(document.createElement('input'))")
    (fault,) = axe(page)
    assert fault.startswith("label: Form elements must have labels: ['<input>'"), fault


@pytest.mark.parametrize("size", [(360, 740)])
@pytest.mark.parametrize("place", PAGES)
def test_a_telephone_needs_no_scrolling_sideways(
    console: Console, place: str, size: tuple[int, int]
) -> None:
    page = console.open(place)
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.evaluate("document.documentElement.scrollHeight") < PHONE_HEIGHT_MAX
    bar = page.locator(".side").bounding_box()
    assert bar is not None
    assert bar["height"] < 80


# Other pages have more columns than fit, and scroll them.
@pytest.mark.parametrize("place", ["topics/orders", "topics/orders?tab=segments", "mirrors"])
def test_a_desk_sees_every_column(console: Console, place: str) -> None:
    page = console.open(place)
    wide = "[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth)"
    assert page.evaluate(f"{wide}.length") == 0


@pytest.mark.parametrize("size", [(360, 740)])
def test_a_message_is_short_on_a_telephone(console: Console, size: tuple[int, int]) -> None:
    page = console.open("topics/orders?tab=messages")
    row = page.locator("#messages tbody tr").first
    places = [row.locator("td").nth(number).bounding_box() for number in (0, 1, 6)]
    tops = [each["y"] for each in places if each is not None]
    assert len(tops) == 3
    assert max(tops) - min(tops) < 10


@pytest.mark.parametrize("size", [(360, 740)])
@pytest.mark.parametrize(
    "place", gate_has(["topics/orders?tab=messages"], "the other kind of table",
                      ["topics/orders?tab=messages", "settings"]),
)
def test_a_telephone_has_few_rows_until_more_are_asked_for(
    console: Console, size: tuple[int, int], place: str
) -> None:
    page = console.open(place)
    rows = page.locator("main tr[data-row]")
    expect(rows).to_have_count(15)
    page.get_by_role("button", name=re.compile("^Show 15 more of")).click()
    expect(rows).to_have_count(30)
    expect(page.get_by_role("button", name=re.compile("^Show 30 more of"))).to_be_visible()


@pytest.mark.parametrize("size", [(360, 740)])
def test_a_line_of_the_log_has_the_width_of_a_telephone(
    console: Console, size: tuple[int, int]
) -> None:
    logging.getLogger("appliance.broker").warning("something that is a line")
    page = console.open("records")
    text = page.locator("#log td[data-label=Text]").first.bounding_box()
    assert text is not None
    assert text["width"] > 250


def test_text_of_others_is_text(console: Console) -> None:
    page = console.open("topics/orders?tab=messages&partition=1")
    page.get_by_role("button", name=re.compile(r"^0$")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text(MARKUP).first).to_be_visible()
    assert dialog.get_by_text(MARKUP).count() >= 3  # key, value, header
    page.keyboard.press("Escape")
    console.open("groups")
    page.get_by_role("link", name=MARKUP).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(MARKUP)
    assert page.evaluate("window.hacked") is None


def test_segments_are_the_files_on_disk(console: Console, broker: RunningBroker) -> None:
    page = console.open("topics/orders?tab=segments")
    files = sorted(each.name for each in (broker.data_dir / "orders-0").glob("*.log"))
    assert len(files) > 1
    shown = page.locator("table td:first-child code").all_inner_texts()
    assert sorted(shown) == files
    assert page.locator("svg.log-picture rect").count() == len(files)
    page.locator("svg.log-picture rect").first.click()
    expect(page.locator("dl.facts")).to_contain_text(files[0])


def messages(page: Page) -> list[str]:
    return page.locator("#messages tbody tr td:nth-child(4)").all_inner_texts()


def test_messages_are_found_and_no_match_is_not_empty(console: Console) -> None:
    page = console.open("topics/orders?tab=messages")
    search = page.get_by_label("Filter")
    search.fill("value.id = 17")
    page.get_by_label("From").select_option("oldest")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("status")).to_contain_text("1 match in")
    assert messages(page) == ["order-17"]
    search.fill("value.id = 100000")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("status")).to_have_text(
        f"No match in {ORDERS + 1} offsets."
    )
    console.open("topics/orders?tab=messages&from=offset&offset=100000")
    page.reload()
    expect(page.get_by_role("status")).to_contain_text("No records in this range")


def test_a_wrong_filter_says_what_is_wrong(console: Console) -> None:
    page = console.open("topics/orders?tab=messages")
    page.get_by_label("Filter").fill("value ==")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("alert")).to_contain_text("==")
    assert len(console.wrong) == 1  # the broker's error is the only expected one
    assert console.wrong.pop().startswith("400:")


def test_what_is_written_is_followed(console: Console) -> None:
    page = console.open("topics/clicks?tab=messages")
    with page.expect_response("**/messages/live?*"):
        page.get_by_role("button", name="Follow").click()
    expect(page.get_by_role("status")).to_contain_text("following")
    page.get_by_role("button", name="Produce").click()
    page.get_by_label("Value", exact=True).fill('{"page": "/cart"}')
    page.get_by_label(re.compile("Headers")).fill("trace: ab")
    page.get_by_role("dialog").get_by_role("button", name="Produce").click()
    expect(page.locator("#messages")).to_contain_text("/cart")
    page.locator("#messages tbody button").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".tree")).to_contain_text('page: "/cart"')
    expect(dialog).to_contain_text("trace")


def test_messages_are_replayed_after_a_look_at_what_it_would_be(console: Console) -> None:
    page = console.open("topics/orders?tab=messages")
    page.get_by_label("Filter").fill("value.id < 5")
    page.get_by_role("button", name="Replay").click()
    page.get_by_label("Target topic").fill("clicks")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("dialog")).to_contain_text("5 messages")
    page.get_by_role("dialog").get_by_role("button", name="Replay").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    console.open("topics/clicks?tab=messages&from=oldest")
    expect(page.locator("#messages")).to_contain_text("order-4")


def test_a_topic_is_made_changed_emptied_and_deleted(console: Console) -> None:
    page = console.open("topics")
    page.get_by_role("button", name="New topic").click()
    page.get_by_label("Name").fill("made-here")
    page.get_by_label("Partitions").fill("3")
    page.get_by_label(re.compile("Retention")).fill("2 d")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("made-here")
    expect(page.locator("dl.strip")).to_contain_text(re.compile(r"Retention\s*2\sd"))
    page.get_by_role("link", name="Configs").click()
    page.get_by_role("button", name="Change retention.ms").click()
    page.get_by_role("textbox", name="Value").fill("1h")
    page.get_by_role("dialog").get_by_role("button", name="Change", exact=True).click()
    expect(page.locator("dl.strip")).to_contain_text(re.compile(r"Retention\s*1\sh"))
    for action in ("Empty", "Delete"):
        page.get_by_role("button", name=action).first.click()
        confirm = page.get_by_role("dialog").get_by_role("button", name=action)
        expect(confirm).to_be_disabled()
        page.get_by_label(re.compile("Type")).fill("made-here")
        confirm.click()
        expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    expect(page.get_by_text("made-here")).to_have_count(0)
    console.gone("topics/made-here")


def test_a_group_is_put_elsewhere_after_a_look(console: Console) -> None:
    page = console.open("groups/billing")
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("dialog").locator("tbody tr")).to_have_count(2)
    page.get_by_role("dialog").get_by_role("button", name="Reset offsets").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("dl.strip")).to_contain_text(f"{ORDERS + 1} records")


def test_all_of_it_goes_without_a_mouse(console: Console) -> None:
    page = console.open()
    for key in "gt":
        page.keyboard.press(key)
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    page.locator("tbody tr").first.wait_for()
    page.keyboard.press("/")
    page.keyboard.type("orde")
    page.keyboard.press("Escape")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("orders")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Consumers")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_home_tells_who_is_farthest_behind(console: Console) -> None:
    page = console.open()
    tile = page.locator("a.tile", has_text="Consumers")
    expect(tile).to_contain_text(re.compile(r"(billing|img).*, \d+ records"), timeout=30_000)
    tile.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Consumers")


def read_some(bootstrap: str) -> None:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "looks"})
    reader.assign([TopicPartition("orders", 0, 0)])
    assert reader.consume(1, WAIT_S)
    reader.close()


def test_a_picture_is_a_table_too(console: Console, broker: RunningBroker) -> None:
    page = console.open()
    read_some(broker.bootstrap)  # while nothing comes or goes there is no picture
    figure = page.get_by_role("img", name=re.compile("Traffic, in and out"))
    expect(figure).to_have_attribute("aria-label", re.compile(r"in .*B/s, out .*B/s"))
    page.get_by_role("button", name="Show as table").click()
    rows = page.get_by_role("region", name="Traffic, in and out").locator("tbody tr")
    expect(rows.first).to_contain_text("B/s")


def test_colours_can_be_chosen_and_stay(console: Console) -> None:
    page = console.open()
    page.get_by_label("Colours").select_option("dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    page.locator("h1").wait_for()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize("size", [(360, 740)])
def test_long_rows_of_the_audit_trail_are_short_on_a_telephone(
    console: Console, broker: RunningBroker, size: tuple[int, int]
) -> None:
    schedule = {"cron": "5 * * * *", "timezone": "Europe/Berlin", "jitter_seconds": 5, "retries": 3}
    options = {"hold_bytes": 1000, "layout": "day", "zone": "Europe/Berlin", "table": "iceberg"}
    body = {"topics": ["orders"], "target": "/lake/long", "schedule": schedule, "options": options}
    rest = Rest(broker.admin)
    for _ in range(20):
        assert rest.ask("PUT", "/exports/long", body).status == 200
    page = console.open("records?tab=audit")
    expect(page.locator("#audit")).to_contain_text("lake/long")
    assert page.evaluate("document.documentElement.scrollHeight") < PHONE_HEIGHT_MAX
    assert rest.ask("DELETE", "/exports/long").status in (200, 204)
