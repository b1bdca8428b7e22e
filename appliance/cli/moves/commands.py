"""`appliance cluster decommission`, `replace`, `rebalance`: plans, shown, and carried out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from appliance.cli.moves.carrying_out import (
    LOOK_S,
    carry_out,
    shown,
    throttled,
    until_done,
    until_in_sync,
)
from appliance.cli.moves.options import DRY_RUN, THROTTLE, YES, agreed, at_a_cluster
from appliance.cli.moves.seen_cluster import UNCLEAN, Picture, SeenCluster
from appliance.cli.remote.output import put_json, table
from appliance.cluster import plans
from appliance.cluster.plans import Move, Placed, Plan
from appliance.process.exit_codes import FAILED, NOT_FOUND, REFUSED, UNHEALTHY, Command, Failed
from appliance.process.spoken import size, some

NODE = click.argument("node", metavar="ID", type=click.IntRange(0))
ROUNDS = 100  # of a decommission: clients may go on to make topics
SHOWN_MAX = 20
EMPTY_S = 60.0


# Off a living broker


@click.command(cls=Command)
@NODE
@click.option(
    "--fewer-replicas", is_flag=True,
    help="Where no other broker is left to have a replica, have one less.",
)
@THROTTLE
@DRY_RUN
@YES
@at_a_cluster
def decommission(
    cluster: SeenCluster,
    node: int,
    fewer_replicas: bool,
    throttle: int | None,
    dry_run: bool,
    is_sure: bool,
    as_json: bool,
) -> None:
    """Move everything off a broker that lives, so that it can be stopped for good.

    The plan is shown first.

    Ended at any time, it goes on where it was when it is called again."""
    picture = cluster.picture()
    if node not in picture.brokers:
        raise Failed(
            f"broker {node} does not live; living are {numbers(picture)}. What was on a dead one: "
            f"appliance cluster replace {node}", NOT_FOUND,
        )  # fmt: skip

    def plan_of(picture: Picture) -> Plan:
        plan = plans.off(node, picture.partitions, picture.racks, fewer_replicas)
        check(plan, picture, node)
        check_led(plan)
        return plan

    def agree(plan: Plan) -> None:
        if not as_json:
            put_plan(plan, as_json, {})
        agreed(f"Move all of that off broker {node}?", is_sure)

    if dry_run:
        return put_plan(plan_of(picture), as_json, {"broker": node})
    done = moved_off(cluster, node, plan_of, agree, throttle)
    if left := cluster.picture(with_sizes=False).of(node):
        raise Failed(f"{some(len(left), 'partition')} came anew: {shown([*map(str, left)])}; "
                     "call it again", FAILED)  # fmt: skip
    until_empty(cluster, node)
    moved = Plan(done)
    if as_json:
        return put_json({"broker": node, "partitions": len(done), "bytes": moved.size, "left": 0})
    click.echo(f"broker {node} has no replica any more ({some(len(done), 'partition')}, "
               f"{size(moved.size)} moved): stop it, and its id is free")  # fmt: skip


def moved_off(
    cluster: SeenCluster,
    node: int,
    plan_of: Callable[[Picture], Plan],
    agree: Callable[[Plan], None],
    throttle: int | None,
) -> list[Move]:
    """In rounds: topics may be made meanwhile. The first is agreed to."""
    done = finish(cluster, cluster.picture(), node, throttle)
    for number in range(ROUNDS):
        plan = plan_of(cluster.picture())
        if not plan.moves:
            break
        if number == 0:
            agree(plan)
        carry_out(cluster, plan.moves, throttle)
        done += plan.moves
        done += finish(cluster, cluster.picture(), node, throttle)
    return done


def until_empty(cluster: SeenCluster, node: int) -> None:
    """By its own word: it has deleted what it had."""
    end = time.monotonic() + EMPTY_S
    while there := cluster.sizes_at(cluster.known[node]):
        if time.monotonic() >= end:
            names = [f"{topic}-{partition}" for _, topic, partition in there]
            raise Failed(f"broker {node} still has {some(len(names), 'partition')} that the others "
                         f"have: {shown(names)}; see its log", FAILED)  # fmt: skip
        time.sleep(LOOK_S)


def finish(
    cluster: SeenCluster, picture: Picture, node: int, throttle: int | None
) -> list[Move]:
    """What is under way from it already goes on, and is waited for first."""
    moving = cluster.moving()
    under_way = [
        Move(before(each, moving), moving[each.key][0]) for each in picture.of(node)
        if each.key in moving and node not in moving[each.key][0]
    ]  # fmt: skip
    if under_way:
        with throttled(cluster, under_way, throttle):
            until_done(cluster, under_way)
    return under_way


def before(placed: Placed, moving: dict[Any, Any]) -> Placed:
    """Without those that are being added, so that they count as such."""
    adding = moving[placed.key][1]
    stay = tuple(each for each in placed.replicas if each not in adding)
    return Placed(placed.topic, placed.partition, stay, placed.size, placed.leader, placed.isr)


def check_led(plan: Plan) -> None:
    if lost := [each.of for each in plan.moves if each.of.leader < 0]:
        raise Failed(f"nobody leads {some(len(lost), 'partition')}, so nobody can give the "
                     f"records: {shown([*map(str, lost)])}", REFUSED)  # fmt: skip


def check(plan: Plan, picture: Picture, node: int) -> None:
    if not plan.stuck:
        return
    most = max(len(each.replicas) for each in plan.stuck)
    others = len({*picture.brokers} - {node})
    raise Failed(
        f"{some(len(plan.stuck), 'partition')} would have fewer replicas than now: wanted at least "
        f"{most} other brokers, living are {others}: {shown([*map(str, plan.stuck)])}. Start "
        "another broker first, or let them have fewer (appliance cluster decommission "
        "--fewer-replicas)",
        REFUSED,
    )


# In the place of a dead one


@click.command(cls=Command)
@NODE
@click.option(
    "--with", "other", type=click.IntRange(0), metavar="ID",
    help="The broker that gets everything, if it has another id.",
)
@click.option(
    "--begin-lost-anew", is_flag=True,
    help="Partitions of which no replica in sync is left begin anew with what there is.",
)
@THROTTLE
@DRY_RUN
@YES
@at_a_cluster
def replace(
    cluster: SeenCluster,
    node: int,
    other: int | None,
    begin_lost_anew: bool,
    throttle: int | None,
    dry_run: bool,
    is_sure: bool,
    as_json: bool,
) -> None:
    """Give a new box everything that a dead one had.

    Start the new box with an empty data directory and the same node.id, or with another one and
    --with. Then this waits until all of it is in sync.

    Exit code 10: partitions are left that nobody leads."""
    picture = cluster.picture()
    mine = picture.of(node)
    if other is not None and other != node:
        check_other(picture, node, other)
    lost = [each for each in mine if each.leader < 0]
    keys = {each.key for each in mine} - {each.key for each in lost}
    plan = Plan()
    if other not in (None, node):
        plan = plans.in_place_of(node, other or 0, picture.partitions, picture.racks)
        check(plan, picture, node)
    report: dict[str, Any] = {
        "broker": node, "with": node if other is None else other, "partitions": len(mine),
        "lost": [*map(str, lost)],
    }  # fmt: skip
    if not as_json:
        click.echo(words_of(node, mine, lost), err=True)
    if dry_run:
        return put_plan(plan, as_json, report) if as_json or plan.moves else None
    if lost and begin_lost_anew:
        agreed(f"Begin {some(len(lost), 'partition')} anew, without what only broker {node} had?",
               is_sure)  # fmt: skip
    elif plan.moves:
        if not as_json:
            put_plan(plan, as_json, {})
        agreed(f"Move all of that to broker {other}?", is_sure)
    if begin_lost_anew:
        keys |= {each.key for each in lost}
    if other in (None, node):
        wait_for(cluster, picture, node, as_json)
        begin_anew(cluster, [
            Move(each, last(each.replicas, node, node)) for each in lost if each.key in keys
        ])  # fmt: skip
        until_in_sync(cluster, node, keys)
    else:
        moves = [each for each in plan.moves if each.of.key in keys]
        begin_anew(cluster, [
            Move(each.of, last(each.of.replicas, node, each.adding[0]))
            for each in moves if each.of in lost
        ])  # fmt: skip
        carry_out(cluster, moves, throttle)
    left = [] if begin_lost_anew else lost
    if as_json:
        put_json({**report, "begun_anew": begin_lost_anew and bool(lost)})
    else:
        click.echo(f"{some(len(keys), 'partition')} of broker {node}: all replicas are in sync")
        if lost and begin_lost_anew:
            click.echo("what is lost is in the ledger of who leads it now (appliance ledger list): "
                       f"{shown([*map(str, lost)])}")  # fmt: skip
        if left:
            click.echo(f"without a leader as before: {shown([*map(str, left)])} "
                       "(--begin-lost-anew)")  # fmt: skip
    if left:
        click.get_current_context().exit(UNHEALTHY)


def check_other(picture: Picture, node: int, other: int) -> None:
    if other not in picture.brokers:
        raise Failed(f"broker {other} does not live; living are {numbers(picture)}", NOT_FOUND)
    if node in picture.brokers:
        raise Failed(
            f"broker {node} lives: appliance cluster decommission {node} moves everything off it, "
            "and loses nothing that only it has", REFUSED,
        )  # fmt: skip


def words_of(node: int, mine: list[Placed], lost: list[Placed]) -> str:
    total = sum(each.size for each in mine)
    found = f"broker {node}: {some(len(mine), 'partition')}, {size(total)} to replicate"
    if lost:
        found += (f"; of {some(len(lost), 'partition')} no other replica is in sync, and what only "
                  f"broker {node} had is lost: {shown([*map(str, lost)])}")  # fmt: skip
    return found


def wait_for(cluster: SeenCluster, picture: Picture, node: int, as_json: bool) -> None:
    if node in picture.brokers:
        return
    if not as_json:
        click.echo(f"waiting for a broker with node.id={node} and an empty data directory",
                   err=True)  # fmt: skip
    while node not in cluster.brokers():
        time.sleep(LOOK_S)


def last(replicas: tuple[int, ...], node: int, other: int) -> tuple[int, ...]:
    """`other` in the place of `node`, and behind all that may have records."""
    return (*(each for each in replicas if each not in (node, other)), other)


def begin_anew(cluster: SeenCluster, moves: list[Move]) -> None:
    """Led by the first of these that lives, and from then on waited for as all others. Who has
    nothing comes last: it would be elected with what it has."""
    if faults := cluster.reassign(moves):
        raise Failed(f"{len(faults)} refused: {shown(faults)}", REFUSED)
    refused = cluster.elect([each.of.key for each in moves], UNCLEAN)
    if refused:
        names = [f"{topic}-{partition}: error {code}"
                 for (topic, partition), code in sorted(refused.items())]  # fmt: skip
        raise Failed(f"not begun anew: {shown(names)}", FAILED)


# Until all have as much


@click.command(cls=Command)
@THROTTLE
@DRY_RUN
@YES
@at_a_cluster
def rebalance(
    cluster: SeenCluster, throttle: int | None, dry_run: bool, is_sure: bool, as_json: bool
) -> None:
    """Move as few bytes as needed until all brokers have as many replicas and leaders.

    Racks stay apart. The plan is shown first."""
    if moving := cluster.moving():
        names = [f"{topic}-{partition}" for topic, partition in moving]
        raise Failed(f"{some(len(names), 'partition')} are on their way already: {shown(names)}",
                     REFUSED)  # fmt: skip
    picture = cluster.picture()
    plan = plans.even(led(picture.partitions), picture.racks)
    if dry_run or not plan.moves:
        return put_plan(plan, as_json, {})
    if not as_json:
        put_plan(plan, as_json, {})
    agreed(f"Move {some(len(plan.moves), 'partition')}, {size(plan.size)}?", is_sure)
    carry_out(cluster, plan.moves, throttle)
    if as_json:
        return put_plan(plan, as_json, {})
    click.echo(f"{some(len(plan.moves), 'partition')} moved")


# Words


def led(partitions: list[Placed]) -> list[Placed]:
    """Of the others nobody can give the records."""
    if lost := [each for each in partitions if each.leader < 0]:
        click.echo(f"{some(len(lost), 'partition')} without a leader left out: "
                   f"{shown([*map(str, lost)])}", err=True)  # fmt: skip
    return [each for each in partitions if each.leader >= 0]


def numbers(picture: Picture) -> str:
    return ", ".join(map(str, sorted(picture.brokers)))


def told(plan: Plan) -> str:
    return f"{some(len(plan.moves), 'partition')} to move, {size(plan.size)}"


def put_plan(plan: Plan, as_json: bool, more: dict[str, Any]) -> None:
    if as_json:
        rows = [{"partition": str(each.of), "from": [*each.of.replicas], "to": [*each.replicas],
                 "bytes": each.size} for each in plan.moves]  # fmt: skip
        return put_json({**more, "moves": rows, "bytes": plan.size})
    if plan.moves:
        click.echo(table(
            ("partition", "from", "to", "bytes"),
            [(str(each.of), " ".join(map(str, each.of.replicas)),
              " ".join(map(str, each.replicas)), size(each.size))
             for each in plan.moves[:SHOWN_MAX]],
        ))  # fmt: skip
        if len(plan.moves) > SHOWN_MAX:
            click.echo(f"... and {len(plan.moves) - SHOWN_MAX} more (--json)")
    click.echo(told(plan))
