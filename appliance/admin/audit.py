"""The audit trail: who changed what over the admin pages, and what came of it; who read messages;
who logged in, and who tried to.

Rows are in the catalog, on disk before the next request of the same person is likely to come. What
comes again and again is counted: of each person so many rows are written in a minute, and one for
each route says how often more it was asked, and for what. What only an admin may do, and reading
messages, always has a row of its own. Who is not logged in writes no row: failed logins are one for
each address and minute. A search is many requests, so that somebody reads a topic is noted once in
a while. What Kafka's own clients change is in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from aiohttp import web

from appliance.admin.audit_rows import STRANGER, AuditRow, AuditRows
from appliance.admin.route import ADMIN, Call, Param, Route, get
from appliance.admin.schema import row_of
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.export.export_options import OPTIONS
from appliance.process import event_log

log = event_log.named("admin")

DETAILS_MAX = 2000  # characters of what was sent
DEPTH_MAX = 20  # of lists and objects in what was sent; what is deeper is not noted
READS_SECONDS = 600.0  # in which the same person's reads of the same topic are one row
READS_KEPT = 10_000  # of persons and topics: who reads more is noted more often

# Of one person in a minute. Somebody at the pages does less; a program that does more would write
# a row and a sync each, and push its own past out of the trail within minutes.
ROWS_OF_MINUTE = 20
MINUTE_SECONDS = 60.0
ADDRESSES_OF_MINUTE = 20  # whose failed logins have a row of their own; all others share one
NAMES_KEPT = 10  # that were tried from one address
NAME_MAX = 64  # characters of one: what a user's may have
OTHERS = "other addresses"


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


def details_of(body: Any) -> str:
    """What was sent; of messages, how many: nobody's data belongs in here."""
    if body is None:
        return ""
    if isinstance(body, dict) and "messages" in body:
        body = {**body, "messages": len(body["messages"])}
    return json.dumps(without_secrets(body), ensure_ascii=False)[:DETAILS_MAX]


SECRET = re.compile(
    r"password|token|secret|credential|passphrase|(api|access)[-_.]?key|\bauth\b", re.IGNORECASE)
IN_ADDRESS = re.compile(r"(://[^/\s:@\"]*):[^/\s@\"]*@")  # the password of a URL
MAY_BE = re.compile(r'"catalog": *[^" n].*', re.DOTALL)  # an export's, of an older version


def without_secrets(value: Any, depth: int = 0) -> Any:
    """By names, at any depth; the properties of a catalog, whatever they are called, are one."""
    if depth > DEPTH_MAX and isinstance(value, (dict, list)):
        return "…"
    if isinstance(value, dict):
        if isinstance(options := value.get("options"), dict):  # of an export
            kept = {name: each if name in OPTIONS else "..." for name, each in options.items()}
            value = {**value, "options": kept}
        return {name: "..." if _is_secret(name, each) else without_secrets(each, depth + 1)
                for name, each in value.items()}  # fmt: skip
    if isinstance(value, list):
        return [without_secrets(each, depth + 1) for each in value]
    return IN_ADDRESS.sub(r"\1:...@", value) if isinstance(value, str) else value


def _is_secret(name: Any, value: Any) -> bool:
    is_catalog = name == "catalog" and isinstance(value, dict)
    return is_catalog or bool(SECRET.search(str(name)))


