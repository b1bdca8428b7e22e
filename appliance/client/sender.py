"""Sends batches to their partitions: in order, several in flight, with retries.

A lane is the connection to one broker, a track the queue of one partition. A batch waits on its
track, is in flight on a lane, and ends with an outcome in any case:

    waiting → in flight → acknowledged
       ↑          ├────→ refused by the broker
       └──────────┘      again: the connection was lost, or the response asks for a retry
       └───────────────→ timed out, moved to another broker, or given up at the end

Invariants
1. Batches of a track are sent in order, and keep it when they are sent again. After a failure a
   track has one batch in flight until one succeeds.
2. A batch keeps its producer id and sequence while it may have been written: otherwise the broker
   could not detect the repetition. It gets new ones only after a response that it was not written.
3. A batch that was in flight when a connection was lost may be written; its outcome says so.
4. A batch is in `_open` from `add` to its outcome, wherever else it is or is not: so an unexpected
   error leaves none behind, for which somebody would wait for ever.

It has no thread and no lock: its owner calls `pump`.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

from appliance.client.batch import Batch, Identity
from appliance.client.broker_partition import NO_BROKER, BrokerPartition
from appliance.client.cluster import Cluster
from appliance.client.connection import Connection
from appliance.client.errors import (
    AccessFailed,
    BrokerRefused,
    BrokerUnavailable,
    ConfigInvalid,
    PartitionUnknown,
    TopicUnknown,
)
from appliance.client.lane import Lane, Track
from appliance.client.outcome import DeliveryTimedOut, Outcome
from appliance.client.producer_config import MOVE, ProducerConfig
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.protocol import ErrorCode, MalformedMessage, VersionUnsupported, codec
from appliance.protocol.messages.init_producer_id import API as INIT_PRODUCER_ID
from appliance.protocol.messages.init_producer_id import InitProducerIdRequest
from appliance.protocol.messages.produce import API as PRODUCE
from appliance.protocol.messages.produce import ProduceRequest, ProduceResponse
from appliance.record import compression

log = event_log.named("client")

VERSION_MAX = 12  # from 13 on topics go by id, which does not survive a move between brokers

# The broker does not know the previous sequence: an earlier batch is missing, or it forgot this
# producer.
NOT_IN_SEQUENCE = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
}
# The broker accepted the batch but does not tell its result.
UNCERTAIN = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.KAFKA_STORAGE_ERROR,  # from Kafka, whose disk may still have it
    ErrorCode.UNKNOWN_SERVER_ERROR,
}
ELSEWHERE = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
NOT_AGAIN = (AccessFailed, ConfigInvalid)  # until somebody has mended it
NO_SENSE = (MalformedMessage, VersionUnsupported)  # of what a broker answers; the next one may
TOPICS_AND_BROKERS_GONE = (TopicUnknown, PartitionUnknown, BrokerUnavailable, *NO_SENSE)

# A healthy broker answers sooner, and a dead one delays the caller no longer.
CONNECT_LOOK_S = 0.05
CONNECTING_MAX = 16  # at a time; the others wait for a thread

Answer = ProduceResponse.PartitionProduceResponse


class Sender:
    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        report: Callable[[Outcome], None],
        move: Callable[[Batch], None],
    ) -> None:
        """Calls `report` once per outcome. Calls `move` with batches for an unreachable broker; it
        adds their records again."""
        self.cluster, self.config = cluster, config
        self._report, self._move = report, move
        self._open: dict[Batch, None] = {}  # all without an outcome
        self.size = 0  # bytes of these
        self._lanes: dict[int, Lane] = {}
        self._tracks: dict[tuple[str, BrokerPartition], Track] = {}
        self._busy: dict[Track, None] = {}  # with waiting batches, oldest first
        self._ids: dict[int, tuple[int, int]] = {}  # producer id and epoch, by broker
        self.codec = compression.codec_id(config.compression)
        self._threads = ThreadPoolExecutor(CONNECTING_MAX, "producer-connect")

    @property
    def is_idle(self) -> bool:
        return not self._open

    def close(self) -> None:
        for lane in self._lanes.values():
            if lane.connection:
                lane.connection.close()
            if lane.connecting:
                lane.connecting.add_done_callback(close_late)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def brokers_down(self) -> set[int]:
        """Brokers in a pause between attempts."""
        now = time.monotonic()
        lanes = self._lanes.values()
        return {lane.broker for lane in lanes if lane.failures and lane.retry_at > now}

    def add(self, batch: Batch) -> None:
        where = (batch.topic, batch.partition)
        track = self._tracks.get(where)
        if track is None:
            track = self._tracks[where] = Track(*where)
        track.waiting.append(batch)
        self._busy[track] = None
        self._open[batch] = None
        self.size += len(batch.payload)

    def abandon(self, error: ApplianceError) -> None:
        """Ends every batch without an outcome. Later answers are ignored. Nothing is taken for
        consistent here, because it is called after errors that nobody expected, too."""
        for lane in self._lanes.values():
            if lane.connection and lane.requests:
                lane.connection.close()
                lane.connection = None
            lane.requests.clear()
        for track in self._tracks.values():
            track.is_retrying = track.is_retrying or bool(track.in_flight)
            track.waiting.clear()
            track.in_flight.clear()
        self._busy.clear()
        ended, self._open, self.size = sorted(self._open, key=in_order), {}, 0
        for batch in ended:
            batch.may_be_written = batch.may_be_written or batch.is_under_way
            self._tell(batch, error)

    # pump

    def pump(self, wait_s: float, wake: int = -1) -> None:
        """Sends what it can, then waits for responses, at most for the given time, or until the
        file descriptor `wake` is readable."""
        until = time.monotonic() + wait_s
        self._expire()
        until = min(until, self._dispatch())
        poll = select.poll()
        waiting = {}
        here: list[Lane] = []  # with an answer of which the poll does not know
        for lane in self._lanes.values():
            if lane.connection and lane.requests:
                waiting[lane.connection.fileno()] = lane
                poll.register(lane.connection, select.POLLIN)
                until = min(until, lane.connection.deadline or until)
                if lane.connection.has_answer:
                    here.append(lane)
        if wake >= 0:
            poll.register(wake, select.POLLIN)
        elif not waiting and not self._busy:
            return
        left_ms = 0.0 if here else max(0.0, (until - time.monotonic()) * 1000)
        found = poll.poll(left_ms + 1 if left_ms else 0)
        answered = dict.fromkeys([*here, *(waiting[n] for n, _ in found if n in waiting)])
        for lane in answered:
            self._receive(lane)
        for lane in waiting.values():
            self._give_up_late_answers(lane)

    def _expire(self) -> None:
        now = time.monotonic()
        for track in [*self._busy]:
            while track.waiting and track.waiting[0].deadline <= now:
                batch = track.waiting.popleft()
                lane = self._lanes.get(track.partition.broker)
                why = track.error or (lane and lane.error) or "it could not be sent yet"
                timeout_ms = self.config.delivery_timeout_ms
                error = DeliveryTimedOut(f"not acknowledged in {timeout_ms} ms: {why}")
                self._end(batch, error.at(topic=track.topic, partition=track.partition))
            self._settle(track)

    def _give_up_late_answers(self, lane: Lane) -> None:
        connection = lane.connection
        if connection and (connection.deadline or float("inf")) <= time.monotonic():
            self._receive(lane)  # which fails, because its time is over

    # sending

    def _dispatch(self) -> float:
        """Sends up to the limits in flight. Returns the time of the next possible work."""
        again_at = float("inf")
        ready: dict[Lane, list[Track]] = {}
        now = time.monotonic()
        for track in [*self._busy]:
            at, lane = self._way_of(track, now)
            if lane and at <= now:
                ready.setdefault(lane, []).append(track)
                at = float("inf")  # a response will free space
            again_at = min(again_at, at, track.waiting[0].deadline if track.waiting else at)
        for lane, tracks in ready.items():
            try:
                self._send_over(lane, tracks)
            except (BrokerUnavailable, BrokerRefused, *NO_SENSE) as why:
                again_at = min(again_at, self._failed(lane, why))
            except NOT_AGAIN as why:
                self._failed(lane, why)
                self._give_up(tracks, why)
            if lane.connecting:
                again_at = min(again_at, now + CONNECT_LOOK_S)
        return again_at

    def _way_of(self, track: Track, now: float) -> tuple[float, Lane | None]:
        """The time from which this track may send, and its lane."""
        if track.retry_at > now:
            return track.retry_at, None
        if track.is_retrying and track.in_flight:
            return float("inf"), None
        try:
            broker = self.cluster.leader(track.topic, track.partition)
            self.cluster.address(broker)
        except TOPICS_AND_BROKERS_GONE as error:
            return self._has_no_way(track, error, now), None
        except (BrokerRefused, *NOT_AGAIN) as error:  # such as a right that was withdrawn
            if error.retriable:
                return self._has_no_way(track, error, now), None
            self._give_up([track], error)
            return float("inf"), None
        lane = self._lanes.get(broker)
        if lane is None:
            lane = self._lanes[broker] = Lane(broker)
        if track.in_flight and track.lane is not lane:
            return float("inf"), None
        return lane.retry_at, lane

    def _has_no_way(self, track: Track, error: ApplianceError, now: float) -> float:
        track.error = error
        track.retry_at = now + self.config.retry_backoff_ms / 1000
        if self.config.on_broker_down == MOVE:
            self._move_away(track)
        return track.retry_at

    def _send_over(self, lane: Lane, tracks: list[Track]) -> None:
        if lane.connection is None:
            lane.connection = self._connected(lane)
        while lane.connection and len(lane.requests) < self.config.requests_in_flight:
            request = list(self._next_of(lane, tracks))
            if not request:
                return
            lane.requests.append(request)
            self._identify(lane, request)
            self._write(lane.connection, request)

    def _connected(self, lane: Lane) -> Connection | None:
        """None: not yet. A broker that does not answer must not delay the others."""
        if lane.connecting is None:
            try:
                lane.connecting = self._threads.submit(self.cluster.connect, lane.broker)
            except RuntimeError:  # the interpreter ends and starts no threads
                return self.cluster.connect(lane.broker)
        wait([lane.connecting], CONNECT_LOOK_S)
        if not lane.connecting.done():
            return None
        done, lane.connecting = lane.connecting, None
        return done.result()

    def _next_of(self, lane: Lane, tracks: list[Track]) -> Iterator[Batch]:
        """The next batch of each track, as many as fit into a request."""
        size = 0
        for track in tracks:
            if not track.waiting or (track.is_retrying and track.in_flight):
                continue
            batch = track.waiting[0]
            if size and size + len(batch.payload) > self.config.request_size:
                return
            size += len(batch.payload)
            track.waiting.popleft()
            track.in_flight.append(batch)
            track.lane = lane
            self._settle(track)
            yield batch

    def _identify(self, lane: Lane, request: list[Batch]) -> None:
        if not self.config.idempotence:
            return
        for batch in request:
            if batch.identity is None:
                track = self._tracks[batch.topic, batch.partition]
                if track.identity is None:
                    track.identity = Identity(
                        *self._producer_id(lane.broker, batch.partition.broker)
                    )
                batch.take_identity(track.identity)

    def _producer_id(self, broker: int, home: int) -> tuple[int, int]:
        """One producer id per cluster for all partitions; any of its brokers assigns it."""
        if home not in self._ids:
            answer = self.cluster.ask(broker, INIT_PRODUCER_ID, InitProducerIdRequest(None, -1))
            if answer.error_code:
                raise BrokerRefused(answer.error_code, f"broker {broker}: InitProducerId")
            self._ids[home] = (answer.producer_id, answer.producer_epoch)
        return self._ids[home]

    def _write(self, connection: Connection, request: list[Batch]) -> None:
        left_ms = (min(batch.deadline for batch in request) - time.monotonic()) * 1000
        timeout_ms = max(1, min(self.config.socket_timeout_ms, int(left_ms)))
        message = ProduceRequest(acks=self.config.acks, timeout_ms=timeout_ms)
        topics: dict[str, ProduceRequest.TopicProduceData] = {}
        for batch in request:
            batch.tries += 1
            batch.is_under_way = True
            if batch.topic not in topics:
                topics[batch.topic] = ProduceRequest.TopicProduceData(name=batch.topic)
            topics[batch.topic].partition_data.append(
                ProduceRequest.PartitionProduceData(
                    batch.partition.partition,
                    batch.on_the_wire(),  # type: ignore[arg-type]
                )
            )
        message.topic_data = [*topics.values()]
        version = connection.version(PRODUCE, VERSION_MAX)
        parts = codec.encode_parts(message, version)
        connection.send_bytes(PRODUCE, version, parts, timeout_ms)

    # responses

    def _receive(self, lane: Lane) -> None:
        assert lane.connection
        try:
            _, answer = lane.connection.receive()
        except (BrokerUnavailable, MalformedMessage, *NOT_AGAIN) as error:
            self._failed(lane, error)
            return
        lane.failures, lane.error = 0, None
        rows = {
            (topic.name, row.index): row
            for topic in answer.responses
            for row in topic.partition_responses
        }
        for batch in lane.requests.popleft():
            row = rows.get((batch.topic, batch.partition.partition))
            track = self._tracks[batch.topic, batch.partition]
            track.in_flight.remove(batch)
            batch.is_under_way = False
            if row is None:
                row = Answer(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
                row.error_message = "the response lacks this partition"
            self._take(track, batch, row)

    def _take(self, track: Track, batch: Batch, row: Answer) -> None:
        code = row.error_code
        if not code:
            track.is_retrying, track.error = False, None
            self._end(batch, None, row.base_offset)
            return
        batch.may_be_written = batch.may_be_written or code in UNCERTAIN
        said = f" ({row.error_message})" if row.error_message else ""
        refusal = BrokerRefused(code, f"{track.topic} partition {track.partition}{said}")
        refusal.at(topic=track.topic, partition=track.partition)
        if self.config.idempotence and code in NOT_IN_SEQUENCE and batch.identity:
            self._new_identity(track, batch)
            self._again(track, batch, refusal)
        elif refusal.retriable:
            if code in ELSEWHERE:
                self._ask_who_leads(track.topic)
            self._again(track, batch, refusal)
        else:
            self._end(batch, refusal)

    def _again(self, track: Track, batch: Batch, error: ApplianceError) -> None:
        track.error = error
        track.retry_at = time.monotonic() + self._pause_s(batch.tries)
        self._requeue(track, [batch])

    def _new_identity(self, track: Track, batch: Batch) -> None:
        if track.identity is batch.identity:
            track.identity = None
            self._ids.pop(track.partition.broker, None)
        batch.identity = None

    def _ask_who_leads(self, topic: str) -> None:
        try:
            self.cluster.refresh(topic)
        except (BrokerUnavailable, *NO_SENSE, *NOT_AGAIN) as error:
            log.warning("no metadata of leaders", topic=topic, error=error)

    # failures

    def _failed(self, lane: Lane, error: ApplianceError) -> float:
        """Notes a failed connection to a broker. Returns the time of the next try."""
        was_connected = lane.connection is not None
        if lane.connection:
            lane.connection.close()
            lane.connection = None
        self._requeue_all(lane)
        lane.error, lane.failures = error, lane.failures + 1
        # reconnects at once: the broker may have closed an idle connection
        is_first = was_connected and lane.failures == 1
        pause_s = 0.0 if is_first else self._pause_s(lane.failures)
        lane.retry_at = time.monotonic() + pause_s
        log.warning("not sent", broker=lane.broker, failures=lane.failures, error=error)
        if pause_s and self.config.on_broker_down == MOVE:
            for track in [*self._busy]:
                if track.partition.broker == lane.broker:
                    self._move_away(track)
        elif any(track.partition.broker == NO_BROKER for track in self._busy):
            for topic in {track.topic for track in self._busy}:
                self._ask_who_leads(topic)
        return lane.retry_at

    def _give_up(self, tracks: list[Track], error: ApplianceError) -> None:
        """Ends what waits, because no try can succeed. The next batch tries again."""
        for track in tracks:
            waiting, track.waiting = track.waiting, deque()
            self._settle(track)
            for batch in waiting:
                self._end(batch, error)

    def _pause_s(self, failures: int) -> float:
        doubled = self.config.retry_backoff_ms * 2 ** min(max(failures - 1, 0), 20)
        return float(min(doubled, self.config.retry_backoff_max_ms)) / 1000

    def _requeue_all(self, lane: Lane) -> None:
        """Handles batches in flight that may or may not have arrived."""
        lost: dict[Track, list[Batch]] = {}
        for batch in (batch for request in lane.requests for batch in request):
            track = self._tracks[batch.topic, batch.partition]
            batch.may_be_written = batch.may_be_written or batch.is_under_way
            batch.is_under_way = False
            track.in_flight.remove(batch)
            lost.setdefault(track, []).append(batch)
        lane.requests.clear()
        for track, batches in lost.items():
            self._requeue(track, batches)

    def _requeue(self, track: Track, batches: list[Batch]) -> None:
        track.is_retrying = True
        track.waiting = deque(sorted([*batches, *track.waiting], key=in_order))
        self._busy[track] = None

    def _move_away(self, track: Track) -> None:
        if track.partition.broker == NO_BROKER:
            return  # its leader may change; it has no other partition to go to
        batches, track.waiting = [*track.waiting], deque()
        self._settle(track)
        for batch in batches:
            self._let_go(batch)
            self._move(batch)

    # outcomes

    def _settle(self, track: Track) -> None:
        if not track.waiting:
            self._busy.pop(track, None)

    def _let_go(self, batch: Batch) -> None:
        del self._open[batch]
        self.size -= len(batch.payload)

    def _end(self, batch: Batch, error: ApplianceError | None, base_offset: int = -1) -> None:
        self._let_go(batch)
        self._tell(batch, error, base_offset)

    def _tell(self, batch: Batch, error: ApplianceError | None, base_offset: int = -1) -> None:
        is_uncertain = error is not None and batch.may_be_written
        self._report(Outcome(batch.records, batch.partition, base_offset, error, is_uncertain))


def in_order(batch: Batch) -> int:
    return batch.order


def close_late(connecting: Future[Connection]) -> None:
    """Closes a connection that nobody needs any more."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()
