"""The machine's page: what the doctor found, disks that the watch told of, and a measurement."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from appliance.machine import throughput
from appliance.testing import RunningBroker, running_broker
from tests.console.conftest import MARKUP, Faults, opened

HOUR_MS = 3_600_000
ANY_TEMPERATURE = re.compile(r"Temperature of sda.*39 °C")
MIB = 1 << 20


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker with a disk watch that tells of two disks, one of them failing."""
    now = round(time.time() * 1000)
    points = [[now - (50 - hour) * HOUR_MS, 30 + hour // 5, 0, 0, None] for hour in range(50)]
    disks: list[dict[str, Any]] = [
        {"name": "sda", "model": MARKUP, "passed": True, "temperature_c": 39},
        {"name": "sdb", "model": "ST4000", "passed": False, "pending_sectors": 16},
    ]
    report = {"version": 1, "at_ms": now, "disks": disks, "history": {"sda": points}}
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report))
    with running_broker(tmp_path / "data", {"disk.watch.file": str(file)}) as running:
        yield running


def test_the_machine_is_shown_and_measured(
    browser: Browser, watched: RunningBroker, axe: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = throughput.measure
    monkeypatch.setattr(  # a smaller file and less time, on the same disk
        throughput, "measure",
        lambda directory, seconds, **rest: measure(directory, seconds / 40, 8 * MIB, **rest),
    )  # fmt: skip
    with opened(browser, watched) as console:
        page = console.open("machine")
        expect(page.locator("#told article").first).to_contain_text("sdb (ST4000) says of itself")
        expect(page.locator("#told article").first).to_contain_text("smartctl -a /dev/sdb")
        expect(page.locator("#disks")).to_contain_text(MARKUP)
        expect(page.locator(".chart")).to_have_attribute("aria-label", ANY_TEMPERATURE)
        assert page.evaluate("window.hacked") is None
        page.get_by_role("button", name="Measure").click()
        expect(page.locator("#throughput dd")).to_have_count(4)
        expect(page.locator("#throughput")).to_contain_text("times as fast as at random places")
        assert axe(page) == []


def test_a_directory_of_records_that_was_away_is_opened_again(
    browser: Browser, tmp_path: Path, axe: Faults
) -> None:
    one, two = (tmp_path / each for each in ("one", "two"))
    settings = {"log.dirs": f"{one},{two}"}
    with running_broker(tmp_path / "data", settings):
        pass
    two.rename(tmp_path / "unmounted")
    with running_broker(tmp_path / "data", settings) as broker, opened(browser, broker) as console:
        page = console.open("machine")
        rows = page.locator("#directories tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.nth(0)).to_contain_text("open")
        expect(page.get_by_role("button", name=f"give up {one}")).to_be_disabled()
        expect(rows.nth(1)).to_contain_text("offline")
        expect(rows.nth(1)).to_contain_text(str(two))
        page.get_by_role("button", name=f"give up {two}").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("button", name="Give up")).to_be_disabled()  # not typed yet
        assert axe(page) == []
        dialog.get_by_role("button", name="Cancel").click()
        (tmp_path / "unmounted").rename(two)
        page.get_by_role("button", name=f"open again {two}").click()
        dialog.get_by_role("button", name="Open again").click()
        expect(rows.nth(1).locator(".badge.good")).to_have_text("✓open")
        expect(dialog).to_have_count(0)
