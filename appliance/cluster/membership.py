"""Keeps this broker registered: another life with each session, after its node was removed, when
somebody else raised the life, and when it has lost replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from kazoo.exceptions import KazooException

from appliance.cluster.forms import Key
from appliance.cluster.lives import Lives
from appliance.cluster.reading import woken
from appliance.cluster.session import AWAY, ChangeRefused, Session
from appliance.cluster.telling import Telling
from appliance.cluster.view import Listener
from appliance.errors import ApplianceError
from appliance.process import event_log

log = event_log.named("cluster")
AGAIN_S, AWAY_S = 0.5, 0.05  # nobody reports the end of a stranger's session to us


class Membership:
    def __init__(
        self,
        session: Session,
        lives: Lives,
        telling: Telling,
        listener: Listener,
        was_read: asyncio.Event,
    ) -> None:
        """`was_read`: what this broker should have is known."""
        self._was_read = was_read
        self.life = 0  # not registered
        self.refusal: Exception | None = None
        self.readers: list[Callable[[], None]] = []  # called when a life begins
        self._session, self._lives = session, lives
        self._telling, self._listener = telling, listener
        self.of_session = 0  # the life's
        self._wake = asyncio.Event()
        self._begun = asyncio.Event()
        self._outlived = 0  # how often another life was asked for

    def wake(self) -> None:
        self._wake.set()

    def end_life(self, life: int) -> None:
        """Another one begins."""
        if life == self.life:
            self.end()
            self._wake.set()

    def begin_another(self) -> None:
        """Also where one is just being begun: it may have asked before what is lost."""
        self._outlived += 1
        self.end()
        self._wake.set()

    def end(self) -> None:
        if self.life:
            self.life = 0
            self._listener.on_session()

    async def renew(self) -> None:
        self._begun.clear()
        self.begin_another()
        await self._begun.wait()

    async def keep(self) -> None:
        while True:
            await woken(self._wake, AGAIN_S if self.refusal else None)
            self._wake.clear()
            try:
                await self._session.connected()
                await self._agree()
            except AWAY:
                await asyncio.sleep(AWAY_S)
                self._wake.set()
            except (KazooException, ApplianceError) as error:
                self._failed(error)
            except Exception as error:
                log.exception("registration failed unexpectedly")
                self._failed(error)

    async def _agree(self) -> None:
        # Else nothing seems to be lost, and an empty disk keeps its places in the ISR.
        await self._was_read.wait()
        number = self._session.number
        is_same = number == self.of_session and self.life
        if is_same and await self._lives.is_ours(self.wake):
            return
        self.end()
        outlived = self._outlived
        life = await self._lives.begin(self._listener.lost_replicas)
        self._tell_resigned()
        is_ours = await self._lives.is_ours(self.wake)
        if not is_ours or number != self._session.number or outlived != self._outlived:
            self._wake.set()
            return
        self.life, self.of_session, self.refusal = life, number, None
        self._begun.set()
        self._listener.on_session()
        for each in self.readers:
            each()

    async def resign(
        self, keys: Collection[Key], whole: Collection[Key], living: Collection[int]
    ) -> None:
        for key in keys:
            await self._lives.resign(key, living if key in whole else None)
        self._tell_resigned()

    def _tell_resigned(self) -> None:
        for news in self._lives.resigned:
            self._telling.tell_all(news)
        self._lives.resigned.clear()

    def _failed(self, error: Exception) -> None:
        self.end()
        refusal = error
        if not isinstance(error, ApplianceError) or isinstance(error, ChangeRefused):
            refusal = ApplianceError(f"ZooKeeper refuses our nodes: {error!r}")
        if str(refusal) != str(self.refusal):
            log.error("not registered", error=refusal)
        self.refusal = refusal
