"""The schema of a topic in a target: inferred, shown, set by a person, inferred again.

The types of a topic's JSON are chosen once and kept in the manifest, so a wrong choice would stay.
A new schema corrects it from the next run on:

    added, left out   a new field, or one that goes into `_rest` from now on: always allowed
    another type      refused while files have the old type: readers such as Spark need one type per
                      column. A person may keep these files; a table cannot follow

Existing files stay as they are. Each file has its schema version, for `verify` and repair.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from appliance_spark import export_infer, export_json, export_manifest
from appliance_spark.export_layout import ExportFailed

Manifest = dict[str, Any]
PERSON, INFERENCE = "person", "inference"
WAY = ("Export all of it with the new one into a new target (appliance export backfill {topic} "
       "--from earliest --to latest --schema json --schema-file FILE --target NEW), or let the old "
       "files stay as they are: appliance export schema {topic} --set FILE --keep-old-files")


def known(manifest: Manifest, topic: str) -> dict[str, Any]:
    """The topic's entry in the target."""
    if topic not in manifest["topics"]:
        raise ExportFailed(f"the target has no topic {topic}, it has {sorted(manifest['topics'])}")
    found: dict[str, Any] = manifest["topics"][topic]
    return found


def shown(manifest: Manifest, topic: str) -> dict[str, Any]:
    of = known(manifest, topic)
    schema, versions = of["schema"], Counter[int]()
    rows = Counter[int]()
    for file in _files(manifest, topic):
        version = file.get("schema_version", 0)
        versions[version] += 1
        rows[version] += file["rows"]
    return {
        "topic": topic, "mode": schema["mode"], "type": schema.get("type"),
        "decided_by": _decided_by(schema) if "type" in schema else None,
        "sampled": schema.get("sampled"),
        "version": of.get("schema_version", 0),
        "files": [{"version": each, "files": versions[each], "rows": rows[each],
                   "type": export_manifest.schema_of(of, each).get("type")}
                  for each in sorted(versions)],
        "changes": of["schema_changes"],
    }


def as_text(shown: dict[str, Any]) -> str:
    if shown["type"] is None:
        return f"{shown['topic']}: {shown['mode']}, no schema"
    sample = "" if shown["sampled"] is None else f", by {shown['sampled']} records last time"
    by = {PERSON: "a person, and nothing is inferred any more", "schema file": "a schema file",
          INFERENCE: f"inference{sample}"}[shown["decided_by"]]
    lines = [json.dumps(shown["type"]), f"{shown['topic']}: {shown['mode']}, decided by {by}"]
    lines += [f"{each['files']} files with {each['rows']} rows have "
              f"{'this schema' if each['version'] == shown['version'] else 'an older one: '}"
              f"{'' if each['version'] == shown['version'] else json.dumps(each['type'])}"
              for each in shown["files"]]
    return "\n".join(lines)


def _decided_by(schema: dict[str, Any]) -> str:
    if "given" in schema:
        return "schema file"
    return str(schema.get("by", INFERENCE))


def _files(manifest: Manifest, topic: str) -> list[dict[str, Any]]:
    return [file for file in manifest["files"]
            if file["topic"] == topic and not file["is_dead_letter"]]


def put(
    manifest: Manifest, topic: str, found: dict[str, Any], keeps_files: bool
) -> Manifest:
    """A commit of its own: an earlier plan of a stopped run does not apply any more."""
    of = known(manifest, topic)
    if of["schema"]["mode"] not in export_json.MODES:
        raise ExportFailed(f"topic {topic} is exported as {of['schema']['mode']}: only JSON has "
                           "a schema that can be set here")
    if "given" in of["schema"] and (found.get("by") == INFERENCE or not keeps_files):
        raise ExportFailed(
            f"topic {topic}: its schema is that of a schema file, which the next run would set "
            "again: give the export another file (--schema-file), or with it: --set FILE "
            "--keep-old-files")
    schema = {"mode": of["schema"]["mode"], "by": PERSON, **found}
    schema.pop("given", None)
    check_change(manifest, topic, schema, keeps_files)
    new = export_manifest.next_commit(manifest)
    of = new["topics"][topic]
    of["schema_changes"].append({"field": "", "change": f"set by {schema['by']}",
                                 "type": export_json.text_of(schema["type"]),
                                 "commit": new["sequence"]})
    export_manifest.change_schema(of, schema)
    return new


