"""Points in time for backups over REST (`broker/backup_points.py`). Their records are read at the
bulk port."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TypedDict

from aiohttp import web

from appliance import __version__
from appliance.admin.body_schema import row_of
from appliance.admin.route import ADMIN, Call, delete, post, put
from appliance.broker.backup_points import HOLD_S, Point
from appliance.broker.backup_reports import Kind


class SegmentRow(TypedDict):
    base_offset: int
    end_offset: int
    size_bytes: int
    modified_ns: int
    is_sealed: bool


class LogRow(TypedDict):
    topic: str
    topic_id: str
    partition: int
    log_start_offset: int
    end_offset: int
    leader_epoch: int
    is_compacted: bool
    holes: list[list[int]]
    segments: list[SegmentRow]
    producers: str  # a snapshot file, in base64
    fault: str


class UnservedRow(TypedDict):
    topic: str
    partition: int
    why: str


class PointAnswer(TypedDict):
    point: str
    at_ms: int
    hold_ms: int  # so long compaction rests, unless that is renewed
    cluster_id: str
    broker_id: int
    version: str
    logs: list[LogRow]
    unserved: list[UnservedRow]
    catalog: str  # `catalog.db`, in base64


async def take_point(call: Call) -> web.Response:
    broker = call.broker
    await broker.transactions.loading.loaded()
    broker.transactions.loading.check_loaded()  # it may have failed
    point = await broker.backup_points.take()
    body = await asyncio.to_thread(
        lambda: json.dumps(answer_of(point, broker.cluster_id, broker.node_id)).encode()
    )
    return web.Response(body=body, status=201, content_type="application/json")


def answer_of(point: Point, cluster_id: str, broker_id: int) -> PointAnswer:
    return {
        "point": point.id,
        "at_ms": point.at_ms,
        "hold_ms": round(HOLD_S * 1000),
        "cluster_id": cluster_id,
        "broker_id": broker_id,
        "version": __version__,
        "logs": [
            {
                "topic": each.topic,
                "topic_id": each.topic_id,
                "partition": each.partition,
                "log_start_offset": each.log_start_offset,
                "end_offset": each.end_offset,
                "leader_epoch": each.leader_epoch,
                "is_compacted": each.is_compacted,
                "holes": [list(hole) for hole in each.holes],
                "segments": [row_of(SegmentRow, one) for one in each.segments],
                "producers": base64.b64encode(each.producers).decode(),
                "fault": each.fault,
            }
            for each in point.logs
        ],
        "unserved": [
            {"topic": topic, "partition": partition, "why": why}
            for topic, partition, why in point.unserved
        ],
        "catalog": base64.b64encode(point.catalog).decode(),
    }


class Outcome(TypedDict):
    kind: Kind
    target: str
    backup: str  # its id; "": there is none
    point_ms: int
    fault: str  # "": it is whole


async def report(call: Call) -> None:
    broker, body = call.broker, call.body
    await asyncio.to_thread(
        broker.backup_reports.note, body["kind"], broker.clock.now_ms(), body["target"],
        body["backup"], body["point_ms"], body["fault"],
    )  # fmt: skip


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
        body=Outcome,
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
