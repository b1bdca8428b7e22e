"""The ledger of losses and damage over REST: to be read, and acknowledged."""

from __future__ import annotations

import asyncio
from typing import Annotated, TypedDict

from typing_extensions import NotRequired

from appliance.admin import body_schema
from appliance.admin.body_schema import Limits
from appliance.admin.rights import DESCRIBE_CLUSTER
from appliance.admin.route import OPERATOR, Call, Param, get, post
from appliance.catalog.loss_ledger import Entry, Kind
from appliance.errors import RequestInvalid

IDS_MAX = 10_000  # in one request
PAGE, PAGE_MAX = 100, 1000  # entries of an answer: of about 300 bytes each

ALL, OPEN, SEEN = "all", "open", "acknowledged"


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
    last_id: int  # of the newest entry that is stored; 0: there is none
    entries: list[Row]  # the newest first
    next: int | None  # `before` of the next page; None: this is the last


class Which(TypedDict):
    ids: NotRequired[Annotated[list[int], Limits(0, IDS_MAX)]]
    up_to_id: NotRequired[int]  # whatever is open of these and older ones


class Acknowledged(TypedDict):
    acknowledged: int  # by this request
    open: int


def row_of(entry: Entry) -> Row:
    return body_schema.row_of(
        Row,
        entry.damage,
        id=entry.id or None,
        at_ms=entry.at_ms,
        acknowledged_ms=entry.acknowledged_ms,
        acknowledged_by=entry.acknowledged_by,
    )


def listed(call: Call) -> Rows:
    names = ("state", "topic", "before", "limit")
    state, topic, before, limit = (call.params[name] for name in names)
    entries = call.broker.ledger.entries()
    found = [
        each
        for each in reversed(entries)
        if (before is None or 0 < each.id < before)
        and topic in (None, each.damage.topic)
        and (state == ALL or each.is_open == (state == OPEN))
    ]
    page = found[:limit]
    last_id = max((each.id for each in entries), default=0)
    return {
        "open": sum(each.is_open for each in entries),
        "last_id": last_id,
        "entries": [*map(row_of, page)],
        "next": (page[-1].id or last_id + 1) if len(found) > limit else None,
    }


async def acknowledge(call: Call) -> Acknowledged:
    ledger, body = call.broker.ledger, call.body
    if ("ids" in body) == ("up_to_id" in body):
        raise RequestInvalid("body: wanted either ids or up_to_id")
    if "up_to_id" in body:
        count = await asyncio.to_thread(ledger.acknowledge_up_to, body["up_to_id"], call.who)
    else:
        count = await asyncio.to_thread(ledger.acknowledge, body["ids"], call.who)
    return {"acknowledged": count, "open": len(ledger.open())}


ROUTES = [
    get(
        "/ledger",
        listed,
        Rows,
        "What was lost or damaged, the newest first, in pages.",
        params=(
            Param("state", str, "Which entries.", ALL, choices=(ALL, OPEN, SEEN)),
            Param("topic", str, "Of this topic only."),
            Param("before", int, "Entries with a lower id: `next` of the last page.", minimum=1),
            Param("limit", int, "Entries of a page.", PAGE, minimum=1, maximum=PAGE_MAX),
        ),
        rights=(DESCRIBE_CLUSTER,),
    ),
    post(
        "/ledger/acknowledge",
        acknowledge,
        Acknowledged,
        "Say that losses were seen, some or all up to one: health tells them no more.",
        body=Which,
        role=OPERATOR,
    ),
]
