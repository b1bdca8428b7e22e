"""`appliance cluster replicate`: more replicas for what one box, or two, have had alone."""

from __future__ import annotations

import click

from appliance.cli.moves.carrying_out import carry_out, shown
from appliance.cli.moves.commands import led, numbers, put_plan
from appliance.cli.moves.options import DRY_RUN, THROTTLE, YES, agreed, at_a_cluster
from appliance.cli.moves.seen_cluster import Picture, SeenCluster
from appliance.cluster import plans
from appliance.cluster.forms import REPLICAS_MAX
from appliance.cluster.plans import Placed, Plan
from appliance.process.exit_codes import NOT_FOUND, REFUSED, Command, Failed
from appliance.process.spoken import size, some

FACTOR = 3  # as default.replication.factor of the brokers


@click.command(cls=Command)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option(
    "--factor", type=click.IntRange(1, REPLICAS_MAX), metavar="N",
    help=f"How many replicas each partition is to have.  [default: {FACTOR}, or as many brokers "
    "as live]",
)  # fmt: skip
@THROTTLE
@DRY_RUN
@YES
@at_a_cluster
def replicate(
    cluster: SeenCluster,
    topics: tuple[str, ...],
    factor: int | None,
    throttle: int | None,
    dry_run: bool,
    is_sure: bool,
    as_json: bool,
) -> None:
    """Give partitions more replicas: these topics, or all, the brokers' own included.

    None gets fewer. The plan is shown first."""
    picture = cluster.picture()
    wanted = min(FACTOR, len(picture.brokers)) if factor is None else factor
    plan = plans.up_to(wanted, led(asked(picture, topics)), picture.racks)
    check(plan, picture, wanted)
    if dry_run or not plan.moves:
        return put_plan(plan, as_json, {"factor": wanted})
    if not as_json:
        put_plan(plan, as_json, {})
    agreed(f"Copy {size(plan.size)} for {some(len(plan.moves), 'partition')}?", is_sure)
    carry_out(cluster, plan.moves, throttle)
    if as_json:
        return put_plan(plan, as_json, {"factor": wanted})
    moved = {each.of.topic for each in plan.moves if len(each.replicas) > 2}
    if few := sorted(name for name, least in cluster.min_insync(sorted(moved)).items()
                     if least == 1):  # fmt: skip
        click.echo(f"with min.insync.replicas=1 a record counts on one disk once the others are "
                   f"away: {shown(few)} (appliance topic alter TOPIC -c min.insync.replicas=2)")


def asked(picture: Picture, topics: tuple[str, ...]) -> list[Placed]:
    known = {each.topic for each in picture.partitions}
    if unknown := sorted({*topics} - known):
        raise Failed(f"there is no topic {shown(unknown)}", NOT_FOUND)
    return [each for each in picture.partitions if not topics or each.topic in topics]


def check(plan: Plan, picture: Picture, wanted: int) -> None:
    if plan.stuck:
        raise Failed(
            f"got --factor {wanted}, wanted at most {len(picture.brokers)}: so many brokers live "
            f"({numbers(picture)})", REFUSED,
        )  # fmt: skip
