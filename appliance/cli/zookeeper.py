"""`appliance zookeeper`: one alone for a try-out, or one of the ensemble that a cluster wants."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path

import click

from appliance.process.exit_codes import Command
from appliance.zookeeper.server import LOOPBACK, ZooKeeperServer, peers_in, settings_in


@click.command(cls=Command)
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
