"""The page of a topic's messages in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import ORDERS, Console

DESK, TELEPHONE = (1366, 768), (360, 740)


def keys(page: Page) -> list[str]:
    return page.locator("#messages tbody td[data-label=Key]").all_inner_texts()


@pytest.mark.parametrize("size", [DESK, TELEPHONE])
def test_the_first_message_is_in_sight_and_the_counter_is_right(
    console: Console, size: tuple[int, int]
) -> None:
    page = console.open("topics/orders?tab=messages")
    row = page.locator("#messages tbody tr").first.bounding_box()
    assert row is not None
    assert row["y"] + row["height"] <= size[1]
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    expect(page.get_by_role("status")).to_have_text(
        f"100 matches in 100 offsets; {ORDERS + 1 - 100} not searched"
    )


@pytest.mark.parametrize("size", [TELEPHONE])
def test_on_a_telephone_the_fields_of_a_search_are_folded(
    console: Console, size: tuple[int, int]
) -> None:
    page = console.open("topics/orders?tab=messages&from=offset&partition=0")
    fields = page.locator(".unfold")
    expect(fields).to_have_text("▸ offset ? · partition 0 · at most 100")
    expect(page.get_by_label("Key")).not_to_be_visible()
    page.get_by_role("button", name="Search").click()  # a field that is wrong is shown
    page.get_by_role("textbox", name="Offset").fill("7")
    page.get_by_role("button", name="Search").click()
    expect(fields).to_have_text("▸ offset 7 · partition 0 · at most 100")
    # a search that begins at an offset has this offset on top
    expect(page.locator("#messages tbody tr").first).to_contain_text("order-7")
    assert keys(page)[:2] == ["order-7", "order-8"]
