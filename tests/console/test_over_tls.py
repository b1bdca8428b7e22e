"""The console over TLS in a real browser: log in, look, see what comes live."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, expect

from appliance.testing import running_broker
from loadtest.ports import lasting_port
from tests.console.conftest import WAIT_S, Console
from tests.support.certificates import Authority
from tests.support.oidc_provider import OidcProvider
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


def test_who_logs_in_at_a_service_is_somebody_until_the_logout(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service is another site: it sees what a browser sends along, and what it does not."""
    authority = Authority(tmp_path / "tls")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.trust))
    monkeypatch.setenv("NO_PROXY", "localhost")
    make_people(tmp_path / "data")
    provider, port = OidcProvider(authority), lasting_port()
    base = f"https://localhost:{port}"
    settings = {**authority.settings, **provider.settings(tmp_path / "secret", base)}
    try:
        with running_broker(tmp_path / "data", {**settings, "admin.address": f"127.0.0.1:{port}"}):
            context = browser.new_context(ignore_https_errors=True)
            context.set_default_timeout(WAIT_S * 1000)
            console = Console(context.new_page(), base)
            page = console.page
            page.goto(console.base)
            page.get_by_role("link", name="Single sign-on").click()
            expect(page.get_by_text("Healthy").first).to_be_visible()
            expect(page.get_by_text("oidc:ann")).to_be_visible()
            page = console.open("topics")
            expect(page.get_by_role("button", name="New topic")).to_be_enabled()
            names = {each["name"] for each in context.cookies()}
            assert names == {"appliance_session"}
            page.get_by_role("button", name="log out").click()
            expect(page.get_by_role("link", name="Single sign-on")).to_be_visible()
            assert context.cookies() == []
            there = f"left the host: {provider.issuer}/authorize?"
            assert [each for each in console.wrong if not each.startswith(there)] == []
            context.close()
    finally:
        provider.close()
