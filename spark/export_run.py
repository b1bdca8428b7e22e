"""One run: plan, tasks, balance, rename, commit. A kill at any point leaves the target in its old
state or in its new one; the next run sweeps the rest.

    1 lock, sweep         2 plan.json: offsets      3 tasks write into staging, synced
    4 balance             5 files renamed           6 manifest renamed: this is the commit
                            (in a store: nothing)     (in a store: a new object)
    7 _SUCCESS, the tables, staging removed, report to the broker; all can be repeated
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from appliance_spark import (
    export_balance,
    export_history,
    export_infer,
    export_json,
    export_manifest,
    export_outcome,
    export_plan,
    export_publish,
    export_registry,
    export_schema,
    export_tables,
    export_tasks,
)
from appliance_spark.export_broker import AdminPort, BrokerRefused
from appliance_spark.export_hours import check_way
from appliance_spark.export_layout import ExportFailed
from appliance_spark.export_plan import Plan, Wanted
from appliance_spark.export_store_target import AnyTarget
from appliance_spark.export_write import Writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRACE_MS = 3_600_000  # how long an ended hour waits for late records before its _SUCCESS
DEAD_LETTER_SHARE = 0.5  # of the records of a run: with more the schema must be wrong
RETRIES = 20  # of a worker without the broker: half a minute and more, for a restart

Say = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """A run of one export: topics, range, target."""

    target: AnyTarget
    broker: AdminPort
    wanted: Wanted
    name: str | None = None  # of the definition in the broker, which gets the report
    grace_ms: int = GRACE_MS
    retries: int = RETRIES
    hold_bytes: int = 0  # bytes of unexported records that retention keeps; 0: none
    dead_letter_share: float = DEAD_LETTER_SHARE  # a run with a larger share fails
    is_told: bool = True  # whether the broker gets a report; it does not know exports of a file
    accepts_target: bool = False  # accept another target than the broker's
    begins: bool = False  # start topics that this target does not have
    registry: export_registry.Place | None = None  # for --schema registry
    table: dict[str, Any] | None = None  # an Iceberg table; None: the target's
    has_delta: bool = False  # a Delta table, too; False: as the target
    now_ms: Callable[[], int] = field(default=lambda: round(time.time() * 1000))

    @property
    def reading(self) -> export_tasks.Reading:
        return reading_of(self.broker, self.retries, self.wanted.isolation, self.registry,
                          self.wanted.accept_loss)


def reading_of(
    broker: AdminPort, retries: int, isolation: str, registry: export_registry.Place | None = None,
    passes_holes: bool = False,
) -> export_tasks.Reading:
    return export_tasks.Reading(
        broker.bulk_url(), broker.token, retries, isolation, broker.ca, registry, passes_holes)


def run(job: Job, spark: Callable[[], SparkSession], say: Say) -> dict[str, Any]:
    """Returns the run's summary in the manifest. Calls `spark` if there is work.

    The plan of a stopped run is done first, then everything since."""
    check_way(job.wanted.partition_by)
    if (job.wanted.schema or {}).get("mode") == "registry" and job.registry is None:
        raise ExportFailed(export_registry.WANTED)
    check_target(job)
    with job.target.locked():
        manifest = export_tables.keep(
            job.target, opened(job.target), job.table, job.has_delta)
        swept = export_publish.sweep(job.target, manifest)
        if swept:
            say(f"swept {swept} files of a stopped run")
        plan, is_old = _plan(job, manifest)
        summary = _reported(job, manifest, plan, spark, say)
        if is_old:
            say(f"stopped run {plan['id']} is completed: {summary['rows']} rows")
            manifest = export_manifest.load(job.target)
            plan, _ = _plan(job, manifest)
            summary = _together(summary, _reported(job, manifest, plan, spark, say))
        return summary


def _reported(
    job: Job, manifest: dict[str, Any], plan: Plan, spark: Callable[[], SparkSession], say: Say
) -> dict[str, Any]:
    _tell(job, say, _started(plan))
    try:
        summary = _carried_out(job, manifest, plan, spark, say)
    except BaseException as error:
        letters = error.letters if isinstance(error, export_balance.TooManyDead) else []
        _tell(job, say, {**_started(plan), "state": "failed", "ended_ms": job.now_ms(),
                         "error": str(error)[:2000] or repr(error), "letters": letters})
        export_outcome.note_told(error)
        raise
    _tell(job, say, {**_started(plan), **summary, "state": "succeeded"})
    _hold(job, plan, say, "to")
    return summary


def _together(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    sums = {name: one[name] + other[name] for name in ("files", "bytes", "rows", "dead_letters")}
    return {**other, **sums, "started_ms": one["started_ms"]}


def _carried_out(
    job: Job, manifest: dict[str, Any], plan: Plan, spark: Callable[[], SparkSession], say: Say
) -> dict[str, Any]:
    _hold(job, plan, say, "from")
    staging = job.target.staging_of(plan["id"])
    done: list[dict[str, Any]] = []
    try:
        if plan["splits"]:
            session = spark()
            _pin_schemas(job, manifest, plan, session, say)
            writing = Writing(plan["partition_by"], plan.get("file_bytes"))
            work = partial(export_tasks.write, job.reading, staging, writing)
            done = export_tasks.spread(session, _tasks(plan), work)
        summary = commit(job, manifest, plan, done)
        for part in summary["partitions"]:
            if "damaged" in part:
                say(f"{part['topic']} partition {part['partition']}: exported without offsets "
                    f"{part['damaged']}, which are damaged or gone")
        export_tables.follow(job.target, export_manifest.load(job.target), say)
    finally:
        export_tasks.clear(staging)
    return summary


# Before the run

def check_target(job: Job) -> None:
    """Checks that the folder is this export's target: an empty folder, because a file system is not
    mounted, would get all records again."""
    if job.name is None or not job.is_told:
        _check_begun(job)
    elif not job.accepts_target:
        _check_known(job)
    if not job.target.exists():  # none is made for a topic, or of a broker, that is none
        _check_topics(job)


def _check_topics(job: Job) -> None:
    for topic in sorted(job.wanted.topics):
        job.broker.check_topic(topic)


def _check_begun(job: Job) -> None:
    """Only the target knows its exports, so a person confirms a new one once."""
    if not job.target.exists():
        export_manifest.check_bare(job.target)
    manifest = export_manifest.load(job.target)
    wanted, there = set(job.wanted.topics), set(manifest["topics"])
    if wanted & there:
        if job.begins:
            raise ExportFailed(f"{job.target.where} has exported {_some(wanted & there)} already: "
                               "run it without --new-target")
        return
    if job.begins or (manifest["id"] is not None and not there):  # its first run was stopped
        return
    _check_topics(job)  # a misspelt topic is not new
    has = f"exports of {_some(there)}" if there else "no export"
    raise ExportFailed(
        f"{job.target.where} has {has}, wanted one of {_some(wanted)}. If there was one: is its "
        "file system mounted? If it is to begin here: the same once with --new-target")


def _some(topics: set[str]) -> str:
    return ", ".join(sorted(topics)[:5]) + (", …" if len(topics) > 5 else "")


def _check_known(job: Job) -> None:
    assert job.name is not None
    last = job.broker.definition(job.name)["status"]["last_success"] or {}
    known = (last.get("plan") or {}).get("target")
    if not known or known["path"] != job.target.where:  # a new target, by a new definition
        return
    found = export_manifest.load(job.target)
    told = f"run {last['id']} left it as {known['id']} at commit {known['sequence']}"
    if found["id"] is None or found["id"] != known["id"] or found["sequence"] < known["sequence"]:
        here = f"{found['id']} at commit {found['sequence']}" if found["id"] else "no export"
        raise ExportFailed(
            f"{job.target.where} is not the target that export {job.name} has written: {told}, and "
            f"there is {here} now. Is its file system mounted? If it is to go on with this one: "
            f"appliance export run --name {job.name} --accept-target")


def opened(target: AnyTarget) -> dict[str, Any]:
    """The manifest, which a new target gets at once: a target without one has lost it."""
    if not target.exists():
        export_manifest.check_bare(target)
        export_manifest.save(target, export_manifest.empty())
    manifest = export_manifest.load(target)
    if manifest["id"] is None:
        manifest["id"] = uuid.uuid4().hex
        export_manifest.save(target, manifest)
    return manifest


def _plan(job: Job, manifest: dict[str, Any]) -> tuple[Plan, bool]:
    """The plan of a stopped run, if a new plan would be the same, otherwise the new plan, which
    includes the stopped one's range."""
    plan = export_plan.make(job.broker, job.wanted, manifest, job.now_ms())
    for topic in plan["topics"]:
        export_schema.check_change(manifest, topic["topic"], topic["schema"])
    for old in job.target.plans(plan["sequence"]):
        if export_plan.is_same(old, plan):
            export_plan.check_splits(old)
            for topic in old["topics"]:
                export_history.note_anew(job.broker, topic)
            return {**old, "due_ms": None, "missed": 0, "reason": plan["reason"]}, True
        job.target.forget_plan(old["id"])
    export_plan.check_splits(plan)
    job.target.store_plan(plan)
    job.target.forget_plans(export_manifest.RUNS_KEPT)
    return plan, False


