"""Actions on a range of messages, a group and a topic; long lists; a stopped broker."""

from __future__ import annotations

import csv
import io
import json
import logging
import re
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow
import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser, Page, Route, expect
from pyarrow import ipc, parquet

from appliance.testing import RunningBroker, running_broker
from tests.console.conftest import ORDERS, WAIT_S, Console, commit
from tests.support.logs import until
from tests.support.remote_control import RemoteControl
from tests.support.rest import Rest
from tests.support.streams_group_client import Member, reading

TOPICS = 1000
NOTHING = {"messages": [], "scanned_offsets": 0, "scanned_bytes": 0, "left_offsets": 0,
           "next": None, "is_complete": True, "problems": []}  # fmt: skip


def messages(page: Page) -> list[str]:
    return page.locator("#messages tbody tr td:nth-child(4)").all_inner_texts()


# Messages


def test_messages_are_found_by_their_key(console: Console) -> None:
    page = console.open("topics/orders?tab=messages&from=oldest")
    page.get_by_label("Key").fill("order-42")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("status")).to_contain_text("1 match in")
    assert messages(page) == ["order-42"]


def downloaded(page: Page, title: str) -> bytes:
    page.get_by_role("button", name="Export").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Format").select_option(title)
    dialog.get_by_label("From").select_option("offset")
    dialog.get_by_role("spinbutton").fill("10")
    dialog.get_by_label("Up to").select_option("offset")
    dialog.get_by_role("spinbutton").last.fill("15")
    dialog.get_by_label("Partition").select_option("0")
    expect(dialog.get_by_role("status")).to_have_text("5 offsets in 1 partition")
    with page.expect_download() as told:
        dialog.get_by_role("button", name="Download").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    return Path(told.value.path()).read_bytes()


def test_a_range_is_a_file_in_every_format(console: Console) -> None:
    page = console.open("topics/orders?tab=messages")
    wanted = [f"order-{number}" for number in range(10, 15)]
    lines = downloaded(page, "JSON lines").decode().splitlines()
    assert [json.loads(line)["key"] for line in lines] == wanted
    rows = csv.DictReader(io.StringIO(downloaded(page, "CSV").decode()))
    assert [row["key"] for row in rows] == wanted
    arrow = ipc.open_stream(downloaded(page, "Arrow stream")).read_all()
    columns = parquet.read_table(pyarrow.BufferReader(downloaded(page, "Parquet")))
    for table in (arrow, columns):
        assert [key.decode() for key in table["key"].to_pylist()] == wanted


def test_a_wrong_filter_is_reported_before_a_download(console: Console) -> None:
    page = console.open("topics/orders?tab=messages")
    page.get_by_label("Filter").fill("value ==")
    page.get_by_role("button", name="Export").click()
    page.get_by_role("dialog").get_by_role("button", name="Download").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("==")
    assert [each[:4] for each in console.wrong] == ["400:"]
    console.wrong.clear()


def test_a_replay_shows_what_it_would_write(console: Console) -> None:
    page = console.open("topics/orders?tab=messages")
    page.get_by_label("Filter").fill("value.id >= 7 and value.id < 9")
    page.get_by_role("button", name="Replay").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Target topic").fill("clicks")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog).to_contain_text("2 messages")
    assert dialog.locator("tbody tr td:nth-child(4)").all_inner_texts() == ["order-7", "order-8"]
    dialog.get_by_label("From").select_option("time")  # another range needs another preview
    expect(dialog.get_by_role("button", name="Preview")).to_be_visible()
    dialog.locator("input[type=datetime-local]").fill("2200-01-01T00:00:00")
    expect(dialog.get_by_role("status")).to_contain_text("No records in this range.")


