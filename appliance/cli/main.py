"""The `appliance` command. It runs the broker or a ZooKeeper, asks a running broker (`remote/`),
and reads the data directory of a stopped one (`log`)."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from importlib import import_module
from typing import Any

import click
from click.shell_completion import get_completion_class

from appliance import __version__
from appliance import config as configuration
from appliance.cli.settings_options import load_config, settings_options
from appliance.process import event_log, owner_only, start_imports, succession
from appliance.process.exit_codes import Command
from appliance.process.progress_bar import ProgressBar

PLACES = {  # of the commands, by name; a start of the broker imports none of them
    "acl": "appliance.cli.remote.acl",
    "alert": "appliance.cli.remote.alert",
    "backup": "appliance.cli.backup",
    "bench": "appliance.cli.bench",
    "bundle": "appliance.cli.remote.broker",
    "clock": "appliance.cli.remote.clock",
    "cluster": "appliance.cli.cluster",
    "config": "appliance.cli.remote.broker",
    "consume": "appliance.cli.remote.messages",
    "disk": "appliance.cli.disk",
    "doctor": "appliance.cli.doctor",
    "group": "appliance.cli.remote.group",
    "health": "appliance.cli.remote.broker",
    "install": "appliance.cli.install",
    "leave-cluster": "appliance.cli.leave_cluster",
    "ledger": "appliance.cli.remote.ledger",
    "log": "appliance.cli.offline_log",
    "login": "appliance.cli.remote.login",
    "logout": "appliance.cli.remote.login",
    "mirror": "appliance.mirror.command",
    "produce": "appliance.cli.remote.messages",
    "quota": "appliance.cli.remote.quota",
    "scrub": "appliance.cli.remote.scrub",
    "status": "appliance.cli.remote.broker",
    "tls": "appliance.cli.tls",
    "top": "appliance.cli.remote.top",
    "topic": "appliance.cli.remote.topic",
    "uninstall": "appliance.cli.install",
    "upgrade": "appliance.cli.upgrade",
    "user": "appliance.cli.remote.user",
    "zookeeper": "appliance.cli.zookeeper",
}


class Commands(click.Group):
    """Each is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *PLACES])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in PLACES:
            name = cmd_name.replace("-", "_")
            found: click.Command = getattr(import_module(PLACES[cmd_name]), name)
            return found
        return super().get_command(ctx, cmd_name)


@click.group(cls=Commands)
@click.version_option(__version__, prog_name="appliance")
def main() -> None:
    """A message log for one box."""


EXPORT_COMMANDS = (
    "run", "list", "files", "verify", "dead-letters", "backfill", "compact", "schema", "table",
    "schedule", "when", "define", "set", "show", "delete",
)  # fmt: skip


class ExportCommands(click.Group):
    """What these commands do needs Spark, a large extra; what they are does not."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(EXPORT_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from appliance_spark.export import export as commands

        return commands.get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            raise click.ClickException(
                f"exports need {error.name}, which is not installed: "
                "pip install 'appliance-log[export]'"
            ) from error


@main.group(cls=ExportCommands)
def export() -> None:
    """Export topics to Parquet files, each record once."""


@main.command(cls=Command)
@settings_options
def serve(**options: Any) -> None:
    """Run the broker until SIGTERM or SIGINT."""
    with start_imports.at_once():
        from appliance.server import Server  # imports that no other command needs

    event_log.to_stderr()
    os.umask(owner_only.UMASK)
    succeeds = succession.predecessor()
    server = Server(load_config(**options), succeeds=succeeds)
    if succeeds is not None:
        server.check()
        succeeds.wait_until_gone()
    asyncio.run(server.run(ProgressBar("recovering partitions")))
    # Without this the interpreter collects garbage several times before it ends. That took 13 s
    # after the last line of the log, with 48,000 groups on a busy machine.
    gc.freeze()


@main.command(cls=Command)
@settings_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def settings(as_json: bool, **options: Any) -> None:
    """Print every setting with the value that `serve` would use."""
    config = load_config(**options)
    values = configuration.values_of(config)
    if as_json:
        click.echo(json.dumps({name: plain(value) for name, value in values.items()}, indent=2))
        return
    for name, value in values.items():
        row = configuration.settings()[name]
        is_given = value != row.default and name in config.origins
        mark = "   (not the default)" if is_given else ""
        click.echo(f"{name} = {row.text(value)}{mark}")


def plain(value: Any) -> Any:
    return value if isinstance(value, (int, float)) else str(value)


SHELLS = ("bash", "zsh", "fish")


@main.command(cls=Command)
@click.argument("shell", type=click.Choice(SHELLS))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def completion(shell: str, as_json: bool) -> None:
    """Print the script by which SHELL completes our commands and options.

    \b
    bash, zsh:  eval "$(appliance completion bash)"
    fish:       appliance completion fish | source"""
    kind = get_completion_class(shell)
    assert kind is not None, shell
    script = kind(main, {}, "appliance", "_APPLIANCE_COMPLETE").source()
    click.echo(json.dumps({"shell": shell, "script": script}) if as_json else script)
