"""Exports over REST: definitions and runs, for the export job and the console."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any, Literal, TypedDict, cast

from typing_extensions import NotRequired

from appliance.admin.body_schema import Limits, Natural
from appliance.admin.export_holds import HoldRow, hold_row
from appliance.admin.export_progress import progress_of, topics_of
from appliance.admin.export_rights import (
    changed_export,
    check_new_name,
    check_readable,
    checked_name,
    described_export,
    is_described,
    may_change,
    names_of,
)
from appliance.admin.export_schedules import Schedule, checked
from appliance.admin.rights import READ_SOME_TOPIC, Described
from appliance.admin.route import Call, Param, delete, get, post, put
from appliance.broker.broker import Broker
from appliance.errors import RequestInvalid
from appliance.export import export_options
from appliance.export.definition_version import version_of
from appliance.export.definitions_and_runs import Last, fault_of
from appliance.export.due import overdue

ERROR_MAX = 10_000  # characters of a run's error that are stored
LETTERS_MAX = 100  # dead letters in a report
WHY_MAX = 500  # characters of a letter's reason that are stored


class Definition(TypedDict):
    name: NotRequired[str]
    topics: NotRequired[list[str]]
    pattern: NotRequired[str | None]  # of topic names, instead of topics
    target: str  # the path of a folder
    schema: NotRequired[str | None]  # raw, json, avro or registry
    partition_by: NotRequired[str | None]  # timestamp, append or field:NAME
    schedule: NotRequired[Schedule | None]
    options: NotRequired[dict[str, Any]]


class DeadLetter(TypedDict):
    """A record that did not parse. Only a report has them, and a route of their own."""

    topic: str
    topic_id: NotRequired[str]  # another topic may have its name later
    partition: Natural
    offset: Natural
    why: str  # may quote the record


class Run(TypedDict):
    id: str
    state: Literal["running", "succeeded", "failed"]
    started_ms: int
    ended_ms: NotRequired[int | None]
    plan: NotRequired[Any]
    partitions: NotRequired[list[RunPartition]]
    files: NotRequired[int]
    bytes: NotRequired[int]
    error: NotRequired[str | None]
    letters: NotRequired[Annotated[list[DeadLetter], Limits(0, LETTERS_MAX)]]  # the first ones


class NextRun(TypedDict):
    next_run_ms: Natural | None


# `from` is a keyword of Python
RunPartition = TypedDict(
    "RunPartition",
    {
        "topic": str,
        "partition": int,
        "from": int,
        "to": int,
        "rows": int,
        "dead_letters": NotRequired[int],
        "missing": NotRequired[int],
    },
)


class Status(TypedDict):
    topics: list[str]  # the topics at present
    last_run: Run | None
    last_success: Run | None
    next_run_ms: int | None  # None: no report of a scheduler in the last minutes
    behind_records: int
    behind_seconds: float | None  # upper bound; None: nothing was exported yet
    seconds_left: float | None  # until retention may delete unexported records; None: never
    lost_records: int
    fault: str  # why it cannot run as defined, or empty
    version: str  # of the definition, for a change that replaces it alone
    defined_ms: int  # when it was defined or changed; 0: an older version did not note it
    late: str  # a run that should have begun, or ended, in words, or empty
    holds: list[HoldRow]  # of its topics
    may_change: bool  # who asks


class ExportRow(Definition):
    status: Status


class ExportList(TypedDict):
    exports: list[ExportRow]


class RunList(TypedDict):
    runs: list[Run]


# Definitions


def list_exports(call: Call) -> ExportList:
    broker, described = call.broker, call.described_topics()
    return {
        "exports": [
            export_row(each, last, call)
            for each, last in broker.exports.all()
            if is_described(each, described, broker)
        ]
    }


def get_export(call: Call) -> ExportRow:
    return export_row(*described_export(call), call)


async def put_export(call: Call) -> ExportRow:
    name = checked_name(call.path["export"])
    body: Any = call.body
    if body.get("name", name) != name:
        raise RequestInvalid(f"name: got {body['name'][:80]!r}, wanted {name!r} as in the path")
    body = checked_definition(body)
    check_readable(call, names_of(body, call.broker))
    known = {each["name"]: each for each, _ in call.broker.exports.all()}.get(name)
    described = call.described_topics()
    if known is None or not is_described(known, described, call.broker):
        check_new_name(call, name)
    if known is not None:
        changed_export(call)
    defaults: dict[str, Any] = {"topics": [], "pattern": None, "schema": None,
                                "partition_by": None, "schedule": None, "options": {}}  # fmt: skip
    made, version = {**defaults, **body, "name": name}, call.params["version"]
    await asyncio.to_thread(call.broker.exports.put, made, version)
    return export_row(*call.broker.exports.get(name), call)


async def delete_export(call: Call) -> None:
    await asyncio.to_thread(call.broker.exports.delete, changed_export(call))


def checked_definition(body: Definition) -> Definition:
    """With the cron expression of a schedule in words."""
    if bool(body.get("topics")) == bool(body.get("pattern")):
        raise RequestInvalid("wanted either topics or a pattern of their names")
    try:
        export_options.check(body)
    except export_options.DefinitionWrong as error:
        raise RequestInvalid(str(error)) from error
    if (schedule := body.get("schedule")) is not None:
        body = {**body, "schedule": checked(schedule)}
    if fault := fault_of(body):
        raise RequestInvalid(fault)
    return body


def export_row(definition: dict[str, Any], last: Last, call: Call) -> ExportRow:
    broker, described = call.broker, call.described_topics()
    found = progress_of(definition, last, broker)
    topics = [each.name for each in topics_of(definition, broker.topics)]
    status: Status = {
        "topics": topics,
        "last_run": shown(last.run, described) if last.run else None,
        "last_success": shown(last.success, described) if last.success else None,
        "next_run_ms": broker.exports.next_run_ms(definition["name"], time.monotonic()),
        "behind_records": found.records,
        "behind_seconds": found.seconds,
        "seconds_left": found.seconds_left,
        "lost_records": found.lost,
        "fault": fault_of(definition),
        "version": version_of(definition),
        "defined_ms": round(broker.exports.put_at(definition["name"]) * 1000),
        "late": late(definition, last, broker),
        "holds": [hold_row(each) for each in broker.holds.all() if each.topic in topics],
        "may_change": all(may_change(call, each) for each in names_of(definition, broker)),
    }
    return cast("ExportRow", {**definition, "status": status})


def late(definition: dict[str, Any], last: Last, broker: Broker) -> str:
    if fault_of(definition):
        return ""
    return overdue(
        definition, last, broker.exports, broker.clock.now_ms() / 1000, time.monotonic()
    )


# Runs


def shown(run: dict[str, Any], described: Described) -> Run:
    """Who may describe the topics need not be allowed to read them, and dead letters quote them. Of
    an older definition it may have other topics, which its error may name, too."""
    kept = {name: value for name, value in run.items() if name != "letters"}
    parts = run.get("partitions", [])
    kept |= {"partitions": [each for each in parts if each["topic"] in described]} if parts else {}
    if len(kept.get("partitions", [])) < len(parts) and run.get("error"):
        kept["error"] = "of topics that you may not describe, too"
    return cast("Run", kept)


async def list_runs(call: Call) -> RunList:
    name, limit = call.path["export"], call.params["limit"]
    described_export(call)
    found = await asyncio.to_thread(call.broker.exports.runs, name, limit)
    described = call.described_topics()
    return {"runs": [shown(each, described) for each in found]}


async def post_run(call: Call) -> Run:
    run, name = call.body, changed_export(call)
    checked_name(run["id"])
    if run.get("error"):
        run["error"] = run["error"][:ERROR_MAX]
    for each in run.get("letters", []):
        each["why"] = each["why"][:WHY_MAX]
    for each in run.get("partitions", []):
        if not 0 <= each["from"] <= each["to"]:
            raise RequestInvalid(
                f"partitions: {each['topic']}-{each['partition']}: got from {each['from']} to "
                f"{each['to']}, wanted 0 <= from <= to"
            )
    await asyncio.to_thread(call.broker.exports.put_run, name, run)
    return shown(run, call.described_topics())


def put_next_run(call: Call) -> NextRun:
    name, at_ms = changed_export(call), call.body["next_run_ms"]
    call.broker.exports.put_next_run(name, at_ms, time.monotonic())
    return {"next_run_ms": at_ms}


ROUTES = [
    get(
        "/exports",
        list_exports,
        ExportList,
        "All exports, with their lag.",
        rights=(),
        asks="only those with DESCRIBE on all topics",
    ),
    get(
        "/exports/{export}",
        get_export,
        ExportRow,
        "One export, with its lag.",
        rights=(),
        asks="DESCRIBE on all its topics, else 404",
    ),
    put(
        "/exports/{export}",
        put_export,
        ExportRow,
        "Define an export.",
        params=(Param("version", str, "Replace this version (`status.version`) only, else 409; "
                                      "`new`: there must be none. Default: whatever is there."),),
        body=Definition,
        rights=(READ_SOME_TOPIC,),
        asks="READ on all its topics",
    ),
    delete(
        "/exports/{export}",
        delete_export,
        None,
        "Delete an export and its history.",
        rights=(READ_SOME_TOPIC,),
        asks="READ on all its topics",
    ),
    get(
        "/exports/{export}/runs",
        list_runs,
        RunList,
        "Its runs, newest first.",
        params=(Param("limit", int, "Largest number.", 50, minimum=1, maximum=1000),),
        rights=(),
        asks="DESCRIBE on all its topics, else 404",
    ),
    post(
        "/exports/{export}/runs",
        post_run,
        Run,
        "A report of the export job; a known id replaces the earlier report.",
        body=Run,
        rights=(READ_SOME_TOPIC,),
        asks="READ on all its topics",
    ),
    put(
        "/exports/{export}/next",
        put_next_run,
        NextRun,
        "The time of its next run, reported each minute by the scheduler.",
        body=NextRun,
        is_noted=False,  # changes nothing, and comes each minute
        rights=(READ_SOME_TOPIC,),
        asks="READ on all its topics",
    ),
]
