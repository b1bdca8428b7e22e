"""The support bundle: everything about the broker, without content of records."""

from __future__ import annotations

import asyncio
import inspect
import io
import json
import platform
import sys
import zipfile
from dataclasses import replace
from typing import Any

from aiohttp import web

from appliance import __version__
from appliance.admin import (
    client_connections,
    doctor,
    groups,
    health,
    log_lines,
    partition_logs,
    settings,
    topics,
)
from appliance.admin.route import ADMIN, Call, Route, get

# Responses of routes as files, with parameters other than the defaults.
PARTS: dict[str, tuple[list[Route], str, dict[str, Any]]] = {
    "health.json": (health.ROUTES, "/health", {}),
    "doctor.json": (doctor.ROUTES, "/doctor", {}),
    "topics.json": (topics.ROUTES, "/topics", {"internal": True, "limit": 10_000}),
    "logs.json": (partition_logs.ROUTES, "/logs", {}),
    "groups.json": (groups.ROUTES, "/groups", {"limit": 10_000}),
    "connections.json": (client_connections.ROUTES, "/connections", {}),
    "settings.json": (settings.ROUTES, "/settings", {}),
    "log.json": (log_lines.ROUTES, "/log", {"level": "debug", "limit": 5000}),
}


async def get_bundle(call: Call) -> web.Response:
    # only now: as in `admin_http.get_metrics`
    from appliance.admin.metrics import Metrics

    files = {name: await answer_of(call, *part) for name, part in PARTS.items()}
    files["metrics.txt"] = (await Metrics(call.process, call.reading).page()).decode()
    files["recovery.txt"] = call.broker.log_dir.report.text() + "\n"
    files["system.txt"] = (
        f"appliance {__version__}\npython {sys.version}\n{platform.platform()}\n"
    )
    data = await asyncio.to_thread(zipped, files)
    return web.Response(
        body=data,
        content_type="application/zip",
        headers={"Content-Disposition": 'attachment; filename="appliance-bundle.zip"'},
    )


async def answer_of(call: Call, routes: list[Route], path: str, params: dict[str, Any]) -> str:
    (route,) = [each for each in routes if (each.method, each.path) == ("GET", path)]
    own = {each.name: each.default for each in route.params} | params
    asked = replace(call, params=own, body=None)
    answer = route.handler(asked)
    if inspect.isawaitable(answer):
        answer = await answer
    return json.dumps(answer, indent=2, ensure_ascii=False) + "\n"


def zipped(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


ROUTES = [
    get(
        "/bundle",
        get_bundle,
        None,
        "The support bundle as a zip, without any record.",
        role=ADMIN,
        media="application/zip",
    ),
]
