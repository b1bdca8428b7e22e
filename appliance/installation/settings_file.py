"""/etc/appliance/appliance.toml: every setting with its reason, in force those that were given.

It is written once, from the table of settings. From then on it is a person's: `with_values` changes
single lines and leaves all others as they are.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from appliance.config import Setting, settings
from appliance.config.setting import NONE
from appliance.config.sources import from_file

WIDTH = 100
HEAD = """\
# Settings of the broker. `appliance install` wrote this file, and changes only where the data is.
# A line without # is in force; all others show the default. `appliance settings --config THIS_FILE`
# shows what a start would use, `systemctl restart appliance` uses it.
"""


def written(values: Mapping[str, Any]) -> str:
    """A new file with these values in force."""
    return with_values("\n".join([HEAD, *blocks()]), values)


def blocks() -> Iterator[str]:
    for row in settings().values():
        told = f"{row.reason} Wanted: {row.wanted}."
        yield textwrap.fill(told, WIDTH, initial_indent="# ", subsequent_indent="# ",
                            break_long_words=False, break_on_hyphens=False)  # fmt: skip
        yield f"#{line(row, row.default)}\n"


def line(row: Setting, value: Any) -> str:
    """Names are quoted, since one may go on where another ends, as max.connections does."""
    return f'"{row.name}" = {literal(value)}'


def literal(value: Any) -> str:
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return json.dumps("" if value in NONE else str(value), ensure_ascii=False)


def with_values(text: str, values: Mapping[str, Any]) -> str:
    """A text of the file with these in force; what it has no line for comes first, before any
    [table]."""
    for name, value in values.items():
        fresh = line(settings()[name], value)
        # Words of a reason have a space behind their #, and may begin with a name, too.
        found = re.compile(rf'^#?"?{re.escape(name)}"?[ \t]*=.*$', re.MULTILINE).search(text)
        if found is None:
            text = f"{fresh}\n{text}"
        else:
            text = text[: found.start()] + fresh + text[found.end() :]
    return text


def values_in(path: Path) -> dict[str, Any]:
    """What the file has in force, of settings that are there."""
    return {each.name: each.resolve() for each in from_file(path) if each.name in settings()}
