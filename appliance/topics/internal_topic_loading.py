"""Reads at a start what an owner has in an internal topic, and again while it cannot be read.

Nobody is served before that: clients are told to ask again. A topic that is there and cannot be
opened is looked at again soon, since nobody may be answered as if it was empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from appliance.errors import ApplianceError
from appliance.process.event_log import Named
from appliance.protocol import ErrorCode
from appliance.topics.internal_topic import HELD_UP_S


class HeldUp(ApplianceError):
    """What is to be read cannot be opened yet."""


class Words(NamedTuple):
    """For people: of clients, of the health page, of the log."""

    being_read: str
    cannot_be_read: str
    cannot_be_read_yet: str
    none_is_served: str


class Loading:
    def __init__(
        self,
        load: Callable[[], Awaitable[None]],
        refused: Callable[[ErrorCode, str], ApplianceError],
        words: Words,
        logger: Named,
    ) -> None:
        """`load` raises HeldUp where it is to be called again, or why nobody is served for good."""
        self.fault = ""  # why nobody is served
        self._load = load
        self._refused = refused
        self._words = words
        self._logger = logger
        self._loading: asyncio.Task[None] | None = None
        self._held_up: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self._refusal: ApplianceError | None = None
        self._refuse("the broker has not started")

    def start(self) -> None:
        """On the event loop."""
        self._held_up = None
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._refusal = self._refused(code, self._words.being_read)
        self._loading = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._load()
        except HeldUp as error:
            self._fail(f"{self._words.cannot_be_read_yet}: {error}", error)
            if not self._is_stopped:
                self._held_up = asyncio.get_running_loop().call_later(HELD_UP_S, self.start)
        except ApplianceError as error:
            self._fail(f"{self._words.cannot_be_read}: {error}", error)
        else:
            self._refusal, self.fault = None, ""

    def _fail(self, fault: str, error: ApplianceError) -> None:
        self.fault = fault
        self._refuse(fault)
        self._logger.error(self._words.none_is_served, error=error)

    def _refuse(self, why: str) -> None:
        self._refusal = self._refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, why)

    def stop(self) -> None:
        """Lets nobody in any more, unless a load is under way: it is waited for, and then this is
        called again."""
        self._is_stopped = True
        self._refuse("the broker stops")
        if self._held_up is not None:
            self._held_up.cancel()

    async def loaded(self) -> None:
        """After a load that has begun."""
        if self._loading is not None:
            await self._loading

    @property
    def is_loaded(self) -> bool:
        return self._refusal is None

    @property
    def is_held_up(self) -> bool:
        return self._held_up is not None

    def check_loaded(self) -> None:
        if self._refusal is not None:
            raise self._refusal
