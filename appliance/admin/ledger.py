"""The ledger of losses and damage over REST: to be read, and acknowledged."""

from __future__ import annotations

import asyncio
from typing import TypedDict

from appliance.admin.route import OPERATOR, Call, get, post
from appliance.errors import RequestInvalid
from appliance.ledger import Entry, Kind

IDS_MAX = 10_000  # in one request


class Row(TypedDict):
    id: int | None  # None: it could not be stored yet
    at_ms: int
    topic: str
    partition: int
    first_offset: int
    last_offset: int | None  # None: not known
    kind: Kind
    cause: str
    aside: str
    acknowledged_ms: int | None
    acknowledged_by: str


class Rows(TypedDict):
    open: int  # entries that nobody acknowledged
    entries: list[Row]


class Seen(TypedDict):
    ids: list[int]


def row_of(entry: Entry) -> Row:
    one = entry.damage
    return {
        "id": entry.id or None,
        "at_ms": entry.at_ms,
        "topic": one.topic,
        "partition": one.partition,
        "first_offset": one.first_offset,
        "last_offset": one.last_offset,
        "kind": one.kind,
        "cause": one.cause,
        "aside": one.aside,
        "acknowledged_ms": entry.acknowledged_ms,
        "acknowledged_by": entry.acknowledged_by,
    }


def listed(call: Call) -> Rows:
    entries = call.broker.ledger.entries()
    order = sorted(entries, key=lambda each: (not each.is_open, -each.at_ms, -each.id))
    return {"open": sum(each.is_open for each in entries), "entries": [*map(row_of, order)]}


async def acknowledge(call: Call) -> Rows:
    ids = call.body["ids"]
    if len(ids) > IDS_MAX:
        raise RequestInvalid(f"ids: got {len(ids)}, wanted at most {IDS_MAX}")
    await asyncio.to_thread(call.broker.ledger.acknowledge, ids, call.who)
    return listed(call)


ROUTES = [
    get("/ledger", listed, Rows, "What was lost or damaged, what nobody has acknowledged first."),
    post(
        "/ledger/acknowledge",
        acknowledge,
        Rows,
        "Say that losses were seen: health tells them no more.",
        body=Seen,
        role=OPERATOR,
    ),
]
