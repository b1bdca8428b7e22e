"""Exports in the console: reported runs are shown; an export is created, changed and deleted."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from appliance.export import definitions_and_runs, due
from appliance.testing import RunningBroker
from tests.console.conftest import MARKUP, Console
from tests.support.rest import Rest


def test_what_the_job_reported_is_shown(console: Console) -> None:
    page = console.open("exports")
    row = page.locator("#exports tbody tr", has_text="daily")
    for text in ("failed", "98", "4.8 MiB/s", "holding"):
        expect(row).to_contain_text(text)
    row.get_by_role("link", name="daily").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("daily")
    runs = page.locator("#runs tbody tr")
    expect(runs).to_have_count(2)
    expect(runs.first).to_contain_text(MARKUP)
    expect(runs.last).to_contain_text("10 s")
    expect(runs.last).to_contain_text("98 rows in 3 files, 47.7 MiB, 2 dead letters; ")
    expect(runs.last).to_contain_text("began 3 h late, makes up for 3 missed runs")
    page.get_by_role("button", name="one", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("row")).to_have_count(2)
    page.keyboard.press("Escape")
    expect(page.locator("dl.facts")).to_contain_text("Europe/Berlin")
    expect(page.locator("pre")).to_contain_text("appliance export backfill orders")
    assert page.evaluate("window.hacked") is None


def test_dead_letters_are_read_and_replayed(console: Console, broker: RunningBroker) -> None:
    rest = Rest(broker.admin)
    rest.post("/topics", {"name": "again", "partitions": 1})
    page = console.open("exports/daily")
    page.get_by_role("button", name="Dead letters of one").click()
    dialog = page.get_by_role("dialog")
    rows = dialog.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text(MARKUP)
    expect(dialog).to_contain_text("appliance export dead-letters --target /lake")
    dialog.get_by_label("Replay to topic").fill("again")
    dialog.get_by_role("button", name="Replay 2 records").click()
    expect(dialog.get_by_role("status")).to_have_text("2 records written to again")
    found = rest.get("/topics/again/messages", **{"from": "oldest"})["messages"]
    read = rest.get("/topics/orders/messages", **{"from": "offset:3", "partition": 0})["messages"]
    assert [each["value"] for each in found] == [each["value"] for each in (read[0], read[2])]
    rows.first.get_by_role("link").click()
    expect(page.get_by_role("dialog")).to_contain_text("orders")
    expect(page.get_by_role("dialog")).to_contain_text(read[0]["key"]["text"])
    rest.ask("DELETE", "/topics/again")
    assert page.evaluate("window.hacked") is None


def test_the_command_of_a_backfill_is_copied_where_the_browser_gives_no_clipboard(
    console: Console,
) -> None:
    page = console.page
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    console.open("exports/daily")
    page.get_by_role("button", name="copy the command").click()
    expect(page.get_by_role("button", name="copied the command")).to_be_visible()


def test_a_command_runs_nothing_that_a_target_has_in_it(
    console: Console, broker: RunningBroker
) -> None:
    rest = Rest(broker.admin)
    rest.ask("PUT", "/exports/odd", {"topics": ["orders"], "target": "/lake; it's"})
    error = "1 of 1 records are dead letters"
    rest.post("/exports/odd/runs", {"id": "r", "state": "failed", "started_ms": 1, "error": error})
    page = console.open("exports/odd")
    page.get_by_role("button", name="Dead letters of r").click()
    expect(page.get_by_role("dialog")).to_contain_text(r"--target '/lake; it'\''s'")
    console.leave()
    rest.ask("DELETE", "/exports/odd")


def test_a_schedule_in_words_is_previewed(console: Console, broker: RunningBroker) -> None:
    page = console.open("exports")
    page.get_by_role("button", name="New export").click()
    page.get_by_label("Name", exact=True).fill("nightly")
    page.get_by_label("Topics, separated").fill("orders")
    page.get_by_label("Target").fill("/lakes/orders")
    page.get_by_label("Columns").select_option("json")
    page.get_by_label("Schedule").fill("daily 04:30 Europe/Berlin")
    times = page.get_by_role("list", name="Next times").get_by_role("listitem")
    expect(times).to_have_count(3)
    for each in times.all():
        expect(each).to_contain_text(re.compile(r" 04:30 CES?T\s+= \w+ .* 0[23]:30 UTC"))
    expect(page.get_by_label("Time zone")).to_be_disabled()
    expect(page.get_by_label("Time zone")).to_have_value("Europe/Berlin")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("link", name="nightly").click()
    expect(page.locator("dl.facts")).to_contain_text("daily 04:30 Europe/Berlin")
    expect(page.get_by_role("list", name="Next times").get_by_role("listitem")).to_have_count(3)
    expect(page.locator("dl.facts")).to_contain_text("no scheduler is running")
    rest = Rest(broker.admin)
    made = rest.get("/exports/nightly")
    assert made["schema"] == "json"
    schedule = made["schedule"]
    assert (schedule["when"], schedule["cron"]) == ("daily 04:30 Europe/Berlin", "30 4 * * *")
    console.leave()
    rest.ask("DELETE", "/exports/nightly")


def test_a_run_that_did_not_begin_is_said(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (due, definitions_and_runs):  # the broker is in this process, and has just begun
        monkeypatch.setattr(each, "NEXT_RUN_BELIEVED_S", 0.0)
    monkeypatch.setattr(definitions_and_runs.Book, "put_at", lambda *_: 0.0)
    monkeypatch.setattr(due, "AHEAD_S", -10_000.0)  # what began two hours ago is not that run
    page = console.open("exports")
    row = page.locator("#exports tbody tr", has_text="daily")
    expect(row).to_contain_text("late")
    row.get_by_role("link", name="daily").click()
    expect(page.locator("p.notice.warn")).to_contain_text("no run began: is its scheduler running?")


def test_home_shows_the_worst_export(console: Console) -> None:
    page = console.open()
    tile = page.locator("a.tile", has_text="Exports")
    expect(tile).to_contain_text("1 failed")
    tile.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Exports")


def test_an_export_is_made_changed_and_deleted(console: Console, broker: RunningBroker) -> None:
    page = console.open("exports")
    page.get_by_role("button", name="New export").click()
    page.get_by_label("Name", exact=True).fill("hourly")
    page.get_by_label("Select topics by").select_option("pattern")
    page.get_by_label("Pattern (").fill("click.*")
    page.get_by_label("Target").fill("/lakes/clicks")
    page.get_by_label("Schedule").fill("15 * * * *")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("link", name="hourly").click()
    expect(page.locator("dl.facts")).to_contain_text("clicks")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Schedule").fill("")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.locator("dl.facts")).to_contain_text("manual")
    made = Rest(broker.admin).get("/exports/hourly")
    assert (made["pattern"], made["target"], made["schedule"]) == ("click.*", "/lakes/clicks", None)
    page.get_by_role("button", name="Delete").click()
    page.get_by_label("Type").fill("hourly")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Exports")
    console.gone("exports/hourly")
    names = [each["name"] for each in Rest(broker.admin).get("/exports")["exports"]]
    assert names == ["daily"]


def test_a_change_keeps_what_the_form_does_not_know(
    console: Console, broker: RunningBroker
) -> None:
    page = console.open("exports/daily")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Retries").fill("4")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    found = Rest(broker.admin).get("/exports/daily")
    assert (found["options"], found["schedule"]["retries"]) == ({"hold_bytes": 1000}, 4)


def test_an_error_is_shown_and_the_form_keeps_its_input(console: Console) -> None:
    page = console.open("exports")
    page.get_by_role("button", name="New export").click()
    page.get_by_label("Name", exact=True).fill("wrong")
    page.get_by_label("Topics, separated").fill("orders")
    page.get_by_label("Target").fill("/lake")
    page.get_by_label("Schedule").fill("soon")
    page.get_by_role("button", name="Create").click()
    schedule = page.get_by_label("Schedule")
    expect(schedule).to_have_attribute("aria-invalid", "true")
    expect(schedule).to_be_focused()
    expect(schedule.locator("xpath=../..").get_by_role("alert")).to_contain_text(
        "got 'soon', wanted \"every 15 minutes\"")
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("schedule.when: got")
    expect(page.get_by_label("Target")).to_have_value("/lake")
    assert [each[:4] for each in console.wrong] == ["400:"] * len(console.wrong)
    console.wrong.clear()
