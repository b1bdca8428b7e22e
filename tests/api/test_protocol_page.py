"""docs/protocol.md says what is served, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from appliance.api.handlers import HANDLERS
from appliance.api.protocol_page import as_markdown, body, title
from appliance.protocol import API

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
FILES = Path(__file__).parents[2] / "appliance" / "api" / "handlers"


def faults(key: int, module: ModuleType) -> list[str]:
    """What a head comment lacks or gets wrong."""
    head = module.__doc__ or ""
    found = []
    if not head.startswith(f"{title(key)}: "):
        found.append(f"wanted it to begin with {title(key)!r}")
    if "\n\nLeft out: " not in head:
        found.append("wanted a paragraph that begins with 'Left out:'")
    return found


def test_the_page_is_what_the_handlers_say() -> None:
    assert PAGE.read_text() == as_markdown(), "print it: python -m appliance.api.protocol_page"


@pytest.mark.parametrize("key", sorted(HANDLERS))
def test_a_handlers_head_says_versions_and_what_is_left_out(key: int) -> None:
    assert faults(key, HANDLERS[key]) == []


def test_every_handler_is_served_under_its_own_name() -> None:
    named = {module.__name__.rpartition(".")[2] for module in HANDLERS.values()}
    wire = {API[key].request.__module__.rpartition(".")[2] for key in HANDLERS}
    assert named == wire
    with_key = {path.stem for path in FILES.glob("*.py") if "\nKEY = " in path.read_text()}
    assert with_key == named


def test_every_api_of_clients_is_served() -> None:
    assert set(HANDLERS) == set(API)


def test_every_link_of_the_page_leads_somewhere() -> None:
    text = PAGE.read_text()
    anchors = {each.lower().replace(" ", "-") for each in re.findall(r"^### (.*)$", text, re.M)}
    assert set(re.findall(r"\]\(#(.*?)\)", text)) == anchors


def test_a_head_that_lies_is_found() -> None:
    module = ModuleType("planted", "Metadata 0-12: topics.\n\nNothing is missing.\n")
    assert len(faults(3, module)) == 2


def test_the_body_begins_with_a_capital_and_keeps_its_shape() -> None:
    module = ModuleType("planted", "Metadata 0-12: topics.\n\n    -1  latest\n\nLeft out: x.\n")
    assert body(module) == "Topics.\n\n    -1  latest\n\nLeft out: x."
