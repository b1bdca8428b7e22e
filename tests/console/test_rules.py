"""Access rules in a real browser."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from appliance.config.access import STANDARD_AUTHORIZER
from appliance.testing import running_broker
from tests.console.conftest import opened
from tests.support.rest import Rest

RULE = {"resource_type": "topic", "resource_name": "orders", "principal": "User:anna",
        "operation": "read"}  # fmt: skip


def test_rules_that_wait_are_taken_over_and_explained(browser: Browser, tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker:
        rest = Rest(broker.admin)
        rest.post("/acls", {"acls": [RULE]})
        with opened(browser, broker) as console:
            page = console.open("rules")
            expect(page.get_by_text("every client may do everything")).to_be_visible()
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER}
    with running_broker(tmp_path / "data", settings) as broker, opened(browser, broker) as console:
        page = console.open("rules")
        expect(page.get_by_text("No rules. Add some")).to_be_visible()
        page.get_by_role("button", name="Take over").click()
        page.get_by_role("dialog").get_by_role("button", name="Take over").click()
        expect(page.get_by_role("heading", name="Waiting for confirmation")).to_have_count(0)
        assert Rest(broker.admin).get("/acls")["waiting"] == []
        page.get_by_label("Principal").fill("User:anna")
        page.get_by_label("Principal").press("Enter")
        own = page.locator("section", has=page.get_by_role("heading", name="Who may do what"))
        expect(own.get_by_text("orders")).to_be_visible()
        page.get_by_label("Principal").fill("User:bob")
        page.get_by_label("Principal").press("Enter")
        expect(page.get_by_text("No rule is about User:bob.")).to_be_visible()
