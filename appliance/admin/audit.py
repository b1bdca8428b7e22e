"""The audit trail: who changed what over the admin pages, and what came of it; who read messages.

Rows are in the catalog, on disk before the next request of the same person is likely to come. A
search is many requests, so that somebody reads a topic is noted once in a while. What Kafka's own
clients change is in the log.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from typing import Any, TypedDict

from appliance.admin.route import Call, Param, get
from appliance.broker import Broker
from appliance.catalog import AuditRow

DETAILS_MAX = 2000  # characters of what was sent
READS_SECONDS = 600.0  # in which the same person's reads of the same topic are one row
READS_KEPT = 10_000  # of persons and topics: who reads more is noted more often


class Entry(TypedDict):
    id: int
    at_ms: int
    who: str
    peer: str
    action: str
    details: str
    status: int


class Entries(TypedDict):
    entries: list[Entry]  # the newest first


async def note(broker: Broker, call: Call, action: str, status: int) -> None:
    row = AuditRow(
        0, time.time_ns() // 1_000_000, call.who, call.request.remote or "", action,
        details_of(call.body), status,
    )  # fmt: skip
    await asyncio.to_thread(broker.catalog.add_audit, row)


def details_of(body: Any) -> str:
    """What was sent; of messages, how many: nobody's data belongs in here."""
    if body is None:
        return ""
    if isinstance(body, dict):
        body = {
            name: "..." if name in SECRET else len(value) if name == "messages" else value
            for name, value in body.items()
        }
    return json.dumps(body, ensure_ascii=False)[:DETAILS_MAX]


SECRET = ("password", "token", "old_password")


class Reads:
    """Who was noted to read what, and when. Lives on the event loop."""

    def __init__(self) -> None:
        self._noted: OrderedDict[tuple[str, str], float] = OrderedDict()

    def is_new(self, call: Call) -> bool:
        if not is_read(call):
            return False
        key, now = (call.who, call.path["topic"]), time.monotonic()
        noted = self._noted.get(key)
        if noted is not None and now - noted < READS_SECONDS:
            return False
        self._noted.pop(key, None)
        self._noted[key] = now
        while len(self._noted) > READS_KEPT:
            self._noted.popitem(last=False)
        return True


def is_read(call: Call) -> bool:
    """Whether there is something to read."""
    broker = call.process.broker
    return broker is not None and call.path.get("topic") in broker.topics


async def list_audit(call: Call) -> Entries:
    before, limit = call.params["before"], call.params["limit"]
    rows = await asyncio.to_thread(call.broker.catalog.audit, before, limit)
    return {
        "entries": [
            {
                "id": each.id,
                "at_ms": each.at_ms,
                "who": each.who,
                "peer": each.peer,
                "action": each.action,
                "details": each.details,
                "status": each.status,
            }
            for each in rows
        ]
    }


ROUTES = [
    get(
        "/audit",
        list_audit,
        Entries,
        "Who changed what over these pages, and who read messages; the newest first.",
        params=(
            Param("before", int, "Only entries with a smaller id.", minimum=1),
            Param("limit", int, "How many to give.", 100, minimum=1, maximum=1000),
        ),
    ),
]