def _tasks(plan: Plan) -> list[dict[str, Any]]:
    """Each names the topic's id: a topic may be created again between plan and tasks."""
    of = {topic["topic"]: {"layout": None,  # of plans of older versions
                           **{name: topic[name] for name in ("schema", "topic_id", "layout")
                              if name in topic}}
          for topic in plan["topics"]}
    return [{**split, **of[split["topic"]]} for split in plan["splits"]]


def _pin_schemas(
    job: Job, manifest: dict[str, Any], plan: Plan, spark: SparkSession, say: Say
) -> None:
    """Before the first file: the schema from a person, or from a sample of this run."""
    known = {t["topic"]: manifest["topics"].get(t["topic"], {}).get("schema", {})
             for t in plan["topics"]}
    open_topics = [t for t in plan["topics"]
                   if t["schema"]["mode"] in export_json.MODES and "type" not in t["schema"]]
    if not open_topics:
        return
    for topic in open_topics:
        if known[topic["topic"]].get("by") == export_schema.PERSON:
            topic["schema"] = known[topic["topic"]]
    names = {topic["topic"] for topic in open_topics if "type" not in topic["schema"]}
    tasks = export_schema.tasks_of([task for task in _tasks(plan) if task["topic"] in names])
    tallies = export_tasks.spread(spark, tasks, partial(export_tasks.infer, job.reading))
    for topic in open_topics:
        if topic["topic"] in names:
            mine = [tally for task, tally in zip(tasks, tallies, strict=True)
                    if task["topic"] == topic["topic"]]
            schema, topic["schema_changes"], notes = export_schema.settled(
                known[topic["topic"]].get("type"), mine)
            topic["schema"] = {**topic["schema"], **schema}
            for note in notes:
                say(f"{topic['topic']}: {note}")
    job.target.store_plan(plan)


