"""`appliance cluster`: all brokers of a ZooKeeper path, their topics and their health as one; and
the commands of those that replicate (`moves/`)."""

from __future__ import annotations

import asyncio

import click

from appliance.cli.moves.commands import decommission, rebalance, replace
from appliance.cli.moves.options import PLACE, ensemble
from appliance.cli.moves.replicate import replicate
from appliance.cli.moves.status import status
from appliance.cli.remote.output import put_json, table
from appliance.config import Ensemble
from appliance.config.given_twice import given_twice
from appliance.config.zookeeper import url_of
from appliance.process.exit_codes import (
    FAILED,
    NOT_FOUND,
    UNHEALTHY,
    UNREACHABLE,
    CommandGroup,
    Failed,
)
from appliance.process.spoken import some
from appliance.process.tls_client import CaFileInvalid, ca_in
from appliance.zookeeper.cluster import brokers_of
from appliance.zookeeper.cluster_health import (
    AdminPages,
    ClusterHealth,
    ClusterUnread,
    cluster_health,
)

TIMEOUT_S = 10.0  # of ZooKeeper
ADMIN_PORT = 8780


def urls(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[int, str]:
    try:
        found = [*map(url_of, given)]
    except ValueError as error:
        raise click.BadParameter(f"got {str(error)!r}, wanted ID=http://HOST:PORT") from None
    if number := given_twice(str(each) for each, _ in found):
        raise click.BadParameter(f"broker {number} is given twice, wanted once")
    return dict(found)


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.option(
    "--zookeeper", "place", callback=ensemble, metavar="ENSEMBLE",
    envvar="APPLIANCE_ZOOKEEPER_CONNECT",
    help="HOST:PORT[,HOST:PORT...][/PATH], as zookeeper.connect of the brokers.",
)
@click.option(
    "--admin-port", default=ADMIN_PORT, show_default=True, type=click.IntRange(1, 65535),
    help="Of the brokers' admin pages, which ZooKeeper does not know.",
)
@click.option(
    "--admin", "given", multiple=True, callback=urls, metavar="ID=URL",
    help="The admin pages of one broker, where they are elsewhere or have TLS.",
)
@click.option(
    "--ca-file", default="", envvar="APPLIANCE_CA_FILE", metavar="FILE",
    help="Authorities of brokers with TLS; without it those of the system.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_context
def cluster(
    ctx: click.Context, place: Ensemble | None, admin_port: int, given: dict[int, str],
    ca_file: str, as_json: bool,
) -> None:
    """Show all brokers of a ZooKeeper path: their health and topics as one.

    Exit code 10: a broker is not well, or does not answer.

    The commands are for brokers that replicate (zookeeper.format=cluster)."""
    ctx.meta[PLACE] = place
    if ctx.invoked_subcommand is not None:
        return
    if place is None:
        raise click.UsageError("wanted --zookeeper HOST:PORT[,HOST:PORT...][/PATH]")
    try:
        brokers = brokers_of(place, TIMEOUT_S)
    except ClusterUnread as error:
        raise Failed(str(error), UNREACHABLE) from error
    if not brokers:
        raise Failed(f"no broker is registered in {place}", NOT_FOUND)
    pages = AdminPages(admin_port, given=given, ca=authorities(ca_file))
    answer = asyncio.run(cluster_health(brokers, pages))
    if as_json:
        put_json(answer)
    else:
        put(answer)
    if answer["status"] != "ok":
        click.get_current_context().exit(UNHEALTHY)


for each in (status, decommission, replace, rebalance, replicate):
    cluster.add_command(each)


def authorities(file: str) -> str:
    try:
        return ca_in(file) if file else ""
    except CaFileInvalid as error:
        raise Failed(str(error), FAILED) from error


def put(answer: ClusterHealth) -> None:
    rows = answer["brokers"]
    click.echo(table(
        ("broker", "address", "health", "topics", "partitions", "why"),
        [(each["id"], each["address"], each["status"], len(each["topics"]),
          sum(each["topics"].values()), told(each["reasons"])) for each in rows],
    ))  # fmt: skip
    if answer["topics"]:
        click.echo("")
        click.echo(table(
            ("topic", "partitions", "brokers"),
            [(each["topic"], each["partitions"], " ".join(map(str, each["brokers"])))
             for each in answer["topics"]],
        ))  # fmt: skip
    well = sum(each["status"] == "ok" for each in rows)
    click.echo(f"\n{answer['status']}: {well} of {some(len(rows), 'broker')} are well")


def told(reasons: list[str]) -> str | None:
    if not reasons:
        return None
    return reasons[0] + (f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else "")
