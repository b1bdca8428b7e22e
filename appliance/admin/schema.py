"""Types of what is sent and answered: JSON schemas of them, and the check of what was sent.

    class NewTopic(TypedDict):
        name: str
        partitions: NotRequired[int]

A type is one of bool, int, float, str, None, Any, Literal, list, dict with str keys, a TypedDict,
or several of these with `|`.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from typing_extensions import NotRequired, is_typeddict

from appliance.errors import ApplianceError

PLAIN = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


class BodyInvalid(ApplianceError):
    """What was sent is not what is wanted; the text says where, got, wanted."""

    kafka_code = 42


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


def schema(of: Any) -> dict[str, Any]:
    """The JSON schema of a type."""
    origin, args = get_origin(of), get_args(of)
    if of is Any:
        return {}
    if of in PLAIN:
        return {"type": PLAIN[of]}
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
    for number, each in enumerate(args, 1):
        try:
            return check(value, each, place)
        except BodyInvalid:
            if number == len(args):
                wanted = " or ".join(PLAIN.get(one, str(one)) for one in args)
                raise BodyInvalid(f"{place}: got {_shown(value)}, wanted {wanted}") from None


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
