"""Producer ids, one after the other; the catalog is asked for a block of them at a time."""

from __future__ import annotations

import asyncio

from appliance.catalog.producer_id_rows import ProducerIdRows


class ProducerIds:
    def __init__(self, rows: ProducerIdRows) -> None:
        self._rows = rows
        self._ids = iter(range(0))
        self._reserving = asyncio.Lock()

    async def new(self) -> int:
        async with self._reserving:
            producer_id = next(self._ids, None)
            if producer_id is None:
                self._ids = iter(await asyncio.to_thread(self._rows.reserve))
                producer_id = next(self._ids)
            return producer_id
