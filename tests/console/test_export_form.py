"""The form of an export: it has every option of the command, shows what is typed comes to, and says
beside a field what is wrong with it."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Locator, Page, expect

from appliance.testing import RunningBroker
from appliance_spark.export_define import KNOWN
from appliance_spark.export_definition import OPTIONS
from appliance_spark.export_hours import Layout
from tests.console.conftest import Console, Faults
from tests.support.rest import Rest

# The form's own names for what the command has in another way.
SAME = {"topics": "which", "pattern": "which", "schedule": "when"}
AVRO = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}'


@pytest.fixture
def rest(broker: RunningBroker) -> Rest:
    return Rest(broker.admin)


def new_export(console: Console, name: str, target: str) -> Page:
    page = console.open("exports")
    page.get_by_role("button", name="New export").click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Topics, separated").fill("orders")
    page.get_by_label("Target").fill(target)
    return page


def unfold(page: Page) -> None:
    """Of a new export, where all are folded."""
    for each in page.locator("dialog details > summary").all():
        each.click()


def field(page: Page, name: str) -> Locator:
    return page.get_by_role("dialog").locator(f"[name='{name}']")


def told(page: Page, name: str) -> Locator:
    return page.locator(f"#{name}-told")


def test_every_option_of_the_command_is_a_field_with_its_meaning_and_default(
    console: Console, axe: Faults
) -> None:
    page = new_export(console, "all", "/lake")
    page.get_by_label("Columns").select_option("avro")
    field(page, "partition_by").select_option("field")
    unfold(page)
    field(page, "table").check()
    for name in KNOWN:
        expect(field(page, SAME.get(name, name))).to_be_visible()
    for name in OPTIONS:
        expect(told(page, name)).to_contain_text("Default: ")
    usual = {"from": "earliest", "to": "latest", "dead_letter_share": "0.5", "hold_bytes": "0",
             "grace_seconds": "3600", "split_bytes": "128 MiB"}
    assert {name: str(OPTIONS[name]) for name in usual} == {**usual, "split_bytes": str(128 << 20)}
    for name, text in usual.items():
        expect(told(page, name)).to_contain_text(f"Default: {text}")
    assert axe(page) == []


def path_of(layout: Layout, hour: int) -> str:
    return f"{layout.folder('orders', hour)}/orders+PARTITION+FROM+TO.parquet"


def test_the_folder_is_shown_as_it_is_typed(console: Console) -> None:
    page = new_export(console, "shown", "s3://lake/exports/")
    path = page.locator("pre.path")
    tokyo = "Asia/Tokyo"
    for layout in (Layout("hour", "UTC"), Layout("day", tokyo), Layout("hour", tokyo)):
        field(page, "layout").select_option(layout.per)
        field(page, "zone").fill(layout.zone)
        ahead = 9 if layout.zone == tokyo else 0
        before, shown, after = time.time(), path.inner_text(), time.time()
        hours = (int(each) // 3600 + ahead for each in (before, after))
        assert shown in {f"s3://lake/exports/{path_of(layout, each)}" for each in hours}
    field(page, "zone").fill("Nowhere/Land")
    expect(page.get_by_role("dialog")).to_contain_text("this browser knows no such zone")
    field(page, "zone").fill("")
    field(page, "file_bytes").fill("128 MiB")
    expect(told(page, "file_bytes")).to_contain_text("= 134 217 728 bytes")
    expect(page.get_by_role("dialog")).to_contain_text("…+part1.parquet and so on, each of about")
    expect(told(page, "target")).to_contain_text("appliance-log[s3]")
    page.get_by_label("Target").fill("/srv/lake")
    expect(told(page, "target")).to_contain_text("A folder: an absolute path that all Spark worke")
    page.get_by_label("Columns").select_option("avro")
    field(page, "schema_json").fill(AVRO)
    expect(told(page, "schema_json")).to_contain_text("1 column: id")


def test_an_export_with_all_options_is_made_shown_and_changed(console: Console, rest: Rest) -> None:
    page = new_export(console, "full", "s3://lake/full")
    typed = {"zone": "Europe/Berlin", "file_bytes": "128 MiB", "time_field": "order.at",
             "schema_json": AVRO, "dead_letter_share": "0.1", "table_name": "lake.{topic}_v2",
             "catalog": "main", "hold_bytes": "10 GiB", "grace_seconds": "60",
             "from": '{"0": 5, "1": "latest"}', "to": "@2026-11-01", "split_bytes": "1GB"}
    page.get_by_label("Columns").select_option("avro")
    unfold(page)
    for name, value in {"layout": "day", "partition_by": "field", "framing": "none",
                        "isolation": "read_uncommitted"}.items():
        field(page, name).select_option(value)
    for name in ("table", "accept_loss"):
        field(page, name).check()
    expect(field(page, "delta")).to_be_disabled()
    for name, text in typed.items():
        field(page, name).fill(text)
    page.get_by_role("button", name="Create").click()
    page.get_by_role("link", name="full").click()
    made = rest.get("/exports/full")
    assert made["partition_by"] == "field:order.at"
    assert made["options"] == {
        "layout": "day", "zone": "Europe/Berlin", "file_bytes": 128 << 20, "schema_json": AVRO,
        "framing": "none", "dead_letter_share": 0.1, "table": "iceberg", "catalog": "main",
        "table_name": "lake.{topic}_v2", "hold_bytes": 10 << 30, "grace_seconds": 60,
        "accept_loss": True, "from": {"0": 5, "1": "latest"}, "to": "@2026-11-01",
        "isolation": "read_uncommitted", "split_bytes": 10**9}
    facts = page.locator("dl.facts")
    expect(facts).to_contain_text("columns: avro, a folder each day, clocks of Europe/Berlin")
    expect(facts).to_contain_text("Iceberg, as lake.{topic}_v2, in the catalog main, held up to")

    page.get_by_role("button", name="Edit").click()
    for name, text in typed.items():
        told_again = {"from": '{"0":5,"1":"latest"}', "split_bytes": "1000000000"}
        expect(field(page, name)).to_have_value(told_again.get(name, text))
    page.get_by_label("Columns").select_option("registry")
    expect(told(page, "schema")).to_contain_text("APPLIANCE_EXPORT_REGISTRY")
    field(page, "table").uncheck()
    page.get_by_label("Target").fill("/lake/full")
    field(page, "delta").check()
    for name in ("hold_bytes", "schema_json", "from", "to", "split_bytes", "grace_seconds"):
        field(page, name).fill("")
    field(page, "partition_by").select_option("timestamp")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    changed = rest.get("/exports/full")
    assert (changed["schema"], changed["partition_by"]) == ("registry", "timestamp")
    assert changed["options"] == {
        "layout": "day", "zone": "Europe/Berlin", "file_bytes": 128 << 20, "delta": True,
        "dead_letter_share": 0.1, "accept_loss": True, "isolation": "read_uncommitted"}
    console.leave()
    rest.ask("DELETE", "/exports/full")


def wrong_at(page: Page, name: str, said: str) -> None:
    """Beside the field, which is in sight and has the focus."""
    wanted = field(page, name)
    expect(wanted).to_be_focused()
    expect(wanted).to_have_attribute("aria-invalid", "true")
    expect(page.locator(f"#{name}-fault")).to_contain_text(said)


def test_what_is_wrong_is_said_beside_its_field(console: Console, rest: Rest) -> None:
    page = new_export(console, "daily", "/lake/wrong")
    unfold(page)
    field(page, "hold_bytes").fill("lots")
    page.get_by_text("Retention and late records").click()
    expect(field(page, "hold_bytes")).to_be_hidden()
    create = page.get_by_role("button", name="Create")
    create.click()
    wrong_at(page, "hold_bytes", "got lots, wanted a size such as 128 MiB")
    field(page, "hold_bytes").fill("1 GiB")
    expect(page.get_by_role("alert")).to_have_count(0)

    field(page, "from").fill("soon")
    create.click()
    wrong_at(page, "from", "got 'soon', wanted earliest, latest, an offset, @TIME")
    field(page, "from").fill("")
    page.get_by_label("Target").fill("hdfs://lake/x")
    create.click()
    wrong_at(page, "target", "wanted webhdfs://NAMENODE:PORT/FOLDER for HDFS")
    page.get_by_label("Target").fill("s3://lake/x")
    field(page, "table").check()
    create.click()
    wrong_at(page, "catalog", "wanted the name of a catalog in pyiceberg's configuration")
    field(page, "catalog").fill("main")
    create.click()
    wrong_at(page, "name", "there is an export of this name")
    assert rest.get("/exports/daily")["target"] == "/lake"
    console.wrong.clear()


def test_an_error_that_is_of_no_field_is_said_below(console: Console, rest: Rest) -> None:
    page = console.open("exports/daily")
    page.get_by_role("button", name="Edit").click()
    told = '{"error": {"code": "invalid_request", "message": "name: got it, wanted another"}}'
    page.route("**/api/v1/exports/daily?version=*",
               lambda route: route.fulfill(status=400, body=told, content_type="application/json"))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_have_text("name: got it, wanted another")
    console.wrong.clear()


def test_two_that_change_an_export_at_once_lose_nothing(console: Console, rest: Rest) -> None:
    known = rest.get("/exports/daily")
    kept = {name: value for name, value in known.items() if name != "status"}
    page = console.open("exports/daily")
    page.get_by_role("button", name="Edit").click()
    rest.ask("PUT", "/exports/daily", {**kept, "options": {"hold_bytes": 2000}})
    page.get_by_label("Retries").fill("5")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("read it again, and change that")
    assert rest.get("/exports/daily")["options"] == {"hold_bytes": 2000}
    rest.ask("PUT", "/exports/daily", kept)
    assert [each[:4] for each in console.wrong] == ["409:"]
    console.wrong.clear()
