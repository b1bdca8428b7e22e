"""JSON values as columns: their fields and types, and rows of them.

A type, as in the manifest: "boolean", "long", "double", "string", {"list": TYPE} or
{"fields": {NAME: TYPE}}; a single value may also be "null". A column of "string" has the JSON text
of values that are no strings. `export_infer` chooses the types of a topic's columns.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

from appliance_spark.export_layout import ExportFailed

if TYPE_CHECKING:
    import pyarrow as pa

    from appliance_spark.export_rows import Parsed

FIELDS_MAX = 2000  # columns of a file; more means that ids are used as names
DEPTH_MAX = 8  # objects and lists in one another, as columns: deeper values become JSON text
# The same for a value: readers of the text have a limit, too, and ours must not depend on the stack
# depth of the caller.
VALUE_DEPTH_MAX = 200
REST = "_rest"  # fields outside the pinned schema, as JSON text
TOMBSTONE = "_tombstone"  # the value was null
RESERVED = frozenset({  # the columns of a record itself
    "_key", "_partition", "_offset", "_timestamp", "_headers", REST, TOMBSTONE})
LONG = range(-(1 << 63), 1 << 63)
MODES = ("json", "registry")  # whose columns are inferred and pinned
PLAIN = ("boolean", "long", "double", "string")
Type = Any

# Not matched as a whole string: the engine would need a hundred bytes for each letter.
_SIGNS = re.compile(r'\\.|["\[\]{}]', re.DOTALL)


class Misfit(ValueError):
    """A value that its column cannot hold."""


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):  # readers disagree which of two counts
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"field {twice[:80]!r} is there twice")
    return members


def load(value: bytes) -> dict[str, Any]:
    """Raises ValueError, with a reason for the dead letter."""
    try:
        text = value.decode(json.detect_encoding(value))  # the checked text is the parsed text
    except UnicodeDecodeError as error:
        raise ValueError(f"not JSON: {error.reason} at byte {error.start}") from None
    if text.count("[") + text.count("{") > VALUE_DEPTH_MAX:
        _check_depth(text)
    try:
        found = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_object)
    except RecursionError:  # the stack was deep already
        raise ValueError("nested too deep for the stack") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}" if value else "an empty value") from None
    if not isinstance(found, dict):
        raise ValueError(f"wanted a JSON object, got {_kind(found)}")
    return found


def _check_depth(text: str) -> None:
    """To be called before parsing, which recurses once per level. Brackets in a string do not
    count, also in an unterminated one."""
    depth, in_string = 0, False
    for found in _SIGNS.finditer(text):
        sign = found[0]
        if sign == '"':
            in_string = not in_string
        elif not in_string:
            depth += (sign in "[{") - (sign in "]}")
        if depth > VALUE_DEPTH_MAX:
            raise ValueError(f"nested deeper than {VALUE_DEPTH_MAX} levels")


# Types

def type_of(value: Any, depth: int = 0) -> Type:
    if isinstance(value, dict) and depth < DEPTH_MAX:
        return {"fields": {name: type_of(each, depth + 1) for name, each in value.items()}}
    if isinstance(value, list) and depth < DEPTH_MAX:
        kinds = (type_of(each, depth + 1) for each in value)
        return {"list": reduce(merged, kinds, "null")}
    return _scalar(value)


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "long" if value in LONG else "string"  # a double would be another number
    return "double" if isinstance(value, float) else "string"


def merged(one: Type, other: Type) -> Type:
    """The narrowest type that holds both; the order of merging does not matter. Works in place:
    copying for each element of a list would take quadratic time."""
    if one == other or other == "null":
        return one
    if one == "null":
        return other
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        if "list" in one:
            one["list"] = merged(one["list"], other["list"])
            return one
        fields = one["fields"]
        for name, kind in other["fields"].items():
            fields[name] = merged(fields.get(name, "null"), kind)
        return one
    return "double" if {str(one), str(other)} == {"long", "double"} else "string"


def text_of(kind: Type) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind)


def count_of(kind: Type) -> int:
    """The number of columns."""
    if not isinstance(kind, dict):
        return 1
    if "list" in kind:
        return count_of(kind["list"])
    return sum(count_of(each) for each in kind["fields"].values())


def differing(old: Type, new: Type, path: str = "") -> dict[str, str]:
    """Fields of both types that differ: by path, as text."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        if "list" in old:
            return differing(old["list"], new["list"], f"{path}[]")
        both = sorted(old["fields"].keys() & new["fields"].keys())
        found: dict[str, str] = {}
        for name in both:
            where = f"{path}.{name}".lstrip(".")
            found |= differing(old["fields"][name], new["fields"][name], where)
        return found
    return {} if old == new else {path: f"{path} is {text_of(old)}, wanted {text_of(new)}"}


