"""Infers the columns of JSON from a sample of a run's records, each record with one vote.

    sample     a limited number of records and bytes, from pieces spread over every split
    a field    becomes a column if a share of the objects that could have it has it
    its type   is the type of three quarters of its values; integers and other numbers together are
               `double`, if there are enough of the latter. Without such a majority it is text
    names      that readers cannot tell apart, or that are invalid, become no columns

A tally is {"votes": {KIND: records}, "item": TALLY, "fields": {NAME: TALLY}}; kinds are those of
`export_json`, "list" and "fields". Fields without a column are kept as JSON text in `_rest`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from appliance_spark import export_json
from appliance_spark.export_json import FIELDS_MAX, Type

# Per topic and run: enough to see everything that one of a hundred records has, and read in seconds
# from a log of any length. From many pieces, because old records may look different.
SAMPLE_RECORDS = 10_000
SAMPLE_BYTES = 64 << 20
SAMPLE_PIECES = 10  # of a split with more records than its part of the sample

FIELD_SHARE = 0.01  # a share of its objects must have a field: an id used as a name is in only one
MANY = 10  # objects: above this a single one does not add a field
MAJORITY = 0.75  # share of its values that have the type; the others become dead letters

OBJECT_FIELDS_MAX = 500  # of an object below the top: with more it is a map, and its column is text
NAME_BYTES_MAX = 128  # the limit of table catalogs; longer names are data
TALLY_NAMES_MAX = 10_000  # per split: the rarest are dropped to limit a worker's memory

Tally = dict[str, Any]
Path = tuple[str, ...]


def empty() -> Tally:
    return {"votes": {}, "fields": {}}


# Voting

def tally_of(
    values: Iterable[Any], load: Callable[[Any], dict[str, Any]] = export_json.load
) -> Tally:
    """The votes of all values that parse. Other values become dead letters and have no vote;
    neither has one with more fields than a file may have columns."""
    found, size = empty(), 0
    for value in values:
        if value is None:
            continue
        try:
            kind = export_json.type_of(load(value))
        except ValueError:
            continue
        if export_json.count_of(kind) <= FIELDS_MAX:
            size += _vote(found, kind)
        if size > TALLY_NAMES_MAX:
            found, size = thinned(found)
    return found


def _vote(tally: Tally, kind: Type) -> int:
    """Returns the number of new names."""
    word = kind if isinstance(kind, str) else next(iter(kind))
    tally["votes"][word] = tally["votes"].get(word, 0) + 1
    if word == "list":
        return _vote(tally.setdefault("item", empty()), kind["list"])
    if word != "fields":
        return 0
    new = 0
    for name, each in kind["fields"].items():
        if is_name(name):
            new += name not in tally["fields"]
            new += _vote(tally["fields"].setdefault(name, empty()), each)
    return new


def is_name(name: str) -> bool:
    """No invisible characters, such as an end of line or half of a surrogate pair."""
    return bool(name.strip()) and name.isprintable() and len(name.encode()) <= NAME_BYTES_MAX


def joined(tallies: Iterable[Tally]) -> Tally:
    found = empty()
    for each in tallies:
        _join(found, each)
        if _names(found) > TALLY_NAMES_MAX:
            found, _ = thinned(found)
    return found


def _join(tally: Tally, other: Tally) -> None:
    for word, count in other["votes"].items():
        tally["votes"][word] = tally["votes"].get(word, 0) + count
    if "item" in other:
        _join(tally.setdefault("item", empty()), other["item"])
    for name, each in other["fields"].items():
        _join(tally["fields"].setdefault(name, empty()), each)


def thinned(tally: Tally) -> tuple[Tally, int]:
    """Drops the rarest names, until half of the space is free; returns how many are left."""
    least = 1
    while (size := _names(tally)) > TALLY_NAMES_MAX // 2:
        tally = _without(tally, least)
        least *= 2
    return tally, size


def _without(tally: Tally, least: int) -> Tally:
    made = {**tally, "fields": {name: _without(each, least)
                                for name, each in tally["fields"].items() if seen(each) > least}}
    if "item" in tally:
        made["item"] = _without(tally["item"], least)
    return made


def _names(tally: Tally) -> int:
    below = sum(1 + _names(each) for each in tally["fields"].values())
    return below + (_names(tally["item"]) if "item" in tally else 0)


def seen(tally: Tally) -> int:
    return sum(tally["votes"].values())


# Result

def wanted(objects: int) -> int:
    """The number of objects that must have a field."""
    return max(math.ceil(FIELD_SHARE * objects), 2 if objects >= MANY else 1)


def decided(tally: Tally, majority: float = MAJORITY) -> Type:
    """"null": its type is unknown yet. With a majority of 1 all values must have the type."""
    votes = Counter({word: count for word, count in tally["votes"].items() if word != "null"})
    numbers = votes["long"] + votes["double"]
    if votes["double"] >= (1 if majority == 1 else wanted(numbers)):
        votes["double"], votes["long"] = numbers, 0
    if not votes:
        return "null"
    word, count = max(sorted(votes.items()), key=lambda each: each[1])
    if count < majority * _seen_values(tally):
        return "string"
    if word == "list":
        item = decided(tally["item"], majority)
        return "null" if item == "null" else {"list": item}
    return _columns(tally, majority) if word == "fields" else word


def _seen_values(tally: Tally) -> int:
    return sum(count for word, count in tally["votes"].items() if word != "null")


def _columns(tally: Tally, majority: float) -> Type:
    """The columns of an object below the top."""
    fields: dict[str, Type] = {}
    taken: set[str] = set()
    for each in sorted(_candidates(tally, (), None, majority)):
        paths = [*_paths(each.kind, each.path)]
        if len(taken.union(paths)) == len(taken) + len(paths):
            fields[each.path[-1]] = each.kind
            taken.update(paths)
    if not fields or len(fields) > OBJECT_FIELDS_MAX:
        return "string"
    return {"fields": dict(sorted(fields.items()))}


@dataclass(frozen=True, order=True)
class Candidate:
    """A candidate for a column. Candidates that more objects have come first."""

    rarity: int
    path: Path
    kind: Any

    @property
    def where(self) -> str:
        return ".".join(self.path).replace(".[]", "[]")


def _candidates(
    tally: Tally, path: Path, pinned: Type | None, majority: float
) -> Iterator[Candidate]:
    """The candidates of an object, below its pinned fields."""
    objects = tally["votes"].get("fields", 0)
    known = pinned["fields"] if pinned else {}
    for name, each in tally["fields"].items():
        if name in known:
            yield from _below(each, (*path, name), known[name], majority)
        elif seen(each) >= wanted(objects):
            kind = decided(each, majority)
            if kind != "null":
                yield Candidate(-seen(each), (*path, name), kind)


def _below(tally: Tally, path: Path, pinned: Type, majority: float) -> Iterator[Candidate]:
    if not isinstance(pinned, dict):
        return
    if "fields" in pinned:
        yield from _candidates(tally, path, pinned, majority)
    elif "item" in tally:
        yield from _below(tally["item"], (*path, "[]"), pinned["list"], majority)


def _paths(kind: Type, path: Path) -> Iterator[str]:
    """A name as readers compare columns: without case. A name with a dot may equal the path of a
    nested field."""
    yield ".".join(path).casefold()
    if isinstance(kind, dict):
        if "list" in kind:
            yield from _paths(kind["list"], (*path, "[]"))
        for name, each in kind.get("fields", {}).items():
            yield from _paths(each, (*path, name))


def extended(
    pinned: Type | None, tally: Tally, majority: float = MAJORITY
) -> tuple[Type, list[dict[str, Any]], list[str]]:
    """The pinned schema with new fields, what was added, and the rejected columns. Pinned fields
    never change: values that do not fit become dead letters."""
    found = pinned or {"fields": {}}
    taken = {*_paths(found, ()), *export_json.RESERVED}
    room = FIELDS_MAX - export_json.count_of(found)
    changes: list[dict[str, Any]] = []
    left_out: list[str] = []
    for each in sorted(_candidates(tally, (), found, majority)):
        paths, size = [*_paths(each.kind, each.path)], export_json.count_of(each.kind)
        if size > room or len(taken.union(paths)) < len(taken) + len(paths):
            left_out.append(each.where)
            continue
        taken.update(paths)
        room -= size
        found = _with(found, each.path, each.kind)
        changes.append({"field": each.where, "change": "added",
                        "type": export_json.text_of(each.kind)})
    return found, sorted(changes, key=lambda each: str(each["field"])), sorted(left_out)


def _with(kind: Type, path: Path, new: Type) -> Type:
    if not path:
        return new
    if path[0] == "[]" and "list" in kind:
        return {"list": _with(kind["list"], path[1:], new)}
    fields = kind["fields"]
    return {"fields": {**fields, path[0]: _with(fields.get(path[0]), path[1:], new)}}
