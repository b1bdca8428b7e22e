"""In a cluster: the first write of a transaction to a partition, whose leader asks the transaction
coordinator, which may be another broker.

Between its answer and the write the transaction may end, and its marker be written here: what is
written after that is open for good, or belongs to the next transaction. So who has asked writes
only if no marker of the producer has come since, in the same election, and a marker that comes then
waits for the write. Kafka calls that a verification guard.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from appliance._log import Log
from appliance.protocol import ErrorCode
from appliance.txn.states import TransactionRefused
from appliance.txn.transaction import Partition, Producer

Refused = Mapping[Partition, TransactionRefused]

# May be added, or was: asks the coordinator of a transactional id, wherever it is.
Ask = Callable[[str, Producer, frozenset[Partition], bool], Awaitable[Refused]]


@dataclass(eq=False)
class Meeting:
    """Of the writes and the markers of a producer in a partition."""

    markers: int = 0  # that have come
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(eq=False)
class FirstWrites:
    _ask: Ask
    _log: Callable[[str, int], Log | None]
    # as long as somebody asks, writes or marks
    _meetings: WeakValueDictionary[tuple[Partition, int], Meeting] = field(
        default_factory=WeakValueDictionary
    )

    @asynccontextmanager
    async def writing(
        self, name: str, producers: Mapping[Partition, Producer], may_add: bool
    ) -> AsyncIterator[Refused]:
        """As `Coordinator.writing`."""
        began = {each: self._begin(each, producers[each]) for each in sorted(producers)}
        refused = dict(await self._ask_all(name, producers, may_add))
        async with AsyncExitStack() as held:
            for place, (meeting, markers, election) in began.items():
                if place in refused:
                    continue
                await held.enter_async_context(meeting.turn)
                if (meeting.markers, self._election(place)) != (markers, election):
                    refused[place] = TransactionRefused(
                        ErrorCode.CONCURRENT_TRANSACTIONS,
                        f"transactional id {name}: a transaction has ended in {place.topic}-"
                        f"{place.partition}, or another broker was elected, in this moment",
                    )
            yield refused

    def _begin(self, place: Partition, producer: Producer) -> tuple[Meeting, int, int]:
        meeting = self._meeting(place, producer.id)
        return meeting, meeting.markers, self._election(place)

    def _meeting(self, place: Partition, producer_id: int) -> Meeting:
        return self._meetings.setdefault((place, producer_id), Meeting())

    def _election(self, place: Partition) -> int:
        log = self._log(*place)
        return -1 if log is None or log.role != "leader" else log.election

    async def _ask_all(
        self, name: str, producers: Mapping[Partition, Producer], may_add: bool
    ) -> Refused:
        """Of one producer mostly: a client that errs may send batches of several."""
        refused: dict[Partition, TransactionRefused] = {}
        for producer in {*producers.values()}:
            own = frozenset(each for each, its in producers.items() if its == producer)
            refused |= await self._ask(name, producer, own, may_add)
        return refused

    @asynccontextmanager
    async def marking(self, places: Iterable[Partition], producer_id: int) -> AsyncIterator[None]:
        """Whoever has asked and not written yet writes no more, from now on."""
        meetings = [self._meeting(each, producer_id) for each in sorted(places)]
        for each in meetings:
            each.markers += 1
        async with AsyncExitStack() as held:
            for each in meetings:
                await held.enter_async_context(each.turn)
            yield
