"""Users, tokens and sessions in a real browser, from the setup link on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, Page, expect

from appliance.catalog.catalog import NAME
from appliance.testing import RunningBroker, running_broker
from loadtest.ports import lasting_port
from tests.console.conftest import WAIT_S, Console, Faults, opened
from tests.support.certificates import Authority
from tests.support.oidc_provider import OidcProvider
from tests.support.people import make_people
from tests.support.release import gate_has
from tests.support.rest import Rest

PASSWORD = "correct horse battery"


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker without a user."""
    with running_broker(tmp_path / "data") as running:
        yield running


@pytest.fixture
def own_console(browser: Browser, own_broker: RunningBroker) -> Iterator[Console]:
    with opened(browser, own_broker) as made:
        yield made


def set_up(console: Console, broker: RunningBroker) -> Page:
    """Creates the first user through the link that the broker prints."""
    page = console.page
    page.goto(f"{console.base}/#/setup/{broker.setup_secret}")
    page.get_by_label("User").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create user").click()
    expect(page.get_by_text("Healthy").first).to_be_visible()
    return console.open("access")


def log_in(console: Console, name: str, password: str = PASSWORD) -> Page:
    page = console.page
    page.goto(f"{console.base}/#/access")
    page.reload()
    page.get_by_label("User").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Users and tokens")
    return page


def log_out(console: Console) -> None:
    """To its end: a page that is loaded before that is still one of a session."""
    console.page.get_by_role("button", name="log out").click()
    expect(console.page.get_by_role("button", name="Log in")).to_be_visible()
    console.session_ended()


def make_user(page: Page, name: str, role: str, may_read: bool = True) -> None:
    page.get_by_role("button", name="New user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_label("Role").select_option(role)
    dialog.get_by_label("Can read messages").set_checked(may_read)
    dialog.get_by_label(re.compile("^Password")).fill(PASSWORD)
    dialog.get_by_role("button", name="Create").click()
    expect(dialog).to_have_count(0)


def test_a_wrong_password_is_reported_and_a_viewer_may_only_look(
    own_console: Console, own_broker: RunningBroker
) -> None:
    page = set_up(own_console, own_broker)
    make_user(page, "otto", "viewer")
    log_out(own_console)
    page.get_by_label("User").fill("otto")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert [each[:4] for each in own_console.wrong] == ["401:"]
    own_console.wrong.clear()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("link", name="Settings").click()
    expect(page.get_by_role("button", name="Support bundle")).to_be_disabled()
    page.get_by_label("Filter the table").fill("max.connections")  # a long table draws a part
    expect(page.locator("#settings")).to_contain_text("at run time")
    expect(page.get_by_role("button", name=re.compile("^Change "))).to_have_count(0)
    page.get_by_role("link", name="Topics").click()
    expect(page.get_by_role("button", name="New topic")).to_be_disabled()


def table(page: Page, name: str) -> Any:
    return page.locator(f"#{name} tbody")


def test_without_a_password_the_page_says_so_in_red(own_console: Console) -> None:
    page = own_console.open("access")
    told = page.locator("main .notice.bad")
    expect(told.filter(has_text="There is no password")).to_be_visible()
    expect(told.filter(has_text="There are no users yet")).to_be_visible()


def test_users_are_made_changed_and_removed(
    own_console: Console, own_broker: RunningBroker
) -> None:
    page = set_up(own_console, own_broker)
    make_user(page, "vera", "viewer")
    expect(table(page, "users").locator("tr")).to_have_count(2)
    page.get_by_role("button", name="Change vera").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Role").select_option("operator")
    dialog.get_by_label("Can read messages").set_checked(False)
    dialog.get_by_role("button", name="Save").click()
    expect(table(page, "users").locator("tr", has_text="vera")).to_contain_text(
        re.compile("operator.*cannot read messages")
    )
    page.get_by_role("button", name="Delete vera").click()
    confirm = page.get_by_role("dialog").get_by_role("button", name="Delete")
    expect(confirm).to_be_disabled()
    page.get_by_label(re.compile("Type")).fill("vera")
    confirm.click()
    expect(table(page, "users").locator("tr")).to_have_count(1)


def test_the_last_admin_stays_and_the_page_says_why(
    own_console: Console, own_broker: RunningBroker
) -> None:
    page = set_up(own_console, own_broker)
    page.get_by_role("button", name="Change ada").click()
    page.get_by_role("dialog").get_by_label("Role").select_option("viewer")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("ada is the last admin")
    assert [each.partition(":")[0] for each in own_console.wrong] == ["400"]
    own_console.wrong.clear()


def test_a_token_is_shown_once_works_and_is_revoked(
    own_console: Console, own_broker: RunningBroker
) -> None:
    page = set_up(own_console, own_broker)
    page.get_by_role("button", name="New token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("prometheus")
    dialog.get_by_label("Expires after").select_option("30 days")
    dialog.get_by_role("button", name="Create").click()
    secret = dialog.locator("[data-secret]").inner_text()
    dialog.get_by_role("button", name="Done").click()
    row = table(page, "tokens").locator("tr", has_text="prometheus")
    expect(row).to_contain_text("not since the broker started")
    program = Rest(own_broker.admin, {"Authorization": f"Bearer {secret}"})
    assert program.get("/session")["name"] == "prometheus"
    page.reload()
    expect(row).not_to_contain_text("not since the broker started")
    assert secret not in page.content()
    page.get_by_role("button", name="Revoke prometheus").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("No tokens.")).to_be_visible()
    assert program.refused("GET", "/topics") == (401, "login_required")
    assert secret.encode() not in kept(own_broker)


def kept(broker: RunningBroker) -> bytes:
    """All files of the catalog on disk."""
    return b"".join(each.read_bytes() for each in broker.data_dir.glob(f"{NAME}*"))


def test_sessions_are_seen_and_ended(own_console: Console, own_broker: RunningBroker) -> None:
    page = set_up(own_console, own_broker)
    make_user(page, "otto", "operator")
    answer = Rest(own_broker.admin).ask("POST", "/login", {"name": "otto", "password": PASSWORD})
    otto = Rest(own_broker.admin, {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]})
    assert otto.get("/session")["name"] == "otto"
    page.reload()
    sessions = table(page, "sessions")
    expect(sessions.locator("tr")).to_have_count(2)
    expect(sessions.locator("tr", has_text="ada")).to_contain_text("this session")
    page.get_by_role("button", name="End the session of otto").click()
    page.get_by_role("dialog").get_by_role("button", name="End session").click()
    expect(sessions.locator("tr")).to_have_count(1)
    assert otto.refused("GET", "/topics") == (401, "login_required")


