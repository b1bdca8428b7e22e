"""Objects that are stored as JSON: a newer version may have stored more of them than we know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

Kind = TypeVar("Kind")


def made(kind: type[Kind], stored: Mapping[str, Any]) -> Kind:
    """What else is stored is left out: an older build goes on with what it knows."""
    known = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in stored.items() if name in known})
