"""Quotas in a real browser: set, changed and removed in forms."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.console.conftest import MARKUP, Console
from tests.support.rest import Rest


def test_a_quota_is_made_changed_and_removed_in_forms(console: Console) -> None:
    page = console.open("quotas")
    page.get_by_role("button", name="New quota").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("It is for").select_option("a client id of a user")
    dialog.get_by_role("textbox", name="User").fill("ada")
    dialog.get_by_role("textbox", name="Client id").fill(MARKUP)
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_have_text("Wanted a limit at least.")
    dialog.get_by_label("Write").fill("fast")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("got 'fast', wanted a number")
    assert [each[:4] for each in console.wrong] == ["400:"]
    console.wrong.clear()
    dialog.get_by_label("Write").fill("10 MiB")
    dialog.get_by_role("button", name="Add").click()
    row = page.locator("#quotas tbody tr")
    expect(row).to_contain_text(f"client {MARKUP} of user ada")
    expect(row).to_contain_text("10 MiB/s")
    page.get_by_role("button", name="Change the quota of").click()
    expect(dialog.get_by_label("Write")).to_have_value("10 MiB")
    dialog.get_by_label("Write").fill("")
    dialog.get_by_label("Read").fill("500 KiB")
    dialog.get_by_role("button", name="Change", exact=True).click()
    expect(row).to_contain_text("500 KiB/s")
    expect(row).not_to_contain_text("10 MiB/s")
    page.get_by_role("button", name="Remove the quota of").click()
    dialog.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("No quotas: every client writes and reads")).to_be_visible()
    assert Rest(console.base.removeprefix("http://")).get("/quotas")["quotas"] == []
    assert page.evaluate("window.hacked") is None


@pytest.mark.release("a form that repeats the other's kind")
def test_an_address_has_a_limit_of_connections(console: Console) -> None:
    page = console.open("quotas")
    page.get_by_role("button", name="New quota").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("It is for").select_option("an address")
    dialog.get_by_label("New connections per second").fill("20")
    dialog.get_by_role("button", name="Add").click()
    row = page.locator("#quotas tbody tr")
    expect(row).to_contain_text("every address")
    expect(row).to_contain_text("20/s")
    page.get_by_role("button", name="Remove the quota of every address").click()
    dialog.get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)