# After the run

def commit(
    job: Job, manifest: dict[str, Any], plan: Plan, done: list[dict[str, Any]]
) -> dict[str, Any]:
    partitions = export_balance.balance(plan, done)
    if not job.wanted.accept_loss:
        export_balance.check_compacted(partitions, job.broker.is_compacted)
    letters = export_balance.letters_of(plan, done)
    export_balance.check_dead_letters(partitions, job.dead_letter_share, letters)
    files = [file for split in done for file in split["files"]]
    new = export_manifest.committed(
        manifest, plan, [export_publish.entry(file) for file in files], partitions, job.now_ms()
    )
    finished = export_manifest.finished_hours(new, plan, job.grace_ms)
    new["hours"] |= dict.fromkeys(finished, plan["sequence"])
    job.target.delete(export_publish.mark_of(folder)
                      for folder in {file["folder"] for file in files} & manifest["hours"].keys())
    export_publish.place(job.target, files)
    export_manifest.save(job.target, new)
    export_publish.mark(job.target, finished, new)
    return {**new["runs"][-1], "letters": letters}


# Reports to the broker

def _started(plan: Plan) -> dict[str, Any]:
    ranges = [
        {"topic": topic["topic"], "partition": part["partition"], "from": part["from"],
         "to": part["to"], "rows": 0, "dead_letters": 0, "missing": 0}
        for topic in plan["topics"] for part in topic["partitions"]
    ]
    return {"id": plan["id"], "state": "running", "started_ms": plan["created_ms"],
            "plan": {"reason": plan["reason"], "splits": len(plan["splits"]),
                     "due_ms": plan["due_ms"], "missed": plan.get("missed", 0)},
            "partitions": ranges}


