"""The `appliance` command. It runs the broker or a ZooKeeper, asks a running broker (`remote/`),
and reads the data directory of a stopped one (`log`)."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shlex
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from appliance import __version__
from appliance import config as configuration
from appliance.cli.offline_log import log
from appliance.cli.remote import (
    acl,
    alert,
    broker,
    clock,
    group,
    ledger,
    login,
    messages,
    quota,
    scrub,
    top,
    topic,
    user,
)
from appliance.cli.settings_options import load_config, settings_options
from appliance.process import event_log, owner_only, start_imports, succession
from appliance.process.exit_codes import Command
from appliance.process.progress_bar import ProgressBar
from appliance.zookeeper.server import LOOPBACK, ZooKeeperServer, peers_in, settings_in

LARGE = {  # where those are that import the engine, certificates or the client library
    "backup": "appliance.cli.backup",
    "bench": "appliance.cli.bench",
    "cluster": "appliance.cli.cluster",
    "disk": "appliance.cli.disk",
    "doctor": "appliance.cli.doctor",
    "install": "appliance.cli.install",
    "leave-cluster": "appliance.cli.leave_cluster",
    "mirror": "appliance.mirror.command",
    "tls": "appliance.cli.tls",
    "uninstall": "appliance.cli.install",
    "upgrade": "appliance.cli.upgrade",
}


class Commands(click.Group):
    """Those with large imports are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *LARGE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in LARGE:
            name = cmd_name.replace("-", "_")
            found: click.Command = getattr(import_module(LARGE[cmd_name]), name)
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


for each in (
    topic.topic,
    group.group,
    messages.produce,
    messages.consume,
    broker.health,
    broker.status,
    top.top,
    broker.config,
    clock.clock,
    acl.acl,
    quota.quota,
    user.user,
    login.login,
    login.logout,
    broker.bundle,
    alert.alert,
    ledger.ledger,
    scrub.scrub,
    log,
):
    main.add_command(each)


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
@click.option("--port", default=2181, show_default=True, help="Port for clients.")
@click.option(
    "--data-dir",
    default="zookeeper",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of its data.",
)
@click.option("--host", default="", help="Where it listens for clients; else as others know it.")
@click.option("--id", "number", type=click.IntRange(1, 255), help="Which of the ensemble it is.")
@click.option(
    "--ensemble",
    default="",
    metavar="HOST,HOST,HOST",
    help="All servers of the ensemble, in the order of their ids; each as HOST or "
    "HOST:PORT:PORT, by default at ports 2888 and 3888 among each other.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of ZooKeeper's own."
)
@click.option(
    "--jaas",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="ZOOKEEPER_JAAS",
    help="A JAAS file, for logins by SASL: of the servers among each other (QuorumServer, "
    "QuorumLearner), of clients (Server). Or ZOOKEEPER_JAAS.",
)
def zookeeper(
    port: int, data_dir: Path, host: str, number: int | None, ensemble: str, settings: list[str],
    jaas: Path | None,
) -> None:  # fmt: skip
    """Run a ZooKeeper until SIGTERM or SIGINT: one alone for a try-out, or one of an ensemble.

    It is Apache ZooKeeper from PySpark's jars, and needs Java."""
    peers = peers_in(ensemble, number)
    own = peers[number - 1].host if number and peers else LOOPBACK
    more = dict(settings_in(settings))
    server = ZooKeeperServer(
        data_dir, port, more=more, host=host or own, number=number or 0, peers=peers,
        jaas=jaas,
    )  # fmt: skip
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.terminate())
    with server:
        server.wait_until_serving()
        click.echo(f"ready zookeeper={server.address} data={shlex.quote(str(data_dir))}")
        code = server.wait()
    if code not in (0, 128 + signal.SIGTERM):
        raise click.ClickException(f"ZooKeeper ended with code {code}")


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
