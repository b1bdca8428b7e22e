"""Carrying out a plan: what is asked for, how far it has come in bytes, and the end of it. It can
be ended at any time: the cluster goes on with what it was asked for, the next run with the rest."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from appliance.cli.moves.seen_cluster import PREFERRED, SeenCluster, Sizes
from appliance.cluster.forms import Key
from appliance.cluster.plans import Move
from appliance.errors import ApplianceError
from appliance.process.exit_codes import FAILED, REFUSED, Failed
from appliance.process.progress_bar import ProgressBar
from appliance.process.spoken import size, some

LOOK_S = 0.5
SHOWN_MAX = 10
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def carry_out(cluster: SeenCluster, moves: Sequence[Move], throttle: int | None) -> None:
    """Until all replicas are in sync, and the first of each leads."""
    if not moves:
        return
    with throttled(cluster, moves, throttle):
        if faults := cluster.reassign(moves):
            raise Failed(f"{len(faults)} of {some(len(moves), 'partition')} refused: "
                         f"{shown(faults)}", REFUSED)  # fmt: skip
        until_done(cluster, moves)
    cluster.elect([each.of.key for each in moves], PREFERRED)


def until_done(cluster: SeenCluster, moves: Sequence[Move]) -> None:
    bar = ProgressBar("moving", size)
    total = sum(each.size for each in moves)
    while True:
        moving = cluster.moving()
        left = [each for each in moves if each.of.key in moving]
        bar(total - sum(missing(each, sizes_of(cluster, left)) for each in left), total)
        if not left:
            break
        time.sleep(LOOK_S)
    found = {each.key: each.replicas for each in cluster.picture(with_sizes=False).partitions}
    other = [str(each.of) for each in moves
             if {*found.get(each.of.key, each.replicas)} != {*each.replicas}]  # fmt: skip
    if other:
        raise Failed(f"somebody else moved {shown(other)} meanwhile: begin again", FAILED)


def missing(move: Move, there: Sizes) -> int:
    """Bytes that are not copied yet. What is appended meanwhile is not counted."""
    copied = (there.get((node, *move.of.key), 0) for node in move.adding)
    return sum(max(move.of.size - each, 0) for each in copied)


def sizes_of(cluster: SeenCluster, moves: Sequence[Move]) -> Sizes:
    """At those who get something. One that does not answer has nothing more until it does."""
    found: Sizes = {}
    brokers = cluster.known
    for node in {node for each in moves for node in each.adding}:
        if node in brokers:
            try:
                found |= cluster.sizes_at(brokers[node])
            except ApplianceError:
                continue
    return found


@contextmanager
def throttled(
    cluster: SeenCluster, moves: Sequence[Move], rate: int | None
) -> Iterator[None]:
    """As `kafka-reassign-partitions --throttle`: these replicas, at so many bytes a second."""
    if rate is None:
        yield
        return
    brokers = {node for each in moves for node in (*each.of.replicas, *each.replicas)}
    living = sorted(brokers & {*cluster.known})
    topics = throttled_replicas(moves)
    try:
        cluster.configure_topics(topics)
        for node in living:
            cluster.configure_broker(node, dict.fromkeys(RATES, str(rate)))
        yield
    finally:
        cluster.configure_topics({each: dict.fromkeys(THROTTLED) for each in topics})
        for node in living:
            cluster.configure_broker(node, dict.fromkeys(RATES))


def throttled_replicas(moves: Sequence[Move]) -> dict[str, dict[str, str]]:
    found: dict[str, tuple[list[str], list[str]]] = {}
    for each in moves:
        leaders, followers = found.setdefault(each.of.topic, ([], []))
        leaders += [f"{each.of.partition}:{node}" for node in each.of.replicas]
        followers += [f"{each.of.partition}:{node}" for node in each.adding]
    return {
        topic: dict(zip(THROTTLED, (",".join(leaders), ",".join(followers)), strict=True))
        for topic, (leaders, followers) in found.items()
    }


def until_in_sync(cluster: SeenCluster, node: int, keys: set[Key]) -> None:
    """Of a broker that has come back with nothing."""
    bar = ProgressBar("replicating", size)
    while True:
        picture = cluster.picture()
        mine = [each for each in picture.of(node) if each.key in keys]
        behind = [each for each in mine if node not in each.isr]
        total = sum(each.size for each in mine)
        lacking = sum(max(each.size - picture.sizes.get((node, *each.key), 0), 0)
                      for each in behind)  # fmt: skip
        bar(total - lacking, total)
        if not behind:
            return
        time.sleep(LOOK_S)


def shown(words: Sequence[str]) -> str:
    more = len(words) - SHOWN_MAX
    return "; ".join(words[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