REPORTED = ("id", "state", "started_ms", "ended_ms", "plan", "partitions", "files", "bytes",
            "error", "letters")


def _tell(job: Job, say: Say, row: dict[str, Any]) -> None:
    """The manifest is the truth, so a failed report does not fail the run."""
    if job.name is None or not job.is_told:
        return
    kept = {name: row[name] for name in REPORTED if name in row}
    if not kept.get("letters"):
        kept.pop("letters", None)
    manifest = export_manifest.load(job.target)
    kept["plan"] = {**kept["plan"], "target": {
        "id": manifest["id"], "path": job.target.where, "sequence": manifest["sequence"]}}
    named = ("topic", "partition", "from", "to", "rows", "dead_letters", "missing")
    kept["partitions"] = [{name: part[name] for name in named} for part in row["partitions"]]
    try:
        _send(job.broker, job.name, kept)
    except ExportFailed as error:
        say(f"the broker did not take the report of run {row['id']}: {error}")


def _send(broker: AdminPort, name: str, row: dict[str, Any]) -> None:
    """A broker of an older version refuses the letters: it gets the report without them."""
    try:
        broker.report(name, row)
    except BrokerRefused as error:
        if error.status != HTTPStatus.BAD_REQUEST or "letters" not in row:
            raise
        broker.report(name, {key: value for key, value in row.items() if key != "letters"})


def _hold(job: Job, plan: Plan, say: Say, side: str) -> None:
    """Makes retention keep unexported records, up to a number of bytes."""
    if not job.hold_bytes:
        return
    for topic in plan["topics"]:
        offsets = {part["partition"]: part[side] for part in topic["partitions"]}
        name = f"{job.name or 'export'}-{topic['topic']}"
        try:
            job.broker.hold(name, topic["topic"], offsets, job.hold_bytes)
        except ExportFailed as error:
            say(f"retention does not wait for {topic['topic']}: {error}")


def given_schema(mode: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ExportFailed(f"the schema is not JSON: {error}") from error
    kind = export_json.checked(found) if mode in export_json.MODES else found
    return {"type": kind, "given": kind}


def inferred(
    manifest: dict[str, Any], topic: str, broker: AdminPort, retries: int,
    registry: export_registry.Place | None = None,
) -> dict[str, Any]:
    """Infers the schema again from the present log; here, because a sample is little work."""
    of = export_schema.known(manifest, topic)
    tasks = [{**task, "topic_id": of["topic_id"],  # not another one of its name
              "schema": {"mode": of["schema"]["mode"]}}
             for task in export_schema.tasks_of(whole_log(broker, topic, of["isolation"]))]
    reading = reading_of(broker, retries, of["isolation"], registry, passes_holes=True)
    tallies = [export_tasks.infer(reading, task) for task in tasks]
    found = export_schema.settled(None, tallies)[0]
    if not found["sampled"]:
        raise ExportFailed(f"topic {topic} has no record now of which a schema could be inferred: "
                           "set one with --set FILE, or try again when there are some")
    return found


def whole_log(broker: AdminPort, topic: str, isolation: str) -> list[dict[str, Any]]:
    """The tasks that read it, for a sample of them."""
    plan = broker.plan(topic, "earliest", "latest", export_infer.SAMPLE_PIECES, isolation)
    return [{"topic": topic, "topic_id": plan["topic_id"], "partition": each["partition"],
             "from": each["start"], "to": each["end"]}
            for each in plan["splits"] if each["start"] < each["end"]]


def with_schema(wanted: Wanted, mode: str, text: str | None, framing: str) -> Wanted:
    """`text` is the content of a schema file; JSON without one is inferred and pinned."""
    schema: dict[str, Any] = {"mode": mode}
    if text is not None:
        schema |= given_schema(mode, text)
    if mode == "avro":
        if text is None:
            raise ExportFailed("Avro needs its schema: --schema-file")
        schema["framing"] = framing
    return replace(wanted, schema=schema)
