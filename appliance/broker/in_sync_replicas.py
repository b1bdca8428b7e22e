"""Which followers must have a record before it counts: a leader's ISR, in ZooKeeper and in its log.

    leaves   who has not had all for `replica.lag.time.max.ms`, or lives no more. It is waited for
             until ZooKeeper has written that it left
    joins    who has, in the life that ZooKeeper knows, the leader's high watermark and the start of
             its epoch on disk, and fetches: who is cut off may have all of a partition that nobody
             writes to, and would come and go five times a second. It is proposed first: from then
             on the log waits for it until the outcome is known. Only now it is looked whether it
             has what counts, for nothing more does without it. ZooKeeper is told of who has that,
             and who has not is proposed no more

Under a steady load a follower whose disk or way is slower than the leader's is always a moment
behind the watermark. Who keeps up so is proposed, too, and has a moment to get what counts.

One write for a partition is under way at a time. A refused one is never repeated as it is: what
ZooKeeper has now is taken over, and looked at again. Where the outcome of one is not known, by a
fault of ours, ZooKeeper is asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from appliance._log import Log
from appliance.broker.replica_roles import ReplicaRoles
from appliance.data_dir.partition_names import Key
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.storage._replication_from_python import ReplicaState
from appliance.topics.topics import Topics

if TYPE_CHECKING:
    from appliance.cluster.cluster import Cluster
    from appliance.cluster.forms import PartitionState

events = event_log.named("replication")

LOOK_S = 0.2  # who caught up joins so soon, and who died leaves

# Who had all so lately is proposed although it lacks what counts. So long producers with acks=all
# wait for it at most: as they will, once it is in sync. If it is still not there, it has to be
# there by itself for a while.
NEAR_MS = 1000
CATCHES_UP_S = 1.0
CATCHES_UP_LOOK_S = 0.005
IN_VAIN_S = 10.0


class InSyncReplicas:
    def __init__(
        self, cluster: Cluster, topics: Topics, roles: ReplicaRoles, lag_max_ms: int
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._roles = roles
        self._lag_max_ms = lag_max_ms
        self._writes: dict[Key, asyncio.Task[None]] = {}
        self._in_vain: dict[tuple[str, int], float] = {}  # until when, by log and follower
        self.shrinks = self.expands = 0  # replicas that left, and came

    async def run(self) -> None:
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                if not self._roles.is_paused and self._cluster.has_session:
                    self._look()
        finally:
            for each in [*self._writes.values()]:
                each.cancel()

    def _look(self) -> None:
        """Five times a second for each partition: one look into the log is enough where all are in
        sync and live, as they nearly always do."""
        living = {*self._cluster.brokers}
        for key, log in self._roles.led():
            state = self._cluster.states.get(key)
            if state is None or key in self._writes or not self._cluster.leads(key):
                continue
            if log.election != state.leader_epoch:
                continue
            if self._roles.proposed(key):
                self._writes[key] = asyncio.create_task(self._ask(key))
                continue
            is_calm = not state.eligible and living.issuperset(state.isr)
            if is_calm and log.is_settled(self._lag_max_ms):
                continue
            wanted, joining = self.wanted(log, state)
            if self._is_news(key, state, wanted):
                self._writes[key] = asyncio.create_task(
                    self._write(key, log, state, wanted, joining))  # fmt: skip

    def _is_news(self, key: Key, state: PartitionState, isr: Collection[int]) -> bool:
        must_clear = bool(state.eligible) and len(isr) >= self._cluster.least_in_sync(*key)
        return {*isr} != {*state.isr} or must_clear

    def wanted(self, log: Log, state: PartitionState) -> tuple[set[int], dict[int, int]]:
        """The ISR as it should be, and the lives of those who join it."""
        isr, joining = {self._cluster.member.node_id}, {}
        for each in log.replicas():
            if each.node in state.isr:
                if self._stays(each):
                    isr.add(each.node)
            elif self._may_be_proposed(log, each) and not begins_anew(log, each, state):
                isr.add(each.node)
                joining[each.node] = each.life
        return isr, joining

    def _stays(self, replica: ReplicaState) -> bool:
        broker = self._cluster.brokers.get(replica.node)
        if broker is None:
            return False
        # One that registered anew has all that counted; it has its time to fetch again.
        return replica.lag_ms <= self._lag_max_ms

    def _may_be_proposed(self, log: Log, replica: ReplicaState) -> bool:
        if not self._may_join(replica) or replica.start_offset < log.log_start_offset:
            return False
        return self._has_what_counts(log, replica) or self._keeps_up(log, replica)

    def _may_join(self, replica: ReplicaState) -> bool:
        broker = self._cluster.brokers.get(replica.node)
        if broker is None or broker.life != replica.life or replica.node in self._cluster.leaving:
            return False
        return replica.lag_ms <= self._lag_max_ms

    def _has_what_counts(self, log: Log, replica: ReplicaState) -> bool:
        """And nothing of what was deleted: should it lead, it would show that again. Of a leader
        that stops it has all: nobody else will."""
        least = log.log_end_offset if self._roles.is_ending else log.high_watermark
        return (replica.end_offset >= max(least, log.leads_from)
                and replica.start_offset >= log.log_start_offset)  # fmt: skip

    def _keeps_up(self, log: Log, replica: ReplicaState) -> bool:
        is_near = replica.has_caught_up and replica.lag_ms <= NEAR_MS
        in_vain_until = self._in_vain.get((log.name, replica.node), 0.0)
        return is_near and time.monotonic() >= in_vain_until

    async def _who_has_what_counts(
        self, log: Log, lives: dict[int, int], patience_s: float
    ) -> set[int]:
        """Of those who are proposed, in these lives."""
        end_s = time.monotonic() + patience_s
        while True:
            # in this order: what counts by then is not more than who is waited for had before
            there = {each.node for each in log.replicas()
                     if each.is_joining and lives.get(each.node) == each.life
                     and self._may_join(each) and self._has_what_counts(log, each)}  # fmt: skip
            if there == {*lives} or time.monotonic() >= end_s or log.role != "leader":
                break
            await asyncio.sleep(CATCHES_UP_LOOK_S)
        for node in lives:
            if node in there:
                self._in_vain.pop((log.name, node), None)
            elif patience_s:
                self._note_in_vain(log.name, node)
        return there

    def _note_in_vain(self, name: str, node: int) -> None:
        """What is over is forgotten: topics come and go."""
        now = time.monotonic()
        self._in_vain = {each: end for each, end in self._in_vain.items() if end > now}
        self._in_vain[name, node] = now + IN_VAIN_S

    async def _write(
        self,
        key: Key,
        log: Log,
        state: PartitionState,
        isr: Collection[int],
        joining: dict[int, int],
    ) -> None:
        try:
            if joining:
                proposed = self._roles.propose(key, {*joining})
                # nothing counts until ZooKeeper knows of one that leaves: that comes first
                patience_s = 0.0 if {*state.isr} - {*isr} else CATCHES_UP_S
                there = await self._who_has_what_counts(log, joining, patience_s)
                if late := proposed - there:
                    self._roles.withdraw(key, late)
                isr = [each for each in isr if each not in joining or each in there]
                joining = {node: life for node, life in joining.items() if node in there}
            if not self._is_news(key, state, isr):
                return
            outcome = await self._cluster.write_isr(
                key, state.version, sorted(isr), joining, self._cluster.least_in_sync(*key)
            )
        except ApplianceError as error:
            # Not known: who was proposed stays waited for, until ZooKeeper has answered.
            events.error("an ISR cannot be written", partition=log.name, error=error)
            return
        finally:
            del self._writes[key]
        self._roles.settle(key)
        if outcome.is_written:
            self.shrinks += len({*state.isr} - {*isr})
            self.expands += len({*isr} - {*state.isr})
            events.info("ISR changed", partition=log.name, epoch=state.leader_epoch,
                        before=[*state.isr], isr=sorted(isr))  # fmt: skip
        self._roles.apply([key])

    async def _ask(self, key: Key) -> None:
        """What became of a proposal."""
        try:
            await self._cluster.read_state(key)
        except ApplianceError as error:
            events.error("an ISR cannot be read", partition=f"{key[0]}-{key[1]}", error=error)
            return
        finally:
            del self._writes[key]
        self._roles.settle(key)
        self._roles.apply([key])


def begins_anew(log: Log, replica: ReplicaState, state: PartitionState) -> bool:
    """Whether it is empty behind records of the leader's, and has none of them as far as anybody
    knows: it was another leader's before an unclean election."""
    is_empty = replica.start_offset == replica.end_offset
    return state.unclean >= 0 and is_empty and replica.start_offset > log.log_start_offset
