"""Notices by brokers that are not the controller: of the in-sync replicas that a leader wrote, and
of configs. They only make others see sooner what their own conditional writes would meet anyway, so
they are collected for a moment and go together."""

from __future__ import annotations

import asyncio

from kazoo.exceptions import KazooException

from appliance.cluster import paths
from appliance.cluster.notices import Notice, in_pieces, notice_node
from appliance.cluster.session import AWAY, Session
from appliance.cluster.table import TopicNews, merged
from appliance.cluster.view import View
from appliance.process import event_log

log = event_log.named("cluster")
COLLECTED_S = 0.02
AWAY_S = 0.2


class Telling:
    def __init__(self, session: Session, view: View, node_id: int) -> None:
        self._session, self._view, self._node_id = session, view, node_id
        self._untold: list[TopicNews] = []
        self._wake = asyncio.Event()

    def tell(self, news: TopicNews) -> None:
        if news.topic_id:  # else it was deleted meanwhile
            self._untold.append(news)
            self._wake.set()

    def tell_all(self, news: TopicNews) -> None:
        """Also what this broker knows: notices of its own it does not read."""
        self._view.table.apply(news)
        self._view.tell()
        self.tell(news)

    async def tell_of_stop(self, life: int) -> None:
        """At once: others are to know it before clients are refused."""
        await self._put(Notice(self._node_id, stopping=life))
        self._view.note_stopping(self._node_id, life)

    async def keep(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(COLLECTED_S)
            self._wake.clear()
            untold, self._untold = self._untold, []
            try:
                await self._session.connected()
                await self._write(untold)
            except AWAY:
                self._untold = untold + self._untold
                self._wake.set()
                await asyncio.sleep(AWAY_S)
            except KazooException as error:
                log.warning("others hear of it later", error=repr(error))
            except Exception:
                log.exception("a notice failed unexpectedly")

    async def _write(self, untold: list[TopicNews]) -> None:
        for piece in in_pieces(merged(untold)):
            await self._put(Notice(self._node_id, piece))

    async def _put(self, notice: Notice) -> None:
        data = notice_node(notice)
        path = await self._session.create(f"{paths.CHANGES}/c", data, sequence=True)
        self._view.own.add(int(path[-10:]))
