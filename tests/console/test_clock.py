"""A doubted clock: Home reports it, and an admin can confirm the time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from appliance.machine.believed_time import DAY_MS, WallClock, wall_now_ms
from appliance.machine.believed_time_file import BelievedClock
from appliance.testing import RunningBroker, running_broker
from tests.console.conftest import WAIT_S, Console
from tests.support.rest import Rest


@pytest.fixture
def doubting(tmp_path: Path) -> Iterator[RunningBroker]:
    """The machine's clock is eight days ahead of the broker's estimate."""
    believed = wall_now_ms() - 8 * DAY_MS
    BelievedClock(tmp_path, WallClock(lambda: believed, lambda: 5_000)).keep()
    with running_broker(tmp_path) as running:
        yield running


def test_a_clock_in_doubt_is_confirmed_on_home(browser: Browser, doubting: RunningBroker) -> None:
    context = browser.new_context()
    context.set_default_timeout(WAIT_S * 1000)
    console = Console(context.new_page(), f"http://{doubting.admin}")
    page = console.open()
    expect(page.locator(".sentence")).to_contain_text("8.0 d later than was believed")
    page.locator("#clock").get_by_role("button", name="Confirm the time").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("This cannot be undone")
    dialog.get_by_role("button", name="Cancel").click()
    assert Rest(doubting.admin).get("/clock")["doubt"] == "ahead"
    page.locator("#clock").get_by_role("button", name="Confirm the time").click()
    dialog.get_by_role("button", name="Confirm").click()
    expect(page.locator("#clock")).to_have_count(0)
    expect(page.locator(".sentence")).to_contain_text("Healthy")
    assert "/clock/confirm" in str(Rest(doubting.admin).get("/audit"))
    context.close()
    assert console.wrong == []
