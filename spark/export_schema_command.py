"""`appliance export schema`: shows the schema of a topic in a target, sets it, infers it again, or
proposes one before there is a target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from appliance.process.option_types import FiniteRange, Size
from appliance_spark import (
    export_infer,
    export_manifest,
    export_propose,
    export_registry,
    export_run,
    export_schema,
)
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_command_options import (
    Command,
    options,
    with_broker,
    with_json,
    with_registry,
)
from appliance_spark.export_layout import text_of, write_durably
from appliance_spark.export_store_target import target_of

with_sample = options(
    click.option("--propose", "proposes", is_flag=True,
                 help="Propose a schema from a sample of the log; without a target."),
    click.option("--records", type=click.IntRange(1), default=export_infer.SAMPLE_RECORDS,
                 show_default=True, help="Records of a proposal's sample."),
    click.option("--bytes", "size", type=Size(1), default=export_infer.SAMPLE_BYTES, metavar="SIZE",
                 show_default=True, help="Bytes of a proposal's sample, such as 64MiB."),
    click.option("--seconds", type=FiniteRange(0.1), default=export_propose.SECONDS,
                 show_default=True, help="Time for a proposal's sample."),
    click.option("--conflicts", type=click.Choice([*export_propose.CONFLICTS]), default="majority",
                 show_default=True,
                 help="A field with values of several types becomes text; or has the most frequent "
                      "type, and the others are dead letters; or that if three quarters have it, "
                      "else text."),
    click.option("--write", "into_file", metavar="FILE",
                 type=click.Path(dir_okay=False, path_type=Path),
                 help="Write the proposal to this file, for --schema-file."),
)


@click.command(cls=Command)
@click.argument("topic")
@click.option("--target", metavar="DIR|URL",
              help="A folder that all Spark workers see, or s3://BUCKET/FOLDER.")
@click.option("--set", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Use this schema from the next run on and infer nothing more.")
@click.option("--infer-again", "infers", is_flag=True,
              help="Infer the schema again from a sample of the whole log.")
@click.option("--keep-old-files", "keeps_files", is_flag=True,
              help="Even if a field has another type in existing files.")
@with_sample
@with_registry
@with_broker
@with_json
def schema(topic: str, target: str | None, file: Path | None, infers: bool, keeps_files: bool,
           broker: AdminPort, retries: int, as_json: bool, proposes: bool,
           registry: export_registry.Place | None, **sample: Any) -> None:
    """Show, set or infer again the JSON schema of TOPIC in a target, or propose one."""
    if proposes and (target or file or infers):
        raise click.UsageError("--propose does not go with --target, --set or --infer-again")
    if proposes:
        _propose(broker, topic, retries, as_json, registry, **sample)
        return
    if target is None:
        raise click.UsageError("wanted --target, or --propose")
    if file and infers:
        raise click.UsageError("--set does not go with --infer-again")
    into = target_of(target)
    if file or infers:
        export_manifest.load_known(into)  # the lock would create a misspelt folder
        with into.locked():
            manifest = export_manifest.load_known(into)
            found = (export_run.inferred(manifest, topic, broker, retries, registry)
                     if infers else export_run.given_schema("json", text_of(file) if file else ""))
            manifest = export_schema.put(manifest, topic, found, keeps_files)
            export_manifest.save(into, manifest)
    shown = export_schema.shown(export_manifest.load_known(into), topic)
    if as_json:
        click.echo(json.dumps(shown))
        return
    click.echo(export_schema.as_text(shown))


def _propose(
    broker: AdminPort, topic: str, retries: int, as_json: bool,
    registry: export_registry.Place | None, records: int, size: int, seconds: float,
    conflicts: str, into_file: Path | None,
) -> None:
    sample = export_propose.Sample(records, size, seconds)
    found = export_propose.propose(broker, topic, sample, conflicts, retries, registry)
    if into_file is not None:
        write_durably(into_file, json.dumps(found["schema"], indent=1) + "\n")
    click.echo(json.dumps(found) if as_json else export_propose.as_text(found))