def test_a_search_can_be_stopped(console: Console) -> None:
    """The test delays its requests, so that there is time to stop it."""
    page = console.open("topics/orders?tab=messages")
    looks: list[Route] = []

    def one_by_one(route: Route) -> None:
        looks.append(route)
        if len(looks) == 1:
            answer = route.fetch()
            part = {**answer.json(), "messages": [], "is_complete": False, "next": "0:0:5",
                    "scanned_offsets": 10, "left_offsets": 90}  # fmt: skip
            route.fulfill(response=answer, json=part)

    page.route("**/orders/messages?*", one_by_one)
    page.get_by_role("button", name="Search").click()
    status = page.get_by_role("status")
    expect(status).to_contain_text("searching: 10 of 100 offsets searched (10 %), 0 matches")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(status).to_have_text("stopped after 10 offsets, 0 matches; 90 not searched")
    looks[1].fulfill(json={**NOTHING, "scanned_offsets": 90})
    page.wait_for_timeout(300)
    expect(status).to_contain_text("stopped after 10")
    assert len(looks) == 2


def test_messages_are_found_by_their_time(console: Console) -> None:
    page = console.open("topics/orders?tab=messages")
    for year, text in (("2001", f"100 matches in 100 offsets; {ORDERS + 1 - 100} not"),
                       ("2200", "No records in this range.")):  # fmt: skip
        page.get_by_label("From").select_option("time")
        page.get_by_label("Time", exact=True).fill(f"{year}-01-01T00:00:00")
        page.get_by_role("button", name="Search").click()
        expect(page.get_by_role("status")).to_contain_text(text)


def test_a_value_is_copied_whole(console: Console) -> None:
    page = console.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=console.base)
    console.open("topics/orders?tab=messages&from=offset&offset=7&partition=0&limit=50")
    page.locator("#messages tbody tr", has_text="order-7").first.get_by_role("button").click()
    page.get_by_role("dialog").get_by_role("button", name="copy value").click()
    expect(page.get_by_role("dialog").get_by_text("copied")).to_be_visible()
    assert json.loads(page.evaluate("navigator.clipboard.readText()"))["id"] == 7


# Topics and groups


def test_partitions_are_added(console: Console) -> None:
    page = console.open("topics/clicks")
    page.get_by_role("button", name="Add partitions").click()
    page.get_by_label("New number of partitions").fill("3")
    page.get_by_role("dialog").get_by_role("button", name="Add partitions").click()
    expect(page.locator("#partitions-clicks tbody tr")).to_have_count(3)


def test_offsets_are_those_of_another_group(console: Console, broker: RunningBroker) -> None:
    page = console.open("groups/billing")
    page.get_by_role("button", name="Reset offsets").click()
    dialog = page.get_by_role("dialog")
    dialog.locator("select").select_option("group")
    dialog.get_by_role("textbox").fill("nobody-has-this-name")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_role("alert")).to_contain_text("nobody-has-this-name")
    assert [each[:4] for each in console.wrong] == ["404:"]
    console.wrong.clear()
    dialog.get_by_role("textbox").fill("billing")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.locator("tbody tr")).to_have_count(2)
    assert dialog.locator("thead th").all_inner_texts() == [
        "Topic", "Partition", "From", "To", "Log start", "Log end", "Note",
    ]  # fmt: skip
    ends = dialog.locator("tbody tr td:nth-child(6)").all_inner_texts()
    assert ends == [str(ORDERS), "1"]


@pytest.mark.parametrize(
    ("to", "value", "after"),
    [
        ("latest", None, str(ORDERS)),
        ("time", "2001-01-01T00:00:00", "0"),
        ("offset", "17", "17"),
        ("shift", "-1000", "0"),
    ],
)
def test_where_offsets_may_be_put_is_shown_first(
    console: Console, to: str, value: str | None, after: str
) -> None:
    page = console.open("groups/billing")
    page.get_by_role("button", name="Reset offsets").click()
    dialog = page.get_by_role("dialog")
    dialog.locator("select").select_option(to)
    if value is not None:
        dialog.locator("input:not([type=checkbox])").fill(value)
    dialog.get_by_role("button", name="Preview").click()
    row = dialog.locator("tbody tr", has=dialog.page.locator("td", has_text=re.compile("^0$")))
    expect(row.first.locator("td").nth(3)).to_have_text(after)
    dialog.get_by_role("button", name="Cancel").click()


