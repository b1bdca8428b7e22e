"""One thread that fetches from one broker, for all streams of a connector.

It fetches a partition while its stream has space; a slow stream delays no other. After a failure
the broker gets a pause and a retry: the rebalance decides whether its partitions are still ours.
"""

from __future__ import annotations

import threading
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
                has_worked = self._round()
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
                if not has_worked:
                    self._wake.wait(LOOK_S)
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

    def _round(self) -> bool:
        """Returns whether there was work."""
        due = [claim for claim in self._claims if claim.can_take]
        for claim in due:
            if claim.offset is None:
                try:
                    self._begin(claim)
                except BrokerRefused as refusal:
                    self._refused(claim, refusal)
        due = [claim for claim in due if claim.offset is not None]
        if not due:
            return False
        if self._first in due:
            due.remove(self._first)
            due.insert(0, self._first)
        self._fetch(due)
        return True

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
        """The id of the new topic."""
        claim.topic_id = refusal.now
        offset = ask_offset(self._connected(), self.config, claim.of, EARLIEST)
        assert offset is not None
        log.warning("begins", partition=claim.of, offset=offset, because=refusal)
        self.storage.begin(claim.of, claim.topic_id, offset)
        claim.committed = offset
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
                why = fetch.explained(self.cluster, self.broker, asked, part)
                self._take(claim, why, is_first)
            else:
                self._take(claim, part, is_first)
            is_first = False

    def _take(self, claim: Claim, part: Fetched | BrokerRefused, is_first: bool) -> None:
        if isinstance(part, OffsetOutOfRange):
            self._begin_again(claim, part)
        elif isinstance(part, BrokerRefused):
            self._refused(claim, part)
        else:
            try:
                self._put(claim, part, is_first)
            except ApplianceError as error:  # a broken batch stops only its partition
                self._tell(claim, error)

    def _refused(self, claim: Claim, refusal: BrokerRefused) -> None:
        if isinstance(refusal, TopicMadeAnew) and self.config.topic_made_anew == SMALLEST:
            has_begun = claim.offset is not None
            claim.is_of_old_topic = claim.is_out_of_range = has_begun
            if claim.is_drained or not has_begun:
                self._begin_at_first(claim, refusal)
        elif refusal.retriable:
            raise refusal
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
