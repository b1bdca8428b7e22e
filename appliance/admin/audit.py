"""What the admin port puts into the audit trail (`access/audit.py`), and the trail as it is shown.

Rows are on disk before the answer. Actions of admins, and reads of messages, always have their own
rows. Requests without a login write no row: failed logins get one per address and minute. A search
has many requests, so reading a topic is noted once in a while.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Literal, TypedDict

from appliance.access.audit import ADMIN_PORT, DETAILS_MAX, REFUSALS, Asking
from appliance.access.audit_rows import AuditRow, AuditRows
from appliance.admin.audit_words import in_sentence
from appliance.admin.body_schema import row_of
from appliance.admin.route import ADMIN, Call, Param, Route, get
from appliance.admin.users import Identity
from appliance.broker.broker import Broker
from appliance.export.export_options import OPTIONS
from appliance.machine.believed_time import wall_now_ms
from appliance.process import event_log

log = event_log.named("admin")

DEPTH_MAX = 20  # of lists and objects in a request; deeper values are not noted
READS_SECONDS = 600.0  # the same person's reads of a topic within this time are one row
OF_RECORDS = ("messages", "letters")  # lists in requests
READS_KEPT = 10_000  # persons and topics: beyond it reads are noted more often


class Entry(TypedDict):
    id: int
    at_ms: int
    who: str
    peer: str
    action: str
    words: str  # the action, and what was asked for; "": there are none
    details: str
    status: int  # at Kafka's port an error code, 0: none
    port: str
    mechanism: str  # by which who asked has logged in
    outcome: Literal["done", "refused", "failed"]


class Entries(TypedDict):
    entries: list[Entry]  # the newest first


def details_of(body: Any) -> str:
    """The request; of messages, and of dead letters, which quote them, only their number: the trail
    has no records."""
    if body is None:
        return ""
    if isinstance(body, dict):
        body = {**body, **{name: len(body[name]) for name in OF_RECORDS if name in body}}
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


class Trail:
    """Lives on the event loop. The trail is the broker's: as long as there is none, nobody acts."""

    def __init__(self, broker: Callable[[], Broker | None]) -> None:
        self.reads = Reads()
        self._broker = broker

    async def note(self, call: Call, route: Route, status: int) -> None:
        """The action is done: if it cannot be noted, the log says so."""
        action = f"{route.method} {call.request.path}"
        try:
            details = details_of(call.body)
        except Exception:  # a row without the request is better than none
            log.exception("the request is not in the audit trail", action=action)
            details = ""
        is_rare = route.role == ADMIN or route.reads_messages
        kind = f"{route.method} {route.url}"
        self.act(call, action, details, status, kind=kind, is_rare=is_rare)
        await self.settled()

    def act(
        self, call: Call, action: str, details: str, status: int, *, kind: str, is_rare: bool
    ) -> None:
        """One of what a request does; it is on disk once the trail is settled."""
        broker = self._broker()
        if broker is None:
            return
        row = AuditRow(
            0, wall_now_ms(), call.who, call.request.remote or "", action, details, status,
            ADMIN_PORT, mechanism_of(call.identity),
        )  # fmt: skip
        broker.audit.act(row, kind, is_rare=is_rare)

    async def settled(self) -> None:
        broker = self._broker()
        if broker is not None:
            await broker.audit.settled()

    def failed(self, peer: str, name: str, *, is_refused: bool = False) -> None:
        """Counts a failed login."""
        broker = self._broker()
        if broker is not None:
            asking = Asking(name, peer, ADMIN_PORT, PASSWORD)
            broker.audit.failed(asking, is_refused=is_refused)

    def refused(self, identity: Identity | None, peer: str, route: Route, path: str) -> None:
        """Counts what somebody may not do who is logged in."""
        broker = self._broker()
        if broker is not None and identity is not None:
            asking = Asking(identity.who, peer, ADMIN_PORT, mechanism_of(identity))
            broker.audit.refused(asking, f"{route.method} {route.url}", [path])


PASSWORD, TOKEN = "password", "token"


def mechanism_of(identity: Identity) -> str:
    """A session was begun with a password."""
    return TOKEN if identity.is_token else PASSWORD if identity.name else ""


class Reads:
    """The noted reads by person and topic or export, with their times. Lives on the event loop."""

    def __init__(self) -> None:
        self._noted: OrderedDict[tuple[str, str], float] = OrderedDict()

    def is_new(self, call: Call) -> bool:
        if not is_read(call):
            return False
        key, now = (call.who, read_of(call)), time.monotonic()
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
    broker, path = call.process.broker, call.path
    return broker is not None and (
        path.get("topic") in broker.topics or path.get("export") in broker.exports
    )


def read_of(call: Call) -> str:
    return call.path.get("topic") or f"export {call.path['export']}"


async def list_audit(call: Call) -> Entries:
    before, limit = call.params["before"], call.params["limit"]
    rows = await asyncio.to_thread(AuditRows(call.broker.catalog).newest, before, limit)
    return {"entries": [entry_of(each) for each in rows]}


def entry_of(row: AuditRow) -> Entry:
    details = shown(row.details)
    words = in_sentence(row.action, details)
    return row_of(Entry, row, words=words, details=details, outcome=outcome_of(row))


def outcome_of(row: AuditRow) -> Literal["done", "refused", "failed"]:
    if row.status in (0, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN) or row.status in REFUSALS:
        return "refused" if row.status else "done"
    is_good = row.status < HTTPStatus.BAD_REQUEST if row.status >= HTTPStatus.OK else False
    return "done" if is_good else "failed"


ROUTES = [
    get(
        "/audit",
        list_audit,
        Entries,
        "Changes, logins, refusals and reads of messages at both ports, newest first.",
        params=(
            Param("before", int, "Only entries with a smaller id.", minimum=1),
            Param("limit", int, "Largest number of entries.", 100, minimum=1, maximum=1000),
        ),
    ),
]
