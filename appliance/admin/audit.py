"""The audit trail: who changed what over the admin port, with the result; who read messages; logins
and failed logins.

Rows are in the catalog, on disk before the same person's next request is likely. Repeated actions
are counted: each person has a limited number of rows per minute, and one more row per route counts
the rest, with the paths. Actions of admins, and reads of messages, always have their own rows.
Requests without a login write no row: failed logins get one per address and minute. A search has
many requests, so reading a topic is noted once in a while. Changes by Kafka clients are in the log.
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
from appliance.admin.body_schema import row_of
from appliance.admin.route import ADMIN, Call, Param, Route, get
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.export.export_options import OPTIONS
from appliance.process import event_log

log = event_log.named("admin")

DETAILS_MAX = 2000  # characters of a request
DEPTH_MAX = 20  # of lists and objects in a request; deeper values are not noted
READS_SECONDS = 600.0  # the same person's reads of a topic within this time are one row
READS_KEPT = 10_000  # persons and topics: beyond it reads are noted more often

# Per person and minute. A person at the console does less; a program that does more would write a
# row and a sync for each request, and push its own past out of the trail within minutes.
ROWS_OF_MINUTE = 20
MINUTE_SECONDS = 60.0
ADDRESSES_OF_MINUTE = 20  # failed logins of these have their own row; all others share one
NAMES_KEPT = 10  # that were tried from one address
NAME_MAX = 64  # characters of a name: the limit for users
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
    """The request; of messages only their number: the trail has no records."""
    if body is None:
        return ""
    if isinstance(body, dict) and "messages" in body:
        body = {**body, "messages": len(body["messages"])}
    return json.dumps(without_secrets(body), ensure_ascii=False)[:DETAILS_MAX]


SECRET = re.compile(
    r"password|token|secret|credential|passphrase|(api|access)[-_.]?key|\bauth\b", re.IGNORECASE)
IN_ADDRESS = re.compile(r"(://[^/\s:@\"]*):[^/\s@\"]*@")  # the password of a URL
MAY_BE = re.compile(r'"catalog": *[^" n].*', re.DOTALL)  # in an export of an older version


def without_secrets(value: Any, depth: int = 0) -> Any:
    """Masks secrets by name, at any depth; all properties of a catalog count as secret."""
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
    """A row of an older version, which may have been cut off."""
    try:
        return json.dumps(without_secrets(json.loads(details)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return IN_ADDRESS.sub(r"\1:...@", MAY_BE.sub('"catalog": "..."', details))


@dataclass
class More:
    """A person's actions at one route beyond the rows of a minute."""

    first: AuditRow
    statuses: Counter[int] = field(default_factory=Counter)
    paths: list[str] = field(default_factory=list)
    left: int = DETAILS_MAX  # space for paths

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
    """Failed logins from one address."""

    first_ms: int
    wrong: int = 0
    refused: int = 0  # not checked, because there were too many
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
        """The action is done: if it cannot be noted, the log says so."""
        action = f"{route.method} {call.request.path}"
        try:
            details = details_of(call.body)
        except Exception:  # a row without the request is better than none
            log.exception("the request is not in the audit trail", action=action)
            details = ""
        row = AuditRow(
            0, _now_ms(), call.who, call.request.remote or "", action, details, status)
        if route.role == ADMIN or route.reads_messages:  # these are few
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
        """Counts a failed login. Writes nothing now, because anybody may cause it."""
        if peer not in self._failed and len(self._failed) >= ADDRESSES_OF_MINUTE:
            peer = OTHERS
        found = self._failed.setdefault(peer, Failed(_now_ms()))
        found.refused += is_refused
        found.wrong += not is_refused
        if len(found.names) < NAMES_KEPT:
            found.names[name[:NAME_MAX]] = None

    async def end_minute(self) -> None:
        """Writes the counted rows."""
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
    """The noted reads by person and topic, with their times. Lives on the event loop."""

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
    """Whether there is anything to read."""
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
        "Changes and reads of messages by users, newest first.",
        params=(
            Param("before", int, "Only entries with a smaller id.", minimum=1),
            Param("limit", int, "Largest number of entries.", 100, minimum=1, maximum=1000),
        ),
    ),
]
