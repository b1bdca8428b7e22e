"""Who leads a partition: the rules alone, without I/O. `docs/replication.md` has their reasons, and
`tests/replication/partition_model.py` tries them.

1. A leader is chosen when the life of the former one is over, whether or not it came back, or when
   it took itself out of the ISR.
2. It is the first living replica of those in the ISR, else of the eligible, else nobody. Anybody
   else only when a person has said so.
3. The ISR afterwards is who of it lives; with a leader from outside it, that one alone.
4. Who left while the ISR was smaller than min.insync.replicas is eligible: nothing has counted
   since. At the first ISR of that size nobody is.
5. With nobody to choose, ISR and eligible stay as they are: one of them may come back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from appliance.cluster.forms import NOBODY, PartitionState, Replicas


@dataclass(frozen=True)
class Voters:
    """Who may be chosen. `lives`: of the brokers that live. Who leaves is chosen last."""

    lives: Mapping[int, int]
    leaving: Collection[int] = ()

    def living(self, replicas: Iterable[int]) -> Replicas:
        return tuple(each for each in replicas if self.lives.get(each))

    def staying(self, replicas: Iterable[int]) -> Replicas:
        return tuple(each for each in self.living(replicas) if each not in self.leaving)

    def in_order(self, replicas: Iterable[int]) -> Replicas:
        """All that live; who leaves comes last."""
        return tuple(sorted(self.living(replicas), key=lambda each: each in self.leaving))


def is_over(state: PartitionState, voters: Voters) -> bool:
    """Whether nobody leads: the broker that was chosen has ended, has begun another life, or has
    lost its replica."""
    if state.leader == NOBODY or state.leader not in state.isr:
        return True
    return voters.lives.get(state.leader) != state.leader_life


def elected(
    state: PartitionState,
    replicas: Replicas,
    voters: Voters,
    min_insync: int,
    unclean: bool = False,
) -> PartitionState | None:
    """The state after the election that is due; None: nothing changes."""
    if not is_over(state, voters):
        return None
    candidates = voters.in_order(replicas)
    for choice in (state.isr, state.eligible):
        for broker in candidates:
            if broker in choice:
                return led_by(broker, state, voters, min_insync)
    if unclean and candidates:
        leader = candidates[0]
        after = _next(state, leader, voters.lives[leader], (leader,), ())
        return replace(after, unclean=after.leader_epoch)
    if state.leader == NOBODY:
        return None
    return _next(state, NOBODY, 0, state.isr, state.eligible)


def moved_away(
    state: PartitionState, replicas: Replicas, voters: Voters, min_insync: int
) -> PartitionState | None:
    """After the controlled stop of a leader; None: it leads as long as it is there."""
    if state.leader not in voters.leaving:
        return None
    for broker in voters.staying(replicas):
        if broker in state.isr:
            return led_by(broker, state, voters, min_insync)
    return None


def preferred(
    state: PartitionState, replicas: Replicas, voters: Voters, min_insync: int
) -> PartitionState | None:
    """Led by the first of its replicas; None: that one may not, or does already."""
    first = replicas[0]
    if state.leader == first or first not in state.isr or not voters.staying([first]):
        return None
    return led_by(first, state, voters, min_insync)


def first_state(replicas: Replicas, voters: Voters, min_insync: int) -> PartitionState:
    """Of a new partition: all replicas are equally empty, so any of them may lead."""
    isr = voters.staying(replicas) or voters.living(replicas)
    if not isr:
        return PartitionState(NOBODY, 0, 0, replicas)
    outside = set(replicas) - set(isr)
    still = _in_order(eligible_after((), isr, outside, min_insync), replicas)
    return PartitionState(isr[0], voters.lives[isr[0]], 0, isr, still)


def led_by(
    leader: int, state: PartitionState, voters: Voters, min_insync: int
) -> PartitionState:
    isr: Replicas = (leader,)
    if leader in state.isr:
        isr = tuple(
            each for each in voters.living(state.isr)
            if each == leader or each not in voters.leaving
        )  # fmt: skip
    left = set(state.isr) - set(isr)
    eligible = _in_order(
        eligible_after(state.eligible, isr, left, min_insync), (*state.isr, *state.eligible)
    )
    return _next(state, leader, voters.lives[leader], isr, eligible)


def eligible_after(
    eligible: Iterable[int], isr: Collection[int], left: Iterable[int], min_insync: int
) -> set[int]:
    """`left` have just left the ISR."""
    if len(isr) >= min_insync:
        return set()
    return {*eligible, *left} - set(isr)


def with_isr(state: PartitionState, isr: Replicas, min_insync: int) -> PartitionState:
    """As its leader wishes it."""
    left = set(state.isr) - set(isr)
    eligible = eligible_after(state.eligible, isr, left, min_insync)
    return replace(state, isr=isr, eligible=_in_order(eligible, (*state.isr, *state.eligible)))


def without(state: PartitionState, broker: int) -> PartitionState:
    """After this broker has lost its replica."""
    return replace(
        state,
        isr=tuple(each for each in state.isr if each != broker),
        eligible=tuple(each for each in state.eligible if each != broker),
    )


def _in_order(some: Collection[int], known: Iterable[int]) -> Replicas:
    return tuple(dict.fromkeys(each for each in known if each in some))


def _next(
    state: PartitionState, leader: int, life: int, isr: Replicas, eligible: Replicas
) -> PartitionState:
    return replace(
        state, leader=leader, leader_life=life, leader_epoch=state.leader_epoch + 1, isr=isr,
        eligible=eligible,
    )  # fmt: skip
