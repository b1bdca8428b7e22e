"""What the lag of groups wants to know of partitions that are on other brokers alone."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

from appliance.groups.records import Partition


class Ends(NamedTuple):
    start: int
    end: int  # the high watermark


class Elsewhere(Protocol):
    def is_there(self, partition: Partition) -> bool:
        """Others have it, and there is nothing of it here."""
        ...

    async def ask(self, partitions: Collection[Partition]) -> None:
        """Their leaders, unless that was lately. Waits a moment only."""
        ...

    def ends(self, partition: Partition) -> Ends | None:
        """As its leader told last; None: it has not lately."""
        ...

    def seconds(self, partition: Partition, offset: int) -> float | None:
        """Since when the record at that offset is known to be there; None: it is not known."""
        ...
