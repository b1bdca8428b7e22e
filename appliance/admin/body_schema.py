"""Types of what is sent and answered: JSON schemas of them, and the check of what was sent.

    class NewTopic(TypedDict):
        name: str
        partitions: NotRequired[Annotated[int, Limits(1, 1000)]]

A type is one of bool, int, float, str, None, Any, Literal, list, dict with str keys, a TypedDict,
any of these with limits, or one of them `| None`.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from typing_extensions import NotRequired, is_typeddict

from appliance.config import LONG_MAX
from appliance.errors import ApplianceError

PLAIN = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
T = TypeVar("T")


class BodyInvalid(ApplianceError):
    """What was sent is not what is wanted; the text says where, got, wanted."""

    kafka_code = 42


@dataclass(frozen=True)
class Limits:
    """Of a number; of a list, how many there may be."""

    least: int
    most: int = LONG_MAX

    def check(self, value: Any, place: str) -> None:
        got, noun = (len(value), " entries") if isinstance(value, list) else (value, "")
        if not self.least <= got <= self.most:
            raise BodyInvalid(f"{place}: got {got}{noun}, wanted {self.least} to {self.most}")

    def schema(self, of: Any) -> dict[str, Any]:
        names = ("minItems", "maxItems") if of["type"] == "array" else ("minimum", "maximum")
        return {**of, names[0]: self.least, names[1]: self.most}


Natural = Annotated[int, Limits(0)]


@cache
def fields(of: Any) -> Mapping[str, tuple[Any, bool]]:
    """Of a TypedDict: each field's type, and whether it must be there."""
    hints = get_type_hints(of, include_extras=True)
    return {
        name: (get_args(hint)[0], False)
        if get_origin(hint) is NotRequired
        else (hint, name in of.__required_keys__)
        for name, hint in hints.items()
    }


def row_of(of: type[T], source: object, /, **others: Any) -> T:
    """A TypedDict from the attributes of an object, and from what it has under other names. In the
    order of the type: people read it as JSON, too."""
    names = fields(cast(Any, of))
    row = {name: others[name] if name in others else getattr(source, name) for name in names}
    return cast(T, row)


def schema(of: Any) -> dict[str, Any]:
    """The JSON schema of a type."""
    origin, args = get_origin(of), get_args(of)
    if of is Any:
        return {}
    if of in PLAIN:
        return {"type": PLAIN[of]}
    if origin is Annotated:
        found: dict[str, Any] = args[1].schema(schema(args[0]))
        return found
    if origin is Literal:
        return {"type": "string", "enum": list(args)}
    if origin is list:
        return {"type": "array", "items": schema(args[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(args[1])}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema(each) for each in args]}
    assert is_typeddict(of), f"{of}: a type that has no schema"
    rows = fields(of)
    return {
        "type": "object",
        "properties": {name: schema(each) for name, (each, _) in rows.items()},
        "required": [name for name, (_, is_wanted) in rows.items() if is_wanted],
        "additionalProperties": False,
    }


def check(value: Any, of: Any, place: str = "body") -> None:
    """Whether a value that came as JSON is of a type."""
    origin, args = get_origin(of), get_args(of)
    if of is Any:
        return
    if of in PLAIN:
        _check_plain(value, of, place)
    elif origin is Annotated:
        check(value, args[0], place)
        args[1].check(value, place)
    elif origin is Literal:
        if value not in args:
            raise BodyInvalid(f"{place}: got {_shown(value)}, wanted one of {', '.join(args)}")
    elif origin is list:
        _wanted(isinstance(value, list), value, place, "a list")
        for number, each in enumerate(value):
            check(each, args[0], f"{place}[{number}]")
    elif origin is dict:
        _wanted(isinstance(value, dict), value, place, "an object")
        for name, each in value.items():
            check(each, args[1], f"{place}.{name}")
    elif origin in (Union, types.UnionType):
        _check_union(value, args, place)
    else:
        _check_object(value, of, place)


def _check_plain(value: Any, of: type, place: str) -> None:
    is_right = isinstance(value, (int, float) if of is float else of)
    is_bool = isinstance(value, bool) and of is not bool  # true is no number here
    _wanted(is_right and not is_bool, value, place, PLAIN[of])


def _check_union(value: Any, args: tuple[Any, ...], place: str) -> None:
    """One type, or null."""
    (of,) = (each for each in args if each is not type(None))
    try:
        if value is not None:
            check(value, of, place)
    except BodyInvalid as error:
        is_own = str(error).startswith(f"{place}: got")
        raise BodyInvalid(f"{error} or null" if is_own else str(error)) from None


def _check_object(value: Any, of: Any, place: str) -> None:
    _wanted(isinstance(value, dict), value, place, "an object")
    rows = fields(of)
    for name in value:
        if name not in rows:
            raise BodyInvalid(f"{place}.{name}: no such field, wanted {', '.join(rows)}")
    for name, (each, is_wanted) in rows.items():
        if name in value:
            check(value[name], each, f"{place}.{name}")
        elif is_wanted:
            raise BodyInvalid(f"{place}.{name}: it is missing")


def _wanted(is_right: bool, value: Any, place: str, wanted: str) -> None:
    if not is_right:
        raise BodyInvalid(f"{place}: got {_shown(value)}, wanted {wanted}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "..."
