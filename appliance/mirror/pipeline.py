"""Produce requests in flight: a few connections to each target broker, several requests on each.

Kafka handles one request of a connection at a time, so partitions are spread over connections. A
broker answers a connection's requests in order, so a partition's batches keep their order as long
as its leader stays. Any failure ends the round, which discards all requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping

from appliance.client.connection import Connection
from appliance.client.errors import BrokerRefused
from appliance.mirror.config import IN_FLIGHT_MAX, MirrorConfig
from appliance.mirror.errors import MirrorFenced, PositionMoved, TopicRefused
from appliance.mirror.produce_body import FIRST, LAST, Batches, produce_body
from appliance.mirror.progress import MirrorProgress
from appliance.mirror.site import Site, TopicPartition
from appliance.protocol import ErrorCode, VersionUnsupported
from appliance.protocol.messages.produce import API as PRODUCE
from appliance.protocol.messages.produce import ProduceResponse

Answer = ProduceResponse.PartitionProduceResponse
Then = Callable[[dict[TopicPartition, Answer]], None]

Lane = tuple[int, int]  # a broker, and the number of a connection to it
LANES = 4

NO_SOURCES: Mapping[str, str] = {}

FENCED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
MOVED = {
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.CORRUPT_MESSAGE,  # damaged on the way to the mirror: the source's data may be whole
}


class Pipeline:
    def __init__(
        self,
        site: Site,
        config: MirrorConfig,
        progress: MirrorProgress,
        transactional_id: str | None = None,
    ) -> None:
        self._site, self._config, self._progress = site, config, progress
        self._transactional_id = transactional_id
        self._connections: dict[Lane, Connection] = {}
        self._waiting: deque[tuple[Connection, Then]] = deque()  # in the order of the requests

    def close(self) -> None:
        for each in self._connections.values():
            each.close()

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    def lane(self, partition: TopicPartition) -> Lane:
        """The connection for all batches of this partition."""
        return self._site.leader(partition), partition.partition % LANES

    def send(
        self,
        lane: Lane,
        batches: Mapping[TopicPartition, Batches],
        then: Then,
        mirror_sources: Mapping[str, str] = NO_SOURCES,
    ) -> None:
        """Calls `then` with the answer of each partition, during a later send or settle."""
        connection = self._connections.get(lane)
        if connection is None:
            connection = self._connections[lane] = self._site.connect(lane[0])
        while connection.in_flight >= IN_FLIGHT_MAX:
            self._receive()
        version = connection.version(PRODUCE, LAST)
        if version < FIRST:
            where = f"broker {connection.address}"
            raise VersionUnsupported(f"{where}: Produce {version}, wanted at least {FIRST}")
        timeout_ms = self._config.request_timeout_ms
        body = produce_body(self._transactional_id, timeout_ms, batches, mirror_sources)
        connection.send_bytes(PRODUCE, version, body)
        self._waiting.append((connection, then))

    def settle(self, most: int = 0) -> None:
        """Waits until at most `most` requests are in flight."""
        while len(self._waiting) > most:
            self._receive()

    def _receive(self) -> None:
        connection, then = self._waiting.popleft()
        _, answer = connection.receive()
        then(dict(self._rows(answer)))

    def _rows(self, answer: ProduceResponse) -> Iterator[tuple[TopicPartition, Answer]]:
        for topic in answer.responses:
            for row in topic.partition_responses:
                partition = TopicPartition(topic.name, row.index)
                if row.error_code:
                    raise self._refusal(partition, row.error_code, row.error_message or "")
                yield partition, row

    def _refusal(self, partition: TopicPartition, code: int, text: str) -> Exception:
        """The error that a target's error code raises in the round."""
        error = BrokerRefused(code, f"produce to {partition}" + (f": {text}" if text else ""))
        if code in FENCED:
            return MirrorFenced(f"another mirror of this name has taken over: {error}")
        if code in MOVED:
            return PositionMoved(str(error))
        if not error.retriable:
            return TopicRefused(partition.topic, str(error))
        patience_ms = self._config.refresh_interval_ms
        if self._progress.unwritten.lasts(partition, patience_ms):
            return TopicRefused(partition.topic, str(error), is_for_now=True)
        return error
