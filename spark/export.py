"""`python -m appliance_spark.export`, also called `appliance export`: exports topics to Parquet,
each record once, and maintains the target."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from appliance.cli.remote.output import cell
from appliance.cli.remote.output import table as table_of
from appliance.process import event_log
from appliance.process.option_types import FiniteRange, Size
from appliance.process.spoken import size as in_bytes
from appliance.process.spoken import some
from appliance_spark import (
    export_compact,
    export_define,
    export_definition,
    export_files,
    export_iceberg,
    export_letters,
    export_list,
    export_manifest,
    export_outcome,
    export_run,
    export_schema_command,
    export_tables,
    export_tasks,
    export_verify,
    export_when,
)
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_command_options import (
    Commands,
    with_bounds,
    with_broker,
    with_delta,
    with_json,
    with_json_lines,
    with_loss,
    with_registry,
    with_roots,
    with_schema,
    with_spark,
    with_table,
    with_target,
)
from appliance_spark.export_layout import ExportFailed
from appliance_spark.export_scheduler import Scheduler, definitions_of
from appliance_spark.export_session import Sessions, progress
from appliance_spark.export_store_target import AnyTarget, target_of

FAILED, FOUND = 1, 10  # as `appliance health`: 10 means that something is wrong


@click.group(cls=Commands)
def export() -> None:
    """Topics to Parquet files, each record once."""


export.add_command(export_schema_command.schema)
export.add_command(export_define.define)
export.add_command(export_define.set_command)
export.add_command(export_define.show)
export.add_command(export_define.delete)


# Options of `run` that go with TOPICS alone.
OF_DEFINITION = frozenset((
    "target", "mode", "schema_file", "framing", "partition_by", "layout", "zone", "file_bytes",
    "first", "end", "isolation", "grace_s", "hold_bytes", "dead_letter_share", "table",
    "table_name", "catalog", "has_delta",
))  # fmt: skip


def now_ms() -> int:
    return round(time.time() * 1000)


@export.command()
@click.argument("topics", nargs=-1)
@click.option("--name", help="An export defined in the broker, which gets a report of the run.")
@click.option("--target", metavar="DIR|URL",
              help="A folder that all Spark workers see, or s3://BUCKET/FOLDER.")
@with_schema
@with_bounds
@with_loss
@click.option("--grace", "grace_s", default=3600, show_default=True,
              help="Seconds between the end of an hour and its _SUCCESS.")
@click.option("--hold-bytes", default=0, help="Bytes of unexported records that retention keeps.")
@click.option("--dead-letter-share", default=export_run.DEAD_LETTER_SHARE, show_default=True,
              type=FiniteRange(0, 1),
              help="A run with a larger share fails without a commit.")
@click.option("--accept-target", is_flag=True,
              help="Accept a folder that this export did not write before.")
@click.option("--new-target", is_flag=True,
              help="Start a target without these topics; for TOPICS and --file.")
@click.option("--table", type=click.Choice(["iceberg"]), help="Maintain a table, too.")
@with_table
@with_delta
@click.option("--due-ms", type=int, hidden=True)
@click.option("--missed", type=int, default=0, hidden=True)
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="A TOML file that defines the export --name, instead of the broker.")
@with_roots
@with_registry
@with_spark
@with_broker
@with_json
def run(as_json: bool, **given: Any) -> None:
    """Export new records of TOPICS, or of the export --name, once."""
    is_told = given["file"] is None  # the broker does not know exports of a file
    name = given["name"] if is_told else None
    if given["new_target"] and name is not None:
        raise click.UsageError("--new-target is for TOPICS and --file; the broker knows the "
                               "targets of its own exports: --accept-target")
    if given["accept_target"] and name is None:
        raise click.UsageError("--accept-target is for exports defined in the broker: "
                               "--new-target")
    _check_words(given)
    spark = Sessions(given["master"], given["conf"], given["registry"])
    with export_outcome.told(name, given["broker"]), progress(spark, "export") as say:
        job = _job(given)
        summary = export_run.run(job, spark, say)
    _say_summary(summary, job.target, as_json)


def _check_words(given: dict[str, Any]) -> None:
    if not (given["target"] if given["topics"] else given["name"]):
        raise click.UsageError("wanted TOPICS and --target, or --name of a defined export")
    if given["schema_file"] and given["mode"] == "raw":
        raise click.UsageError("--schema-file is for --schema json or avro, got raw")
    if not given["topics"]:
        _check_defined(given["name"])


def _check_defined(name: str) -> None:
    """What a definition decides is not left out in silence."""
    context = click.get_current_context()
    for each in context.command.params:
        is_given = context.get_parameter_source(str(each.name)) is ParameterSource.COMMANDLINE
        if is_given and each.name in OF_DEFINITION:
            raise click.UsageError(f"{each.opts[-1]} is of the definition: appliance export set "
                                   f"{name} …, or a change of its file")


def _job(given: dict[str, Any]) -> export_run.Job:
    broker: AdminPort = given["broker"]
    definition = (export_definition.of_command(given) if given["topics"]
                  else _defined(given["name"], given["file"], broker, given["root"]))
    job = export_definition.job_of(definition, broker)
    wanted = dataclasses.replace(
        job.wanted, due_ms=given["due_ms"], missed=given["missed"],
        accept_loss=job.wanted.accept_loss or given["accept_loss"],
        reason="schedule" if given["due_ms"] else "command",
    )
    return dataclasses.replace(job, wanted=wanted, retries=given["retries"],
                               registry=given["registry"],
                               accepts_target=given["accept_target"],
                               begins=given["new_target"], is_told=given["file"] is None)


def _defined(
    name: str, file: Path | None, broker: AdminPort, roots: tuple[str, ...]
) -> dict[str, Any]:
    if file is None:
        return export_definition.of_broker(broker.definition(name), roots)
    for each in definitions_of(file, broker):
        if each["name"] == name:
            return each
    raise ExportFailed(f"{file} has no export {name}")


def _say_summary(summary: dict[str, Any], target: AnyTarget, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"target": target.where, **summary}))
        return
    seconds = max((summary["ended_ms"] - summary["started_ms"]) / 1000, 0.001)
    click.echo(
        f"{some(summary['rows'], 'row')} and {some(summary['dead_letters'], 'dead letter')} in "
        f"{some(summary['files'], 'file')}, {in_bytes(summary['bytes'])}, {seconds:.1f} s: "
        f"{target.where}"
    )


@export.command("list")
@click.option("--target", metavar="DIR", help="The runs of this target, from its manifest.")
@with_json_lines
@with_broker
def list_command(target: str | None, as_json: bool, broker: AdminPort,
                 retries: int) -> None:
    """List the runs of a target, or the exports that are defined in the broker."""
    if target is None:
        rows = broker.definitions()
    else:
        rows = export_manifest.load_known(target_of(target))["runs"]
    if target is None and not as_json:
        click.echo(table_of(export_list.HEADS, map(export_list.cells, rows)))
        for trouble in (each for row in rows for each in export_list.troubles(row)):
            click.echo(cell(trouble))
        return
    for row in rows:
        if as_json:
            click.echo(json.dumps(row))
        else:
            click.echo(f"{row['id']}  {row['rows']} rows  {row['dead_letters']} dead letters  "
                       f"{row['files']} files  {row['reason']}")


@export.command()
@with_target
@click.option("--offline", is_flag=True, help="Check only files and manifest, not the log.")
@with_spark
@with_broker
@with_json
def verify(target: str, offline: bool, master: str, conf: tuple[str, ...],
           broker: AdminPort, retries: int, as_json: bool) -> None:
    """Count again and compare: Parquet, manifest, log. Exit code 10 if they differ."""
    spark = Sessions(master, conf)
    with progress(spark, "verify"):
        report = export_verify.verify(
            target_of(target), spark, None if offline else broker, retries
        )
    if as_json:
        click.echo(json.dumps(vars(report)))
    else:
        for problem in report.problems:
            click.echo(problem)
        click.echo(f"{report.files} files, {report.rows} rows; compared with the log: "
                   f"{report.rows_compared}, compacted away: {report.rows_compacted}, "
                   f"no longer in it: {report.rows_not_in_log}; "
                   f"{len(report.problems)} problems")
    if report.problems:
        raise click.exceptions.Exit(FOUND)


@export.command()
@click.argument("topics", nargs=-1)
@with_target
@click.option("--lost-files", is_flag=True,
              help="Export missing and changed files of this target again from the log.")
@with_schema
@with_bounds
@with_loss
@with_registry
@with_spark
@with_broker
@with_json
def backfill(lost_files: bool, as_json: bool, **given: Any) -> None:
    """Export a range into a new target; or lost files of a target again."""
    given |= {"name": None, "due_ms": None, "missed": 0, "grace_s": 3600,
              "hold_bytes": 0, "dead_letter_share": 1.0, "accept_target": False, "new_target": True,
              "table": None, "table_name": None, "catalog": (), "has_delta": False, "root": (),
              "file": None}
    target = target_of(given["target"])
    if lost_files:
        _repair(target, given, as_json)
        return
    if target.exists():
        raise ExportFailed(f"{target.where} has exports already: a backfill needs a new target")
    _check_words(given)
    spark = Sessions(given["master"], given["conf"], given["registry"])
    with progress(spark, "backfill") as say:
        job = _job(given)
        job = dataclasses.replace(job, wanted=dataclasses.replace(job.wanted, reason="backfill"))
        summary = export_run.run(job, spark, say)
    _say_summary(summary, target, as_json)


def _repair(target: AnyTarget, given: dict[str, Any], as_json: bool) -> None:
    spark = Sessions(given["master"], given["conf"], given["registry"])
    broker: AdminPort = given["broker"]

    def reading() -> export_tasks.Reading:
        return export_run.reading_of(
            broker, given["retries"], given["isolation"], given["registry"],
            passes_holes=True)  # a range with other records than before is refused

    with progress(spark, "repair") as say:
        made = export_compact.repair(target, spark, reading, now_ms(), say)
    if as_json:
        click.echo(json.dumps({"made_again": [str(path) for path in made]}))
        return
    for path in made:
        click.echo(f"exported again: {path}")
    click.echo(f"{len(made)} files exported again")


@export.command("dead-letters")
@click.argument("topics", nargs=-1)
@with_target
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True)
@with_json_lines
def dead_letters(topics: tuple[str, ...], target: str, limit: int, as_json: bool) -> None:
    """Show the records that did not parse, with the reasons, from a target's files.

    `… dead-letters TOPIC --json | appliance produce TOPIC --json-lines` writes them again."""
    rows = export_letters.read(target_of(target), topics, limit)
    if as_json:
        for row in rows:
            click.echo(export_letters.as_json(row))
        return
    click.echo(table_of(export_letters.HEADS, map(export_letters.as_cells, rows)))


@export.command()
@click.argument("topics", nargs=-1)
@with_target
@click.option("--dead-letters", is_flag=True, help="The files of records that did not parse.")
@click.option("--sql", is_flag=True, help="Views for DuckDB, one for each topic.")
@with_json_lines
def files(topics: tuple[str, ...], target: str, dead_letters: bool, sql: bool,
          as_json: bool) -> None:
    """List the files that count: of a store, whose listing also has others, and of a folder."""
    if sql and as_json:
        raise click.UsageError("--sql does not go with --json")
    found = list(export_files.rows(target_of(target), topics, dead_letters))
    if sql:
        click.echo(export_files.views(found))
        return
    for row in found:
        click.echo(json.dumps(row) if as_json else row["file"])


@export.command()
@with_target
@click.option("--target-bytes", type=Size(1), metavar="SIZE",
              help="Size of merged files; default: --file-bytes of the last run, or "
                   f"{export_compact.TARGET_BYTES}.")
@click.option("--grace", "grace_s", default=export_compact.GRACE_MS // 1000, show_default=True,
              help="Seconds until a replaced file is deleted.")
@with_spark
@with_json
def compact(target: str, target_bytes: int | None, grace_s: int, master: str,
            conf: tuple[str, ...], as_json: bool) -> None:
    """Merge small files of a folder, and delete replaced files after the grace."""
    spark = Sessions(master, conf)
    with progress(spark, "compact") as say:
        done = export_compact.compact(
            target_of(target), spark, now_ms(), target_bytes, grace_s * 1000, say)
    if as_json:
        click.echo(json.dumps(done))
        return
    click.echo(f"{done['merged']} files merged into {done['into']}; {done['deleted']} deleted")


@export.command()
@with_target
@with_table
@with_delta
@click.option("--again", is_flag=True, help="Drop the tables first; the Parquet files stay.")
@with_json
def table(target: str, table_name: str | None, catalog: tuple[str, ...], again: bool,
          has_delta: bool, as_json: bool) -> None:
    """Create an Iceberg table, or a Delta table, for a target; each run updates it."""
    into, done = target_of(target), list[str]()
    export_manifest.load_known(into)
    with into.locked():
        manifest = export_manifest.load(into)
        given = manifest.get("table")
        is_only_delta = has_delta or (again and manifest.get("delta"))
        if table_name or catalog or (given is None and not is_only_delta):
            given = export_iceberg.settings(table_name, export_definition.catalog_of(catalog))
        manifest = export_tables.keep(into, manifest, given, has_delta)
        if again:
            export_tables.drop(into, manifest)
        export_tables.follow(into, manifest, done.append if as_json else click.echo)
    if as_json:
        click.echo(json.dumps({"target": into.where, "done": done}))


@export.command()
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Exports as TOML; default: those defined in the broker.")
@with_roots
@with_spark
@with_broker
@with_json_lines
def schedule(file: Path | None, root: tuple[str, ...], master: str, conf: tuple[str, ...],
             broker: AdminPort, retries: int, as_json: bool) -> None:
    """Run each export when it is due, until SIGTERM."""
    event_log.to_stderr()
    more = [word for pair in conf for word in ("--conf", pair)]
    more += ["--file", str(file)] if file else []
    more += [word for each in root for word in ("--root", each)]
    more += ["--master", master, "--admin", broker.address, "--retries", str(retries)]
    if broker.token:
        # not on a command line, which others can read
        os.environ["APPLIANCE_TOKEN"] = broker.token
    if broker.ca_file:
        os.environ["APPLIANCE_CA_FILE"] = str(broker.ca_file.absolute())

    def command(name: str) -> list[str]:
        return [sys.executable, "-m", "appliance_spark.export", "run", f"--name={name}", *more]

    log = event_log.named("schedule")
    say = _say_as_json if as_json else log.info
    scheduler = Scheduler(lambda: definitions_of(file, broker), command, say)
    if file is None:
        scheduler.report = broker.next_run
        scheduler.outcomes = export_outcome.Outcomes(broker, say)
        scheduler.allowed = partial(export_definition.of_broker, roots=root)
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    scheduler.run(over.is_set)


@export.command()
@click.argument("words", nargs=-1)
@click.option("--timezone", metavar="ZONE", help="Of words without one; default: UTC.")
@click.option("--count", type=click.IntRange(1, 100), default=5, show_default=True,
              help="How many runs are shown.")
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Exports as TOML; default: those defined in the broker.")
@with_broker
@with_json
def when(words: tuple[str, ...], timezone: str | None, count: int, file: Path | None,
         broker: AdminPort, retries: int, as_json: bool) -> None:
    """Show the next runs of a schedule such as `daily 02:00 Europe/Berlin`, or of all exports."""
    if words:
        row = export_when.preview(" ".join(words), timezone, time.time(), count)
        shown = f"cron: {row['cron']} in {row['timezone']}"
        click.echo(json.dumps(row) if as_json else "\n".join([shown, *export_when.lines(row)]))
        return
    rows = export_when.of_definitions(definitions_of(file, broker), time.time(), count)
    if as_json:
        click.echo(json.dumps({"exports": rows}))
        return
    click.echo(table_of(("EXPORT", "SCHEDULE", "NEXT RUN"), map(export_when.cells, rows)))


def _say_as_json(text: str) -> None:
    click.echo(json.dumps({"at_ms": now_ms(), "text": text}))


if __name__ == "__main__":
    export()
