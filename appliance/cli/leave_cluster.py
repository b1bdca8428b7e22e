"""`appliance leave-cluster`: the topics of a cluster become those of this box, the last of it."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from appliance.broker import one_box
from appliance.broker.broker import Broker
from appliance.cli.remote.output import put_json
from appliance.cli.settings_options import load_config, or_of_the_service, settings_options
from appliance.cluster.taking_in import Away
from appliance.config import BrokerConfig
from appliance.process.exit_codes import REFUSED, UNREACHABLE, Command, Failed
from appliance.process.spoken import some


@click.command("leave-cluster", cls=Command)
@settings_options
@click.option(
    "--keep-what-is-here", "keeps", is_flag=True,
    help="Also if partitions are on other brokers: what is not in this directory is given up.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def leave_cluster(keeps: bool, as_json: bool, **options: Any) -> None:
    """Make a broker of a cluster a box of its own again. The broker must be stopped.

    Topics keep their ids, records, groups and users. ZooKeeper (--zookeeper) is asked where the
    partitions are: this broker must have all of them, and no other broker any. Nothing is changed
    in ZooKeeper: remove the path there, or take another one for the next cluster."""
    config = load_config(**or_of_the_service(options))
    try:
        topics, empty = asyncio.run(_leave(config, keeps))
    except one_box.ReplicasElsewhere as error:
        raise Failed(str(error), REFUSED) from error
    except Away as error:
        told = f"{error}: name it with --zookeeper, or --keep-what-is-here"
        raise Failed(told, UNREACHABLE) from error
    if as_json:
        put_json({"topics": topics, "empty_partitions": empty})
        return
    without = f", {some(empty, 'partition')} of which are empty" if empty else ""
    click.echo(f"{some(topics, 'topic')} of the cluster are this broker's own now{without}. "
               "Start it without zookeeper.connect")  # fmt: skip


async def _leave(config: BrokerConfig, keeps: bool) -> tuple[int, int]:
    broker = await asyncio.to_thread(Broker.open, config)
    try:
        return await one_box.leave(broker, keeps)
    finally:
        await broker.close()