def check_change(
    manifest: Manifest, topic: str, schema: dict[str, Any], keeps_files: bool = False
) -> None:
    """Whether files with this schema may be added to the existing files."""
    of, files = manifest["topics"].get(topic), _files(manifest, topic)
    if of is None or not files:
        return
    old = of["schema"]
    if old["mode"] != schema["mode"]:
        raise ExportFailed(f"topic {topic}: {len(files)} files of this target hold it as "
                           f"{old['mode']}, wanted {schema['mode']}: add --schema {old['mode']}; "
                           "another one wants a new target")
    if schema["mode"] not in export_json.MODES or "type" not in old or "type" not in schema:
        return
    others = _other_types(of, files, schema["type"])
    if not others or (keeps_files and not manifest.get("table")):
        return
    rows = sum(file["rows"] for file in files)
    told = (f"topic {topic}: {len(files)} files with {rows} rows have other types: "
            f"{'; '.join(others[:5])}{' and more' if len(others) > 5 else ''}. ")
    if keeps_files:
        raise ExportFailed(f"{told}The Iceberg table of this target cannot follow: "
                           "a column of it has one type. Export into a new target")
    raise ExportFailed(told + WAY.format(topic=topic))


def _other_types(of: dict[str, Any], files: list[dict[str, Any]], wanted: Any) -> list[str]:
    """Fields with another type in some file, also if a later schema dropped them. Differences
    between the present schema and those files were accepted when it was set."""
    now = of["schema"]["type"]
    found = export_json.differing(now, wanted)
    for version in {file.get("schema_version", 0) for file in files}:
        kind = export_manifest.schema_of(of, version).get("type", now)
        accepted = export_json.differing(kind, now).keys()
        others = export_json.differing(kind, wanted)
        found |= {path: others[path] for path in others.keys() - accepted}
    return [found[path] for path in sorted(found)]


# Sampling

def tasks_of(
    tasks: list[dict[str, Any]], records: int = export_infer.SAMPLE_RECORDS,
    size: int = export_infer.SAMPLE_BYTES,
) -> list[dict[str, Any]]:
    """The part of each split in its topic's sample."""
    count = Counter(task["topic"] for task in tasks)
    return [
        {**task, "sample": {"records": -(-records // count[task["topic"]]),
                            "bytes": -(-size // count[task["topic"]])}}
        for task in tasks
    ]


def pieces(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Evenly over the offsets of a split; the whole split if it is no larger than its part."""
    first, count, wanted = task["from"], task["to"] - task["from"], task["sample"]["records"]
    if count <= wanted:
        return [task]
    number = min(export_infer.SAMPLE_PIECES, wanted)
    size, step = wanted // number, count / number
    begins = [first + round(step * i) for i in range(number)]
    share = -(-task["sample"]["bytes"] // number)
    return [{**task, "from": at, "to": at + size, "sample": {"records": size, "bytes": share}}
            for at in begins]


def settled(
    pinned: Any, tallies: Iterable[Any]
) -> tuple[dict[str, Any], list[dict[str, Any]], list[str]]:
    """The schema, its new fields, and warnings."""
    tally = export_infer.joined(tallies)
    kind, changes, left_out = export_infer.extended(pinned, tally)
    notes = [f"field {each['field']} {each['change']}, {each['type']}" for each in changes]
    if left_out:
        notes.append(
            f"{len(left_out)} fields stay in {export_json.REST}, there is no room for them or "
            f"their names are those of others: {', '.join(left_out[:5])[:300]}")
    votes = tally["votes"].get("fields", 0)
    return {"type": kind, "by": INFERENCE, "sampled": votes}, changes, notes
