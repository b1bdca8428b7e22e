"""Points in time for backups over REST (`broker/backup_points.py`). Their records are read at the
bulk port."""

from __future__ import annotations

import asyncio
import json
from typing import TypedDict

from aiohttp import web
from typing_extensions import NotRequired

from appliance.admin.body_schema import Natural
from appliance.admin.route import ADMIN, Call, delete, post, put
from appliance.backup.point import PointAnswer, to_json
from appliance.broker.backup_reports import Kind, Outcome


async def take_point(call: Call) -> web.Response:
    broker = call.broker
    await broker.transactions.loading.loaded()
    broker.transactions.loading.check_loaded()  # it may have failed
    point = await broker.backup_points.take()
    body = await asyncio.to_thread(lambda: json.dumps(to_json(point)).encode())
    return web.Response(body=body, status=201, content_type="application/json")


class OutcomeTold(TypedDict):
    kind: Kind
    target: str
    backup: str  # its id; "": there is none
    point_ms: int
    fault: str  # "": it is whole
    partitions: NotRequired[Natural]  # what it has; of a test, what was restored and compared
    records: NotRequired[Natural]
    bytes: NotRequired[Natural]
    took_s: NotRequired[float]


async def report(call: Call) -> None:
    facts = {**call.body, "at_ms": call.broker.clock.now_ms()}
    kind, facts["good_ms"] = facts.pop("kind"), facts.pop("point_ms")
    await asyncio.to_thread(call.broker.backup_reports.note, kind, Outcome(**facts))


def renew_point(call: Call) -> None:
    call.broker.backup_points.renew(call.path["point"])


def end_point(call: Call) -> None:
    call.broker.backup_points.end(call.path["point"])


ROUTES = [
    post(
        "/backup/outcomes",
        report,
        None,
        "Tell what a backup or a test of a restore came to: health says when one failed, or none "
        "was made for long.",
        body=OutcomeTold,
        role=ADMIN,
        status=204,
        is_noted=False,
    ),
    post(
        "/backup/points",
        take_point,
        PointAnswer,
        "Take a point in time for a backup: where each log ends, and the catalog with all users. "
        "Compaction rests while it is held.",
        role=ADMIN,
        status=201,
    ),
    put(
        "/backup/points/{point}",
        renew_point,
        None,
        "Hold a point: compacted logs are still being read.",
        role=ADMIN,
        status=204,
        is_noted=False,
    ),
    delete(
        "/backup/points/{point}",
        end_point,
        None,
        "End the hold of a point.",
        role=ADMIN,
        is_noted=False,
    ),
]