def test_a_group_of_kafka_streams_shows_tasks(console: Console, broker: RunningBroker) -> None:
    host, port = broker.bootstrap.split(":")
    with closing(RemoteControl((host, int(port)))) as control:
        one = Member(control, "one", reading("orders"), group_id="streaming")
        one.beat()
        page = console.open("groups/streaming")
        expect(page.locator("dl.strip")).to_contain_text("streams, sticky")
        expect(page.get_by_role("columnheader", name="Tasks")).to_have_count(1)
        row = page.locator("#members-streaming tbody tr")
        until(lambda: one.beat().error_code or one.tasks["active_tasks"])
        expect(row).to_contain_text("active 0_0")
        console.leave()
        one.send(-1)


def test_a_group_is_deleted_after_its_name_was_typed(
    console: Console, broker: RunningBroker
) -> None:
    commit(broker.bootstrap, "to-delete")
    page = console.open("groups/to-delete")
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
    dialog.get_by_label(re.compile("Type")).fill("to-delete")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Consumers")
    expect(page.get_by_role("link", name="to-delete")).to_have_count(0)
    console.gone("groups/to-delete")


# The broker


def test_a_setting_is_changed_and_put_back(console: Console) -> None:
    page = console.open("settings")
    page.get_by_label("Filter the table").fill("log.retention.ms")
    row = page.locator("#settings tbody tr")
    expect(row).to_contain_text("604800000 ms = 7 d")
    page.get_by_role("button", name="Change log.retention.ms").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("soon")
    dialog.get_by_role("button", name="Change").click()
    expect(dialog.get_by_role("alert")).to_contain_text("got 'soon'")
    dialog.get_by_role("textbox").fill("3600000")
    dialog.get_by_role("button", name="Change").click()
    expect(row).to_contain_text("3600000 ms = 1 h")
    expect(row).to_contain_text("changed at run time")
    page.get_by_role("button", name="Change log.retention.ms").click()
    dialog.get_by_label("Use the configured value").check()
    dialog.get_by_role("button", name="Change").click()
    expect(row).to_contain_text("= 7 d")
    assert [each[:4] for each in console.wrong] == ["400:"]
    console.wrong.clear()


def test_a_support_bundle_is_downloaded(console: Console) -> None:
    page = console.open("settings")
    with page.expect_download() as told:
        page.get_by_role("link", name="Support bundle").click()
    with zipfile.ZipFile(told.value.path()) as bundle:
        assert bundle.testzip() is None
        assert len(bundle.namelist()) > 5


