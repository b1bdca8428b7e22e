"""A definition of an export: from the broker, a TOML file, or the options of a command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from appliance.export import export_options
from appliance.export.store_urls import is_url
from appliance.process.patterns import PatternInvalid, compiled
from appliance_spark import export_iceberg
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_layout import ExportFailed, Target, text_of
from appliance_spark.export_plan import SPLIT_BYTES, Wanted
from appliance_spark.export_run import DEAD_LETTER_SHARE, GRACE_MS, Job, with_schema
from appliance_spark.export_store_target import AnyTarget, checked_url, target_of

Definition = dict[str, Any]

# `options` of a definition, with their defaults.
OPTIONS: dict[str, Any] = {
    "from": "earliest", "to": "latest", "isolation": "read_committed", "accept_loss": False,
    "grace_seconds": GRACE_MS // 1000, "hold_bytes": 0, "split_bytes": SPLIT_BYTES,
    "dead_letter_share": DEAD_LETTER_SHARE, "schema_json": None, "framing": "confluent",
    "table": None, "table_name": None, "catalog": None, "delta": False,
    "layout": None, "zone": None, "file_bytes": None,
}


def of_command(given: dict[str, Any]) -> Definition:
    file = given["schema_file"]
    return {
        "name": None,
        "topics": list(given["topics"]),
        "target": given["target"],
        "schema": given["mode"],
        "partition_by": given["partition_by"],
        "options": {
            "from": given["first"], "to": given["end"], "isolation": given["isolation"],
            "grace_seconds": given["grace_s"], "hold_bytes": given["hold_bytes"],
            "framing": given["framing"], "dead_letter_share": given["dead_letter_share"],
            "schema_json": text_of(file) if file else None,
            "table": given["table"], "table_name": given["table_name"],
            "catalog": catalog_of(given["catalog"]), "delta": given["has_delta"],
            "layout": given["layout"], "zone": given["zone"], "file_bytes": given["file_bytes"],
        },
    }


def of_broker(definition: Definition, roots: tuple[str, ...]) -> Definition:
    """For a definition that others may have stored: allows only the listed options, and only
    targets in this scheduler's folders."""
    try:
        export_options.check(definition)
    except export_options.DefinitionWrong as error:
        raise ExportFailed(f"the export {definition.get('name')}: {error}") from error
    target = target_of(definition["target"])
    if not any(_is_below(target, root) for root in roots):
        given = ", ".join(roots) or "none was given. Add --root DIR, or set APPLIANCE_EXPORT_ROOTS"
        real = ""
        if isinstance(target, Target) and str(target.root.resolve()) != target.where:
            real = f", which is {target.root.resolve()},"
        raise ExportFailed(f"the export {definition.get('name')}: its target {target.where}{real} "
                           f"is in none of the folders for exports (--root): {given}")
    return definition


def _is_below(target: AnyTarget, root: str) -> bool:
    if isinstance(target, Target):
        return not is_url(root) and target.root.resolve().is_relative_to(Path(root).resolve())
    return is_url(root) and target.where.startswith(checked_url(f"{root}/_").removesuffix("_"))


def job_of(definition: Definition, broker: AdminPort) -> Job:
    given = {name: value for name, value in (definition.get("options") or {}).items()
             if value is not None}
    if unknown := sorted(set(given) - set(OPTIONS)):
        raise ExportFailed(f"options {unknown} are unknown; known are {sorted(OPTIONS)}")
    options = {**OPTIONS, **given}
    wanted = Wanted(
        topics=tuple(topics_of(definition, broker)),
        first=options["from"],
        end=options["to"],
        isolation=options["isolation"],
        partition_by=definition.get("partition_by") or "timestamp",
        accept_loss=options["accept_loss"],
        split_bytes=options["split_bytes"],
        layout=options["layout"],
        zone=options["zone"],
        file_bytes=options["file_bytes"],
    )
    mode = definition.get("schema") or "raw"
    return Job(
        target=target_of(definition["target"]),
        broker=broker,
        wanted=with_schema(wanted, mode, options["schema_json"], options["framing"]),
        name=definition.get("name"),
        grace_ms=options["grace_seconds"] * 1000,
        hold_bytes=options["hold_bytes"],
        dead_letter_share=options["dead_letter_share"],
        table=table_of(options),
        has_delta=options["delta"],
    )


def table_of(options: dict[str, Any]) -> dict[str, Any] | None:
    if options["table"] not in (None, "iceberg"):
        raise ExportFailed(f"got the table {options['table']!r}, wanted \"iceberg\"")
    if options["table"] is None and (options["table_name"] or options["catalog"]):
        raise ExportFailed("a table's name or catalog without table = \"iceberg\"")
    if options["table"] is None:
        return None
    catalog = options["catalog"]
    named = {"name": catalog} if isinstance(catalog, str) else catalog
    return export_iceberg.settings(options["table_name"], named)


def catalog_of(pairs: tuple[str, ...]) -> dict[str, str]:
    if bad := [pair for pair in pairs if "=" not in pair]:
        raise ExportFailed(f"got the catalog {bad}, wanted KEY=VALUE, such as uri=…")
    return dict(pair.split("=", 1) for pair in pairs)


def topics_of(definition: Definition, broker: AdminPort) -> list[str]:
    """The names of topics, and the present matches of a pattern."""
    names = list(definition.get("topics") or [])
    if definition.get("pattern"):
        try:
            matches = compiled(definition["pattern"]).fullmatch
        except PatternInvalid as error:
            raise ExportFailed(f"pattern: {error}") from error
        names += sorted(each for each in broker.topics() if matches(each) and each not in names)
        for name, why in broker.unserved().items():
            if matches(name):  # without it, its hours would look complete
                raise ExportFailed(f"topic {name} is not served just now: {why}")
    if not names:
        raise ExportFailed(f"the export {definition.get('name')} has no topic now")
    return names