def has_all(new: Type, old: Type) -> bool:
    """Whether each field of the old type is in the new one."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        if "list" in old:
            return has_all(new["list"], old["list"])
        return all(name in new["fields"] and has_all(new["fields"][name], each)
                   for name, each in old["fields"].items())
    return bool(old == new)


def checked(kind: Type, where: str = "", depth: int = 0) -> Type:
    """Checks a schema from a person; raises ExportFailed with the path."""
    if not where and (not isinstance(kind, dict) or [*kind] != ["fields"]):
        raise ExportFailed(f'a schema begins with {{"fields": {{...}}}}, got {str(kind)[:80]}')
    if isinstance(kind, str) and kind in PLAIN:
        return kind
    if depth < VALUE_DEPTH_MAX and isinstance(kind, dict):
        if [*kind] == ["list"]:
            return {"list": checked(kind["list"], f"{where}[]", depth + 1)}
        if [*kind] == ["fields"] and isinstance(kind["fields"], dict):
            _check_names([*kind["fields"]], where)
            return {"fields": {name: checked(each, f"{where}.{name}".lstrip("."), depth + 1)
                               for name, each in kind["fields"].items()}}
    raise ExportFailed(f"the schema's field {where}: got {str(kind)[:80]}, wanted one of "
                       f'{", ".join(PLAIN)}, {{"list": TYPE}} or {{"fields": {{NAME: TYPE}}}}')


def _check_names(names: list[str], where: str) -> None:
    """Readers compare names of columns without case, and Parquet has no empty group."""
    if not names and where:
        raise ExportFailed(f"the schema's field {where}: an object without fields has no columns")
    for name in names:
        shown = name.encode("utf-8", "backslashreplace").decode()
        if shown != name:
            raise ExportFailed(f"the schema's field {shown}: half of a surrogate pair")
        if not where and name.casefold() in RESERVED:
            raise ExportFailed(f"the schema's field {name}: every export has that column already")
    counts = Counter(name.casefold() for name in names)
    twice = [name for name in names if counts[name.casefold()] > 1]
    if twice:
        raise ExportFailed(f"the schema's fields {' and '.join(twice[:5])} within {where or 'it'} "
                           "are one name to readers")


def arrow_type(kind: Type) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, dict):
        if "list" in kind:
            return pa.list_(arrow_type(kind["list"]))
        return pa.struct([pa.field(name, arrow_type(k)) for name, k in kind["fields"].items()])
    plain = {"boolean": pa.bool_(), "long": pa.int64(), "double": pa.float64()}
    return plain.get(kind, pa.string())


# Rows

def parser(
    schema: dict[str, Any], load: Callable[[Any], dict[str, Any]] = load
) -> Callable[[list[Any]], Parsed]:
    """`schema["type"]` is pinned. Other fields go into `_rest` as text."""
    from appliance_spark.export_rows import OWN, Parsed

    fields = {n: k for n, k in schema["type"]["fields"].items()
              if n not in {*OWN, REST, TOMBSTONE}}
    whole = {"fields": {**fields, REST: "string", TOMBSTONE: "boolean"}}
    shape = arrow_type(whole)

    def parse(values: list[Any]) -> Parsed:
        import pyarrow as pa

        rows, good, bad, kept = [], [], {}, []
        for i, value in enumerate(values):
            try:
                found = {} if value is None else load(value)
                rows.append(_row(found, fields, value is None))
            except ValueError as error:
                bad[i] = str(error)
                continue
            good.append(i)
            kept.append(found)
        return Parsed(pa.array(rows, shape), good, bad, kept)

    return parse


def _row(values: dict[str, Any], fields: dict[str, Type], is_tombstone: bool) -> dict[str, Any]:
    row = {name: fit(values.get(name), kind, name) for name, kind in fields.items()}
    rest = left_over(values, {"fields": fields})
    row[REST] = _json_text(rest, REST) if rest else None
    row[TOMBSTONE] = is_tombstone
    return row


def fit(value: Any, kind: Type, path: str) -> Any:
    """The value in its column's type."""
    if value is None:
        return None
    if kind == "string":
        return _checked(value, path) if isinstance(value, str) else _json_text(value, path)
    if isinstance(kind, dict):
        return _fit_nested(value, kind, path)
    if kind == "double" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return _double(value, path)
    if _scalar(value) != kind:
        raise Misfit(f"field {path}: wanted {kind}, got {_kind(value)} {str(value)[:80]}")
    return value


def _fit_nested(value: Any, kind: dict[str, Any], path: str) -> Any:
    if "list" in kind:
        if not isinstance(value, list):
            raise Misfit(f"field {path}: wanted a list, got {_kind(value)} {str(value)[:80]}")
        return [fit(each, kind["list"], f"{path}[]") for each in value]
    if not isinstance(value, dict):
        raise Misfit(f"field {path}: wanted an object, got {_kind(value)} {str(value)[:80]}")
    return {n: fit(value.get(n), k, f"{path}.{n}") for n, k in kind["fields"].items()}


def _double(value: float, path: str) -> float:
    """A whole number that no double represents would change its value."""
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if math.isinf(found) or found != value:
        raise Misfit(f"field {path}: {str(value)[:80]} is not a number that a double can be")
    return found


def left_over(value: Any, kind: Type) -> Any:
    """The part of a value that its columns cannot hold, in the same structure; None: nothing. A
    list with such a part has null for each element without one."""
    if isinstance(value, list) and isinstance(kind["list"], dict):
        rests = [left_over(each, kind["list"]) if each else None for each in value]
        return rests if any(rest is not None for rest in rests) else None
    if not isinstance(value, dict):
        return None
    fields = kind["fields"]
    found = {}
    for name, each in value.items():
        below = fields.get(name)
        if below is None:
            rest = each
        else:
            rest = left_over(each, below) if each and isinstance(below, dict) else None
        if rest is not None or below is None:
            found[name] = rest
    return found or None


def _json_text(value: Any, path: str) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _checked(text, path)


def _checked(text: str, path: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Misfit(f"field {path}: half of a surrogate pair") from None
    return text


def _kind(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    return _scalar(value)
