"""Repair of a partition over REST: reopen it, let readers skip damage, restore set-aside batches or
copy them to another topic. A dry run only describes the action; it is the default."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Literal, TypedDict, get_args

from typing_extensions import NotRequired

from appliance._log import Log
from appliance.admin.body_schema import row_of
from appliance.admin.guard import messages_hidden
from appliance.admin.produce import append, partition_for
from appliance.admin.rights import DESCRIBE_TOPIC
from appliance.admin.route import ADMIN, Call, get, post
from appliance.admin.topic_lookup import PartitionUnknown
from appliance.broker.broker import Broker
from appliance.data_dir.log_dirs import LogDirs
from appliance.data_dir.partition_names import Key, directory_name
from appliance.errors import RequestInvalid
from appliance.process.spoken import some
from appliance.repair import _hole_repair, partition_repair, set_aside
from appliance.repair.partition_repair import Importing, Span
from appliance.topics.topic import Topic, check_own

Action = Literal["reopen", "skip", "import", "copy"]
REOPEN, SKIP, IMPORT, COPY = get_args(Action)
FILES_MAX = 100  # that are looked into for an answer
COPIED_AT_ONCE = 1000  # records


class HoleRow(TypedDict):
    first_offset: int
    end_offset: int
    has_bytes: bool  # whether damaged bytes are in the range
    is_skipped: bool  # by readers


class AsideRow(TypedDict):
    file: str  # below the data directory
    size_bytes: int


class Repairable(TypedDict):
    topic: str
    partition: int
    state: str  # open, failed, not open
    why: str  # why it is not open, or refuses writes
    damaged: list[HoleRow]
    set_aside: list[AsideRow]


class Range(TypedDict):
    first_offset: int
    end_offset: int


class Repair(TypedDict):
    action: Action  # import, into the damaged range; copy, to another topic's end
    file: NotRequired[str]  # what to import or copy: one of `set_aside`
    into: NotRequired[str]  # the topic that a copy goes to
    dry_run: NotRequired[bool]  # true, unless told otherwise


class Repaired(TypedDict):
    dry_run: bool
    action: str
    text: str  # what was done, or would be done
    ranges: list[Range]  # ranges that readers skip, or that were restored
    batches: int
    records: int
    left_out: int  # whole batches of the file outside the missing ranges
    still_missing: list[Range]


def get_repair(call: Call) -> Repairable:
    key, log_dir = key_of(call), call.broker.log_dir
    log = log_dir.logs().get(key)
    folder = log_dir.path_of(*key).parent
    files = set_aside.files_of(folder, directory_name(*key))
    why = why_not_well(log_dir, key)
    return {
        "topic": key[0],
        "partition": key[1],
        "state": "not open" if log is None else "failed" if why else "open",
        "why": why,
        "damaged": [
            row_of(HoleRow, each, has_bytes=each.position >= 0)
            for each in (_hole_repair.holes(log) if log else [])
            if log is not None and each.end_offset > log.log_start_offset
        ],
        "set_aside": [aside_row(folder, each) for each in files[:FILES_MAX]],
    }


def aside_row(data_dir: Path, path: Path) -> AsideRow:
    return {"file": set_aside.shown(data_dir, path), "size_bytes": path.stat().st_size}


async def do_repair(call: Call) -> Repaired:
    action, is_dry = call.body["action"], call.body.get("dry_run", True)
    acts = {SKIP: skip, IMPORT: put_back, COPY: copy}
    if action == REOPEN:
        return await reopen(call, key_of(call), is_dry)
    return await acts[action](call, call.broker.log_dir.log(*key_of(call)), is_dry)


def key_of(call: Call) -> Key:
    """Includes unopened partitions, and partitions whose topic is not served because of another."""
    topic, text = call.path["topic"], call.path["partition"]
    key = topic, int(text) if text.isascii() and text.isdigit() and len(text) < 6 else -1
    if not call.broker.log_dir.holds(*key):
        raise PartitionUnknown(f"there is no partition {topic[:80]}-{text[:20]}")
    return key


def why_not_well(log_dir: LogDirs, key: Key) -> str:
    log = log_dir.logs().get(key)
    if log is None:
        return log_dir.unopened.get(key, "the partition is being opened")
    return f"{log.failed}" if log.failed else ""


async def reopen(call: Call, key: Key, is_dry: bool) -> Repaired:
    name, log_dir = directory_name(*key), call.broker.log_dir
    why = why_not_well(log_dir, key)
    if not why:
        raise partition_repair.NothingToRepair(f"{name} is open and accepts writes")
    text = f"{name} would be opened again, as after a crash ({why})"
    if not is_dry:
        await call.broker.reopening.reopen(*key)
        log = log_dir.log(*key)
        text = f"{name} is open again, with offsets {log.log_start_offset} to {log.log_end_offset}"
    return answer(REOPEN, is_dry, text, [])


async def skip(call: Call, log: Log, is_dry: bool) -> Repaired:
    plan = await asyncio.to_thread(partition_repair.plan_skip, log)
    if not is_dry:
        await asyncio.to_thread(partition_repair.skip, log, plan, call.broker.ledger, call.who)
    count = sum(each.count for each in plan.spans)
    verb = "would skip" if is_dry else "skip"
    text = f"readers {verb} {some(count, 'offset')} in {some(len(plan.spans), 'range')}"
    return answer(SKIP, is_dry, text, plan.spans)


async def put_back(call: Call, log: Log, is_dry: bool) -> Repaired:
    file, log_dir = wanted(call, "file"), call.broker.log_dir
    plan = await asyncio.to_thread(partition_repair.plan_import, log_dir, log, file)
    if not plan.batches:
        raise partition_repair.NothingToRepair(
            f"{file}: {log.name} misses none of its batches; `copy` writes them to another topic"
        )
    if not is_dry:
        await asyncio.to_thread(
            partition_repair.put_back, log_dir, log, plan, call.broker.ledger, call.who
        )
    verb = "would be restored" if is_dry else "restored"
    text = f"{some(plan.records, 'record')} {verb} at the same offsets"
    return answer(IMPORT, is_dry, text, plan.spans, plan)


async def copy(call: Call, log: Log, is_dry: bool) -> Repaired:
    """Copying exposes records to readers of the other topic."""
    if not call.identity.may_read:
        raise messages_hidden(call.identity)
    file, into = wanted(call, "file"), wanted(call, "into")
    check_own(into)
    target = call.broker.topics.named(into)
    plan = await asyncio.to_thread(partition_repair.plan_copy, call.broker.log_dir, log, file)
    if not is_dry:
        await copy_all(call.broker, target, log, plan)
    verb = "would be written" if is_dry else "written"
    text = (
        f"{some(plan.records, 'record')} {verb} to {target.name}, with those of aborted "
        "transactions; the header appliance.set.aside has the origin of each"
    )
    return answer(COPY, is_dry, text, [], plan)


async def copy_all(broker: Broker, target: Topic, log: Log, plan: Importing) -> None:
    records = partition_repair.records_of(plan, log)
    while part := await asyncio.to_thread(lambda: list(islice(records, COPIED_AT_ONCE))):
        await append(broker, target, [(partition_for(target, each, None), each) for each in part])


def wanted(call: Call, name: str) -> str:
    value = call.body.get(name)
    if not value:
        raise RequestInvalid(f"{name}: wanted with the action {call.body['action']}")
    return str(value)


def answer(
    action: str, is_dry: bool, text: str, spans: list[Span], plan: Importing | None = None
) -> Repaired:
    return {
        "dry_run": is_dry,
        "action": action,
        "text": text,
        "ranges": ranges(spans),
        "batches": len(plan.batches) if plan else 0,
        "records": plan.records if plan else 0,
        "left_out": plan.left_out if plan else 0,
        "still_missing": ranges(plan.still_missing if plan else []),
    }


def ranges(spans: Iterable[Span]) -> list[Range]:
    return [row_of(Range, each) for each in spans]


ROUTES = [
    get(
        "/topics/{topic}/partitions/{partition}/repair",
        get_repair,
        Repairable,
        "Damaged and missing ranges of a partition, and files set aside.",
        rights=(DESCRIBE_TOPIC,),
    ),
    post(
        "/topics/{topic}/partitions/{partition}/repair",
        do_repair,
        Repaired,
        "Reopen a partition, let readers skip damage, restore set-aside batches; a dry run unless "
        "dry_run is false.",
        body=Repair,
        role=ADMIN,
    ),
]
