"""Which columns JSON has: what a sample of the records of a run says, each record with one vote.

    sample     so many records and bytes, of all splits alike, in pieces spread over each
    a field    becomes a column when it is in a share of the objects that could have it
    its type   is what three quarters of its values have; whole and broken numbers are `double`,
               when there are enough broken ones. Without such a majority it is text
    names      that a reader could not tell apart, or that are no names, become no columns

A tally is {"votes": {KIND: records}, "item": TALLY, "fields": {NAME: TALLY}}; kinds are those of
`export_json`, "list" and "fields". What becomes no column is not lost: `_rest` has it as JSON text.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from appliance_spark import export_json
from appliance_spark.export_json import FIELDS_MAX, Type

# Of a topic, in one run: enough that what is in one of a hundred records is seen for certain, and
# read in seconds, however long the log is. Not from one place: what is old may look otherwise.
SAMPLE_RECORDS = 10_000
SAMPLE_BYTES = 64 << 20
SAMPLE_PIECES = 10  # of a split that has more records than its part of the sample

FIELD_SHARE = 0.01  # of its objects must have a field: an id that was taken for a name is in one
MANY = 10  # objects: from here on one of them alone adds nothing
MAJORITY = 0.75  # of its values say what type a field has; the others will be dead letters

OBJECT_FIELDS_MAX = 500  # of an object below the top: with more it is a map, and its column is text
NAME_BYTES_MAX = 128  # as catalogs of tables have it; what is longer is data, not a name
TALLY_NAMES_MAX = 10_000  # of a split: the rarest are forgotten, for a worker's memory

Tally = dict[str, Any]
Path = tuple[str, ...]


def empty() -> Tally:
    return {"votes": {}, "fields": {}}


# The vote

def tally_of(values: Iterable[bytes | None]) -> Tally:
    """Of all values that parse. The others will be dead letters, and have no vote; nor has one with
    more fields than a file may have columns."""
    found, size = empty(), 0
    for value in values:
        if value is None:
            continue
        try:
            kind = export_json.type_of(export_json.load(value))
        except ValueError:
            continue
        if export_json.count_of(kind) <= FIELDS_MAX:
            size += _vote(found, kind)
        if size > TALLY_NAMES_MAX:
            found, size = thinned(found)
    return found


def _vote(tally: Tally, kind: Type) -> int:
    """How many names were new."""
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
    """Nothing that cannot be seen, such as a line's end or half of a surrogate pair."""
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
    """Without the rarest names, until half of the room is free; and how many are left."""
    least = 1
    while (size := _names(tally)) > TALLY_NAMES_MAX // 2:
        tally = _without(tally, least)
        least *= 2
    return tally, size


def _without(tally: Tally, least: int) -> Tally:
    made = {**tally, "fields": {name: _without(each, least)
                                for name, each in tally["fields"].items() if _seen(each) > least}}
    if "item" in tally:
        made["item"] = _without(tally["item"], least)
    return made


def _names(tally: Tally) -> int:
    below = sum(1 + _names(each) for each in tally["fields"].values())
    return below + (_names(tally["item"]) if "item" in tally else 0)


def _seen(tally: Tally) -> int:
    return sum(tally["votes"].values())


# The verdict

def wanted(objects: int) -> int:
    """How many of them must have a field."""
    return max(math.ceil(FIELD_SHARE * objects), 2 if objects >= MANY else 1)


def decided(tally: Tally) -> Type:
    """"null": nothing is known of it yet."""
    votes = Counter({word: count for word, count in tally["votes"].items() if word != "null"})
    numbers = votes["long"] + votes["double"]
    if votes["double"] >= wanted(numbers):
        votes["double"], votes["long"] = numbers, 0
    if not votes:
        return "null"
    word, count = max(sorted(votes.items()), key=lambda each: each[1])
    if count < MAJORITY * _seen_values(tally):
        return "string"
    if word == "list":
        item = decided(tally["item"])
        return "null" if item == "null" else {"list": item}
    return _columns(tally) if word == "fields" else word


def _seen_values(tally: Tally) -> int:
    return sum(count for word, count in tally["votes"].items() if word != "null")


def _columns(tally: Tally) -> Type:
    """Of an object below the top."""
    fields: dict[str, Type] = {}
    taken: set[str] = set()
    for each in sorted(_candidates(tally, (), None)):
        paths = [*_paths(each.kind, each.path)]
        if len(taken.union(paths)) == len(taken) + len(paths):
            fields[each.path[-1]] = each.kind
            taken.update(paths)
    if not fields or len(fields) > OBJECT_FIELDS_MAX:
        return "string"
    return {"fields": dict(sorted(fields.items()))}


@dataclass(frozen=True, order=True)
class Candidate:
    """A column that may be. Those that more objects have come first."""

    rarity: int
    path: Path
    kind: Any

    @property
    def where(self) -> str:
        return ".".join(self.path).replace(".[]", "[]")


def _candidates(tally: Tally, path: Path, pinned: Type | None) -> Iterator[Candidate]:
    """Those of an object, and below what is pinned of it."""
    objects = tally["votes"].get("fields", 0)
    known = pinned["fields"] if pinned else {}
    for name, each in tally["fields"].items():
        if name in known:
            yield from _below(each, (*path, name), known[name])
        elif _seen(each) >= wanted(objects):
            kind = decided(each)
            if kind != "null":
                yield Candidate(-_seen(each), (*path, name), kind)


def _below(tally: Tally, path: Path, pinned: Type) -> Iterator[Candidate]:
    if not isinstance(pinned, dict):
        return
    if "fields" in pinned:
        yield from _candidates(tally, path, pinned)
    elif "item" in tally:
        yield from _below(tally["item"], (*path, "[]"), pinned["list"])


def _paths(kind: Type, path: Path) -> Iterator[str]:
    """As readers name columns, which is without a look at capitals. A name with a dot in it may be
    that of a field within another."""
    yield ".".join(path).casefold()
    if isinstance(kind, dict):
        if "list" in kind:
            yield from _paths(kind["list"], (*path, "[]"))
        for name, each in kind.get("fields", {}).items():
            yield from _paths(each, (*path, name))


def extended(pinned: Type | None, tally: Tally) -> tuple[Type, list[dict[str, Any]], list[str]]:
    """The pinned schema with the fields that are new, what was added, and which columns could not
    be. What is pinned stays as it is: values that do not fit it are dead letters."""
    found = pinned or {"fields": {}}
    taken = {*_paths(found, ()), *export_json.RESERVED}
    room = FIELDS_MAX - export_json.count_of(found)
    changes: list[dict[str, Any]] = []
    left_out: list[str] = []
    for each in sorted(_candidates(tally, (), found)):
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
