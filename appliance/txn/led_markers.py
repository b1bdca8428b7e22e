"""In a cluster: markers that are written here, to partitions that this broker leads. Whoever
coordinates the transaction has decided on them, this broker or another.

In `__consumer_offsets` offsets count with their marker, or never did. So a marker is written there
only in a term in which it is known what groups have in transactions: who reads the partition later
finds it, and who has read it is told.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from appliance._log import Log
from appliance.errors import ApplianceError
from appliance.protocol import ErrorCode
from appliance.topics.topic import OFFSETS
from appliance.txn import decided_ends
from appliance.txn.first_writes import FirstWrites
from appliance.txn.markers import LedLog, Marker, Markers
from appliance.txn.markers_at_leaders import Codes
from appliance.txn.transaction import Partition


class OffsetsTerm(Protocol):
    """Of the groups of a partition, in which what they have in transactions is known."""

    epoch: int


class Logs(decided_ends.Logs, Protocol):
    def offsets_term(self, partition: int) -> OffsetsTerm:
        """Or it raises."""
        ...


class EndOffsets(Protocol):
    def __call__(
        self, producer_id: int, is_commit: bool, partition: int | None = None
    ) -> None: ...


@dataclass(eq=False)
class LedMarkers:
    _logs: Logs
    _markers: Markers
    _first_writes: FirstWrites
    _end_offsets: EndOffsets

    async def write(self, marker: Marker, places: Iterable[Partition]) -> Codes:
        """Kafka's code for each."""
        codes: dict[Partition, int] = {}
        found: dict[Partition, LedLog] = {}
        terms: dict[Partition, OffsetsTerm] = {}
        async with self._first_writes.marking({*places}, marker.producer.id):
            for place in places:
                try:
                    if place.topic == OFFSETS:
                        terms[place] = self._logs.offsets_term(place.partition)
                    found[place] = self._find(place, terms.get(place))
                except ApplianceError as error:
                    codes[place] = error.kafka_code
                except LookupError:
                    codes[place] = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            outcomes = await self._markers.write_led([*found.values()], marker)
            for place, outcome in zip(found, outcomes, strict=True):
                codes[place] = 0 if outcome is None else outcome.kafka_code
                if outcome is None and place in terms:
                    self._tell_groups(marker, place.partition, terms[place])
        return codes

    def _find(self, place: Partition, term: OffsetsTerm | None) -> LedLog:
        log: Log | None = self._logs.find_log(*place)
        if log is None:
            raise LookupError(place)
        return LedLog(log, log.election if term is None else term.epoch)

    def _tell_groups(self, marker: Marker, partition: int, term: OffsetsTerm) -> None:
        with suppress(ApplianceError):  # else who reads the partition next finds the marker
            if self._logs.offsets_term(partition) is term:
                self._end_offsets(marker.producer.id, marker.is_commit, partition)
