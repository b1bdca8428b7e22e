"""Exports in the console: reported runs are shown; an export is created, changed and deleted."""

from __future__ import annotations

from playwright.sync_api import expect

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
    page.get_by_role("button", name="one").click()
    expect(page.get_by_role("dialog").get_by_role("row")).to_have_count(2)
    page.keyboard.press("Escape")
    expect(page.locator("dl.facts")).to_contain_text("Europe/Berlin")
    expect(page.locator("pre")).to_contain_text("appliance export backfill orders")
    assert page.evaluate("window.hacked") is None


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
    expect(page.get_by_role("alert")).to_contain_text("schedule.cron")
    expect(page.get_by_label("Target")).to_have_value("/lake")
    assert len(console.wrong) == 1
    assert console.wrong.pop().startswith("400:")
