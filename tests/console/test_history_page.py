"""The history's page: charts of a month that was, in the zone and the range of one's choice."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from appliance.history.history import History
from appliance.history.levels import DAY_S, HOUR_S
from appliance.testing import RunningBroker, running_broker
from tests.console.conftest import Faults, opened

SPIKE_H = 30  # hours ago
MIB = 1 << 20


@pytest.fixture
def month(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker with a month behind it, a spike on the day before yesterday, and no fetch at all."""
    folder = tmp_path / "data"
    folder.mkdir()
    now_s = int(time.time())
    past = History(folder, 30, 1000)
    for hours in range(29 * 24):
        usual = 2.0 * MIB + hours % 24 * 1000
        past.add(now_s - hours * HOUR_S, {
            "broker/in_bytes_per_s": usual * (100 if hours == SPIKE_H else 1),
            "broker/out_bytes_per_s": usual / 2, "broker/fetches_per_s": 0.0,
            "broker/produces_per_s": 0.0, "topic/orders/size_bytes": 9e9 - hours * 1e6,
        })  # fmt: skip
    past.close(now_s)
    with running_broker(folder) as running:
        yield running


def test_a_month_is_shown_in_its_range_and_zone(
    browser: Browser, month: RunningBroker, axe: Faults
) -> None:
    with opened(browser, month) as console:
        page = console.open("history?last=30d")
        traffic = page.locator("section", has=page.get_by_role("heading", name="Traffic"))
        chart = traffic.locator(".chart")
        expect(chart).to_have_attribute("aria-label", re.compile(r"in 2\.0.MiB/s, out 1\.0.MiB/s"))
        expect(page.get_by_text("A step is an hour. 30 days are kept")).to_be_visible()
        # one hour that was a hundred times the others does not flatten them
        expect(traffic).to_contain_text(re.compile(r"highest, in 20\d\.\d.MiB/s at .* is above"))
        traffic.get_by_role("button", name="Show it").click()
        expect(traffic).to_contain_text("flattens the others")
        requests = page.locator("section", has=page.get_by_role("heading", name="Requests a sec"))
        expect(requests).to_contain_text("Idle: no requests.")
        page.get_by_label("Times").select_option("utc")
        at = time.strftime("%Y-%m-%d %H", time.gmtime(time.time() - SPIKE_H * HOUR_S))
        expect(traffic).to_contain_text(re.compile(f"MiB/s at {at[:10]}"))
        expect(page.locator(".range")).to_contain_text("UTC")
        page.locator("select[name=last]").select_option("7d")
        expect(page.get_by_text("A step is 10 minutes.")).to_be_visible()
        assert "last=7d" in page.url
        assert axe(page) == []


# The share of a chart's width that its line takes.
DRAWN = """(chart) => {
  const canvas = chart.querySelector("canvas");
  const [width, height] = [canvas.width, canvas.height];
  const colours = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const line = getComputedStyle(document.documentElement).getPropertyValue("--plot-1").trim();
  const wanted = [1, 3, 5].map((at) => parseInt(line.slice(at, at + 2), 16));
  let drawn = 0;
  for (let x = 0; x < width; x++)
    for (let y = 0; y < height; y++)
      if (wanted.every((each, at) => colours[4 * (y * width + x) + at] === each)) {
        drawn++;
        break;
      }
  return drawn / width;
}"""
# What charts have at their axes.
WRITTEN = """window.written = [];
const before = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...others) {
  window.written.push(text);
  return before.call(this, text, ...others);
};"""


@pytest.fixture
def hour(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker with an hour behind it, as one measures itself: some numbers once a minute only."""
    folder = tmp_path / "data"
    folder.mkdir()
    now_s = int(time.time())
    past = History(folder, 30, 1000)
    for seconds in range(0, HOUR_S, 10):
        past.add(now_s - seconds, {
            "broker/in_bytes_per_s": 300_000.0, "broker/out_bytes_per_s": 90_000.0,
            "broker/free_bytes": 5e9,
            **({} if seconds % 60 else {"broker/lag_records": 700.0, "broker/logs_bytes": 3e9}),
        })  # fmt: skip
    past.close(now_s)
    with running_broker(folder) as running:
        yield running


def test_what_is_measured_once_a_minute_is_a_line_among_steps_of_ten_seconds(
    browser: Browser, hour: RunningBroker
) -> None:
    with opened(browser, hour) as console:
        console.page.add_init_script(WRITTEN)
        page = console.open("history?last=1h")
        for title in ("Consumer lag, records", "Disk"):
            chart = page.locator("section", has=page.get_by_role("heading", name=title))
            expect(chart.locator("canvas")).to_be_visible()
            assert chart.locator(".chart").evaluate(DRAWN) > 0.5, title
        expect(chart.locator(".legend")).to_contain_text(re.compile(r"logs\s+2\.8.GiB"))
        sizes = [each for each in page.evaluate("window.written") if each.endswith("iB/s")]
        assert len(sizes) > 2
        assert [each for each in sizes if "." in each] == [], "round in the unit that they have"


def test_a_topic_has_a_history_and_a_range_of_its_own(
    browser: Browser, month: RunningBroker
) -> None:
    with opened(browser, month) as console:
        now_s = int(time.time())
        page = console.open(f"history?topic=orders&from={now_s - 3 * DAY_S}&to={now_s - 2 * DAY_S}")
        expect(page.get_by_role("heading", name="History of topic orders")).to_be_visible()
        size = page.locator("section", has=page.get_by_role("heading", name="Size"))
        expect(size.locator(".chart")).to_have_attribute(
            "aria-label", re.compile(r"size 8\.3.GiB")
        )
        page.get_by_label("from", exact=True).fill("2020-01-01T10:00")
        expect(page).to_have_url(re.compile("from=15778"))
        page.get_by_label("to", exact=True).fill("2020-01-02T10:00")
        expect(size).to_contain_text("Nothing was measured in this time.")