def test_a_user_without_the_right_to_read_messages_sees_a_notice(
    own_console: Console, own_broker: RunningBroker
) -> None:
    producer = Producer({"bootstrap.servers": own_broker.bootstrap})
    producer.produce("secrets", "launch code")
    assert producer.flush(WAIT_S) == 0
    page = set_up(own_console, own_broker)
    make_user(page, "vera", "viewer", may_read=False)
    log_out(own_console)
    page = log_in(own_console, "vera")
    expect(page.get_by_text("You are logged in as vera, viewer.")).to_be_visible()
    expect(page.get_by_role("button", name="New user")).to_have_count(0)
    own_console.open("topics/secrets?tab=messages")
    expect(page.get_by_text("vera may not read messages")).to_be_visible()
    assert "launch code" not in page.content()


def test_a_password_is_changed_and_the_old_one_is_wrong(
    own_console: Console, own_broker: RunningBroker
) -> None:
    page = set_up(own_console, own_broker)
    page.get_by_role("button", name="Change password").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Current password").fill(PASSWORD)
    dialog.get_by_label(re.compile("New password")).fill("another password")
    dialog.get_by_role("button", name="Change").click()
    expect(dialog).to_have_count(0)
    log_out(own_console)
    log_in(own_console, "ada", "another password")


@pytest.mark.parametrize("scheme", gate_has(["dark"], "the other colours", ["light", "dark"]))
def test_the_page_is_accessible(
    browser: Browser, own_broker: RunningBroker, axe: Faults, scheme: Any
) -> None:
    for size in ((1320, 900), (360, 740)):
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": size[0], "height": size[1]}
        )
        console = Console(context.new_page(), f"http://{own_broker.admin}")
        is_first = size[0] == 1320
        page = set_up(console, own_broker) if is_first else log_in(console, "ada")
        table(page, "sessions").wait_for()
        assert axe(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
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
    base = f"http://localhost:{port}"
    settings = provider.settings(tmp_path / "secret", base)
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
            console.session_ended()
            assert context.cookies() == []
            there = f"left the host: {provider.issuer}/authorize?"
            assert [each for each in console.wrong if not each.startswith(there)] == []
            context.close()
    finally:
        provider.close()
