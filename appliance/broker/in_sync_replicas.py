"""Which followers must have a record before it counts: a leader's ISR, in ZooKeeper and in its log.

    leaves   who has not had all for `replica.lag.time.max.ms`, or lives no more. It is waited for
             until ZooKeeper has written that it left
    joins    who has, in the life that ZooKeeper knows, the leader's high watermark and the start of
             its epoch on disk, and fetches: who is cut off may have all of a partition that nobody
             writes to, and would come and go five times a second. It is waited for from the
             proposal until the outcome is known. In the moment of the proposal, and not before, it
             is decided by the log whether it has what counts: while it is not waited for, more does

One write for a partition is under way at a time. A refused one is never repeated as it is: what
ZooKeeper has now is taken over, and looked at again.
"""

from __future__ import annotations

import asyncio
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


class InSyncReplicas:
    def __init__(
        self, cluster: Cluster, topics: Topics, roles: ReplicaRoles, lag_max_ms: int
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._roles = roles
        self._lag_max_ms = lag_max_ms
        self._writes: dict[Key, asyncio.Task[None]] = {}
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
            elif self._may_join(log, each) and not begins_anew(log, each, state):
                isr.add(each.node)
                joining[each.node] = each.life
        return isr, joining

    def _stays(self, replica: ReplicaState) -> bool:
        broker = self._cluster.brokers.get(replica.node)
        if broker is None:
            return False
        # One that registered anew has all that counted; it has its time to fetch again.
        return replica.lag_ms <= self._lag_max_ms

    def _may_join(self, log: Log, replica: ReplicaState) -> bool:
        broker = self._cluster.brokers.get(replica.node)
        if broker is None or broker.life != replica.life or replica.node in self._cluster.leaving:
            return False
        if replica.lag_ms > self._lag_max_ms:
            return False
        return replica.end_offset >= log.high_watermark and replica.end_offset >= log.leads_from

    async def _write(
        self,
        key: Key,
        log: Log,
        state: PartitionState,
        isr: Collection[int],
        joining: dict[int, int],
    ) -> None:
        try:
            self._roles.propose(key, {*joining})
            waited_for = {each.node for each in log.replicas() if each.is_joining}
            isr = [each for each in isr if each not in joining or each in waited_for]
            joining = {node: life for node, life in joining.items() if node in waited_for}
            if not self._is_news(key, state, isr):
                self._roles.settle(key)
                return self._roles.apply([key])
            outcome = await self._cluster.write_isr(
                key, state.version, sorted(isr), joining, self._cluster.least_in_sync(*key)
            )
        except ApplianceError as error:
            # Not known: who was proposed stays waited for, until another election or write.
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


def begins_anew(log: Log, replica: ReplicaState, state: PartitionState) -> bool:
    """Whether it is empty behind records of the leader's, and has none of them as far as anybody
    knows: it was another leader's before an unclean election."""
    is_empty = replica.start_offset == replica.end_offset
    return state.unclean >= 0 and is_empty and replica.start_offset > log.log_start_offset
