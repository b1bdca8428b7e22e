"""The audit trail of both ports: who did what from where, by which mechanism, with the result.

Three kinds of rows, so that nobody fills the trail or the disk:

    acts        changes, and logins: a row each. Each person has a limited number of them per
                minute; one more row for each kind of act counts the rest.
    failed      logins that failed: a row per address and minute, since anybody may cause them
    refused     what rules refused: a row per principal, address, API and minute

Counted rows are written at the end of a minute. A program may log in a hundred times a minute, so
logins have a row per principal, address and mechanism in ten minutes, which counts those before it.

Rows are in the catalog. Settings put them into the log and a file, too, as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace

from appliance.access.audit_rows import STRANGER, AuditRow, AuditRows
from appliance.errors import ApplianceError
from appliance.native._peer_network import network_of
from appliance.process import event_log
from appliance.process.detached_tasks import outcome
from appliance.protocol import ErrorCode

log = event_log.named("audit")

ADMIN_PORT, KAFKA_PORT = "admin", "kafka"

DETAILS_MAX = 2000  # characters of a request

# Per person and minute. A person at the console does less; a program that does more would write a
# row and a sync for each request, and push its own past out of the trail within minutes.
ROWS_OF_MINUTE = 20
MINUTE_SECONDS = 60.0
ADDRESSES_OF_MINUTE = 20  # failed logins of these have their own row; all others share one
NAMES_KEPT = 10  # that were tried from one address, or refused to one principal
NAME_MAX = 64  # characters of a name: the limit for users
OTHERS = "other addresses"

REFUSALS_OF_MINUTE = 200  # principals, addresses and APIs with a row; all others share one
LOGIN_SECONDS = 600.0
LOGINS_KEPT = 10_000  # principals at addresses: beyond it logins are noted more often

# Errors of Kafka's port that say that rules forbid it
REFUSALS = frozenset({
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
})  # fmt: skip

APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC

OK, UNAUTHORIZED, FORBIDDEN = 200, 401, 403


@dataclass
class More:
    """A person's acts of one kind beyond the rows of a minute."""

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

    first: AuditRow
    wrong: int = 0
    refused: int = 0  # not checked, because there were too many
    names: dict[str, None] = field(default_factory=dict)

    def row(self) -> AuditRow:
        told = {"wrong": self.wrong, "refused": self.refused, "names": [*self.names]}
        return replace(self.first, details=json.dumps(told))


@dataclass
class Refusals:
    """Of one principal, at one address, by one API."""

    first: AuditRow
    count: int = 0
    of: dict[str, None] = field(default_factory=dict)

    def row(self) -> AuditRow:
        return replace(self.first, details=json.dumps({"times": self.count, "of": [*self.of]}))


@dataclass(frozen=True)
class Asking:
    """Who asks, and how it has proven that."""

    who: str
    peer: str
    port: str = KAFKA_PORT
    mechanism: str = ""


