"""Settings of a file that this build does not know, or under another name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from appliance.config import SettingInvalid
from appliance.config.sources import from_file


def faults(path: Path) -> Iterator[str]:
    """All of them: a start names the first."""
    try:
        found = list(from_file(path))
    except SettingInvalid as error:
        yield str(error)
        return
    for each in found:
        try:
            each.named_anew().resolve()
        except SettingInvalid as error:
            yield str(error)


def former(path: Path) -> Iterator[str]:
    """Names of before, which are still read."""
    try:
        found = list(from_file(path))
    except SettingInvalid:
        return
    for each in found:
        now = each.named_anew().name
        if now != each.name:
            yield f"{each.name} ({each.origin}) is called {now} now; both names are read"
