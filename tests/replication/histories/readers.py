"""Consumers without a group. Who follows sees each offset once, in its order, without a gap; who
scans reads a partition from the beginning, and finds all that was acknowledged before it asked."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Collection
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from tests.replication.histories.ledger import Ledger
from tests.replication.histories.schedule import BROKERS
from tests.replication.histories.site import Partition, Site

ASK_S = 8.0
SCAN_S = 60.0
STILL_S = 2.0
TOLD_S = 1.0
CLOSE_S = 30.0
BATCH = 2000
STATE_MS = 5000
HANGS_S = 30.0  # six times of that, on a machine with much to do
# Of a partition, and of a broker, in librdkafka's statistics
FETCHES = ("leader", "fetch_state", "app_offset", "next_offset", "hi_offset", "ls_offset",
           "fetchq_cnt")  # fmt: skip
CONNECTIONS = ("state", "stateage", "outbuf_cnt", "waitresp_cnt", "rxidle", "req_timeouts")


def consumer(site: Site, group: str, **given: Any) -> Consumer:
    return Consumer({
        "bootstrap.servers": site.bootstrap, "group.id": group, "enable.auto.commit": False,
        "auto.offset.reset": "error", "isolation.level": "read_committed", "log_level": 2,
        "reconnect.backoff.max.ms": 1000, "socket.timeout.ms": 15_000, **given,
    })  # fmt: skip


def close(reader: Consumer) -> None:
    """librdkafka's `close` sometimes never returns, and an audience of one is no reason to end the
    round: such a consumer reads nothing more, and is left behind."""
    closing = threading.Thread(target=reader.close, name="closing", daemon=True)
    closing.start()
    closing.join(CLOSE_S)


def messages(reader: Consumer, wait_s: float) -> list[Any]:
    """They may be errors."""
    return [*reader.consume(BATCH, wait_s)]


def text_of(message: Any) -> str:
    value: bytes = message.value()
    return value.decode()


def latest(reader: Consumer, partition: Partition, wait_s: float) -> int:
    """Up to where it may be read. Not by `get_watermark_offsets`: that asks for the earliest offset
    as well, and librdkafka (2.16) tells it as the latest one if an error comes just before it."""
    (found,) = reader.offsets_for_times([TopicPartition(*partition, OFFSET_END)], wait_s)
    if found.error is not None or found.offset < 0:
        raise KafkaException(found.error or KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
    return int(found.offset)


class Following:
    """librdkafka (2.16) sometimes stands still for ever when a broker refuses an
    OffsetForLeaderEpoch as others fail: its main thread, which tells the statistics, asks for the
    metadata with the lock of the partition, for which a broker's thread waits with the other one.
    Such a client is left behind, and another one goes on at its place: where brokers are at fault,
    that one stands still, too."""

    def __init__(
        self, site: Site, ledger: Ledger, name: str, partitions: int, topic: str = "log"
    ) -> None:
        self.name, self._ledger, self._topic = name, ledger, topic
        self.positions = dict.fromkeys(range(partitions), 0)
        self.hung = 0
        self._site = site
        self._consumer = self._begin()
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def _begin(self) -> Consumer:
        self._state: dict[str, Any] = {}
        self._told_s = time.monotonic()
        made = consumer(self._site, "nobody", **{
            "statistics.interval.ms": STATE_MS, "stats_cb": self._keep_state})  # fmt: skip
        made.assign([TopicPartition(self._topic, *each) for each in self.positions.items()])
        return made

    def _run(self) -> None:
        while not self._is_ending.is_set():
            for each in messages(self._consumer, 0.2):
                self._take(each)
            if time.monotonic() > self._told_s + HANGS_S:
                self.hung += 1
                threading.Thread(target=self._consumer.close, name="hangs", daemon=True).start()
                self._consumer = self._begin()

    def _keep_state(self, told: str) -> None:
        self._state = json.loads(told)
        self._told_s = time.monotonic()

    def state(self, partitions: Collection[int]) -> str:
        """What its client says of itself: where it stands still it tells whether it asks, and
        whom."""
        rows = self._state.get("topics", {}).get(self._topic, {}).get("partitions", {})
        fetches = {each: {name: rows.get(str(each), {}).get(name) for name in FETCHES}
                   for each in partitions}  # fmt: skip
        connections = {each: {name: row.get(name) for name in CONNECTIONS}
                       for each, row in self._state.get("brokers", {}).items()}  # fmt: skip
        since_s = time.monotonic() - self._told_s
        return (
            f"its client told {since_s:.0f} s ago of them {fetches}, and of brokers {connections}"
        )

    def _take(self, message: Any) -> None:
        error = message.error()
        if error is not None:
            if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                self._ledger.anomalies.add("out of range", f"{self.name}: {error.str()}")
            return
        partition, offset = message.partition(), message.offset()
        wanted = self.positions[partition]
        if offset < wanted or (offset > wanted and self._topic == "log"):  # else there are markers
            kind = "went back" if offset < wanted else "gap"
            self._ledger.anomalies.add(
                kind, f"{self.name} got {offset} of {partition} instead of {wanted}"
            )
        self.positions[partition] = offset + 1
        self._ledger.saw(self.name, (self._topic, partition), offset, text_of(message))

    def end(self) -> None:
        self._is_ending.set()
        self._thread.join()
        close(self._consumer)


class Scanning:
    def __init__(self, site: Site, ledger: Ledger, seed: int, partitions: int) -> None:
        self.scans = 0
        self._site, self._ledger = site, ledger
        self._partitions, self._random = partitions, random.Random(seed)
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scanning")
        self._thread.start()

    def _run(self) -> None:
        while not self._is_ending.wait(self._random.uniform(0.05, 0.6)):
            partition = ("log", self._random.randrange(self._partitions))
            if self.scan(partition) is not None:
                self.scans += 1

    def scan(self, partition: Partition) -> dict[int, str] | None:
        """What may be seen, by offset; None: nobody answered in time."""
        reader = consumer(self._site, "nobody", **{"enable.partition.eof": True})
        try:
            return self._scan(reader, partition)
        except KafkaException:
            return None
        finally:
            close(reader)

    def _scan(self, reader: Consumer, partition: Partition) -> dict[int, str] | None:
        least = self._ledger.acked_end(partition)
        place = TopicPartition(*partition, 0)
        watermark = latest(reader, partition, ASK_S)
        reached = 0
        if watermark < least:
            self._ledger.anomalies.add("stale", f"{partition} ends at {watermark}, {least} was "
                                                "acknowledged before")  # fmt: skip
        reader.assign([place])
        found: dict[int, str] = {}
        end = time.monotonic() + SCAN_S
        while reached < watermark:
            if time.monotonic() > end or self._is_ending.is_set():
                return None
            for message in messages(reader, 0.2):
                error = message.error()
                if error is None:
                    reached = message.offset() + 1
                    found[message.offset()] = value = text_of(message)
                    self._ledger.saw("a scan", partition, message.offset(), value)
                elif error.code() == KafkaError._PARTITION_EOF:
                    reached = max(reached, message.offset())
        return {offset: value for offset, value in found.items() if offset < watermark}

    def until_still(self, partitions: list[Partition]) -> None:
        """What acks=1 was told may be seen later than that."""
        before = None
        while before != (before := [self._watermark(each) for each in partitions]):
            time.sleep(STILL_S)

    def _watermark(self, partition: Partition) -> int:
        reader = consumer(self._site, "nobody")
        try:
            return latest(reader, partition, ASK_S)
        except KafkaException:
            return -1
        finally:
            close(reader)

    def end(self) -> None:
        self._is_ending.set()
        self._thread.join()
        self._is_ending.clear()


class Asking:
    """Asks one broker after the other how far a partition goes, of whoever leads it by its
    word: one that is no leader any more, and does not know, must not answer as if it were."""

    def __init__(self, site: Site, ledger: Ledger, seed: int, partitions: int) -> None:
        self._site, self._ledger = site, ledger
        self._partitions, self._random = partitions, random.Random(f"asking {seed}")
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="asking")
        self._thread.start()

    def _run(self) -> None:
        while not self._is_ending.wait(self._random.uniform(0.05, 0.3)):
            name = self._random.choice(BROKERS)
            asking = consumer(self._site, "nobody", **{
                "bootstrap.servers": self._site.address(name)})  # fmt: skip
            self._ask(name, asking, ("log", self._random.randrange(self._partitions)))
            close(asking)

    def _ask(self, name: str, asking: Consumer, partition: Partition) -> None:
        least = self._ledger.acked_end(partition)
        try:
            told = latest(asking, partition, TOLD_S)
        except KafkaException:
            return
        if told < least:
            self._ledger.anomalies.add("stale", f"by {name} {partition} ends at {told}, {least} "
                                                "was acknowledged before")  # fmt: skip

    def end(self) -> None:
        self._is_ending.set()
        self._thread.join()
