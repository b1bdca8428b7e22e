"""Access rules in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from playwright.sync_api import Browser, Locator, Page, expect

from appliance.admin.acls import Resource
from appliance.config.access import STANDARD_AUTHORIZER
from appliance.testing import RunningBroker, running_broker
from tests.console.conftest import Faults, opened
from tests.support.rest import Rest

RULE = {"resource_type": "topic", "resource_name": "orders", "principal": "User:anna",
        "operation": "read"}  # fmt: skip


def test_rules_are_taken_over_explained_added_and_removed(
    browser: Browser, tmp_path: Path, axe: Faults
) -> None:
    with running_broker(tmp_path / "data") as broker:
        rest = Rest(broker.admin)
        rest.post("/acls", {"acls": [RULE]})
        with opened(browser, broker) as console:
            page = console.open("rules")
            expect(page.get_by_text("every client may do everything")).to_be_visible()
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER}
    with running_broker(tmp_path / "data", settings) as broker, opened(browser, broker) as console:
        page = console.open("rules")
        expect(page.get_by_text("No rules yet.")).to_be_visible()
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
        add_and_remove(page, broker, axe)


def add_and_remove(page: Page, broker: RunningBroker, axe: Faults) -> None:
    rest, rows = Rest(broker.admin), page.locator("#rules tbody tr")
    page.get_by_role("button", name="New rule").click()
    dialog = page.get_by_role("dialog")
    assert axe(page) == []
    dialog.get_by_label("Who").fill("User:bob")
    dialog.get_by_label("May").select_option("deny")
    dialog.get_by_label("Resource").select_option("group")
    dialog.get_by_label("Operation").select_option("delete")
    dialog.get_by_label("Name (").fill("bill")
    dialog.get_by_label("It is about").select_option("prefixed")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog).to_have_count(0)
    expect(rows).to_have_count(2)
    made = {
        "resource_type": "group",
        "resource_name": "bill",
        "pattern_type": "prefixed",
        "principal": "User:bob",
        "host": "*",
        "operation": "delete",
        "permission": "deny",
    }
    assert made in rest.get("/acls")["acls"]
    expect(page.locator("#explained")).to_contain_text("bill…")  # of bob, who is chosen
    row = rows.filter(has_text="User:bob")
    row.get_by_role("button", name="Remove").click()
    expect(dialog.get_by_text("all that begin with")).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    expect(rows).to_have_count(2)
    row.get_by_role("button", name="Remove").click()
    dialog.get_by_role("button", name="Remove").click()
    expect(rows).to_have_count(1)
    assert made not in rest.get("/acls")["acls"]

    assert each_choice_is_taken(page, rest)


def each_choice_is_taken(page: Page, rest: Rest) -> bool:
    """Every operation that the form offers of every resource."""
    page.get_by_role("button", name="New rule").click()
    dialog, found = page.get_by_role("dialog"), []
    for kind in values(dialog.get_by_label("Resource")):
        dialog.get_by_label("Resource").select_option(kind)
        name = "kafka-cluster" if kind == "cluster" else "x"
        found += [{**RULE, "resource_type": kind, "resource_name": name, "operation": each}
                  for each in values(dialog.get_by_label("Operation"))]  # fmt: skip
    assert {each["resource_type"] for each in found} == set(get_args(Resource))
    return len(rest.post("/acls", {"acls": found})["acls"]) == len(found) + 1


def values(choice: Locator) -> list[str]:
    found: list[str] = choice.locator("option").evaluate_all("all => all.map(each => each.value)")
    return found
