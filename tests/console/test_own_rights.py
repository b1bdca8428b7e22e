"""What users with a few rights see and may do in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from appliance.config.access import STANDARD_AUTHORIZER
from appliance.testing import RunningBroker, running_broker
from tests.console.conftest import Console, Faults, opened
from tests.support.people import NOBODY, PASSWORD, logged_in, make_people
from tests.support.rest import Rest

NOT_ALLOWED = "no access rule or role allows it, or a rule denies it."


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[RunningBroker]:
    """Two topics, of which nora, without a role, may read one, and otto may not write to that."""
    make_people(tmp_path / "data", plain=NOBODY)
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER}
    with running_broker(tmp_path / "data", settings) as running:
        ada = logged_in(running, "ada")
        for name in ("orders", "secrets"):
            ada.post("/topics", {"name": name})
        message = {"value": {"text": "a first order"}}
        ada.post("/topics/orders/messages", {"messages": [message]})
        allow(ada, NOBODY, "read")
        deny(ada, "otto", "write")
        yield running


def allow(ada: Rest, name: str, operation: str) -> None:
    add(ada, name, operation, "allow")


def deny(ada: Rest, name: str, operation: str) -> None:
    add(ada, name, operation, "deny")


def add(ada: Rest, name: str, operation: str, permission: str) -> None:
    rule = {"principal": f"User:{name}", "permission": permission, "operation": operation,
            "resource_type": "topic", "resource_name": "orders"}  # fmt: skip
    ada.post("/acls", {"acls": [rule]})


def log_in(console: Console, name: str) -> Page:
    page = console.page
    page.goto(f"{console.base}/#/")
    page.get_by_label("User").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Home")
    return page


def test_a_user_with_one_topic_sees_that_and_a_page_that_says_so(
    browser: Browser, own_broker: RunningBroker, axe: Faults
) -> None:
    with opened(browser, own_broker) as console:
        page = log_in(console, NOBODY)
        expect(page.get_by_text("You are logged in as nora, without a role.")).to_be_visible()
        rule = page.locator("#explained tbody tr")
        expect(rule).to_contain_text("orders")
        assert axe(page) == []
        pages = page.get_by_role("navigation", name="Pages").get_by_role("link")
        assert [each.strip() for each in pages.all_inner_texts()] == [
            "Home", "Topics", "Consumers", "Exports", "Users and tokens"]  # fmt: skip
        page = console.open("topics")
        expect(page.locator("#topics tbody tr")).to_have_count(1)
        new = page.get_by_role("button", name="New topic")
        expect(new).to_be_disabled()
        expect(new).to_have_attribute("title", f"nora may not create topics: {NOT_ALLOWED}")
        page.get_by_role("link", name="orders").click()
        for name in ("Add partitions", "Empty", "Delete"):
            expect(page.get_by_role("button", name=name)).to_be_disabled()
        page.get_by_role("link", name="Messages").click()
        expect(page.locator("#messages")).to_contain_text("a first order")
        expect(page.get_by_role("button", name="Produce")).to_be_disabled()
        allow(logged_in(own_broker, "ada"), NOBODY, "write")
        expect(page.get_by_role("button", name="Produce")).to_be_enabled()
        page = console.open("clients")
        expect(page.get_by_text("nora may not describe the cluster")).to_be_visible()


def test_a_rule_that_denies_is_seen_by_an_operator(
    browser: Browser, own_broker: RunningBroker
) -> None:
    with opened(browser, own_broker) as console:
        page = log_in(console, "otto")
        expect(page.get_by_text("Healthy").first).to_be_visible()
        page = console.open("topics/orders?tab=messages")
        expect(page.get_by_role("button", name="Produce")).to_be_disabled()
        delete = page.get_by_role("button", name="Delete")
        why = f"otto may not delete topic orders: {NOT_ALLOWED}"
        expect(delete).to_have_attribute("title", why)
        page = console.open("topics/secrets?tab=messages")
        expect(page.get_by_role("button", name="Produce")).to_be_enabled()
        page = console.open("rules?principal=User:otto")
        why = f"otto may not alter the cluster: {NOT_ALLOWED}"
        for name in ("New rule", "Remove allow User:nora read topic orders"):
            button = page.get_by_role("button", name=name)
            expect(button).to_be_disabled()
            expect(button).to_have_attribute("title", why)
        explained = page.locator("#explained")
        expect(explained).to_contain_text("Role:operator")
        expect(explained).to_contain_text("deny")
