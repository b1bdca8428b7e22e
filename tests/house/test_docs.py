"""What can be set or asked is documented, and the documents name nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

from appliance import admin_http, config
from appliance.admin import api
from tests.house import file_map

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def settings_chapter(text: str) -> str:
    found = re.search(r"<!-- settings -->\n(.*)<!-- /settings -->", text, re.DOTALL)
    assert found, "wanted the two settings marks"
    return found[1]


def documented_routes(text: str) -> set[str]:
    return set(re.findall(r"^## `([A-Z]+ /\S*)`$", text, re.MULTILINE))


def served_routes() -> set[str]:
    return {f"{each.method} {each.path}" for each in admin_http.ROUTES}


def test_every_setting_is_in_the_operations_page() -> None:
    text = (DOCS / "operations.md").read_text()
    assert settings_chapter(text) == config.as_markdown(), "print it: python -m appliance.config"


def test_every_admin_route_is_documented() -> None:
    assert documented_routes((DOCS / "admin-api.md").read_text()) == served_routes()


def test_every_route_of_the_api_is_documented() -> None:
    text = (DOCS / "admin-api.md").read_text()
    found = re.search(r"<!-- routes -->\n(.*)<!-- /routes -->", text, re.DOTALL)
    assert found, "wanted the two routes marks"
    assert found[1] == api.as_markdown(), "print it: python -m appliance.admin"


def missing_tests(text: str) -> list[str]:
    """Tests that a page names and that are not there."""
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", text)
    texts = {name: (ROOT / name).read_text() for name, _ in named if (ROOT / name).exists()}
    return [f"{file} {test}" for file, test in named if f"def {test}" not in texts.get(file, "")]


def test_every_test_named_in_the_documents_exists() -> None:
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
    assert missing_tests("".join(page.read_text() for page in pages)) == []


def anchors(text: str) -> set[str]:
    """Of headings, as GitHub makes them."""
    bare = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    heads = re.findall(r"^#+ (.*)$", bare, re.MULTILINE)
    named = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", each).lower() for each in heads]
    return {re.sub(r"[^\w\- ]", "", each).replace(" ", "-") for each in named}


def dead_links(page: Path, text: str) -> list[str]:
    """Links within the project that lead nowhere."""
    bare = re.sub(r"`[^`\n]*`", "", re.sub(r"^ *```.*?^ *```", "", text, flags=re.S | re.M))
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', bare)
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", bare) + pictures:
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        is_page = there.suffix == ".md" and there.exists()
        if not there.exists() or (anchor and is_page and anchor not in anchors(there.read_text())):
            found.append(f"{page.relative_to(ROOT)}: {target}")
    return found


def test_every_link_leads_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), ROOT / "loadtest" / "README.md"]
    assert [each for page in pages for each in dead_links(page, page.read_text())] == []


def test_a_dead_link_is_found() -> None:
    text = "[a](docs/none.md) [b](docs/operations.md#none) [c](docs/operations.md#health) `[d](e)`"
    assert dead_links(ROOT / "README.md", text) == [
        "README.md: docs/none.md", "README.md: docs/operations.md#none"]


def test_the_figures_of_the_readme_are_in_their_page() -> None:
    (chapter,) = re.findall(r"^## Three things.*?(?=^## )", (ROOT / "README.md").read_text(),
                            re.DOTALL | re.MULTILINE)
    told = re.findall(r"\d[\d.,]*\d (?:MB|s|times)\b", chapter)
    page = (DOCS / "figures.md").read_text()
    assert len(told) >= 5
    assert [each for each in told if each.replace(" times", " x") not in page] == []


def test_a_test_that_does_not_exist_is_found() -> None:
    text = "`tests/house/test_docs.py` `tests/house/test_docs.py::test_none` `tests/gone.py`"
    assert missing_tests(text) == ["tests/house/test_docs.py test_none", "tests/gone.py "]


def test_the_file_map_is_as_the_heads_say() -> None:
    text = file_map.PAGE.read_text()
    assert text == file_map.with_map(text), "write it: python -m tests.house.file_map"


def test_a_head_that_changed_is_found() -> None:
    text = file_map.with_map(file_map.PAGE.read_text())
    assert file_map.with_map(text.replace("| `_batch` | ", "| `_batch` | Once ")) == text


def test_a_setting_left_out_is_found() -> None:
    less = "".join(config.as_markdown().splitlines(keepends=True)[:-1])
    text = f"<!-- settings -->\n{less}<!-- /settings -->\n"
    assert settings_chapter(text) != config.as_markdown()


def test_a_route_left_out_is_found() -> None:
    assert documented_routes("## `GET /livez`\n\n`GET /healthz`\n") == {"GET /livez"}
