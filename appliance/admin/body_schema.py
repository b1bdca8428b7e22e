"""The types of request and response bodies: their JSON schemas, and the check of a request body.

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
    """The text has the path of the value in the body, the received and the allowed value."""

    kafka_code = 42


@dataclass(frozen=True)
class Limits:
    """The limits of a number, or of the number of entries of a list."""

    least: int
    most: int = LONG_MAX

    def check(self, value: Any, path: str) -> None:
        got, noun = (len(value), " entries") if isinstance(value, list) else (value, "")
        if not self.least <= got <= self.most:
            raise BodyInvalid(f"{path}: got {got}{noun}, wanted {self.least} to {self.most}")

    def schema(self, of: Any) -> dict[str, Any]:
        names = ("minItems", "maxItems") if of["type"] == "array" else ("minimum", "maximum")
        return {**of, names[0]: self.least, names[1]: self.most}


Natural = Annotated[int, Limits(0)]


@cache
def fields(of: Any) -> Mapping[str, tuple[Any, bool]]:
    """The type of each field of a TypedDict, and whether the field is required."""
    hints = get_type_hints(of, include_extras=True)
    return {
        name: (get_args(hint)[0], False)
        if get_origin(hint) is NotRequired
        else (hint, name in of.__required_keys__)
        for name, hint in hints.items()
    }


def row_of(of: type[T], source: object, /, **others: Any) -> T:
    """A TypedDict from the attributes of an object; `others` has the fields that the object lacks.
    It keeps the order of the type, because people read the JSON."""
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
        limited: dict[str, Any] = args[1].schema(schema(args[0]))
        return limited
    if origin is Literal:
        return {"type": "string", "enum": list(args)}
    if origin is list:
        return {"type": "array", "items": schema(args[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(args[1])}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema(each) for each in args]}
    assert is_typeddict(of), f"{of}: this type has no schema"
    rows = fields(of)
    return {
        "type": "object",
        "properties": {name: schema(field) for name, (field, _) in rows.items()},
        "required": [name for name, (_, is_required) in rows.items() if is_required],
        "additionalProperties": False,
    }


def check(value: Any, of: Any, path: str = "body") -> None:
    """Raises BodyInvalid if a value from JSON does not match the type."""
    origin, args = get_origin(of), get_args(of)
    if of is Any:
        return
    if of in PLAIN:
        _check_plain(value, of, path)
    elif origin is Annotated:
        check(value, args[0], path)
        args[1].check(value, path)
    elif origin is Literal:
        if value not in args:
            raise BodyInvalid(f"{path}: got {_shown(value)}, wanted one of {', '.join(args)}")
    elif origin is list:
        _wanted(isinstance(value, list), value, path, "a list")
        for number, entry in enumerate(value):
            check(entry, args[0], f"{path}[{number}]")
    elif origin is dict:
        _wanted(isinstance(value, dict), value, path, "an object")
        for name, member in value.items():
            check(member, args[1], f"{path}.{name}")
    elif origin in (Union, types.UnionType):
        _check_union(value, args, path)
    else:
        _check_object(value, of, path)


def _check_plain(value: Any, of: type, path: str) -> None:
    is_right = isinstance(value, (int, float) if of is float else of)
    is_bool = isinstance(value, bool) and of is not bool  # in Python, a bool is an int
    _wanted(is_right and not is_bool, value, path, PLAIN[of])


def _check_union(value: Any, args: tuple[Any, ...], path: str) -> None:
    """Checks a union of one type and null."""
    (of,) = (each for each in args if each is not type(None))
    try:
        if value is not None:
            check(value, of, path)
    except BodyInvalid as error:
        has_got = str(error).startswith(f"{path}: got")
        raise BodyInvalid(f"{error} or null" if has_got else str(error)) from None


def _check_object(value: Any, of: Any, path: str) -> None:
    _wanted(isinstance(value, dict), value, path, "an object")
    rows = fields(of)
    for name in value:
        if name not in rows:
            raise BodyInvalid(f"{path}.{name}: no such field, wanted {', '.join(rows)}")
    for name, (field, is_required) in rows.items():
        if name in value:
            check(value[name], field, f"{path}.{name}")
        elif is_required:
            raise BodyInvalid(f"{path}.{name}: the field is missing")


def _wanted(is_right: bool, value: Any, path: str, wanted: str) -> None:
    if not is_right:
        raise BodyInvalid(f"{path}: got {_shown(value)}, wanted {wanted}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "..."
