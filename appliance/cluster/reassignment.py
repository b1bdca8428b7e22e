"""Moving a partition to other brokers: the rules alone, without I/O. The node of the topic says
what is under way, as Kafka's does (KIP-455): `partitions` has the wanted replicas and behind them
those that go, `adding_replicas` and `removing_replicas` which these are. Who was being added and is
wanted no more, because another reassignment took the place of the first or it was cancelled, is in
both: so it is known who was there before it all began.

Who is only being added does not count as a replica yet: as many as `min.insync.replicas` says must
be in sync of those that were there before. Else a partition with one replica would take nothing
more until another one has copied everything.

It is finished when all wanted replicas are in the ISR. Then who goes leaves the ISR in an election,
in the same change in which the node of the topic becomes the wanted one. A reassignment that is
cancelled is one that only removes: it need not wait for a replica that was out of sync before it
began, but never leaves fewer than min.insync.replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from appliance.cluster import election
from appliance.cluster.election import Voters
from appliance.cluster.forms import ClusterTopic, PartitionState, Replicas
from appliance.errors import Refused
from appliance.protocol.errors import ErrorCode


def is_under_way(topic: ClusterTopic, number: int) -> bool:
    return bool(topic.adding.get(number) or topic.removing.get(number))


def before(topic: ClusterTopic, number: int) -> Replicas:
    """The replicas without those that are only being added."""
    adding = topic.adding.get(number, ())
    return tuple(each for each in topic.partitions[number] if each not in adding)


def begun(topic: ClusterTopic, number: int, wanted: Sequence[int]) -> ClusterTopic:
    """It takes the place of one that is under way."""
    if len(wanted) < len(_goal(topic, number)):
        topic = replace(topic, wanted_factor=0)  # a person's word for fewer
    was = before(topic, number)
    removing = tuple(each for each in topic.partitions[number] if each not in wanted)
    adding = tuple(each for each in (*wanted, *removing) if each not in was)
    return _with(topic, number, (*wanted, *removing), adding, removing)


def cancelled(topic: ClusterTopic, number: int) -> ClusterTopic:
    if not is_under_way(topic, number):
        raise Refused(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{topic.name}-{number} is not being moved"
        )
    adding = topic.adding.get(number, ())
    if len(before(topic, number)) < len(_goal(topic, number)):
        topic = replace(topic, wanted_factor=0)
    return _with(topic, number, (*before(topic, number), *adding), adding, adding)


def finished(
    topic: ClusterTopic, number: int, state: PartitionState, voters: Voters, min_insync: int
) -> PartitionState | None:
    """The state without those that go; None: it is not yet time."""
    removing = topic.removing.get(number, ())
    wanted = _goal(topic, number)
    isr = tuple(each for each in state.isr if each not in removing)
    if {*topic.adding.get(number, ())} - {*removing} and not {*wanted} <= {*isr}:
        return None
    if len(voters.living(isr)) < min(min_insync, len(wanted)):
        return None
    leader = state.leader
    if leader in removing or election.is_over(state, voters):
        candidates = [each for each in voters.in_order(wanted) if each in isr]
        if not candidates:
            return None
        leader = candidates[0]
    eligible = tuple(each for each in state.eligible if each not in removing)
    after = replace(state, isr=isr, eligible=eligible)
    return election.led_by(leader, after, voters, min_insync)


def without_removed(topic: ClusterTopic, number: int) -> ClusterTopic:
    """As it is when that is written."""
    return _with(topic, number, _goal(topic, number), (), ())


def _goal(topic: ClusterTopic, number: int) -> Replicas:
    """The replicas that it is to have."""
    removing = topic.removing.get(number, ())
    return tuple(each for each in topic.partitions[number] if each not in removing)


def _with(
    topic: ClusterTopic, number: int, replicas: Replicas, adding: Replicas, removing: Replicas
) -> ClusterTopic:
    partitions = [*topic.partitions]
    partitions[number] = replicas
    added, removed = {**topic.adding, number: adding}, {**topic.removing, number: removing}
    return replace(
        topic,
        partitions=tuple(partitions),
        adding={each: some for each, some in added.items() if some},
        removing={each: some for each, some in removed.items() if some},
    )
