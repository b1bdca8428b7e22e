"""Exports over REST: definitions and runs for the export job and the console, retention holds."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypedDict, cast

from typing_extensions import NotRequired

from appliance.access.acls import WILDCARD, Operation
from appliance.admin.body_schema import Limits, Natural, row_of
from appliance.admin.bulk_read import PREFIX
from appliance.admin.export_progress import progress_of, topics_of
from appliance.admin.export_schedules import Schedule, checked
from appliance.admin.rights import READ_SOME_TOPIC, TOPIC, Described
from appliance.admin.route import OPERATOR, Call, Param, delete, get, post, put
from appliance.broker.broker import Broker
from appliance.errors import Refused, RequestInvalid, ResourceUnknown
from appliance.export import export_options
from appliance.export.definitions_and_runs import Last, fault_of
from appliance.export.due import overdue
from appliance.export.holds import Hold
from appliance.protocol import ErrorCode
from appliance.topics.topic import Topic

NAME = re.compile(r"[a-zA-Z0-9._-]{1,100}")
ERROR_MAX = 10_000  # characters of a run's error that are stored
LETTERS_MAX = 100  # dead letters in a report
WHY_MAX = 500  # characters of a letter's reason that are stored


class Definition(TypedDict):
    name: NotRequired[str]
    topics: NotRequired[list[str]]
    pattern: NotRequired[str | None]  # of topic names, instead of topics
    target: str  # the path of a folder
    schema: NotRequired[str | None]  # raw, json or avro
    partition_by: NotRequired[str | None]  # timestamp, append or field:NAME
    schedule: NotRequired[Schedule | None]
    options: NotRequired[dict[str, Any]]


class DeadLetter(TypedDict):
    """A record that did not parse. Only a report has them, and a route of their own."""

    topic: str
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


class HoldBody(TypedDict):
    topic: str
    offsets: dict[str, Natural]
    max_bytes: NotRequired[Natural]


class HoldRow(TypedDict):
    name: str
    topic: str
    offsets: dict[str, int]
    max_bytes: int
    put_ms: int
    state: str  # holding or released
    held_bytes: int  # kept at the last check beyond retention
    released_ms: int | None
    why_released: str
    warning: str


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


class HoldList(TypedDict):
    holds: list[HoldRow]


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


# Who may see and change them: what names topics that somebody may not describe is not there


def described_export(call: Call) -> tuple[dict[str, Any], Last]:
    name, broker = call.path["export"], call.broker
    found = broker.exports.get(name)
    if not is_described(found[0], call.described_topics(), broker):
        raise ResourceUnknown(f"there is no export {name!r}")
    return found


def is_described(definition: Mapping[str, Any], described: Described, broker: Broker) -> bool:
    return described.is_everything or all(
        name in described for name in names_of(definition, broker)
    )


def names_of(definition: Mapping[str, Any], broker: Broker) -> set[str]:
    """Of topics; `*` for a pattern, which topics to come may match, too."""
    named = {*(definition.get("topics") or [])}
    if named and not definition.get("pattern"):
        return named
    return {WILDCARD, *named, *(each.name for each in topics_of(definition, broker.topics))}


def check_readable(call: Call, names: Iterable[str]) -> None:
    """A viewer reads, too, and may not decide what is kept and copied: that takes a rule, or an
    operator."""
    for name in sorted(names):
        if not may_change(call, name):
            raise call.rights.refusal(Operation.READ, TOPIC, name)


def may_change(call: Call, topic: str) -> bool:
    is_low = not call.identity.may(OPERATOR)
    if is_low and not call.rights.are_ruled:
        return False
    return call.rights.may(Operation.READ, TOPIC, topic, without_role=is_low)


def changed_export(call: Call) -> str:
    """Its name."""
    definition, _ = described_export(call)
    check_readable(call, names_of(definition, call.broker))
    return call.path["export"]


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
    await asyncio.to_thread(call.broker.exports.put, {**defaults, **body, "name": name})
    return export_row(*call.broker.exports.get(name), call)


async def delete_export(call: Call) -> None:
    await asyncio.to_thread(call.broker.exports.delete, changed_export(call))


def checked_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise RequestInvalid(f"name: got {name[:80]!r}, wanted 1 to 100 of a-z A-Z 0-9 . _ -")
    return name


def check_new_name(call: Call, name: str) -> None:
    """All share the names. So that nobody finds out by trying what others have, who may not
    describe every topic keeps to names that begin with its own."""
    own = f"{call.identity.name}."
    if not call.described_topics().is_everything and not name.startswith(own):
        raise RequestInvalid(
            f"name: got {name!r}, wanted one that begins with {own!r}: "
            f"{call.identity.name} may not describe every topic"
        )


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
    broker = call.broker
    found = progress_of(definition, last, broker)
    topics = [each.name for each in topics_of(definition, broker.topics)]
    status: Status = {
        "topics": topics,
        "last_run": shown(last.run) if last.run else None,
        "last_success": shown(last.success) if last.success else None,
        "next_run_ms": broker.exports.next_run_ms(definition["name"], time.monotonic()),
        "behind_records": found.records,
        "behind_seconds": found.seconds,
        "seconds_left": found.seconds_left,
        "lost_records": found.lost,
        "fault": fault_of(definition),
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


def shown(run: dict[str, Any]) -> Run:
    """Who may describe the topics need not be allowed to read them, and dead letters quote them."""
    return cast("Run", {name: value for name, value in run.items() if name != "letters"})


async def list_runs(call: Call) -> RunList:
    name, limit = call.path["export"], call.params["limit"]
    described_export(call)
    found = await asyncio.to_thread(call.broker.exports.runs, name, limit)
    return {"runs": [shown(each) for each in found]}


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
    return shown(run)


def put_next_run(call: Call) -> NextRun:
    name, at_ms = changed_export(call), call.body["next_run_ms"]
    call.broker.exports.put_next_run(name, at_ms, time.monotonic())
    return {"next_run_ms": at_ms}


# Holds


def hold_row(hold: Hold) -> HoldRow:
    return row_of(
        HoldRow,
        hold,
        offsets={str(number): offset for number, offset in sorted(hold.offsets.items())},
        state="holding" if hold.is_holding else "released",
    )


def list_holds(call: Call) -> HoldList:
    described = call.described_topics()
    found = [each for each in call.broker.holds.all() if each.topic in described]
    return {"holds": [hold_row(each) for each in found]}


def get_hold(call: Call) -> HoldRow:
    return hold_row(described_hold(call))


def described_hold(call: Call) -> Hold:
    name = call.path["hold"]
    found = call.broker.holds.get(name)
    if found.topic not in call.described_topics():
        raise ResourceUnknown(f"there is no export hold {name!r}")
    return found


async def put_hold(call: Call) -> HoldRow:
    name, body = checked_name(call.path["hold"]), call.body
    check_readable(call, [body["topic"]])
    known = {each.name: each for each in call.broker.holds.all()}.get(name)
    if known is None or known.topic not in call.described_topics():
        check_new_name(call, name)
    if known is not None:
        check_readable(call, [described_hold(call).topic])
    topic = call.broker.topics.named(body["topic"])
    offsets = {partition_of(text, len(topic.logs)): at for text, at in body["offsets"].items()}
    check_alone(call, topic, offsets)
    most = body.get("max_bytes", call.process.config.export.hold_bytes)
    hold = Hold(name, topic.name, offsets, most, time.time_ns() // 1_000_000)
    await asyncio.to_thread(call.broker.holds.put, hold)
    return hold_row(hold)


def check_alone(call: Call, topic: Topic, partitions: Iterable[int]) -> None:
    """Each replica deletes by itself what is old: a hold at one broker keeps nothing when another
    one leads."""
    us, members = call.broker.node_id, call.broker.members
    others = {each: [*members.placement(topic, each).replicas] for each in partitions}
    if shared := {each: found for each, found in others.items() if {*found} - {us}}:
        partition, found = next(iter(shared.items()))
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"{topic.name}-{partition} is on brokers {found}, each of which deletes by retention "
            "for itself: a hold cannot keep its records. Set retention.ms and retention.bytes of "
            "the topic by the longest time that an export may be late",
        )


def partition_of(text: str, count: int) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or int(text) >= count:
        raise RequestInvalid(f"offsets: got partition {text[:20]!r}, wanted 0 to {count - 1}")
    return int(text)


async def delete_hold(call: Call) -> None:
    hold = described_hold(call)
    check_readable(call, [hold.topic])
    await asyncio.to_thread(call.broker.holds.delete, hold.name)


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
    get(
        "/holds",
        list_holds,
        HoldList,
        "The retention holds for exports.",
        prefix=PREFIX,
        rights=(),
        asks="only those with DESCRIBE on the topic",
    ),
    get(
        "/holds/{hold}",
        get_hold,
        HoldRow,
        "One retention hold.",
        prefix=PREFIX,
        rights=(),
        asks="DESCRIBE on its topic, else 404",
    ),
    put(
        "/holds/{hold}",
        put_hold,
        HoldRow,
        "Keep records at or after these offsets, up to a number of bytes beyond retention.",
        body=HoldBody,
        prefix=PREFIX,
        rights=(READ_SOME_TOPIC,),
        asks="READ on the topic",
    ),
    delete(
        "/holds/{hold}",
        delete_hold,
        None,
        "End a retention hold.",
        prefix=PREFIX,
        rights=(READ_SOME_TOPIC,),
        asks="READ on its topic",
    ),
]
