"""Settings as fields of a dataclass, each with its limits and its reason, and the table of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from appliance.client.errors import ConfigInvalid

KIB, MIB = 1 << 10, 1 << 20
UNITS = {"ms": "ms", "bytes": "bytes", "size": "bytes"}  # by the last word of a name


@dataclass(frozen=True)
class Setting:
    """One row of the table, kept in the metadata of its field."""

    reason: str
    unit: str
    minimum: float | None
    maximum: float | None
    choices: tuple[str, ...]
    is_secret: bool


def setting(
    default: Any,
    reason: str,
    *,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    is_secret: bool = False,
) -> Any:
    """A secret is in no `repr` and in no error. The default None means: a function, or nothing."""
    row = Setting(reason, unit, minimum, maximum, choices, is_secret)
    return dataclasses.field(default=default, repr=not is_secret, metadata={"setting": row})


def rows_of(config: Any) -> Iterator[tuple[str, Setting, Any, Any]]:
    """Name, row, value and default of each setting; the value of a class is the default."""
    for each in dataclasses.fields(config):
        row: Setting | None = each.metadata.get("setting")
        if row is None:
            continue
        unit = row.unit or UNITS.get(each.name.rpartition("_")[2], "")
        row = dataclasses.replace(row, unit=unit)
        yield each.name, row, getattr(config, each.name), each.default


def check(name: str, row: Setting, value: Any, default: Any) -> None:
    if not has_kind_of(value, default):
        wanted = "a function" if default is None else type(default).__name__
        got = f"a {type(value).__name__}" if row.is_secret else f"{value!r}"
        raise ConfigInvalid(f"{name}: got {got}, wanted {wanted}")
    if row.choices and value not in row.choices:
        raise ConfigInvalid(f"{name}: got {value!r}, wanted one of {', '.join(row.choices)}")
    if row.minimum is not None and value < row.minimum:
        raise ConfigInvalid(f"{name}: got {value}, wanted at least {row.minimum} {row.unit}")
    if row.maximum is not None and value > row.maximum:
        raise ConfigInvalid(f"{name}: got {value}, wanted at most {row.maximum} {row.unit}")


def has_kind_of(value: Any, default: Any) -> bool:
    if default is None:
        return value is None or callable(value)
    return isinstance(value, type(default)) and isinstance(value, bool) == isinstance(default, bool)


def as_markdown(config: type, *beyond: type) -> str:
    """The table of a config's settings, without the settings of `beyond`."""
    known = {name for each in beyond for name, *_ in rows_of(each)}
    lines = ["| setting | default | unit | reason |", "|---|---|---|---|"]
    for name, row, value, _ in rows_of(config):
        if name not in known:
            choices = f" One of {', '.join(row.choices)}." if row.choices else ""
            shown = f"`{value}`" if value != "" else "(empty)"
            lines.append(f"| `{name}` | {shown} | {row.unit} | {row.reason}{choices} |")
    return "\n".join(lines) + "\n"
