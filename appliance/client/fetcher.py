"""One thread that fetches from one broker, for all streams of a connector.

It fetches a partition while its stream has space; a slow stream delays no other. After a failure
the broker gets a pause and a retry: the rebalance decides whether its partitions are still ours.
What fails for one partition gives a pause to that one, and the others are fetched.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from appliance.client import fetch
from appliance.client.broker_partition import NO_BROKER
from appliance.client.cluster import Cluster
from appliance.client.connection import Connection
from appliance.client.consumer_config import FAIL, SMALLEST, ConsumerConfig
from appliance.client.errors import (
    AccessFailed,
    BrokerRefused,
    BrokerUnavailable,
    CommitFailed,
    ConfigInvalid,
    OffsetOutOfRange,
    TopicMadeAnew,
)
from appliance.client.fetch import Fetched, Wanted
from appliance.client.offset_storage import OffsetStorage
from appliance.client.offsets_before import EARLIEST, LATEST, ask_offset
from appliance.client.stream import Claim
from appliance.errors import ApplianceError
from appliance.process import event_log
from appliance.record._record_reader import RecordReader

log = event_log.named("consumer")

LOOK_S = 1.0  # a sleeping thread checks its claims at least this often


class Fetcher:
    def __init__(
        self,
        broker: int,
        cluster: Cluster,
        config: ConsumerConfig,
        storage: OffsetStorage,
        on_moved: Callable[[], None],
    ) -> None:
        self.broker, self.cluster, self.config, self.storage = broker, cluster, config, storage
        self._on_moved = on_moved
        self._claims: list[Claim] = []  # replaced, never changed: shared with the connector
        self._first: Claim | None = None  # it got nothing last time because others took the space
        self._paused: dict[Claim, ApplianceError] = {}  # in the present round
        self._wake = threading.Event()
        self._is_closing = threading.Event()
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._run, name=f"fetch-{broker}", daemon=True)
        self._thread.start()

    # called by the connector

    def set_claims(self, claims: list[Claim]) -> None:
        self._claims = claims
        self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        """Ends the thread after its current fetch; see `join`."""
        self._is_closing.set()
        self._wake.set()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    # on its thread

    def _run(self) -> None:
        while not self._is_closing.is_set():
            self._wake.clear()
            try:
                patience_s = self._round()
            except (BrokerUnavailable, BrokerRefused, CommitFailed) as error:
                self._leave_alone(error)
            except (AccessFailed, ConfigInvalid) as error:
                self._disconnect()
                for claim in self._claims:
                    self._tell(claim, error)
            except Exception as error:
                log.exception("fetching failed unexpectedly")
                self._disconnect()  # an answer may be under way
                for claim in self._claims:
                    self._tell(claim, error)
            else:
                self._wake.wait(patience_s)
        self._disconnect()

    def _leave_alone(self, error: ApplianceError) -> None:
        if self._is_closing.is_set():
            return
        log.warning(
            "broker failed: fetching pauses",
            broker=self.broker,
            error=error,
            for_ms=self.config.refetch_backoff_ms,
        )
        self._disconnect()
        self._is_closing.wait(self.config.refetch_backoff_ms / 1000)
        self._ask_who_leads(
            {claim.of.topic for claim in self._claims if claim.of.partition.broker == NO_BROKER}
        )

    def _ask_who_leads(self, topics: set[str]) -> None:
        """In a replicated cluster the leader may have changed. Whatever fails here, the next fetch
        finds it, too, and says it to the streams."""
        try:
            for topic in topics:
                self.cluster.refresh(topic)
        except ApplianceError as error:
            log.warning("no metadata of leaders", error=error)
        except Exception:
            log.exception("asking for leaders failed unexpectedly")
        if topics:
            self._on_moved()

    def _tell(self, claim: Claim, error: Exception) -> None:
        claim.has_failed = True
        claim.stream.fail(error)

    def _disconnect(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def _connected(self) -> Connection:
        if self._connection is None or not self._connection.is_open:
            self._connection = self.cluster.connect(self.broker)
        return self._connection

    def _round(self) -> float:
        """Returns for how long there is nothing to do, unless somebody wakes us."""
        now, self._paused = time.monotonic(), {}
        ready = [claim for claim in self._claims if claim.can_take]
        self._begin_each([each for each in ready if each.offset is None and each.retry_at <= now])
        due = [each for each in ready if each.offset is not None and each.retry_at <= now]
        if due:
            self._fetch(self._in_turn(due))
        self._look_after_paused()
        if due:
            return 0.0
        pauses = [each.retry_at - time.monotonic() for each in ready if each.retry_at > now]
        return max(0.0, min([LOOK_S, *pauses]))

    def _in_turn(self, due: list[Claim]) -> list[Claim]:
        if self._first in due:
            due.remove(self._first)
            due.insert(0, self._first)
        return due

    def _pause(self, claim: Claim, error: ApplianceError) -> None:
        claim.retry_at = time.monotonic() + self.config.refetch_backoff_ms / 1000
        self._paused[claim] = error

    def _look_after_paused(self) -> None:
        if not self._paused or self._is_closing.is_set():
            return
        claim, error = next(iter(self._paused.items()))
        log.warning(
            "partitions failed: they pause",
            broker=self.broker,
            count=len(self._paused),
            first=claim.of,
            error=error,
            for_ms=self.config.refetch_backoff_ms,
        )
        self._ask_who_leads(
            {each.of.topic for each in self._paused if each.of.partition.broker == NO_BROKER}
        )

    def _begin_each(self, claims: list[Claim]) -> None:
        """First those that have failed least recently."""
        for claim in sorted(claims, key=lambda each: each.retry_at):
            try:
                self._begin(claim)
            except BrokerRefused as refusal:
                self._refused(claim, refusal)
            except (BrokerUnavailable, CommitFailed) as error:
                self._pause(claim, error)
                return  # another one might wait as long in vain: now those that have begun

    def _begin(self, claim: Claim) -> None:
        """Gets the id first, so that a topic created later cannot answer the fetch."""
        claim.topic_id = self.cluster.topic_id(self.broker, claim.of.topic)
        offset, was = self.storage.read(claim.of)
        if was and claim.topic_id and was != claim.topic_id:
            raise TopicMadeAnew(claim.of, offset, was, claim.topic_id)
        if offset is None:
            offset = self._reset_to(claim, f"{claim.of}: nothing was committed")
        if offset is not None:
            self.storage.begin(claim.of, claim.topic_id)
            claim.committed = offset
            claim.begin(offset)

    def _begin_at_first(self, claim: Claim, refusal: TopicMadeAnew) -> None:
        try:
            self._begin_new_topic(claim, refusal)
        except (BrokerRefused, BrokerUnavailable, CommitFailed) as error:
            self._pause(claim, error)

    def _begin_new_topic(self, claim: Claim, refusal: TopicMadeAnew) -> None:
        """The id of the new topic. Until all is done the claim keeps that of the old one: with the
        new id its old offset would be read."""
        offset = ask_offset(self._connected(), self.config, claim.of, EARLIEST)
        assert offset is not None
        log.warning("begins", partition=claim.of, offset=offset, because=refusal)
        self.storage.begin(claim.of, refusal.now, offset)
        claim.topic_id, claim.committed = refusal.now, offset
        claim.begin(offset)

    def _reset_to(self, claim: Claim, why: str) -> int | None:
        rule = self.config.autooffset_reset
        if rule == FAIL:
            error = OffsetOutOfRange(1, f"{why}, and autooffset_reset is {FAIL}")
            self._tell(claim, error.at(claim.of, offset=claim.offset))
            return None
        time = EARLIEST if rule == SMALLEST else LATEST
        offset = ask_offset(self._connected(), self.config, claim.of, time)
        log.info("begins", partition=claim.of, offset=offset, because=why)
        return offset

    def _fetch(self, due: list[Claim]) -> None:
        wanted = [Wanted(claim.of, claim.offset or 0, claim.size, claim.topic_id) for claim in due]
        connection = self._connected()
        fetch.send(connection, self.config, wanted, self.config.fetch_wait_max_ms)
        parts = fetch.receive(connection, self.config, wanted)
        is_first = True
        for claim, asked, part in zip(due, wanted, parts, strict=True):
            if claim.is_over:
                pass
            elif isinstance(part, BrokerRefused):
                self._take_refusal(claim, asked, part)
            else:
                self._take(claim, part, is_first)
            is_first = False

    def _take(self, claim: Claim, part: Fetched, is_first: bool) -> None:
        try:
            self._put(claim, part, is_first)
        except ApplianceError as error:  # a broken batch stops only its partition
            self._tell(claim, error)

    def _take_refusal(self, claim: Claim, asked: Wanted, refusal: BrokerRefused) -> None:
        try:
            if isinstance(refusal, OffsetOutOfRange):
                self._begin_again(claim, refusal)
                return
            refusal = fetch.explained(self.cluster, self.broker, asked, refusal)
        except BrokerRefused as error:
            refusal = error
        except BrokerUnavailable as error:
            self._pause(claim, error)
            return
        self._refused(claim, refusal)

    def _refused(self, claim: Claim, refusal: BrokerRefused) -> None:
        if isinstance(refusal, TopicMadeAnew) and self.config.topic_made_anew == SMALLEST:
            has_begun = claim.offset is not None
            claim.is_of_old_topic = claim.is_out_of_range = has_begun
            if claim.is_drained or not has_begun:
                self._begin_at_first(claim, refusal)
        elif refusal.retriable:
            self._pause(claim, refusal)
        else:
            claim.is_of_old_topic = isinstance(refusal, TopicMadeAnew)
            self._tell(claim, refusal)

    def _begin_again(self, claim: Claim, refusal: OffsetOutOfRange) -> None:
        """Only after all fetched messages are read: until then both offsets are in use."""
        claim.is_out_of_range = True
        if claim.is_drained:
            offset = self._reset_to(claim, str(refusal))
            if offset is not None:
                claim.committed = -1
                claim.begin(offset)

    def _put(self, claim: Claim, part: Fetched, is_first: bool) -> None:
        if part.is_left_out:
            if is_first:
                claim.size = part.next_size(self.config.fetch_size_max)
            self._first = claim
            return
        part.check_size(self.config.fetch_size_max)
        claim.size = self.config.fetch_size
        every = RecordReader(part.records, *claim.of, claim.progress)
        if every.size == 0:
            return
        reader = every
        if part.aborted:
            reader = RecordReader(
                part.visible, *claim.of, claim.progress, end_offset=every.end_offset
            )
        claim.offset = every.end_offset
        claim.stream.put(reader)
