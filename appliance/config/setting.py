"""What a setting is: name, default, unit, limits and reason, kept in the metadata of a field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from appliance.config.addresses import (
    NO_ADDRESS,
    NO_ENSEMBLE,
    NO_HOSTS,
    Address,
    Ensemble,
    Hosts,
)
from appliance.config.listeners import NO_LISTENERS, NO_PROTOCOLS, Listeners, Protocols
from appliance.config.names import (
    NO_NAMES,
    NO_PATHS,
    NO_PRINCIPALS,
    Mechanisms,
    Names,
    Paths,
    Principals,
)
from appliance.errors import ApplianceError

LONG_MAX = 2**63 - 1
NO_LIMIT = 2**31 - 1  # Kafka's number for none
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SECOND_MS, HOUR_MS, DAY_MS = 1000, 3_600_000, 86_400_000

PARSED: dict[type, Callable[[str], Any]] = {
    each: each.parse
    for each in (
        Address, Ensemble, Hosts, Listeners, Mechanisms, Names, Paths, Principals, Protocols,
    )
}
NONE = (
    NO_ADDRESS, NO_ENSEMBLE, NO_HOSTS, NO_LISTENERS, NO_NAMES, NO_PATHS, NO_PRINCIPALS,
    NO_PROTOCOLS,
)  # fmt: skip

ENVIRONMENT_PREFIX = "APPLIANCE_"


def limit_of(number: int) -> int:
    """As those who hold to it have it: 0 is no limit."""
    return 0 if number == NO_LIMIT else number


class SettingInvalid(ApplianceError):
    """A setting that does not exist or cannot have this value; the text says which, got, wanted."""

    kafka_code = 40


UNITS = {"ms": "ms", "bytes": "bytes", "seconds": "s", "minutes": "minutes"}  # a name's last word

ROUND_NUMBERS = [
    ("bytes", GIB, "GiB"),
    ("bytes", MIB, "MiB"),
    ("bytes", KIB, "KiB"),
    ("ms", DAY_MS, "d"),
    ("ms", HOUR_MS, "h"),
    ("ms", SECOND_MS, "s"),
]


@dataclass(frozen=True)
class Setting:
    """One row of the table, kept in the metadata of its field."""

    name: str
    default: Any
    reason: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    default_words: str = ""
    # One group may have its own value, between two settings of these defaults and reasons.
    least: tuple[int, str] | None = None
    most: tuple[int, str] | None = None
    of_group: bool = False  # the same, within its own limits
    of_listener: bool = False  # `listener.name.<name>.` may stand in front of it

    @property
    def kind(self) -> type:
        return Path if isinstance(self.default, Path) else type(self.default)

    @property
    def environment(self) -> str:
        return ENVIRONMENT_PREFIX + self.name.upper().replace(".", "_")

    @property
    def default_text(self) -> str:
        """With the number that a person would say, where there is one."""
        if self.default_words:
            return self.default_words
        for unit, size, word in ROUND_NUMBERS:
            if self.unit == unit and self.default >= size and self.default % size == 0:
                return f"{self.default} ({self.default // size} {word})"
        return self.text(self.default)

    @property
    def wanted(self) -> str:
        """What it accepts, in words."""
        if self.choices:
            return "one of " + ", ".join(repr(choice) for choice in self.choices)
        if self.kind not in (int, float):
            return {
                Path: "a path",
                Address: "HOST:PORT",
                Ensemble: "HOST:PORT[,HOST:PORT...][/PATH]",
                Hosts: "HOST[,HOST...]",
                Listeners: "[NAME://]HOST:PORT[,...]",
                Mechanisms: "MECHANISM[,...]",
                Names: "NAME[,...]",
                Paths: "PATH[,...]",
                Principals: "TYPE:NAME[;...]",
                Protocols: "NAME:PROTOCOL[,...]",
                bool: "true or false",
                str: "a word, or nothing",
            }[self.kind]
        words = "a whole number" if self.kind is int else "a number"
        words += range_in_words(self.minimum, self.maximum)
        return words + (f" ({self.unit})" if self.unit else "")

    def from_text(self, text: str) -> Any:
        """The value a person wrote; what cannot be read stays text, and the check refuses it."""
        bare = text.strip()
        if self.kind is bool:
            return {"true": True, "false": False}.get(bare.lower(), text)
        if not bare and self.default in NONE:
            return self.default
        try:
            return PARSED.get(self.kind, self.kind)(bare)
        except ValueError:
            return text

    @staticmethod
    def text(value: Any) -> str:
        """A value as a person writes it."""
        return str(value).lower() if isinstance(value, bool) else str(value)

    def check(self, value: Any, shown: str = "") -> None:
        if not self._is_allowed(value):
            raise SettingInvalid(f"{self.name}: got {shown or repr(value)}, wanted {self.wanted}")

    def _is_allowed(self, value: Any) -> bool:
        if isinstance(value, bool) != (self.kind is bool) or not isinstance(value, self.kind):
            return False
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return not self.choices or value in self.choices
        low = -LONG_MAX if self.minimum is None else self.minimum
        high = LONG_MAX if self.maximum is None else self.maximum
        return low <= value <= high


def range_in_words(minimum: float | None, maximum: float | None) -> str:
    if maximum is not None:
        return f" from {minimum} to {maximum}"
    return "" if minimum is None else f" of at least {minimum}"


def setting(name: str, default: Any, reason: str, **facts: Any) -> Any:
    """A dataclass field that is a setting."""
    return field(default=default, metadata={"setting": _row(name, default, reason, **facts)})


def own(name: str, default: Any, reason: str, **facts: Any) -> Any:
    """A dataclass field that only one group can have: there is no setting for all, as in Kafka."""
    return field(default=default, metadata={"own": _row(name, default, reason, **facts)})


def _row(name: str, default: Any, reason: str, **facts: Any) -> Setting:
    unit = UNITS.get(name.rpartition(".")[2], "")
    return Setting(name, default, reason, **{"unit": unit, **facts})


@cache
def settings_of(config: type) -> dict[str, Setting]:
    """The settings of a configuration class, by field."""
    rows = {each.name: each.metadata.get("setting") for each in fields(config)}
    return {name: row for name, row in rows.items() if row is not None}


class Part:
    """Settings of one area, each a field. One made in Python is held to the table, too."""

    def __post_init__(self) -> None:
        for name, row in self.rows.items():
            row.check(getattr(self, name))

    @property
    def rows(self) -> dict[str, Setting]:
        of: type = type(self)
        return settings_of(of)
