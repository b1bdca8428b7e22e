"""confluent-kafka, kafka-python and aiokafka behind one interface, so that one test covers all.

A producer here lives for one call. A reader reads partition 0 of one topic without a group.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors

DEADLINE_S = 30.0
REQUEST_MAX = 4 << 20  # larger than the tests need: the clients' own limits are not tested


class RecordTooLarge(Exception):
    """The broker's error, not the client's."""


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 1_600_000_000_000


class Reader(ABC):
    def take(self, count: int, deadline_s: float = DEADLINE_S) -> list[tuple[int, Record]]:
        """Reads this many records with their offsets, or fewer at the deadline."""
        found: list[tuple[int, Record]] = []
        end = time.monotonic() + deadline_s
        while len(found) < count and (left := end - time.monotonic()) > 0:
            found += self.poll(left)
        return found

    @abstractmethod
    def poll(self, wait_s: float) -> list[tuple[int, Record]]:
        """The available records, or the next ones."""

    @abstractmethod
    def seek(self, offset: int) -> None: ...

    @abstractmethod
    def pause(self) -> None: ...

    @abstractmethod
    def resume(self) -> None: ...

    @abstractmethod
    def first_at(self, timestamp_ms: int) -> int | None:
        """The first offset with this time or a later one."""

    @abstractmethod
    def ends(self) -> tuple[int, int]:
        """The first offset, and the one after the last."""

    @abstractmethod
    def close(self) -> None: ...


class Client(ABC):
    name: str

    @abstractmethod
    def produce(self, address: str, topic: str, records: Sequence[Record], *,
                codec: str = "none", acks: str = "all", is_idempotent: bool = False) -> list[int]:
        """Sends all records to partition 0. Returns their offsets, -1 if not acknowledged."""

    @abstractmethod
    def reader(self, address: str, topic: str, offset: int, wait_ms: int = 50) -> Reader: ...


# confluent-kafka


class Confluent(Client):
    name = "confluent-kafka"

    def produce(self, address: str, topic: str, records: Sequence[Record], *,
                codec: str = "none", acks: str = "all", is_idempotent: bool = False) -> list[int]:
        told: list[tuple[Any, int]] = []
        producer = confluent_kafka.Producer({
            "bootstrap.servers": address, "compression.type": codec, "acks": acks,
            "enable.idempotence": is_idempotent, "message.max.bytes": REQUEST_MAX, "linger.ms": 5,
        })
        for each in records:
            producer.produce(
                topic, each.value, each.key, 0, timestamp=each.timestamp_ms,
                headers=list(each.headers),
                on_delivery=lambda error, record: told.append((error, record.offset())))
        assert producer.flush(DEADLINE_S) == 0
        for error, _ in told:
            if error is not None and error.code() == confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE:
                raise RecordTooLarge(str(error))
            assert error is None, error
        return [-1 if acks == "0" else offset for _, offset in told]

    def reader(self, address: str, topic: str, offset: int, wait_ms: int = 50) -> Reader:
        return ConfluentReader(address, topic, offset, wait_ms)


class ConfluentReader(Reader):
    def __init__(self, address: str, topic: str, offset: int, wait_ms: int) -> None:
        self._consumer = confluent_kafka.Consumer({
            "bootstrap.servers": address, "group.id": "none", "enable.auto.commit": False,
            "fetch.wait.max.ms": wait_ms, "fetch.message.max.bytes": REQUEST_MAX})
        self._where = confluent_kafka.TopicPartition(topic, 0, offset)
        self._consumer.assign([self._where])

    def poll(self, wait_s: float) -> list[tuple[int, Record]]:
        found = self._consumer.consume(1, wait_s)
        for each in found:
            assert each.error() is None, each.error()
        return [(each.offset(), Record(each.key(), each.value(), tuple(each.headers() or ()),
                                       each.timestamp()[1])) for each in found]

    def seek(self, offset: int) -> None:
        self._consumer.assign([
            confluent_kafka.TopicPartition(self._where.topic, 0, offset)])

    def pause(self) -> None:
        self._consumer.pause([self._where])

    def resume(self) -> None:
        self._consumer.resume([self._where])

    def first_at(self, timestamp_ms: int) -> int | None:
        asked = confluent_kafka.TopicPartition(self._where.topic, 0, timestamp_ms)
        (found,) = self._consumer.offsets_for_times([asked], DEADLINE_S)
        assert found.error is None
        return None if found.offset == confluent_kafka.OFFSET_END else found.offset

    def ends(self) -> tuple[int, int]:
        return self._consumer.get_watermark_offsets(self._where, DEADLINE_S)

    def close(self) -> None:
        self._consumer.close()


# kafka-python


class KafkaPython(Client):
    name = "kafka-python"

    def produce(self, address: str, topic: str, records: Sequence[Record], *,
                codec: str = "none", acks: str = "all", is_idempotent: bool = False) -> list[int]:
        producer = kafka.KafkaProducer(
            bootstrap_servers=address, acks=acks if acks == "all" else int(acks),
            compression_type=None if codec == "none" else codec,
            enable_idempotence=is_idempotent, max_request_size=REQUEST_MAX, linger_ms=5)
        try:
            sent = [producer.send(topic, each.value, each.key, list(each.headers), 0,
                                  each.timestamp_ms) for each in records]
            told = [each.get(DEADLINE_S).offset for each in sent]
            return [-1] * len(told) if acks == "0" else told  # it numbers them itself
        except kafka.errors.MessageSizeTooLargeError as error:
            raise RecordTooLarge(str(error)) from error
        finally:
            producer.close()

    def reader(self, address: str, topic: str, offset: int, wait_ms: int = 50) -> Reader:
        return KafkaPythonReader(address, topic, offset, wait_ms)


class KafkaPythonReader(Reader):
    def __init__(self, address: str, topic: str, offset: int, wait_ms: int) -> None:
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=address, group_id=None, fetch_max_wait_ms=wait_ms)
        self._where = kafka.TopicPartition(topic, 0)
        self._consumer.assign([self._where])
        self.seek(offset)

    def poll(self, wait_s: float) -> list[tuple[int, Record]]:
        found = self._consumer.poll(int(wait_s * 1000), max_records=1)
        return [(each.offset, Record(each.key, each.value, tuple(each.headers), each.timestamp))
                for each in found.get(self._where, [])]

    def seek(self, offset: int) -> None:
        self._consumer.seek(self._where, offset)

    def pause(self) -> None:
        self._consumer.pause(self._where)

    def resume(self) -> None:
        self._consumer.resume(self._where)

    def first_at(self, timestamp_ms: int) -> int | None:
        found = self._consumer.offsets_for_times({self._where: timestamp_ms})[self._where]
        return None if found is None else found.offset

    def ends(self) -> tuple[int, int]:
        first = self._consumer.beginning_offsets([self._where])[self._where]
        return first, self._consumer.end_offsets([self._where])[self._where]

    def close(self) -> None:
        self._consumer.close()


# aiokafka


class AioKafka(Client):
    name = "aiokafka"

    def produce(self, address: str, topic: str, records: Sequence[Record], *,
                codec: str = "none", acks: str = "all", is_idempotent: bool = False) -> list[int]:
        return asyncio.run(asyncio.wait_for(
            self._produce(address, topic, records, codec, acks, is_idempotent), DEADLINE_S))

    async def _produce(self, address: str, topic: str, records: Sequence[Record], codec: str,
                       acks: str, is_idempotent: bool) -> list[int]:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=address, acks=acks if acks == "all" else int(acks),
            compression_type=None if codec == "none" else codec,
            enable_idempotence=is_idempotent, max_request_size=REQUEST_MAX, linger_ms=5,
        ) as producer:
            sent = [await producer.send(topic, each.value, each.key, 0, each.timestamp_ms,
                                        list(each.headers)) for each in records]
            try:
                told = await asyncio.gather(*sent)
            except aiokafka.errors.MessageSizeTooLargeError as error:
                raise RecordTooLarge(str(error)) from error
        return [-1 if each is None else each.offset for each in told]

    def reader(self, address: str, topic: str, offset: int, wait_ms: int = 50) -> Reader:
        return AioKafkaReader(address, topic, offset, wait_ms)


class AioKafkaReader(Reader):
    """Its event loop runs only within calls, except for tasks that it started before."""

    def __init__(self, address: str, topic: str, offset: int, wait_ms: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._where = aiokafka.TopicPartition(topic, 0)
        self._consumer = self._run(self._start(address, wait_ms))
        self.seek(offset)

    async def _start(self, address: str, wait_ms: int) -> aiokafka.AIOKafkaConsumer:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=address, fetch_max_wait_ms=wait_ms)
        await consumer.start()
        consumer.assign([self._where])
        return consumer

    def _run(self, job: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(job, DEADLINE_S))

    def poll(self, wait_s: float) -> list[tuple[int, Record]]:
        found = self._run(self._consumer.getmany(timeout_ms=int(wait_s * 1000)))
        return [(each.offset, Record(each.key, each.value, tuple(each.headers), each.timestamp))
                for each in found.get(self._where, [])]

    def seek(self, offset: int) -> None:
        self._consumer.seek(self._where, offset)

    def pause(self) -> None:
        async def pause() -> None:  # it needs a running loop
            self._consumer.pause(self._where)

        self._run(pause())

    def resume(self) -> None:
        self._consumer.resume(self._where)

    def first_at(self, timestamp_ms: int) -> int | None:
        found = self._run(self._consumer.offsets_for_times({self._where: timestamp_ms}))
        return None if found[self._where] is None else int(found[self._where].offset)

    def ends(self) -> tuple[int, int]:
        first = self._run(self._consumer.beginning_offsets([self._where]))
        end = self._run(self._consumer.end_offsets([self._where]))
        return first[self._where], end[self._where]

    def close(self) -> None:
        self._run(self._consumer.stop())
        self._loop.close()


CLIENTS: list[Client] = [Confluent(), KafkaPython(), AioKafka()]
