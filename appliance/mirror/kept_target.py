"""A target that keeps the source's offsets: an appliance, in topics with `mirror.source`.

The target's log end is the position, so the mirror stores none. Offsets that the source no longer
has are sent as empty batches, at the beginning as in any other gap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from appliance.client.errors import BrokerRefused
from appliance.mirror.config import MirrorConfig
from appliance.mirror.errors import Refuse, TopicRefused
from appliance.mirror.inbox import Aborted, Fetched, Octets
from appliance.mirror.pipeline import Lane, Pipeline, Then
from appliance.mirror.progress import MirrorProgress
from appliance.mirror.site import LATEST, Offsets, Positions, Refusals, Site, TopicPartition
from appliance.process import event_log
from appliance.protocol.messages.delete_records import API as DELETE_RECORDS
from appliance.protocol.messages.delete_records import DeleteRecordsRequest
from appliance.record import _mirror_batches

log = event_log.named("mirror")


class KeptTarget:
    def __init__(
        self, site: Site, sources: dict[str, str], progress: MirrorProgress, config: MirrorConfig
    ) -> None:
        self._site, self._sources, self._progress = site, sources, progress
        self._config = config
        self._pipeline = Pipeline(site, config, progress)
        self._new: Offsets = {}  # partitions that were empty, and the source's start offset

    def close(self) -> None:
        self._pipeline.close()

    # the beginning

    def positions(
        self, starts: Offsets, ends: Offsets, refuse: Refuse, unserved: Refusals
    ) -> Positions:
        here = self._site.offsets(starts, LATEST, refused=unserved)
        for partition, offset in here.items():
            if offset > ends[partition]:
                why = (
                    f"partition {partition.partition} ends at {offset} in the target and at "
                    f"{ends[partition]} in the source, which lost records that are mirrored"
                )
                refuse(TopicRefused(partition.topic, why))
        return {partition: offset or None for partition, offset in here.items()}

    def pass_over(self, partition: TopicPartition, offset: int | None, start: int, end: int) -> int:
        """Skips offsets that the source does not have. The first batch of the source may begin
        below its start and covers the gap before it; without such a batch this fills the gap."""
        if offset is None:
            self._new[partition] = start
        if start < end:
            return offset or 0
        data = _mirror_batches.gap(offset or 0, start)
        self.send([Fetched(partition, data, start, 0, len(data))])
        return start

    # sending

    def prepare(
        self, partition: TopicPartition, records: Octets, before: int, aborted: Aborted
    ) -> tuple[bytes, int, int, int]:
        kept = _mirror_batches.kept(records, before, aborted)
        return kept.data, kept.next_offset, kept.records, len(kept.data)

    def send(self, fetched: Iterable[Fetched]) -> None:
        """Sends everything, one request per lane: a mirror may send several batches of a partition
        in a request."""
        of: dict[Lane, dict[TopicPartition, list[Fetched]]] = defaultdict(lambda: defaultdict(list))
        for each in fetched:
            of[self._pipeline.lane(each.partition)][each.partition].append(each)
        for lane, partitions in of.items():
            batches = {
                partition: [each.payload for each in rows] for partition, rows in partitions.items()
            }
            self._pipeline.send(lane, batches, self._on_answer(partitions), self._sources)

    def _on_answer(self, sent: dict[TopicPartition, list[Fetched]]) -> Then:
        return lambda _: self._written(sent)

    def _written(self, sent: dict[TopicPartition, list[Fetched]]) -> None:
        for partition, rows in sent.items():
            records, size = sum(each.records for each in rows), sum(each.size for each in rows)
            self._progress.wrote(partition, rows[-1].next_offset, records, size)
            if partition in self._new:
                self._forget_before(partition, self._new.pop(partition))

    def _forget_before(self, partition: TopicPartition, offset: int) -> None:
        """Makes the target begin at the source's start and not with a gap."""
        row = DeleteRecordsRequest.DeleteRecordsPartition(partition.partition, offset)
        topic = DeleteRecordsRequest.DeleteRecordsTopic(partition.topic, [row])
        asked = DeleteRecordsRequest([topic], self._config.request_timeout_ms)
        answer = self._site.ask(DELETE_RECORDS, asked, self._site.leader(partition))
        for result in answer.topics[0].partitions:
            if result.error_code:  # a compacted topic deletes nothing: it begins with the gap
                error = BrokerRefused(result.error_code, f"{partition} begins with empty offsets")
                log.info("the target's beginning stays", error=error, until=offset)

    def settle(self, is_idle: bool) -> None:
        """Takes the responses that have arrived, or waits for all when there is nothing to send."""
        if is_idle:
            self._pipeline.settle()

    def commit(self) -> None:
        """Every answer is a commit: the data is on the target's disk."""
        self._pipeline.settle()