class AuditTrail:
    """Lives on the event loop. Whatever cannot be noted is in the log: the act is done."""

    def __init__(self, rows: AuditRows, *, to_log: bool = False, file: str = "") -> None:
        self._stored = rows
        self._to_log = to_log
        self._file = file
        self._pending: list[AuditRow] = []
        self._writer: asyncio.Task[None] | None = None
        self._clock: asyncio.Task[None] | None = None
        self._rows: Counter[str] = Counter()  # of this minute, by person
        self._more: dict[tuple[str, str, str, str], More] = {}
        self._failed: dict[tuple[str, str, str], Failed] = {}
        self._refused: dict[tuple[str, str, str], Refusals] = {}
        self._logins: OrderedDict[tuple[str, str, str], tuple[float, int]] = OrderedDict()
        self.refusals: Counter[str] = Counter()  # since the start, by API, for metrics

    # What is noted

    def act(self, row: AuditRow, kind: str, *, is_rare: bool = False) -> None:
        """`kind` of acts is what beyond the limit is counted together; rare ones have rows."""
        self._rows[row.who] += not is_rare
        if is_rare or self._rows[row.who] <= ROWS_OF_MINUTE:
            self._put(row)
            return
        first = replace(row, action=kind)
        more = self._more.setdefault((row.port, row.who, row.peer, kind), More(first))
        more.add(row.action.partition(" ")[2], row.status)

    def failed(self, asking: Asking, *, is_refused: bool = False) -> None:
        """Counts a failed login of who says it is `who`, from a network. Writes nothing now."""
        peer = asking.peer
        if (asking.port, peer, asking.mechanism) not in self._failed and (
            len(self._failed) >= ADDRESSES_OF_MINUTE
        ):
            peer = OTHERS
        row = AuditRow(0, _now_ms(), STRANGER, peer, "failed logins", "", UNAUTHORIZED,
                       asking.port, asking.mechanism)  # fmt: skip
        found = self._failed.setdefault((asking.port, peer, asking.mechanism), Failed(row))
        found.refused += is_refused
        found.wrong += not is_refused
        if len(found.names) < NAMES_KEPT:
            found.names[asking.who[:NAME_MAX]] = None

    def logged_in(self, asking: Asking) -> None:
        key, now = (asking.who, network_of(asking.peer), asking.mechanism), time.monotonic()
        noted, count = self._logins.pop(key, (now - LOGIN_SECONDS, 0))
        if now - noted < LOGIN_SECONDS:
            self._logins[key] = noted, count + 1
            return
        self._logins[key] = now, 0
        while len(self._logins) > LOGINS_KEPT:
            self._logins.popitem(last=False)
        details = json.dumps({"more before": count}) if count else ""
        self._put(_row(asking, "login", details, OK))

    def refused(self, asking: Asking, api: str, what: Iterable[str]) -> None:
        """Counts a refusal by rules; `what` are operations and resources."""
        self.refusals[api] += 1
        key = asking.who, asking.peer, api
        if key not in self._refused and len(self._refused) >= REFUSALS_OF_MINUTE:
            key, asking = ("", "", ""), Asking("others", "", asking.port)
            api = "any API"
        found = self._refused.get(key)
        if found is None:
            row = _row(asking, f"refused {api}", "", FORBIDDEN)
            self._refused[key] = found = Refusals(row)
        found.count += 1
        for each in what:
            if len(found.of) < NAMES_KEPT:
                found.of[each[:DETAILS_MAX // NAMES_KEPT]] = None

    # How it is written

    def end_minute(self) -> None:
        """Writes the counted rows."""
        counted = [each.row() for each in self._more.values()]
        counted += [each.row() for each in self._failed.values()]
        counted += [each.row() for each in self._refused.values()]
        self._more, self._failed, self._refused = {}, {}, {}
        self._rows.clear()
        for row in counted:
            self._put(row)

    def _put(self, row: AuditRow) -> None:
        self._pending.append(row)
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        """What comes meanwhile is the next transaction."""
        while self._pending:
            rows, self._pending = self._pending, []
            for row in rows if self._to_log else ():
                log.info("audit", **_facts(row))
            try:
                await asyncio.to_thread(self._store, rows)
            except ApplianceError as raised:
                log.error("not in the audit trail", action=rows[0].action, rows=len(rows),
                          error=raised)  # fmt: skip
            except Exception:
                log.exception("not in the audit trail", action=rows[0].action, rows=len(rows))
        self._writer = None

    def _store(self, rows: list[AuditRow]) -> None:
        """Opened anew each time, so that the file may be moved away."""
        if self._file:
            lines = "".join(json.dumps(_facts(row)) + "\n" for row in rows)
            try:
                with open(os.open(self._file, APPEND, 0o600), "a", encoding="utf-8") as file:
                    file.write(lines)
            except OSError as error:
                log.error("not in the audit file", file=self._file, rows=len(rows), error=error)
        self._stored.add(*rows)

    async def settled(self) -> None:
        """All that was noted is written."""
        if self._writer is not None:
            await outcome(self._writer)

    def start(self) -> None:
        self._clock = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(MINUTE_SECONDS)
            self.end_minute()

    async def close(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._clock
        self.end_minute()
        await self.settled()


def _row(asking: Asking, action: str, details: str, status: int) -> AuditRow:
    return AuditRow(0, _now_ms(), asking.who, asking.peer, action, details, status, asking.port,
                    asking.mechanism)  # fmt: skip


def _facts(row: AuditRow) -> dict[str, object]:
    facts = asdict(row)
    del facts["id"]
    return facts


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
