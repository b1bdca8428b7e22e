"""What a broker that is backed up has to do meanwhile, and how much of it was acknowledged when.

    "in"    a producer writes numbered records to two partitions
    "out"   a processor moves those of partition 0 there, each once, by transactions
    a group reads partition 1 and commits its offsets
    "bulk"  was filled before, to the size that a test wants, and grows
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from typing import NamedTuple

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.backups import DEADLINE_S, QUIET, transactional

PARTITIONS = 2
PROCESSORS, READERS = "processor", "readers"
PADDING = "." * 200
PAUSE_S = 0.002  # between two records of each partition
UNDER_WAY = 20  # records of each partition
CONSUME_S = 0.1  # it waits for as many as it is asked for
NUMBER = 8  # digits in front of a value

BULK_PARTITIONS = 4
BULK_BYTES = 4000  # of a value, which no codec makes smaller
BULK_SEGMENT = 256 << 20
POOL = random.Random(0).randbytes(2 * BULK_BYTES)


class Ack(NamedTuple):
    when_s: float
    number: int


class Load:
    """Begins when it is made. Numbers of records go up from `first`, and each partition of the bulk
    from its end."""

    def __init__(self, bootstrap: str, bulk_ends: Sequence[int], first: int = 0) -> None:
        self.bootstrap, self.number = bootstrap, first
        self.acknowledged: list[list[Ack]] = [[] for _ in range(PARTITIONS)]
        self.bulk: list[list[Ack]] = [[Ack(0, end)] for end in bulk_ends]  # ends
        self._bulk_ends = [*bulk_ends]
        self.committed: list[Ack] = []  # offsets of the readers
        self.moved = 0  # records, by the processor
        self.life = 0  # of the broker
        self.guard = threading.Lock()
        self._is_over = threading.Event()
        jobs = (self._produce, self._process, self._read)
        self._threads = [threading.Thread(target=each) for each in jobs]
        for each in self._threads:
            each.start()

    @property
    def is_under_way(self) -> bool:
        has_written = all(len(each) > UNDER_WAY for each in (*self.acknowledged, *self.bulk))
        return has_written and bool(self.committed) and self.moved > UNDER_WAY

    def stop(self) -> None:
        self._is_over.set()
        for each in self._threads:
            each.join()

    def _produce(self) -> None:
        producer = ck.Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5,
                                "enable.idempotence": True, "batch.num.messages": 100,
                                **QUIET})  # fmt: skip

        def note(error: ck.KafkaError | None, message: ck.Message) -> None:
            if error is None:
                number = int(message.value()[:NUMBER])
                self.acknowledged[message.partition()].append(Ack(time.time(), number))

        def note_bulk(error: ck.KafkaError | None, message: ck.Message) -> None:
            if error is None:
                self.bulk[message.partition()].append(Ack(time.time(), message.offset() + 1))

        while not self._is_over.is_set():
            for partition in range(PARTITIONS):
                value = f"{self.number:0{NUMBER}d}{PADDING}"
                producer.produce("in", value, partition=partition, on_delivery=note)
            partition = self.number % BULK_PARTITIONS
            value = bulk_value(BULK_PARTITIONS * self._bulk_ends[partition] + partition)
            producer.produce("bulk", value, partition=partition, on_delivery=note_bulk)
            self._bulk_ends[partition] += 1
            self.number += 1
            producer.poll(PAUSE_S)
        producer.flush(DEADLINE_S)

    def _process(self) -> None:
        while not self._is_over.is_set():
            with suppress(ck.KafkaException, Abandoned):
                self._process_until_killed(self.life)

    def _process_until_killed(self, life: int) -> None:
        processor = Processor(self.bootstrap)
        with closing(processor):
            while not self._is_over.is_set():
                self.moved += processor.step(lambda: self._committing(life))

    @contextmanager
    def _committing(self, life: int) -> Iterator[None]:
        """The broker is not killed inside: librdkafka 2.16 waits for ever for the answer to offsets
        of a transaction that it had begun to send to the broker that is gone."""
        with self.guard:
            if life != self.life:
                raise Abandoned
            yield

    def _read(self) -> None:
        place = ck.TopicPartition("in", 1, ck.OFFSET_STORED)
        with closing(reader(self.bootstrap, READERS)) as consumer:
            consumer.assign([place])
            while not self._is_over.is_set():
                rows = [each for each in consumer.consume(200, 0.1) if not each.error()]
                if rows:
                    self._commit(consumer, rows[-1].offset() + 1)

    def _commit(self, consumer: ck.Consumer, offset: int) -> None:
        with suppress(ck.KafkaException):  # the broker is away
            place = ck.TopicPartition("in", 1, offset)
            consumer.commit(offsets=[place], asynchronous=False)
            self.committed.append(Ack(time.time(), offset))


class Abandoned(Exception):
    """Another processor goes on, and fences this one."""


class Processor:
    """Reads partition 0 of "in" from where the group is, writes to "out", commits both together."""

    def __init__(self, bootstrap: str) -> None:
        # first: it ends what its predecessor left open, for which offsets would be waited
        self._producer = transactional(bootstrap, "processor")
        self._consumer = reader(bootstrap, PROCESSORS)
        self._whose = self._consumer.consumer_group_metadata()
        self.at = committed(self._consumer, 0)
        self._consumer.assign([ck.TopicPartition("in", 0, self.at)])

    def step(self, committing: Callable[[], AbstractContextManager[None]] = nullcontext) -> int:
        """How many it moved."""
        rows = [each for each in self._consumer.consume(50, 0.1) if not each.error()]
        if not rows:
            return 0
        self._producer.begin_transaction()
        for each in rows:
            self._producer.produce("out", each.value(), partition=0)
        at = rows[-1].offset() + 1
        with committing():
            place = ck.TopicPartition("in", 0, at)
            self._producer.send_offsets_to_transaction([place], self._whose, DEADLINE_S)
        self._producer.commit_transaction(DEADLINE_S)
        self.at = at
        return len(rows)

    def close(self) -> None:
        self._consumer.close()
        self._producer.purge()


def reader(bootstrap: str, group: str, **more: object) -> ck.Consumer:
    return ck.Consumer({"bootstrap.servers": bootstrap, "group.id": group,
                        "enable.auto.commit": False, "auto.offset.reset": "earliest",
                        **QUIET, **more})  # fmt: skip


def committed(consumer: ck.Consumer, partition: int) -> int:
    (place,) = consumer.committed([ck.TopicPartition("in", partition)], timeout=DEADLINE_S)
    return max(int(place.offset), 0)


def read_all(bootstrap: str, topic: str, partitions: int = 1) -> Iterator[tuple[int, int, bytes]]:
    """Partition, offset and value of all committed records, of each partition in order."""
    left = set(range(partitions))
    with closing(reader(bootstrap, "all", **{"enable.partition.eof": True})) as consumer:
        consumer.assign([ck.TopicPartition(topic, each, 0) for each in left])
        end = time.monotonic() + DEADLINE_S
        while left:
            found = consumer.consume(5000, CONSUME_S)
            assert found or time.monotonic() < end, f"nothing more came of {topic}, {sorted(left)}"
            end = time.monotonic() + DEADLINE_S if found else end
            for each in found:
                if each.error():
                    assert each.error().code() == ck.KafkaError._PARTITION_EOF, each.error()
                    left.discard(each.partition())
                else:
                    yield each.partition(), each.offset(), each.value()


def numbers(bootstrap: str, topic: str, partitions: int = 1) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(partitions)]
    for partition, _, value in read_all(bootstrap, topic, partitions):
        found[partition].append(int(value[:NUMBER]))
    return found


def make_topics(bootstrap: str, segment_bytes: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    small = {"segment.bytes": str(segment_bytes)}
    large = {"segment.bytes": str(BULK_SEGMENT)}
    wanted = [NewTopic("in", PARTITIONS, config=small), NewTopic("out", 1, config=small),
              NewTopic("bulk", BULK_PARTITIONS, config=large)]  # fmt: skip
    for each in admin.create_topics(wanted).values():
        each.result(DEADLINE_S)


# The bulk


def bulk_value(number: int) -> bytes:
    begin = number % BULK_BYTES
    return b"%012d" % number + POOL[begin : begin + BULK_BYTES - 12]


def fill(bootstrap: str, size: int) -> list[int]:
    """Where the partitions end: all was acknowledged."""
    producer = ck.Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "acks": "all",
                            "enable.idempotence": True, "batch.size": 1_000_000,
                            "queue.buffering.max.kbytes": 200_000, **QUIET})  # fmt: skip
    count, taken = size // BULK_BYTES, 0

    def note(error: ck.KafkaError | None, _: ck.Message) -> None:
        nonlocal taken
        assert error is None, error
        taken += 1

    for number in range(count):
        while True:
            try:
                producer.produce("bulk", bulk_value(number), partition=number % BULK_PARTITIONS,
                                 on_delivery=note)  # fmt: skip
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    while producer.flush(DEADLINE_S):
        pass
    assert taken == count
    return [len(range(each, count, BULK_PARTITIONS)) for each in range(BULK_PARTITIONS)]


def bulk_ends(bootstrap: str) -> list[int]:
    """Each record is at its place, as it was written, and none is missing between."""
    ends = [0] * BULK_PARTITIONS
    for partition, offset, value in read_all(bootstrap, "bulk", BULK_PARTITIONS):
        assert offset == ends[partition], f"bulk-{partition}"
        number = BULK_PARTITIONS * offset + partition
        assert value == bulk_value(number), f"bulk-{partition}, offset {offset}"
        ends[partition] += 1
    return ends
