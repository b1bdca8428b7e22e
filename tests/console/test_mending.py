"""The console detects, skips and repairs damage, with a dry run before each action."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from appliance.testing import RunningBroker, running_broker
from tests.console.conftest import Console, Faults, opened
from tests.repair.test_scrub_rounds import damage, filled
from tests.support.logs import until
from tests.support.rest import Rest

FILE = f"t-0/{1:020d}.log.corrupt-1"


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[RunningBroker]:
    """A batch of t-0 is damaged and not yet detected; a good copy of its segment is set aside."""
    with running_broker(tmp_path) as running:
        filled(running, "t")
        path = running.data_dir / "t-0" / f"{1:020d}.log"
        shutil.copy(path, f"{path}.corrupt-1")
        damage(running, "t", 1)
        yield running


@pytest.fixture
def own_console(browser: Browser, damaged: RunningBroker) -> Iterator[Console]:
    with opened(browser, damaged) as made:
        yield made


def test_damage_is_detected_and_repaired(
    own_console: Console, damaged: RunningBroker, axe: Faults
) -> None:
    rest = Rest(damaged.admin)
    page = own_console.open("ledger")
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="Verify now").click()
    expect(dialog).to_contain_text("from the disk at full speed")
    dialog.get_by_role("button", name="Verify", exact=True).click()
    scrub = page.locator("#scrub")
    expect(scrub).to_contain_text("1 new damage found")
    expect(page.locator("#ledger tbody tr")).to_have_count(1)
    scrub.get_by_role("link", name="t-0").click()
    expect(page.get_by_text("get an error")).to_be_visible()
    assert axe(page) == []
    page.get_by_role("button", name=f"Import {FILE}").click()
    expect(dialog.get_by_role("status")).to_contain_text("1 record would be restored")
    assert rest.get("/topics/t/partitions/0/repair")["damaged"]  # nothing has changed yet
    act = dialog.get_by_role("button", name="Import")
    expect(act).to_be_disabled()
    dialog.get_by_label("Type").fill("t-0")
    act.click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("No known damage.")).to_be_visible()
    until(lambda: rest.get("/health")["status"] == "ok")  # the broker checks every log regularly
    actions = [each["action"] for each in rest.get("/audit")["entries"]]
    assert "POST /api/v1/scrub" in actions
    assert "POST /api/v1/topics/t/partitions/0/repair" in actions


def test_readers_are_let_pass_and_what_is_well_is_not_opened_again(
    own_console: Console, damaged: RunningBroker
) -> None:
    rest = Rest(damaged.admin)
    rest.post("/scrub", {})
    page = own_console.open("topics/t?tab=repair")
    expect(page.get_by_role("button", name="Reopen")).to_have_count(0)
    page.get_by_role("button", name="Let readers skip").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("status")).to_contain_text("readers would skip 1 offset")
    dialog.get_by_label("Type").fill("t-0")
    dialog.get_by_role("button", name="Let readers skip").click()
    expect(page.locator("#damage-t-0 tbody tr")).to_contain_text("skip")
    assert rest.get("/topics/t/partitions/0/repair")["damaged"][0]["is_skipped"]
