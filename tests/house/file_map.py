"""The file map of ARCHITECTURE.md, from the heads of rooms and modules.

`python -m tests.house.file_map` writes it. A room has a line, then each of its modules the first
sentence of its own head. Rooms with a module per API have only theirs, which says what one is.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "ARCHITECTURE.md"
MARKS = "<!-- files -->\n", "<!-- /files -->"
ONE_PER_API = {"handlers", "messages"}
BESIDE = ("spark", "loadtest")


def head_of(path: Path) -> str:
    found = re.search(r'"""(.*?)"""', path.read_text(), re.DOTALL)
    assert found, f"{path} has no head"
    return found[1]


def sentence_of(path: Path) -> str:
    """The first of a head: up to a full stop, a colon before a picture, or the first blank line."""
    paragraph = " ".join(head_of(path).strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.:]) (?=[A-Z`])", paragraph)[0].rstrip(".:")


def modules_in(room: Path) -> list[Path]:
    """One file for each: the contract in the .pxd only where nothing else has a head."""
    found = {path.stem: path for end in ("pxd", "pyx", "py") for path in room.glob(f"*.{end}")}
    return [path for stem, path in sorted(found.items()) if stem not in ("__init__", "__main__")]


def rooms_in(package: Path) -> list[Path]:
    return sorted(path.parent for path in package.rglob("__init__.py"))


def lines_of(room: Path) -> list[str]:
    name = f"{room.relative_to(ROOT)}/"
    lines = [f"| **`{name}`** | **{sentence_of(room / '__init__.py')}** |"]
    if room.name in ONE_PER_API:
        return lines
    return [*lines, *(f"| `{path.stem}` | {sentence_of(path)} |" for path in modules_in(room))]


def as_markdown() -> str:
    rooms = [room for name in ("appliance", *BESIDE) for room in rooms_in(ROOT / name)]
    lines = [line for room in rooms for line in lines_of(room)]
    return "\n".join(["| file | what it is |", "|---|---|", *lines, ""])


def with_map(text: str) -> str:
    before, rest = text.split(MARKS[0], 1)
    return f"{before}{MARKS[0]}{as_markdown()}{MARKS[1]}{rest.split(MARKS[1], 1)[1]}"


if __name__ == "__main__":
    PAGE.write_text(with_map(PAGE.read_text()))
