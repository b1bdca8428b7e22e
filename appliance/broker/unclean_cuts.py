"""What an unclean election loses is in the ledger, twice if its records are still somewhere:

    who is elected   at once: where its log ends, and that others had more. How much nobody knows
                     whose disk is there
    who follows it   what it has to cut, before that is gone: its thread cuts nothing of the kind
                     until it is on disk
"""

from __future__ import annotations

import asyncio

from appliance.broker.replica_fetchers import ReplicaFetchers
from appliance.broker.replica_roles import ReplicaRoles, UncleanWin
from appliance.catalog.loss_ledger import Damage, Ledger
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.process.spoken import some
from appliance.replication._replica_fetcher import Fetcher, UntoldCut

events = event_log.named("replication")

LOOK_S = 0.2


class UncleanCuts:
    def __init__(
        self, roles: ReplicaRoles, fetchers: ReplicaFetchers, ledger: Ledger
    ) -> None:
        self._roles = roles
        self._fetchers = fetchers
        self._ledger = ledger

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if wins := self._roles.unclean_wins:
                self._roles.unclean_wins = []
                await asyncio.to_thread(self._ledger.note, [loss(each) for each in wins])
            for each in self._fetchers.running():
                await asyncio.to_thread(self._tell, each)

    def _tell(self, fetcher: Fetcher) -> None:
        cuts = fetcher.untold_cuts()
        if not cuts:
            return
        try:
            self._ledger.note_act([damage(each, fetcher.leader_node) for each in cuts])
        except ApplianceError as error:
            events.error("not cut, for the ledger cannot be stored", leader=fetcher.leader_node,
                         partitions=len(cuts), error=error)  # fmt: skip
            return
        for each in cuts:
            fetcher.allow_cut(each.topic_id, each.partition, each.offset)


def loss(win: UncleanWin) -> Damage:
    return Damage(
        *win.key, win.end_offset, None,
        "this broker was elected without what only others had from here on (an unclean election, "
        f"epoch {win.epoch}); who of them returns says in its own ledger what it cuts",
    )  # fmt: skip


def damage(cut: UntoldCut, leader: int) -> Damage:
    count = cut.log_end_offset - cut.offset
    known = max(cut.watermark - cut.offset, 0)
    return Damage(
        cut.topic, cut.partition, cut.offset, cut.log_end_offset - 1,
        f"{some(count, 'record')} cut: broker {leader} was elected without them (an unclean "
        f"election); {known} of them had counted as far as this broker knew",
    )  # fmt: skip
