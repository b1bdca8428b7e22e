"""The console over TLS in a real browser: log in, look, see what comes live."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer
from playwright.sync_api import Browser, expect

from appliance.testing import running_broker
from tests.console.conftest import WAIT_S, Console
from tests.support.certificates import Authority
from tests.support.people import PASSWORD, make_people


def test_the_console_works_over_tls_and_its_cookies_stay_there(
    browser: Browser, tmp_path: Path
) -> None:
    settings = Authority(tmp_path / "tls").settings
    make_people(tmp_path / "data")
    with running_broker(tmp_path / "data", settings) as broker:
        # its authorities are the distribution's; what a client checks is tested with others
        context = browser.new_context(ignore_https_errors=True)
        context.set_default_timeout(WAIT_S * 1000)
        console = Console(context.new_page(), f"https://{broker.admin}")
        page = console.page
        page.goto(console.base)
        page.get_by_label("User").fill("ada")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_text("Healthy").first).to_be_visible()
        cookies = {each["name"]: each["secure"] for each in context.cookies()}
        assert cookies["appliance_session"]
        console.open("topics")
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("orders", b"1")
        assert producer.flush(WAIT_S) == 0
        expect(page.get_by_role("link", name="orders")).to_be_visible()  # without a reload
        context.close()
