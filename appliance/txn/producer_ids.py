"""Producer ids, one after the other; whoever hands them out is asked for a block at a time: the
catalog, or in a cluster ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from appliance.catalog.producer_id_rows import ProducerIdRows

Reserve = Callable[[], Awaitable[range]]


class ProducerIds:
    def __init__(self, rows: ProducerIdRows) -> None:
        self._reserve: Reserve = lambda: asyncio.to_thread(rows.reserve)
        self._ids = iter(range(0))
        self._reserving = asyncio.Lock()

    def take_from(self, reserve: Reserve) -> None:
        """From now on: what is left of the last block is not given any more."""
        self._reserve = reserve
        self._ids = iter(range(0))

    async def new(self) -> int:
        async with self._reserving:
            producer_id = next(self._ids, None)
            if producer_id is None:
                self._ids = iter(await self._reserve())
                producer_id = next(self._ids)
            return producer_id