def test_a_list_is_a_file_too(console: Console) -> None:
    page = console.open("topics?filter=ord")
    with page.expect_download() as told:
        page.get_by_role("button", name="CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(told.value.path()).read_text())))
    assert [row["Topic"] for row in rows] == ["orders"]


def test_no_cell_of_a_list_is_a_formula(console: Console) -> None:
    rest = Rest(console.base.removeprefix("http://"))
    rest.post("/topics", {"name": "-formula", "partitions": 3})
    page = console.open("topics?filter=-formula")
    with page.expect_download() as told:
        page.get_by_role("button", name="CSV").click()
    (row,) = csv.DictReader(io.StringIO(Path(told.value.path()).read_text()))
    assert row["Topic"] == "'-formula"
    assert row["Partitions"] == "3"
    assert rest.ask("DELETE", "/topics/-formula").status == 204


def test_the_log_and_the_audit_trail_are_searched(console: Console) -> None:
    logging.getLogger("appliance.broker").warning("something of it topic=only-here")
    page = console.open("records")
    page.get_by_label("Filter the table").fill("topic=only-here")
    expect(page.locator("#log tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Audit trail").click()
    page.get_by_label("Filter the table").fill("exports/daily")
    row = page.locator("#audit tbody tr", has_text="PUT /api/v1/exports/daily").last
    expect(row).to_contain_text("Define export daily: topics orders, target /lake")
    row.scroll_into_view_if_needed()
    expect(row.get_by_text("done 200")).to_be_in_viewport(ratio=1)
    row.get_by_text("show").click()
    expect(row.locator("details")).to_contain_text('"target": "/lake"')


def test_a_group_that_reads_is_not_put_elsewhere_and_one_hears_why(
    console: Console, broker: RunningBroker
) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "busy",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["clicks"])
    assert consumer.consume(1, WAIT_S)
    consumer.commit(asynchronous=False)
    page = console.open("groups/busy")
    page.get_by_role("button", name="Reset offsets").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("The group has 1 member. Stop them first")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_role("alert")).to_contain_text("stop them first")
    assert [each[:4] for each in console.wrong] == ["409:"]
    console.wrong.clear()
    consumer.close()


def test_lag_has_a_history(console: Console) -> None:
    page = console.open("groups/billing")
    figure = page.get_by_role("img", name=re.compile("Lag in records"))
    expect(figure).to_have_attribute("aria-label", re.compile(r"lag \d+"), timeout=40_000)


def test_clients_have_rates(console: Console, broker: RunningBroker) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "rates"})
    consumer.subscribe(["orders"])
    page = console.open("clients")
    for _ in range(2 * WAIT_S):
        consumer.poll(0.5)
        cells = page.locator("#clients tbody td[data-label='In']").all_inner_texts()
        if any(re.fullmatch(r"[1-9].*B/s", each) for each in cells):
            break
    else:
        raise AssertionError(f"nobody has a rate: {cells}")
    consumer.close()


# Many topics, and a broker that stops


@pytest.fixture
def other(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "data") as running:
        yield running


@pytest.fixture
def elsewhere(browser: Browser, other: RunningBroker) -> Iterator[Console]:
    context = browser.new_context(viewport={"width": 1320, "height": 900})
    context.set_default_timeout(WAIT_S * 1000)
    yield Console(context.new_page(), f"http://{other.admin}")
    context.close()


def test_of_a_long_list_what_is_in_sight_is_drawn(elsewhere: Console, other: RunningBroker) -> None:
    admin = AdminClient({"bootstrap.servers": other.bootstrap})
    for first in range(0, TOPICS, 100):
        names = [NewTopic(f"topic-{number:03}", 1) for number in range(first, first + 100)]
        for made in admin.create_topics(names, request_timeout=60).values():
            made.result(60)
    page = elsewhere.open("topics")
    rows = page.locator("#topics tr[data-row]")
    expect(rows.first).to_contain_text("topic-000")
    expect(page.locator("#topics")).to_have_attribute("aria-rowcount", str(TOPICS + 1))
    assert rows.count() < 300
    height = page.evaluate("document.documentElement.scrollHeight")
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    expect(rows.last).to_contain_text(f"topic-{TOPICS - 1}")
    expect(rows.last).to_have_attribute("aria-rowindex", str(TOPICS + 1))
    assert rows.count() < 300
    assert abs(page.evaluate("document.documentElement.scrollHeight") - height) < height / 20
    page.keyboard.press("/")
    page.keyboard.type("topic-77")
    expect(rows).to_have_count(10)
    expect(page.get_by_role("status")).to_have_text(f"10 of {TOPICS}")


def test_a_stopped_broker_is_reported(elsewhere: Console, other: RunningBroker) -> None:
    page = elsewhere.open()
    expect(page.get_by_text("Healthy")).to_be_visible()
    other.stop()
    expect(page.get_by_role("alert").first).to_contain_text("The broker has not answered")
