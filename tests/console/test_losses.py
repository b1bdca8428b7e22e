"""Losses: Home reports them until an operator acknowledges them, and the ledger keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from appliance.catalog.catalog import Catalog
from appliance.catalog.loss_ledger import Damage, Ledger
from appliance.catalog.loss_ledger_rows import LedgerRows
from appliance.testing import RunningBroker, running_broker
from tests.console.conftest import MARKUP, Console, Faults, opened
from tests.support.rest import Rest

LOSSES = [
    Damage("orders", 3, 1000, 2305, f"the directory is gone {MARKUP}"),
    Damage("orders", 4, 500, None, "a batch is damaged", "damaged", "orders-4/0.log.corrupt-1"),
    Damage("clicks", 0, 7, 7, "its bytes are not what was written", "damaged"),
]


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path):
        pass
    catalog = Catalog.open(tmp_path / "catalog.db")
    Ledger(LedgerRows(catalog)).note(LOSSES)
    catalog.close()
    with running_broker(tmp_path) as running:
        yield running


@pytest.fixture
def own_console(
    browser: Browser, damaged: RunningBroker, size: tuple[int, int]
) -> Iterator[Console]:
    with opened(browser, damaged, size) as made:
        yield made


def test_losses_are_shown_until_they_are_acknowledged(
    own_console: Console, damaged: RunningBroker
) -> None:
    page = own_console.open()
    sentence = page.locator(".sentence")
    expect(sentence).to_contain_text("Degraded: ")
    expect(sentence.locator("li")).to_have_count(3)
    expect(page).to_have_title("▲ Home · appliance")
    rows = page.locator("#losses tbody tr")
    expect(rows).to_have_count(3)
    lost = rows.filter(has_text="1 000 to 2 305")
    expect(lost).to_contain_text("lost")
    expect(lost).to_contain_text(MARKUP)
    expect(rows.filter(has_text="from 500 on")).to_contain_text("orders-4/0.log.corrupt-1")
    lost.get_by_role("button", name="Acknowledge").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("orders-3, offsets 1 000 to 2 305, lost")
    dialog.get_by_role("button", name="Cancel").click()
    assert Rest(damaged.admin).get("/ledger")["open"] == 3
    lost.get_by_role("button", name="Acknowledge").click()
    dialog.get_by_role("button", name="Acknowledge", exact=True).click()
    expect(rows).to_have_count(2)
    expect(sentence.locator("li")).to_have_count(2)
    page.get_by_role("button", name="Acknowledge all 2").click()
    dialog.get_by_role("button", name="Acknowledge", exact=True).click()
    expect(sentence).to_contain_text("Healthy")
    expect(page).to_have_title("Home · appliance")
    expect(page.locator("#losses")).to_have_count(0)
    page = own_console.open("ledger?state=all")
    expect(page.get_by_text("No open entries.")).to_be_visible()
    expect(page.locator("#ledger tbody tr")).to_have_count(3)
    assert page.evaluate("window.hacked") is None
    assert "/ledger/acknowledge" in str(Rest(damaged.admin).get("/audit"))


def test_open_entries_and_acknowledged_ones_are_apart(
    own_console: Console, damaged: RunningBroker
) -> None:
    rest = Rest(damaged.admin)
    seen = next(each for each in rest.get("/ledger")["entries"] if each["topic"] == "clicks")
    rest.post("/ledger/acknowledge", {"ids": [seen["id"]]})
    page = own_console.open("ledger")
    rows = page.locator("#ledger tbody tr")
    expect(rows).to_have_count(2)
    expect(page.get_by_text("2 open entries")).to_be_visible()
    page.get_by_role("link", name="Acknowledged").click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("clicks")
    page.get_by_role("link", name="All").click()
    expect(rows).to_have_count(3)


@pytest.mark.parametrize("place", ["", "ledger"])
@pytest.mark.parametrize("size", [(1320, 900), (360, 740)])
def test_losses_are_for_everybody_to_read(
    own_console: Console, place: str, size: tuple[int, int], axe: Faults
) -> None:
    page = own_console.open(place)
    expect(page.get_by_text("its bytes are not what was written").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert axe(page) == []
