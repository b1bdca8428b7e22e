"""The page of a topic: its configs in words, who reads and writes it, its rates; and several topics
at once from the list."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import Producer
from playwright.sync_api import expect

from appliance.testing import RunningBroker
from tests.console.conftest import MARKUP, WAIT_S, Console
from tests.support.rest import Rest

PHONE = 360, 740
CONFIGS_HEIGHT_MAX = 2600  # px on a telephone: three and a half screens for 19 configs


# Configs


def test_configs_stand_in_groups_and_in_words(console: Console) -> None:
    page = console.open("topics/orders?tab=configs")
    table = page.locator("#configs-orders")
    assert table.locator("tr.group").all_inner_texts()[:2] == ["Retention", "Compaction"]
    row = table.locator("tr[data-row]", has_text=re.compile("^retention.ms"))
    expect(row).to_contain_text("7 d 604800000")
    expect(table).not_to_contain_text("remote.storage.enable")
    page.get_by_role("button", name=re.compile("configs without effect here")).click()
    expect(table.locator("tr.group").last).to_have_text("No effect here")
    expect(table).to_contain_text("remote.storage.enable")


def test_a_config_is_changed_in_words_after_a_preview(console: Console) -> None:
    page = console.open("topics/clicks?tab=configs")
    page.get_by_role("button", name="Change segment.ms").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Age at which a segment is sealed")
    expect(dialog).to_contain_text("at least 1; also as 3d")
    value = dialog.get_by_role("textbox", name="Value")
    expect(value).to_have_value("7 d")
    preview = dialog.get_by_role("list", name="Preview")
    value.fill("soon")
    expect(preview).to_contain_text("segment.ms: got 'soon', wanted a whole number")
    value.fill("36h")
    expect(preview).to_contain_text("segment.ms: 7 d → 1 d 12 h")
    dialog.get_by_role("button", name="Change", exact=True).click()
    row = page.locator("#configs-clicks tr[data-row]", has_text=re.compile("^segment.ms"))
    expect(row).to_contain_text("1 d 12 h 129600000")
    expect(row).to_contain_text("this topic")
    page.get_by_role("button", name="Change segment.ms").click()
    dialog.get_by_label("Use the broker's default: 7 d").check()
    dialog.get_by_role("button", name="Change", exact=True).click()
    expect(row).to_contain_text("7 d")


@pytest.mark.parametrize("size", [PHONE])
def test_the_configs_are_not_long_on_a_telephone(console: Console, size: tuple[int, int]) -> None:
    page = console.open("topics/orders?tab=configs")
    assert page.evaluate("document.documentElement.scrollHeight") < CONFIGS_HEIGHT_MAX
    expect(page.locator(".tabs [aria-current]")).to_be_in_viewport(ratio=1)


# Who reads and writes it


def test_a_topic_shows_its_consumers(console: Console) -> None:
    page = console.open("topics/orders?tab=consumers")
    row = page.locator("#consumers-orders tbody tr", has_text="billing")
    expect(row).to_contain_text("Empty")
    expect(page.get_by_role("link", name=MARKUP)).to_be_visible()
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("billing")
    assert page.evaluate("window.hacked") is None


def test_a_topic_shows_its_producers_and_open_transactions(
    console: Console, broker: RunningBroker
) -> None:
    page = console.open("topics/clicks?tab=producers")
    expect(page.get_by_text("No producer is known.")).to_be_visible()
    # one that ends by itself: none is left open for other tests
    mover = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": MARKUP})
    mover.init_transactions(WAIT_S)
    mover.begin_transaction()
    mover.produce("clicks", b"y", partition=0)
    assert mover.flush(WAIT_S) == 0
    row = page.locator("#transactions-clicks tbody tr")
    expect(row).to_contain_text("Ongoing")
    expect(row).to_contain_text("1 record")
    expect(page.locator("#producers-clicks tbody tr")).to_contain_text(MARKUP)
    mover.abort_transaction(WAIT_S)
    expect(row).to_have_count(0)
    assert page.evaluate("window.hacked") is None


def test_rates_go_on_while_another_tab_is_shown(console: Console) -> None:
    page = console.open("topics/orders")
    page.wait_for_timeout(3500)
    page.get_by_role("link", name="Rates").click()
    expect(page.get_by_text("since this page first showed the topic")).to_be_visible()
    figure = page.get_by_role("img", name=re.compile("Traffic of the topic, in and out"))
    expect(figure).to_have_attribute("aria-label", re.compile(r"in .*B/s, out .*B/s"))


# Several topics


def test_several_topics_are_changed_and_deleted_at_once(console: Console) -> None:
    rest = Rest(console.base.removeprefix("http://"))
    for name in ("several-a", "several-b", "several-c"):
        rest.post("/topics", {"name": name})
    page = console.open("topics?filter=several-")
    page.get_by_label("Choose several-a").focus()
    page.keyboard.press("Space")  # keys are enough
    page.get_by_label("Choose several-b").check()
    bar = page.get_by_role("region", name="Chosen topics")
    expect(bar.get_by_role("status")).to_have_text("2 topics chosen")
    bar.get_by_role("button", name="Change a config").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Config").select_option("max.message.bytes")
    dialog.get_by_role("textbox", name="Value").fill("2 MiB")
    preview = dialog.get_by_role("list", name="Preview").get_by_role("listitem")
    expect(preview).to_have_count(2)
    expect(preview.first).to_contain_text("max.message.bytes: about 1 MiB → 2 MiB")
    dialog.get_by_role("button", name="Change 2 topics").click()
    results = dialog.get_by_role("list", name="Results").get_by_role("listitem")
    expect(results).to_have_count(2)
    expect(results.last).to_contain_text("several-b ✓changed")
    dialog.get_by_role("button", name="Close").click()
    assert rest.get("/topics/several-b")["configs"]

    page.get_by_label("Choose all shown").check()
    # one of them goes while the dialog is open: the others are deleted all the same
    bar.get_by_role("button", name="Delete").click()
    topics = dialog.get_by_role("list", name="Topics").get_by_role("listitem")
    expect(topics).to_have_count(3)
    expect(topics.first).to_contain_text("0 records, 0 B")
    assert rest.ask("DELETE", "/topics/several-b").status == 204
    dialog.get_by_label(re.compile("Type")).fill("delete 3 topics")
    dialog.get_by_role("button", name="Delete 3 topics").click()
    expect(topics.nth(0)).to_contain_text("deleted")
    expect(topics.nth(1)).to_contain_text("there is no topic 'several-b'")
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator("#topics tr[data-row]")).to_have_count(0)
    expect(bar).to_have_count(0)
