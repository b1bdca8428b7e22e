"""A target that keeps the source's offsets: an appliance, in topics with `mirror.source`.

The position is its log end, so there is nothing else to remember. What is missing at the beginning,
because the source does not have it or has it no more, is sent as empty batches like any other gap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from appliance.client.errors import BrokerRefused
from appliance.mirror.config import MirrorConfig
from appliance.mirror.errors import TopicRefused
from appliance.mirror.inbox import Fetched, Octets
from appliance.mirror.pipeline import Lane, Pipeline, Then
from appliance.mirror.progress import Progress
from appliance.mirror.site import LATEST, Place, Site
from appliance.process import event_log
from appliance.protocol.messages.delete_records import API as DELETE_RECORDS
from appliance.protocol.messages.delete_records import DeleteRecordsRequest
from appliance.record import _mirror

log = event_log.named("mirror")


class KeptTarget:
    def __init__(
        self, site: Site, sources: dict[str, str], progress: Progress, config: MirrorConfig
    ) -> None:
        self._site, self._sources, self._progress = site, sources, progress
        self._config = config
        self._pipeline = Pipeline(site, config.request_timeout_ms)
        self._new: dict[Place, int] = {}  # partitions that were empty, and where the source begins

    def close(self) -> None:
        self._pipeline.close()

    # the beginning

    def positions(
        self,
        starts: dict[Place, int],
        ends: dict[Place, int],
        refuse: Callable[[TopicRefused], None],
    ) -> dict[Place, int | None]:
        """Where each goes on; `starts` and `ends` are the source's. None: it was never begun."""
        here = self._site.offsets(starts, LATEST)
        for place, offset in here.items():
            if offset > ends[place]:
                why = (
                    f"partition {place.partition} ends at {offset} in the target and at "
                    f"{ends[place]} in the source, which lost records that are mirrored"
                )
                refuse(TopicRefused(place.topic, why))
        return {place: offset or None for place, offset in here.items()}

    def pass_over(self, place: Place, offset: int | None, start: int, end: int) -> int:
        """Offsets that the source does not have. The first batch that it still has may begin below
        its start, and fills in what is missing before it; only where there is none is it done here.
        """
        if offset is None:
            self._new[place] = start
        if start < end:
            return offset or 0
        data = _mirror.gap(offset or 0, start)
        self.send([Fetched(place, data, start, 0, len(data))])
        return start

    # sending

    def prepare(
        self, place: Place, records: Octets, before: int, aborted: list[tuple[int, int]]
    ) -> tuple[bytes, int, int, int]:
        kept = _mirror.kept(records, before, aborted)
        return kept.data, kept.next_offset, kept.records, len(kept.data)

    def send(self, fetched: Iterable[Fetched]) -> None:
        """All of it as one request a lane: a mirror may send many batches a partition."""
        of: dict[Lane, dict[Place, list[Fetched]]] = defaultdict(lambda: defaultdict(list))
        for each in fetched:
            of[self._pipeline.lane(each.place)][each.place].append(each)
        for lane, places in of.items():
            batches = {place: [each.payload for each in rows] for place, rows in places.items()}
            self._pipeline.send(lane, batches, self._on_answer(places), self._sources)

    def _on_answer(self, sent: dict[Place, list[Fetched]]) -> Then:
        return lambda _: self._written(sent)

    def _written(self, sent: dict[Place, list[Fetched]]) -> None:
        for place, rows in sent.items():
            records, size = sum(each.records for each in rows), sum(each.size for each in rows)
            self._progress.wrote(place, rows[-1].next_offset, records, size)
            if place in self._new:
                self._forget_before(place, self._new.pop(place))

    def _forget_before(self, place: Place, offset: int) -> None:
        """So that the target begins where the source does, and not with a gap."""
        row = DeleteRecordsRequest.DeleteRecordsPartition(place.partition, offset)
        topic = DeleteRecordsRequest.DeleteRecordsTopic(place.topic, [row])
        asked = DeleteRecordsRequest([topic], self._config.request_timeout_ms)
        answer = self._site.ask(DELETE_RECORDS, asked, self._site.leader(place))
        for found in answer.topics[0].partitions:
            if found.error_code:  # of a compacted topic nothing is deleted: it begins with the gap
                error = BrokerRefused(found.error_code, f"{place} begins with empty offsets")
                log.info("the target's beginning stays", error=error, until=offset)

    def settle(self, is_idle: bool) -> None:
        """Takes what answers there are; all of them when there is nothing to send."""
        if is_idle:
            self._pipeline.settle()

    def commit(self) -> None:
        """Every answer is a commit: the data is on the target's disk."""
        self._pipeline.settle()
