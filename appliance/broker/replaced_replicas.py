"""Replicas that cannot follow as they are: each is set aside, and another begins in its place."""

from __future__ import annotations

import asyncio

from appliance._log import Log
from appliance.broker.broker import Broker
from appliance.broker.replica_fetchers import ReplicaFetchers
from appliance.broker.replica_roles import NOBODY, ReplicaRoles
from appliance.catalog.loss_ledger import Damage
from appliance.cluster.cluster import Cluster
from appliance.data_dir.partition_names import Key
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.topics import empty_replicas

events = event_log.named("replication")

LOOK_S = 0.5


class ReplacedReplicas:
    def __init__(
        self, broker: Broker, cluster: Cluster, roles: ReplicaRoles, fetchers: ReplicaFetchers
    ) -> None:
        self._broker, self._cluster = broker, cluster
        self._roles, self._fetchers = roles, fetchers
        self._told: dict[Key, Log] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for key in sorted({*self._fetchers.stranded, *self._roles.hollow}):
                try:
                    await self._replace(key)
                except ApplianceError as error:
                    events.error("a replica could not be set aside", error=error,
                                 partition=f"{key[0]}-{key[1]}")  # fmt: skip
                self._forget(key)

    async def _replace(self, key: Key) -> None:
        log = self._broker.topics.served_log(*key)
        if log is None or not empty_replicas.is_of_no_use(log) or not self._is_in_the_way(key):
            return
        if not empty_replicas.is_empty(log) and key not in self._roles.hollow:
            return  # its hole is an old one, of which the ledger told
        if self._cluster.states[key].unclean != NOBODY and self._told.get(key) is not log:
            await self._tell(key, log)
            self._told[key] = log
        await empty_replicas.begin_anew(
            self._broker.topics, self._broker.change, self._fetchers.stop, key,
            self._is_in_the_way, self._roles.hollow.discard,
        )  # fmt: skip
        self._told.pop(key, None)

    def _is_in_the_way(self, key: Key) -> bool:
        """Nobody counts on what it has, and somebody has more."""
        state, us = self._cluster.states.get(key), self._broker.node_id
        if state is None or us in (*state.isr, *state.eligible):
            return False
        return state.leader not in (NOBODY, us)  # else this may be all that there is

    async def _tell(self, key: Key, log: Log) -> None:
        """In the ledger, before it goes: its leader was elected without what only others had, and
        some of that may be here."""
        if log.log_start_offset == log.log_end_offset:
            return
        found = Damage(
            *key, log.log_start_offset, log.log_end_offset - 1,
            "this replica had lost records. What it still had is set aside, and it is copied from "
            "a leader of an unclean election, which may lack some of that",
        )  # fmt: skip
        await asyncio.to_thread(self._broker.ledger.note_act, [found])

    def _forget(self, key: Key) -> None:
        """It was deleted, or has what it lacked by now. One whose files could not be set aside
        stays: it must not follow when it is opened again as it is."""
        log = self._broker.topics.served_log(*key)
        is_gone = self._broker.topics.get(key[0]) is None
        is_mended = log is not None and not (
            empty_replicas.is_hollow(log) or empty_replicas.lacks_records(log)
        )
        if key in self._roles.hollow and (is_gone or is_mended):
            self._roles.hollow.discard(key)
            self._roles.apply([key])
