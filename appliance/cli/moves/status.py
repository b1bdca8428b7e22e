"""`appliance cluster status`: the brokers, and which partitions are not as they should be."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from appliance.cli.moves.carrying_out import shown
from appliance.cli.moves.options import at_a_cluster
from appliance.cli.moves.seen_cluster import Picture, SeenCluster
from appliance.cli.remote.output import put_json, table
from appliance.cluster.plans import Placed
from appliance.process.exit_codes import UNHEALTHY, Command
from appliance.process.spoken import size, some

KINDS = {
    "without_leader": "without a leader",
    "under_min_isr": "with fewer in sync than min.insync.replicas",
    "under_replicated": "with replicas that are not in sync",
    "offline": "with replicas on brokers that do not live",
    "moving": "on their way to other brokers",
    "unseen": "known to ZooKeeper alone (topics; the login may lack DESCRIBE on them)",
}
UNWELL = ("without_leader", "under_min_isr", "under_replicated", "offline")
KNOWN = (*UNWELL, "unseen")


@click.command(cls=Command)
@at_a_cluster
def status(cluster: SeenCluster, as_json: bool) -> None:
    """Show brokers, their lives, the controller, and partitions that lack something.

    Exit code 10: a partition has no leader, too few replicas in sync, or one that is away, or a
    broker cannot follow others."""
    picture = cluster.picture(may_be_part=True)
    answer = described(picture, cluster)
    if as_json:
        put_json(answer)
    else:
        put(answer, picture)
    if any(answer[kind] for kind in KNOWN) or any(each["reasons"] for each in answer["brokers"]):
        click.get_current_context().exit(UNHEALTHY)


def described(picture: Picture, cluster: SeenCluster) -> dict[str, Any]:
    moving = cluster.moving()
    least = cluster.min_insync(sorted({each.topic for each in picture.partitions}))

    def wanted(each: Placed) -> int:
        return len(each.replicas) - len(moving.get(each.key, ((), ()))[1])

    found: dict[str, list[Placed]] = {
        "without_leader": [each for each in picture.partitions if each.leader < 0],
        "under_min_isr": [
            each for each in picture.partitions
            if len(each.isr) < min(least.get(each.topic, 1), len(each.replicas))
        ],
        "under_replicated": [
            each for each in picture.partitions if len(each.isr) < wanted(each)
        ],
        "offline": [
            each for each in picture.partitions if {*each.replicas} - {*picture.brokers}
        ],
        "moving": [each for each in picture.partitions if each.key in moving],
    }  # fmt: skip
    return {
        "controller": picture.controller,
        "brokers": rows(picture),
        "dead": sorted({node for each in picture.partitions for node in each.replicas}
                       - {*picture.brokers}),
        "partitions": len(picture.partitions),
        **{kind: [*map(str, each)] for kind, each in found.items()},
        "unseen": picture.unseen,
    }  # fmt: skip


def rows(picture: Picture) -> list[dict[str, Any]]:
    replicas = Counter(node for each in picture.partitions for node in each.replicas)
    leads = Counter(each.leader for each in picture.partitions)
    sizes: Counter[int] = Counter()
    for (node, _, _), count in picture.sizes.items():
        sizes[node] += count
    return [
        {
            "id": each.id, "address": str(each.address), "rack": each.rack or None,
            "life": each.life, "replicas": replicas[each.id], "leads": leads[each.id],
            "bytes": None if each.id in picture.unasked else sizes[each.id],
            "why": picture.unasked.get(each.id), "reasons": [*each.reasons],
        }
        for each in picture.brokers.values()
    ]  # fmt: skip


def put(answer: dict[str, Any], picture: Picture) -> None:
    click.echo(table(
        ("broker", "address", "rack", "life", "replicas", "leads", "bytes", ""),
        [(each["id"], each["address"], each["rack"], each["life"], each["replicas"],
          each["leads"], size(each["bytes"]),
          each["why"] or ("controller" if each["id"] == answer["controller"] else ""))
         for each in answer["brokers"]],
    ))  # fmt: skip
    for each in answer["brokers"]:
        for why in each["reasons"]:
            click.echo(f"broker {each['id']} says: {why}")
    for node in answer["dead"]:
        click.echo(f"broker {node} does not live, and has {some(len(picture.of(node)), 'replica')}")
    click.echo("")
    for kind, words in KINDS.items():
        if found := answer[kind]:
            click.echo(f"{len(found)} {words}: {shown(found)}")
    lacking = {name for kind in UNWELL for name in answer[kind]}
    count = answer["partitions"]
    click.echo(f"{count - len(lacking)} of {some(count, 'partition')} are as they should be")
