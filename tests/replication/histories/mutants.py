"""Bugs of replication, planted into real processes, one at a time. As a module it is the broker
with one of them: `python -m tests.replication.histories.mutants NAME serve ...`.

Those of the compiled code are in the copy that `tests.crash.build.mutant_engine` makes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from tests.crash.build import REPOSITORY, mutant_engine

# By kinds of faults under which each is looked for.
CRASHES = ("kill", "two killed", "all killed", "returns alone", "pause")
POWER = ("power cut", "power cut of all")
COMPILED: dict[str, tuple[str, ...]] = {
    "acks_before_isr": CRASHES,
    "watermark_of_majority": ("late fetch", "bridge"),
    "follower_counts_unsynced": POWER,
    "older_epochs_are_answered": ("late fetch",),
    "logs_may_diverge": CRASHES,
}


# A broker is to be back before its session ends, or paused for so long, on a slow machine, too.
SESSIONS_MS = {"restarted_leader_leads_on": 9000, "older_epochs_are_answered": 9000}


def plant(owner: Any, name: str, bug: Any) -> None:
    """In the place of what has that name: where nothing has it, nobody would meet the bug."""
    getattr(owner, name)
    setattr(owner, name, bug)


def cuts_at_the_watermark() -> None:
    """Who begins to follow cuts off what it does not know to be everywhere."""
    from appliance.broker import replica_fetchers

    follow = replica_fetchers.ReplicaFetchers.follow

    def cut_and_follow(
        self: Any, key: Any, topic_id: bytes, log: Any, leader: int, unclean: int = -1
    ) -> None:
        known = self._followed.get(key)
        is_new = known is None or known.leader != leader
        if is_new and log.high_watermark < log.log_end_offset:
            log.cut(log.election, log.high_watermark)
        follow(self, key, topic_id, log, leader, unclean)

    plant(replica_fetchers.ReplicaFetchers, "follow", cut_and_follow)


def leads_without_a_session() -> None:
    """Neither a session's end nor another life ends a leadership: only another's election."""
    from appliance.cluster.cluster import Cluster

    def leads(self: Any, key: Any) -> bool:
        state = self.states.get(key)
        return state is not None and state.leader == self.member.node_id

    plant(Cluster, "leads", leads)
    plant(Cluster, "session_ends_ns", property(lambda self: time.monotonic_ns() + 10**12))


def isr_without_version() -> None:
    """What is written into the state of a partition is written whoever has written it since: an
    ISR by a leader that was deposed."""
    from appliance.cluster import isr_writes
    from appliance.cluster.session import Change

    set_data = Change.set

    def set_any(self: Any, path: str, data: bytes, version: int) -> Change:
        return set_data(self, path, data, -1 if path.endswith("/state") else version)

    plant(Change, "set", set_any)
    plant(isr_writes.IsrWrites, "_leads", lambda self, state, life: True)


def lost_disk_keeps_its_place() -> None:
    """Who comes back with an empty disk does not say so."""
    from appliance.broker.replica_roles import ReplicaRoles
    from appliance.data_dir.made_logs import MadeLogs

    def lost(self: Any, node: int) -> Collection[Any]:
        return []

    plant(ReplicaRoles, "lost", lost)
    plant(MadeLogs, "keys", lambda self: [])


def elects_anybody() -> None:
    """The first replica that lives, in sync or not."""
    from appliance.cluster import election

    def elected(state: Any, replicas: Any, voters: Any, *rest: Any) -> Any:
        candidates = voters.in_order(replicas)
        if not election.is_over(state, voters) or not candidates:
            return None
        first = candidates[0]
        return replace(state, leader=first, leader_life=voters.lives[first],
                       leader_epoch=state.leader_epoch + 1, isr=(first,), eligible=())  # fmt: skip

    plant(election, "elected", elected)


def joins_without_records() -> None:
    """A follower is in sync as soon as it lives."""
    from appliance.broker.in_sync_replicas import InSyncReplicas

    def may_join(self: Any, replica: Any) -> bool:
        broker = self._cluster.brokers.get(replica.node)
        return broker is not None and broker.life == replica.life

    def has_what_counts(self: Any, log: Any, replica: Any) -> bool:
        return True

    def stays(self: Any, replica: Any) -> bool:
        return replica.node in self._cluster.brokers

    plant(InSyncReplicas, "_may_join", may_join)
    plant(InSyncReplicas, "_has_what_counts", has_what_counts)
    plant(InSyncReplicas, "_stays", stays)


def leaves_before_it_is_written() -> None:
    """Who left the ISR is not waited for, though ZooKeeper does not know yet."""
    from appliance.broker.in_sync_replicas import InSyncReplicas

    write = InSyncReplicas._write

    async def shrink_and_write(
        self: Any, key: Any, log: Any, state: Any, isr: Any, joining: Any
    ) -> None:
        us = self._cluster.member.node_id
        log.set_in_sync(
            state.leader_epoch, [each for each in isr if each != us and each in state.isr],
            [], min(self._cluster.least_in_sync(*key), len(isr)),
        )  # fmt: skip
        await write(self, key, log, state, isr, joining)

    plant(InSyncReplicas, "_write", shrink_and_write)


def proposed_are_not_waited_for() -> None:
    """Who is to join the ISR is waited for only when its leader has heard that ZooKeeper has it."""
    from appliance.broker.in_sync_replicas import InSyncReplicas
    from appliance.broker.replica_roles import ReplicaRoles

    def propose(self: Any, key: Any, joining: set[int]) -> set[int]:
        return joining

    async def who_has_what_counts(self: Any, log: Any, lives: Any, patience_s: float) -> set[int]:
        return {each.node for each in log.replicas()
                if each.node in lives and self._has_what_counts(log, each)}  # fmt: skip

    plant(ReplicaRoles, "propose", propose)
    plant(InSyncReplicas, "_who_has_what_counts", who_has_what_counts)


def restarted_leader_leads_on() -> None:
    """A life is no more than a sign of one: who leads and comes back soon leads on in its epoch."""
    from appliance.cluster import election
    from appliance.cluster.cluster import Cluster

    def leads(self: Any, key: Any) -> bool:
        state = self.states.get(key)
        return bool(self.life) and state is not None and state.leader == self.member.node_id

    def is_over(state: Any, voters: Any) -> bool:
        return state.leader not in state.isr or state.leader not in voters.lives

    plant(Cluster, "leads", leads)
    plant(election, "is_over", is_over)


def older_copy_is_not_told() -> None:
    """A directory is what it is taken for, whichever life of the broker it was written in."""
    from appliance.broker import kept_lives

    def keep(self: Any, former: int, life: int) -> dict[Any, Any]:
        for each in self._log_dirs.directories:
            if each.logs is not None:
                kept_lives._write(each.path / kept_lives.NAME, life)
        return {}

    plant(kept_lives.KeptLives, "_keep", keep)


def coordinators_wait_for_nobody() -> None:
    """What a coordinator writes, a commit or the end of a transaction, counts when its own log has
    it."""
    from appliance.errors import ApplianceError
    from appliance.topics.internal_topic import InternalTopic

    def hand_over(self: Any) -> None:
        told: list[Any] = []
        for batch, log in self._batches:
            try:
                appended = log.append(
                    batch.data, leader_epoch=batch.election, origin="coordinator"
                )
                log.ask_commit()
                told.append((None, appended.base_offset))
            except ApplianceError as error:
                told.append((error, -1))
        if told:
            asyncio.get_running_loop().call_soon(self._written, told)

    plant(InternalTopic, "_hand_over", hand_over)


def deposed_coordinator_answers() -> None:
    """Groups and transactions are not let go of by whoever does not lead their partition any more.
    """
    from appliance.broker.replica_roles import ReplicaRoles

    def tell(self: Any, key: Any) -> None:
        if (log := self._led.get(key)) is not None:
            self._coordinators[key[0]].on_led(key[1], log.election)

    plant(ReplicaRoles, "_tell_coordinators", tell)


def stops_without_handing_over() -> None:
    """A broker that is stopped ends its session at once."""
    from appliance.broker import in_cluster

    async def hand_over(_: Any, roles: Any) -> None:
        roles.end_leading()

    plant(in_cluster, "hand_over", hand_over)


INTERPRETED: dict[str, tuple[Callable[[], None], tuple[str, ...]]] = {
    "cuts_at_the_watermark": (cuts_at_the_watermark, CRASHES),
    "leads_without_a_session": (leads_without_a_session, ("cut from ZooKeeper",)),
    "isr_without_version": (isr_without_version, ("late ISR write",)),
    "lost_disk_keeps_its_place": (lost_disk_keeps_its_place, ("new disk first",)),
    "older_copy_is_not_told": (older_copy_is_not_told, ("old copy first",)),
    "elects_anybody": (elects_anybody, ("returns alone",)),
    "joins_without_records": (joins_without_records, ("joiner alone",)),
    "proposed_are_not_waited_for": (proposed_are_not_waited_for, ("joins unheard",)),
    "leaves_before_it_is_written": (leaves_before_it_is_written, ("cut off in steps",)),
    "restarted_leader_leads_on": (restarted_leader_leads_on, ("power cut back",)),
    "coordinators_wait_for_nobody": (
        coordinators_wait_for_nobody, ("cut off in steps", "cut off"),
    ),
    "deposed_coordinator_answers": (
        deposed_coordinator_answers, ("pause", "cut from ZooKeeper", "cut off"),
    ),
    "stops_without_handing_over": (stops_without_handing_over, ("stops ahead",)),
}  # fmt: skip


def environment(mutant: str) -> dict[str, str]:
    """Of a broker, whose own package comes first in it."""
    own = os.environ.get("HISTORY_PACKAGE", str(REPOSITORY))
    places = [str(mutant_engine()) if mutant in COMPILED else own, str(REPOSITORY)]
    told = {"APPLIANCE_MUTANT": mutant} if mutant in COMPILED else {}
    return {**told, "PYTHONPATH": os.pathsep.join(places)}


ALL = {**COMPILED, **{name: kinds for name, (_, kinds) in INTERPRETED.items()}}


def main(name: str) -> None:
    if name in INTERPRETED:
        INTERPRETED[name][0]()
    else:
        assert os.environ["APPLIANCE_MUTANT"] == name
    from appliance.cli.main import main as serve

    sys.argv[1:] = sys.argv[2:]
    serve()


if __name__ == "__main__":
    main(sys.argv[1])