def shown(details: str) -> str:
    """A row that an older version noted, which may have been cut off."""
    try:
        return json.dumps(without_secrets(json.loads(details)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return IN_ADDRESS.sub(r"\1:...@", MAY_BE.sub('"catalog": "..."', details))


@dataclass
class More:
    """What somebody did beyond the rows of a minute, at one route."""

    first: AuditRow
    statuses: Counter[int] = field(default_factory=Counter)
    paths: list[str] = field(default_factory=list)
    left: int = DETAILS_MAX  # room for paths

    def add(self, path: str, status: int) -> None:
        self.statuses[status] += 1
        if len(path) < self.left:
            self.paths.append(path)
            self.left -= len(path) + 4

    def row(self) -> AuditRow:
        told = {"more": sum(self.statuses.values()), "answers": self.statuses, "of": self.paths}
        return replace(self.first, details=json.dumps(told))


@dataclass
class Failed:
    """Logins from one address that came to nothing."""

    first_ms: int
    wrong: int = 0
    refused: int = 0  # not looked at: there had been too many
    names: dict[str, None] = field(default_factory=dict)

    def row(self, peer: str) -> AuditRow:
        told = {"wrong": self.wrong, "refused": self.refused, "names": [*self.names]}
        return AuditRow(0, self.first_ms, STRANGER, peer, "failed logins", json.dumps(told), 401)


class Trail:
    """Lives on the event loop."""

    def __init__(self, broker: Callable[[], Broker | None]) -> None:
        self.reads = Reads()
        self._broker = broker
        self._rows: Counter[str] = Counter()  # of this minute, by person
        self._more: dict[tuple[str, str, str], More] = {}
        self._failed: dict[str, Failed] = {}
        self._stored: AuditRows | None = None

    async def note(self, call: Call, route: Route, status: int) -> None:
        """What was done is done: that it cannot be noted is told in the log."""
        action = f"{route.method} {call.request.path}"
        try:
            details = details_of(call.body)
        except Exception:  # a row without them is better than none
            log.exception("what was sent is not in the audit trail", action=action)
            details = ""
        row = AuditRow(
            0, _now_ms(), call.who, call.request.remote or "", action, details, status)
        if route.role == ADMIN or route.reads_messages:  # of those there are few
            await self._write(row)
            return
        self._rows[row.who] += 1
        if self._rows[row.who] > ROWS_OF_MINUTE:
            self._count(row, route)
        else:
            await self._write(row)

    def _count(self, row: AuditRow, route: Route) -> None:
        action = f"{route.method} {route.url}"
        first = replace(row, action=action)
        more = self._more.setdefault((row.who, row.peer, action), More(first))
        more.add(row.action.partition(" ")[2], row.status)

    def failed(self, peer: str, name: str, *, is_refused: bool = False) -> None:
        """A login. Nothing is written now: anybody may ask for it."""
        if peer not in self._failed and len(self._failed) >= ADDRESSES_OF_MINUTE:
            peer = OTHERS
        found = self._failed.setdefault(peer, Failed(_now_ms()))
        found.refused += is_refused
        found.wrong += not is_refused
        if len(found.names) < NAMES_KEPT:
            found.names[name[:NAME_MAX]] = None

    async def end_minute(self) -> None:
        """Writes what was counted."""
        more, failed = self._more, self._failed
        self._more, self._failed = {}, {}
        self._rows.clear()
        rows = [each.row() for each in more.values()]
        rows += [each.row(peer) for peer, each in failed.items()]
        if rows:
            await self._write(*rows)

    async def _write(self, *rows: AuditRow) -> None:
        broker = self._broker()
        if broker is None:
            return
        try:
            await asyncio.to_thread(self._stored_by(broker).add, *rows)
        except ApplianceError as raised:
            log.error("not in the audit trail", action=rows[0].action, rows=len(rows), error=raised)

    def _stored_by(self, broker: Broker) -> AuditRows:
        if self._stored is None or self._stored.catalog is not broker.catalog:
            self._stored = AuditRows(broker.catalog)
        return self._stored

    async def run(self) -> None:
        while True:
            await asyncio.sleep(MINUTE_SECONDS)
            await self.end_minute()

    async def running(self, _: web.Application) -> AsyncIterator[None]:
        task = asyncio.get_running_loop().create_task(self.run())
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


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
    rows = await asyncio.to_thread(AuditRows(call.broker.catalog).newest, before, limit)
    return {"entries": [row_of(Entry, each, details=shown(each.details)) for each in rows]}


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
