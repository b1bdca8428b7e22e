"""What a setting is: name, default, unit, limits and reason, kept in the metadata of a field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from appliance.config.addresses import (
    NO_ADDRESS,
    NO_ENSEMBLE,
    NO_HOSTS,
    PARSED,
    Address,
    Ensemble,
    Hosts,
)
from appliance.errors import ApplianceError

LONG_MAX = 2**63 - 1
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SECOND_MS, HOUR_MS, DAY_MS = 1000, 3_600_000, 86_400_000

ENVIRONMENT_PREFIX = "APPLIANCE_"


class SettingInvalid(ApplianceError):
    """A setting that does not exist or cannot have this value; the text says which, got, wanted."""

    kafka_code = 40


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
                bool: "true or false",
                str: "a word, or nothing",
            }[self.kind]
        words = "a whole number" if self.kind is int else "a number"
        if self.maximum is not None:
            words += f" from {self.minimum} to {self.maximum}"
        elif self.minimum is not None:
            words += f" of at least {self.minimum}"
        return words + (f" ({self.unit})" if self.unit else "")

    def from_text(self, text: str) -> Any:
        """The value a person wrote; what cannot be read stays text, and the check refuses it."""
        bare = text.strip()
        if self.kind is bool:
            return {"true": True, "false": False}.get(bare.lower(), text)
        if not bare and self.default in (NO_ADDRESS, NO_ENSEMBLE, NO_HOSTS):
            return self.default
        try:
            return PARSED.get(self.kind, self.kind)(bare)
        except ValueError:
            return text

    @staticmethod
    def text(value: Any) -> str:
        """A value as a person writes it."""
        return str(value).lower() if isinstance(value, bool) else str(value)

    def check(self, value: Any, shown: object) -> None:
        if not self._is_allowed(value):
            raise SettingInvalid(f"{self.name}: got {shown}, wanted {self.wanted}")

    def _is_allowed(self, value: Any) -> bool:
        if isinstance(value, bool) != (self.kind is bool) or not isinstance(value, self.kind):
            return False
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return not self.choices or value in self.choices
        low = -LONG_MAX if self.minimum is None else self.minimum
        high = LONG_MAX if self.maximum is None else self.maximum
        return low <= value <= high


def setting(name: str, default: Any, reason: str, **facts: Any) -> Any:
    """A dataclass field that is a setting."""
    return field(default=default, metadata={"setting": Setting(name, default, reason, **facts)})


def settings_of(config: Any) -> Iterator[tuple[str, Setting]]:
    """The settings of a configuration class, or object, by field."""
    return ((each.name, each.metadata["setting"]) for each in fields(config) if each.metadata)


def check_fields(config: Any) -> None:
    """Also a configuration made in Python is held to the table."""
    for name, row in settings_of(config):
        value = getattr(config, name)
        row.check(value, repr(value))


def check_range(kind: str, name: str, low: int, value: int, high: int) -> None:
    """What a group may be given lies between two other settings, and so does what holds for all."""
    if not low <= value <= high:
        raise SettingInvalid(
            f"group.{kind}.{name}: got {value}, wanted {low} to {high} "
            f"(group.{kind}.min.{name}, group.{kind}.max.{name})"
        )
