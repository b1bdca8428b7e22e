"""One config of a topic or of the broker: its name, type and limits, and changes to a set of them.

A config is stored and shown as text. `parse` makes a value of it and `text_of` the one way to write
that value, so that " 007" is kept as "7". What a client may change is held to these keys; what the
operator writes is held to the table of `config`, from which most keys take their limits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from appliance.config import LONG_MAX, Setting
from appliance.config.setting import range_in_words
from appliance.errors import ApplianceError, RequestInvalid

# Of one value, in bytes: whoever reaches the port sets them, and those of all topics are in memory.
VALUE_SIZE_MAX = 4096
INT_MAX = 2**31 - 1


class ConfigInvalid(ApplianceError):
    """A config that does not exist or cannot have this value; the text says which, got, wanted."""

    kafka_code = 40


class ConfigType(IntEnum):
    """As DescribeConfigs numbers them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigOperation(IntEnum):
    """As IncrementalAlterConfigs numbers them."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


WHOLE = {ConfigType.INT: INT_MAX, ConfigType.LONG: LONG_MAX}


@dataclass(frozen=True)
class ConfigKey:
    name: str
    type: ConfigType
    default: str
    doc: str
    synonym: str = ""  # the broker's config that gives a topic its default
    field: str = ""  # of the settings; without one the config changes nothing here
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()  # for the value, or for each of a list
    pattern: re.Pattern[str] | None = None  # for the text, of a list as a whole
    why: str = ""  # it wants no more than that

    @classmethod
    def of(cls, row: Setting, name: str, kind: ConfigType, **facts: Any) -> ConfigKey:
        """Of a setting: the same default, words and limits."""
        limits = {"minimum": row.minimum, "maximum": row.maximum, "choices": row.choices}
        facts = {"synonym": row.name, **limits, **facts}
        return cls(name, kind, text_of(row.default), row.reason, **facts)

    def parse(self, text: str | None) -> Any:
        """The value, or an error that says which config, what it got and what it wanted."""
        if text is None:
            raise ConfigInvalid(f"{self.name}: got null, wanted {self.wanted}")
        if len(text.encode("utf-8", "surrogatepass")) > VALUE_SIZE_MAX:
            raise ConfigInvalid(
                f"{self.name}: got {len(text)} characters, wanted at most {VALUE_SIZE_MAX} bytes"
            )
        value = _READERS[self.type](text.strip())
        if value is None or not self._is_allowed(value):
            raise ConfigInvalid(f"{self.name}: got {text!r}, wanted {self.wanted}")
        return value

    def _is_allowed(self, value: Any) -> bool:
        if self.pattern and not self.pattern.fullmatch(text_of(value)):
            return False
        each = value if isinstance(value, list) else [value]
        if self.choices and not all(text_of(one) in self.choices for one in each):
            return False
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return True
        most = WHOLE.get(self.type, math.inf)
        low = -most - 1 if self.minimum is None else self.minimum
        return low <= value <= (most if self.maximum is None else self.maximum)

    @property
    def wanted(self) -> str:
        """What it accepts, in words."""
        words = self._kind + range_in_words(self.minimum, self.maximum)
        if self.choices:
            is_list = self.type == ConfigType.LIST
            words = ("a list of " if is_list else "one of ") + ", ".join(map(repr, self.choices))
        return f"{words}: {self.why}" if self.why else words

    @property
    def _kind(self) -> str:
        if self.pattern:
            kind = "a list" if self.type == ConfigType.LIST else "text"
            return f"{kind} that matches {self.pattern.pattern}"
        kinds = {
            ConfigType.BOOLEAN: "true or false",
            ConfigType.INT: "a whole number of 32 bits",
            ConfigType.LONG: "a whole number of 64 bits",
            ConfigType.DOUBLE: "a number",
        }
        return kinds.get(self.type, "text")


def text_of(value: Any) -> str:
    """The one way a value is written."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, list) else str(value)


def boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def whole(text: str) -> int | None:
    # int() alone would also take "1_000" and other scripts' digits, which no other broker reads
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,20}", text) else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _list(text: str) -> list[str]:
    """In its order, each once."""
    parts = (each.strip() for each in text.split(","))
    return list(dict.fromkeys(each for each in parts if each))


_READERS: dict[ConfigType, Callable[[str], Any]] = {
    ConfigType.BOOLEAN: boolean,
    ConfigType.STRING: str,
    ConfigType.INT: whole,
    ConfigType.LONG: whole,
    ConfigType.DOUBLE: _number,
    ConfigType.LIST: _list,
}


@dataclass(frozen=True)
class ConfigChange:
    """One line of IncrementalAlterConfigs; DELETE goes back to the default and has no value."""

    name: str
    operation: int
    value: str | None = None


def changes_to(configs: Mapping[str, str | None]) -> list[ConfigChange]:
    """None: back to the default."""
    kinds = ConfigOperation.SET, ConfigOperation.DELETE
    return [ConfigChange(name, kinds[text is None], text) for name, text in configs.items()]


def changed(
    configs: Mapping[str, str],
    changes: Iterable[ConfigChange],
    find: Callable[[str], ConfigKey],
    default: Callable[[ConfigKey], str],
) -> dict[str, str]:
    """`configs` after the changes, all of them or, with an error, none. `default` is what a list is
    appended to, or subtracted from, that is not among them."""
    result, seen = dict(configs), set()
    for change in changes:
        if change.name in seen:
            raise RequestInvalid(f"{change.name}: changed twice in one request")
        seen.add(change.name)
        key = find(change.name)
        if change.operation == ConfigOperation.DELETE:
            result.pop(change.name, None)
        else:
            before = result[key.name] if key.name in result else default(key)
            result[change.name] = text_of(_value_after(key, before, change))
    return result


def _value_after(key: ConfigKey, before: str, change: ConfigChange) -> Any:
    if change.operation not in set(ConfigOperation):
        wanted = ", ".join(f"{each.value} ({each.name})" for each in ConfigOperation)
        raise RequestInvalid(f"{key.name}: operation {change.operation}, wanted one of {wanted}")
    if change.value is None:
        raise RequestInvalid(f"{key.name}: got null, wanted {key.wanted}")
    operation, given = ConfigOperation(change.operation), key.parse(change.value)
    if operation == ConfigOperation.SET:
        return given
    if key.type != ConfigType.LIST:
        raise ConfigInvalid(f"{key.name}: {operation.name} is for lists, its type is "
                            f"{key.type.name}")
    parts = _list(before)
    if operation == ConfigOperation.APPEND:
        return [*parts, *(each for each in given if each not in parts)]
    return [each for each in parts if each not in given]
