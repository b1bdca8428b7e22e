"""`appliance export schema`: shows the schema of a topic in a target, sets it, infers it again."""

from __future__ import annotations

import json
from pathlib import Path

import click

from appliance_spark import export_manifest, export_run, export_schema
from appliance_spark.export_broker import AdminPort
from appliance_spark.export_command_options import Command, with_broker, with_json, with_target
from appliance_spark.export_layout import Target, target_path, text_of


@click.command(cls=Command)
@click.argument("topic")
@with_target
@click.option("--set", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Use this schema from the next run on and infer nothing more.")
@click.option("--infer-again", "infers", is_flag=True,
              help="Infer the schema again from a sample of the whole log.")
@click.option("--keep-old-files", "keeps_files", is_flag=True,
              help="Even if a field has another type in existing files.")
@with_broker
@with_json
def schema(topic: str, target: str, file: Path | None, infers: bool, keeps_files: bool,
           broker: AdminPort, retries: int, as_json: bool) -> None:
    """Show, set or infer again the JSON schema of TOPIC in a target."""
    into = Target(target_path(target))
    if file and infers:
        raise click.UsageError("--set does not go with --infer-again")
    if file or infers:
        export_manifest.load_known(into)  # the lock would create a misspelt folder
        with into.locked():
            manifest = export_manifest.load_known(into)
            found = (export_run.inferred(manifest, topic, broker, retries)
                     if infers else export_run.given_schema("json", text_of(file) if file else ""))
            manifest = export_schema.put(manifest, topic, found, keeps_files)
            export_manifest.save(into, manifest)
    shown = export_schema.shown(export_manifest.load_known(into), topic)
    if as_json:
        click.echo(json.dumps(shown))
        return
    click.echo(export_schema.as_text(shown))
