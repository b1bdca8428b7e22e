"""Bulk data is at a port of its own (`appliance/bulk_http/`): its routes, and the way there from
the admin port."""

from __future__ import annotations

from http import HTTPStatus
from typing import TypedDict

from aiohttp import web
from yarl import URL

from appliance.admin.guard import host_of
from appliance.admin.rights import DESCRIBE_TOPIC, READ_TOPIC
from appliance.admin.route import Call, NotServing, Param, get
from appliance.bulk.bounds import EARLIEST, LATEST, LIMITS
from appliance.bulk.plan import PlannedPartition, Split
from appliance.config import EVERY_INTERFACE, NO_ADDRESS, Address

PREFIX = "/export/v1"
BATCHES_MEDIA = "application/vnd.appliance.record-batches"
DECODED = ("arrow", "parquet", "jsonl", "csv")
SPLITS_MAX = 100_000  # of one plan: each is a line of its answer


class TopicNames(TypedDict):
    topics: list[str]


class Plan(TypedDict):
    topic: str
    topic_id: str
    cluster_id: str
    broker_id: int
    isolation: str
    partitions: list[PlannedPartition]
    splits: list[Split]


def go_there(call: Call) -> web.Response:
    request, listens = call.request, call.process.export_address
    if listens is None:
        raise NotServing("bulk data is not served yet")
    told = call.process.config.export.advertised_address
    if told != NO_ADDRESS:
        there = Address(told.host, told.port or listens.port)
    elif listens.host in EVERY_INTERFACE:
        there = Address(host_of(request.headers.get("Host", "")), listens.port)
    else:
        there = listens
    config = call.process.config
    scheme = "https" if config.export_has_tls or config.admin.is_behind_tls else "http"
    plain = URL.build(scheme=scheme, authority=str(there), path=request.path, query=request.query)
    url = str(call.tickets.url(plain, call.identity))
    return web.json_response(
        {"url": url}, status=HTTPStatus.TEMPORARY_REDIRECT, headers={"Location": url}
    )


ISOLATION = Param(
    "isolation",
    str,
    "read_committed ends at the last stable offset, read_uncommitted at the high watermark.",
    "read_committed",
    choices=tuple(LIMITS),
)

MEANT = Param(
    "topic_id",
    str,
    "Expected id of the topic: 409 if the topic has another id.",
)

TOPICS = get(
    "/topics",
    go_there,
    TopicNames,
    "Names of topics, without internal ones. A redirect to the bulk port.",
    prefix=PREFIX,
    redirects=True,
    rights=(),
    asks="only topics with DESCRIBE",
)

PLAN = get(
    "/topics/{topic}/plan",
    go_there,
    Plan,
    "Closed ranges of offsets, cut into splits of about as many bytes each. A redirect to the bulk "
    "port.",
    prefix=PREFIX,
    redirects=True,
    params=(
        Param(
            "from",
            str,
            "earliest, latest, a number, @MS, @TIME, or a map of these by partition.",
            EARLIEST,
        ),
        Param("to", str, "The same, of the end.", LATEST),
        Param(
            "splits",
            int,
            "About how many; 0: one for each partition.",
            0,
            minimum=0,
            maximum=SPLITS_MAX,
        ),
        ISOLATION,
        MEANT,
    ),
    rights=(DESCRIBE_TOPIC,),
)

BATCHES = get(
    "/topics/{topic}/partitions/{partition}/batches",
    go_there,
    None,
    "The record batches of a range as they are stored, in frames, with a trailer. A redirect to "
    "the bulk port.",
    prefix=PREFIX,
    redirects=True,
    reads_messages=True,
    params=(
        Param("start", int, "The first offset; the log's first by default.", minimum=0),
        Param(
            "end",
            int,
            "The offset behind the last; what can be read now by default.",
            minimum=0,
        ),
        ISOLATION,
        MEANT,
        Param(
            "format",
            str,
            "Of the answer: batches, or the records decoded.",
            "batches",
            choices=("batches", *DECODED),
        ),
    ),
    media=BATCHES_MEDIA,
    rights=(READ_TOPIC,),
)

ROUTES = [TOPICS, PLAN, BATCHES]
