"""A broker dies or freezes while pages are open: the pages do not show old data as the present
state, and show new data when the broker is back."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from loadtest.ports import lasting_port
from tests.console.conftest import WAIT_S, Console, Faults, define_export, fill
from tests.support.rest import Rest
from tests.support.serving import Serving
from tests.support.warm_serving import WarmServing

# Texts of each page while the broker runs, which must not look current afterwards.
PLACES = {
    "topics": "orders",
    "topics/orders": "Durable",
    "topics/orders?tab=segments": "readers start at",
    "groups": "billing",
    "groups/billing": "Committed",
    "exports": "daily",
    "exports/daily": "backfill",
    "mirrors": "Mirrors",
    "clients": "Clients",
    "settings": "advertised.listeners",
}
KNOWN = "Degraded: the last run of export daily failed"
OLD = re.compile(r"State at [\d:]+, .+ ago\. The present state is\s+unknown\.")
UNKNOWN = re.compile(r"^\? ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with data for every page."""
    found = tmp_path_factory.mktemp("gone")
    serving = WarmServing(found, **{"num.partitions": 2})
    host, port = serving.kafka
    fill(f"{host}:{port}")
    define_export(Rest(serving.admin))
    assert serving.stop() == 0
    return found


@pytest.fixture
def serving(folder: Path) -> Iterator[Serving]:
    made = WarmServing(folder, admin_port=lasting_port())
    yield made
    made.process.send_signal(signal.SIGCONT)
    made.stop(signal.SIGKILL)


@pytest.fixture
def pages(browser: Browser, serving: Serving) -> Iterator[Any]:
    """Opens each page in its own browser."""
    with ExitStack() as all_of_them:

        def opened(place: str = "") -> Page:
            context = browser.new_context(viewport={"width": 1320, "height": 900})
            context.set_default_timeout(WAIT_S * 1000)
            all_of_them.callback(context.close)
            return Console(context.new_page(), f"http://{serving.admin}").open(place)

        yield opened


def test_home_knows_nothing_of_a_broker_that_was_killed(
    pages: Any, serving: Serving, folder: Path, axe: Faults
) -> None:
    page = pages()
    expect(page.get_by_text(KNOWN)).to_be_visible()
    expect(page).to_have_title("▲ Home · appliance")
    tiles = page.locator(".tile")
    assert tiles.count() > 3
    serving.stop(signal.SIGKILL)
    sentence = page.locator(".sentence")
    expect(sentence).to_contain_text("Unknown: the broker has not answered since ")
    expect(page.get_by_text(KNOWN)).to_have_count(0)
    expect(tiles).to_have_count(0)
    expect(page.locator(".chart:not(.old .chart)")).to_have_count(0)  # of what was
    expect(page).to_have_title("? Home · appliance")
    expect(page.get_by_role("navigation", name="Pages").get_by_text("unknown")).to_have_count(1)
    assert axe(page) == []
    again = WarmServing(folder, admin_port=int(serving.admin.rpartition(":")[2]))
    try:
        expect(page.get_by_text(KNOWN)).to_be_visible()
        expect(page).to_have_title("▲ Home · appliance")
        expect(page.get_by_role("alert")).to_have_count(0)
    finally:
        again.stop(signal.SIGKILL)


def test_a_page_asks_again_for_what_the_broker_could_not_answer(pages: Any) -> None:
    """As just after a start. The page is none that asks at a pace."""
    page, refused = pages("settings"), list[str]()

    def answer(route: Route) -> None:
        if refused:
            route.continue_()
        else:
            refused.append(route.request.url)
            route.fulfill(status=503, body="{}")

    page.route("**/api/v1/settings", answer)
    page.reload()
    expect(page.get_by_text(PLACES["settings"]).first).to_be_visible()
    assert refused


def test_home_shows_an_unknown_state_of_a_stopped_broker(pages: Any, serving: Serving) -> None:
    """Its connections stay open without data."""
    page = pages()
    expect(page.get_by_text(KNOWN)).to_be_visible()
    serving.process.send_signal(signal.SIGSTOP)
    expect(page.locator(".sentence")).to_contain_text("Unknown")
    expect(page.get_by_text(KNOWN)).to_have_count(0)
    serving.process.send_signal(signal.SIGCONT)
    expect(page.get_by_text(KNOWN)).to_be_visible()


def test_no_page_shows_what_was_as_if_it_were_so_still(
    pages: Any, serving: Serving, folder: Path
) -> None:
    opened = {place: pages(place) for place in PLACES}
    for place, page in opened.items():
        expect(page.get_by_text(PLACES[place]).first).to_be_visible()
        expect(page.locator(".old")).to_have_count(0)
    serving.stop(signal.SIGKILL)
    for place, page in opened.items():
        alert = page.get_by_role("alert").first
        expect(alert).to_contain_text("The broker has not answered since ")
        old = page.locator(".old").first
        expect(old, place).to_contain_text(OLD)
        # all loaded data is inside such an element
        expect(page.locator(".loaded:not(.old):not(.old > .loaded)"), place).to_have_count(0)
        expect(page, place).to_have_title(UNKNOWN)
    again = WarmServing(folder, admin_port=int(serving.admin.rpartition(":")[2]))
    try:
        for place, page in opened.items():
            expect(page.locator(".old"), place).to_have_count(0)
            expect(page.get_by_text(PLACES[place]).first).to_be_visible()
    finally:
        again.stop(signal.SIGKILL)
