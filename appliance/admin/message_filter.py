"""Which messages are wanted: conditions of a small, fixed grammar, and never any code.

    value contains "gold" and header.type = order and value.user.id >= 42 and key ~ "^a[0-9]+$"

    FIELD   key, value, header.NAME, partition, offset, timestamp, size; a path into JSON behind
            key or value: value.items[0].price
    OP      =  !=  <  <=  >  >=  contains  ~ (a pattern in RE2's syntax)  exists
    VALUE   a word, or text in double quotes with \\ before a quote

A number is compared as one where both sides are; other values as text. What is not there, or is no
JSON, fits no condition, not even !=. What is too large to be shown as JSON is none: all other
threads wait while it is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from appliance.admin.route import Param
from appliance.errors import RequestInvalid
from appliance.process import patterns
from appliance.record._records import Record

TEXT_MAX = 2000  # of a filter; a person writes less
CONDITIONS_MAX = 20
JSON_MAX = 4 << 20  # of a text that is looked at for JSON: as objects it takes twenty times as much

# A quote that is not closed goes to the end: were it no token, the next quote would be tried, and
# the next, each up to the end.
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|(?P<open>\\?\Z))|[^\s"]+', re.DOTALL)
STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,6})\]")
PLAIN = ("partition", "offset", "timestamp", "size")
NOTHING = object()  # no such field

Parsed = dict[str, Any]  # keys and values of one record, as JSON
Read = Callable[[int, Record, Parsed], Any]


@dataclass(frozen=True)
class Condition:
    read: Read  # the field's value, or NOTHING
    fits: Callable[[Any], bool]


@dataclass(frozen=True)
class Filter:
    conditions: tuple[Condition, ...] = ()

    def fits(self, partition: int, record: Record) -> bool:
        parsed: Parsed = {}
        for each in self.conditions:
            value = each.read(partition, record, parsed)
            if value is NOTHING or not each.fits(value):
                return False
        return True


def parse(text: str) -> Filter:
    if len(text) > TEXT_MAX:
        raise RequestInvalid(f"filter: got {len(text)} characters, wanted at most {TEXT_MAX}")
    matches = [*TOKEN.finditer(text)]
    if any(each["open"] is not None for each in matches):
        raise RequestInvalid("filter: a quote is not closed")
    tokens = [each[0] for each in matches]
    found: list[Condition] = []
    while tokens:
        if found and tokens.pop(0).lower() != "and":
            raise RequestInvalid("filter: wanted `and` between two conditions")
        found.append(_condition(tokens))
    if len(found) > CONDITIONS_MAX:
        count = len(found)
        raise RequestInvalid(f"filter: got {count} conditions, wanted at most {CONDITIONS_MAX}")
    return Filter(tuple(found))


def _condition(tokens: list[str]) -> Condition:
    if len(tokens) < 2:
        raise RequestInvalid("filter: wanted FIELD OP VALUE, or FIELD exists")
    field, op = tokens.pop(0), tokens.pop(0).lower()
    read = _field(field)
    if op == "exists":
        return Condition(read, lambda value: value is not None)
    if op not in OPS:
        raise RequestInvalid(f"filter: got {op[:40]!r}, wanted one of {' '.join([*OPS, 'exists'])}")
    if not tokens:
        raise RequestInvalid(f"filter: {field} {op}: wanted a value behind it")
    return Condition(read, OPS[op](_unquoted(tokens.pop(0))))


def _unquoted(token: str) -> str:
    return re.sub(r"(?s)\\(.)", r"\1", token[1:-1]) if token.startswith('"') else token


# Fields


def _field(name: str) -> Read:
    if name in PLAIN:
        return _plain(name)
    if name.startswith("header.") and len(name) > len("header."):
        return _header(name.removeprefix("header."))
    head = re.match(r"key|value", name)
    steps = _steps(name[head.end() :]) if head else None
    if head is None or steps is None:
        raise RequestInvalid(
            f"filter: got field {name[:80]!r}, wanted key, value, key.PATH, value.PATH, "
            f"header.NAME, {', '.join(PLAIN)}"
        )
    which = head[0]
    if not steps:
        return lambda _, record, __: _text(getattr(record, which))
    return lambda _, record, parsed: _at(_json(record, which, parsed), steps)


def _plain(name: str) -> Read:
    readers: dict[str, Read] = {
        "partition": lambda partition, _, __: partition,
        "offset": lambda _, record, __: record.offset,
        "timestamp": lambda _, record, __: record.timestamp,
        "size": lambda _, record, __: len(record.key or b"") + len(record.value or b""),
    }
    return readers[name]


def _header(name: str) -> Read:
    def read(_: int, record: Record, __: Parsed) -> Any:
        found = [value for key, value in record.headers if key == name]
        return _text(found[-1]) if found else NOTHING

    return read


def _steps(path: str) -> list[str | int] | None:
    """None: no path."""
    steps: list[str | int] = []
    end = 0
    for match in STEP.finditer(path):
        if match.start() != end:
            return None
        steps.append(match[1] if match[1] is not None else int(match[2]))
        end = match.end()
    return steps if end == len(path) else None


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


def _json(record: Record, which: str, parsed: Parsed) -> Any:
    if which not in parsed:
        data = getattr(record, which) or b""
        try:
            parsed[which] = json.loads(data) if len(data) <= JSON_MAX else NOTHING
        except (ValueError, RecursionError):
            parsed[which] = NOTHING
    return parsed[which]


def _at(value: Any, steps: list[str | int]) -> Any:
    for step in steps:
        if isinstance(step, int):
            is_there = isinstance(value, list) and step < len(value)
        else:
            is_there = isinstance(value, dict) and step in value
        if not is_there:
            return NOTHING
        value = value[step]
    return value


# Operations


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return value
    try:
        return int(value) if re.fullmatch(r"-?\d{1,30}", str(value)) else float(str(value))
    except ValueError:
        return None


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _compared(test: Callable[[Any, Any], bool]) -> Callable[[str], Callable[[Any], bool]]:
    def make(wanted: str) -> Callable[[Any], bool]:
        number = _number(wanted)

        def fits(value: Any) -> bool:
            own = _number(value) if number is not None and value is not None else None
            return test(own, number) if own is not None else test(_word(value), wanted)

        return fits

    return make


def _contains(wanted: str) -> Callable[[Any], bool]:
    return lambda value: wanted in _word(value)


def _matches(wanted: str) -> Callable[[Any], bool]:
    try:
        pattern = patterns.compiled(wanted)
    except patterns.PatternInvalid as error:
        raise RequestInvalid(f"filter: ~ {error}") from error
    return lambda value: pattern.search(_word(value)) is not None


OPS: dict[str, Callable[[str], Callable[[Any], bool]]] = {
    "=": _compared(lambda a, b: a == b),
    "!=": _compared(lambda a, b: a != b),
    "<=": _compared(lambda a, b: a <= b),
    ">=": _compared(lambda a, b: a >= b),
    "<": _compared(lambda a, b: a < b),
    ">": _compared(lambda a, b: a > b),
    "contains": _contains,
    "~": _matches,
}


FILTER = Param("filter", str, "Conditions, as `value.id = 7 and header.type contains order`.", "")
