"""JSON values as columns: which fields there are and of what type, and rows made of them.

A type, as it stands in the manifest: "boolean", "long", "double", "string", "null" (only null was
seen), {"list": TYPE} or {"fields": {NAME: TYPE}}. Two types that do not agree become "string",
and such a column holds the JSON text of what is not a string; so does one of an empty object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any

from appliance_spark.export_layout import ExportFailed

if TYPE_CHECKING:
    import pyarrow as pa

    from appliance_spark.export_rows import Parsed

FIELDS_MAX = 2000  # columns of a file; more are ids that were taken for names
DEPTH_MAX = 32  # what lies deeper is text
REST = "_rest"  # fields that the pinned schema does not have, as JSON text
TOMBSTONE = "_tombstone"  # the value was null
LONG = range(-(1 << 63), 1 << 63)
Type = Any


class Misfit(ValueError):
    """A value that its column cannot hold."""


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def load(value: bytes) -> dict[str, Any]:
    """Raises ValueError, with a reason for the dead letter."""
    try:
        found = json.loads(value, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError(f"wanted a JSON object, got {_kind(found)}")
    return found


# Which types

def type_of(value: Any, depth: int = 0) -> Type:
    if isinstance(value, dict) and value and depth < DEPTH_MAX:
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
        return "long" if value in LONG else "double"
    return "double" if isinstance(value, float) else "string"


def merged(one: Type, other: Type) -> Type:
    """The narrowest type that holds both; the order in which many are merged does not matter."""
    if one == other or other == "null":
        return one
    if one == "null":
        return other
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        if "list" in one:
            return {"list": merged(one["list"], other["list"])}
        names = sorted({*one["fields"], *other["fields"]})
        pairs = {n: (one["fields"].get(n, "null"), other["fields"].get(n, "null")) for n in names}
        return {"fields": {n: merged(*pair) for n, pair in pairs.items()}}
    return "double" if {str(one), str(other)} == {"long", "double"} else "string"


def seen_in(values: Iterable[bytes | None]) -> Type:
    """Of all values that parse. The others will be dead letters."""
    found: Type = {"fields": {}}
    for value in values:
        try:
            found = merged(found, {"fields": type_of(load(value))["fields"]}) if value else found
        except (ValueError, TypeError):  # not JSON, or an empty object: nothing is learned of it
            continue
    return found


def extended(pinned: Type | None, seen: Type) -> tuple[Type, list[dict[str, Any]]]:
    """The pinned schema with the fields that are new, and what was added. What is pinned stays as
    it is: values that do not fit it are dead letters."""
    changes: list[dict[str, Any]] = []
    found = _extended(pinned or {"fields": {}}, seen, "", changes)
    count = _count(found)
    if count > FIELDS_MAX:
        raise ExportFailed(
            f"the JSON has {count} fields, at most {FIELDS_MAX} become columns. Ids were taken for "
            "names? Give a schema (--schema-file) or export raw"
        )
    return found, changes


def _extended(pinned: Type, seen: Type, path: str, changes: list[dict[str, Any]]) -> Type:
    if not isinstance(pinned, dict) or not isinstance(seen, dict) or pinned.keys() != seen.keys():
        return pinned
    if "list" in pinned:
        if pinned["list"] == "null" and seen["list"] != "null":
            changes.append({"field": f"{path}[]", "change": "typed", "type": _text(seen["list"])})
            return {"list": _settled(seen["list"])}
        return {"list": _extended(pinned["list"], seen["list"], f"{path}[]", changes)}
    fields = dict(pinned["fields"])
    for name, kind in sorted(seen["fields"].items()):
        where = f"{path}.{name}" if path else name
        if name in fields:
            fields[name] = _extended(fields[name], kind, where, changes)
        elif kind != "null":
            fields[name] = _settled(kind)
            changes.append({"field": where, "change": "added", "type": _text(fields[name])})
    return {"fields": fields}


def _settled(kind: Type) -> Type:
    """Without nulls of which nothing is known yet, but in lists, which get theirs later."""
    if isinstance(kind, dict) and "fields" in kind:
        fields = {n: _settled(k) for n, k in kind["fields"].items() if k != "null"}
        return {"fields": fields} if fields else "string"
    if isinstance(kind, dict):
        return {"list": "string" if kind["list"] == "null" else _settled(kind["list"])}
    return kind


def _text(kind: Type) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind)


def _count(kind: Type) -> int:
    if not isinstance(kind, dict):
        return 1
    if "list" in kind:
        return _count(kind["list"])
    return sum(_count(each) for each in kind["fields"].values())


def arrow_type(kind: Type) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, dict):
        if "list" in kind:
            return pa.list_(arrow_type(kind["list"]))
        return pa.struct([pa.field(name, arrow_type(k)) for name, k in kind["fields"].items()])
    plain = {"boolean": pa.bool_(), "long": pa.int64(), "double": pa.float64()}
    return plain.get(kind, pa.string())


# Rows

def parser(schema: dict[str, Any]) -> Callable[[list[bytes | None]], Parsed]:
    """`schema["type"]` is pinned. Fields that it does not have go into `_rest` as text."""
    from appliance_spark.export_rows import OWN, Parsed

    fields = {n: k for n, k in schema["type"]["fields"].items()
              if n not in {*OWN, REST, TOMBSTONE}}
    whole = {"fields": {**fields, REST: "string", TOMBSTONE: "boolean"}}
    shape = arrow_type(whole)

    def parse(values: list[bytes | None]) -> Parsed:
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


def _row(found: dict[str, Any], fields: dict[str, Type], is_tombstone: bool) -> dict[str, Any]:
    row = {name: fit(found.get(name), kind, name) for name, kind in fields.items()}
    rest = {name: value for name, value in found.items() if name not in fields}
    row[REST] = _json_text(rest, REST) if rest else None
    row[TOMBSTONE] = is_tombstone
    return row


def fit(value: Any, kind: Type, path: str) -> Any:
    """The value as its column holds it."""
    if value is None:
        return None
    if kind == "string":
        return _checked(value, path) if isinstance(value, str) else _json_text(value, path)
    if isinstance(kind, dict):
        return _fit_nested(value, kind, path)
    if kind == "double" and isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise Misfit(f"field {path}: {value} is too large for a double") from None
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
    unknown = [name for name in value if name not in kind["fields"] and value[name] is not None]
    if unknown:  # below the top there is no place for the rest
        raise Misfit(f"field {path}: {', '.join(sorted(unknown))[:200]} not in the schema")
    return {n: fit(value.get(n), k, f"{path}.{n}") for n, k in kind["fields"].items()}


def _json_text(value: Any, path: str) -> str:
    return _checked(json.dumps(value, ensure_ascii=False, separators=(",", ":")), path)


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
