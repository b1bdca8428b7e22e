"""Connections of Kafka clients, from the network threads."""

from __future__ import annotations

import asyncio
from typing import TypedDict

from appliance.admin.body_schema import row_of
from appliance.admin.rights import DESCRIBE_CLUSTER
from appliance.admin.route import Call, NotServing, Param, get

VIEW_TIMEOUT_MS = 1000  # a network thread answers within a turn, which is far shorter


class Connection(TypedDict):
    id: int
    peer: str
    client_id: str
    principal: str | None  # None: it has not logged in
    software: str | None  # None: the client does not report it, as those before 2019
    software_version: str | None
    connected_ms: int  # age of the connection
    idle_ms: int
    requests: int
    in_flight: int
    received_bytes: int
    sent_bytes: int
    held_bytes: int  # of responses that it has not read
    throttled_ms: int  # remaining delay by a quota


class Connections(TypedDict):
    total: int  # before `limit`
    connections: list[Connection]


async def list_connections(call: Call) -> Connections:
    broker, data_plane = call.broker, call.process.data_plane
    found = None
    if data_plane is not None:
        found = await asyncio.to_thread(data_plane.connections, VIEW_TIMEOUT_MS)
    if found is None:
        raise NotServing(f"a network thread did not answer within {VIEW_TIMEOUT_MS} ms")
    text = call.params["q"].lower()
    rows: list[Connection] = []
    for each in sorted(found):
        software = broker.software.get(each.id)
        row = row_of(
            Connection,
            each,
            principal=each.principal or None,
            software=software[0] if software else None,
            software_version=software[1] if software else None,
            connected_ms=each.age_ms,
            received_bytes=each.bytes_in,
            sent_bytes=each.bytes_out,
            throttled_ms=each.mute_ms,
        )
        if text in f"{row['peer']} {row['client_id']} {row['software']}".lower():
            rows.append(row)
    return {"total": len(rows), "connections": rows[: call.params["limit"]]}


ROUTES = [
    get(
        "/connections",
        list_connections,
        Connections,
        "Connections of clients, with their software.",
        version=lambda _: None,
        params=(
            Param("q", str, "Only those whose address, id or software contains this text.", ""),
            Param("limit", int, "Largest number.", 1000, minimum=1, maximum=10_000),
        ),
        rights=(DESCRIBE_CLUSTER,),
    ),
]
