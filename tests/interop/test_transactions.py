"""Transactions with real clients: committed records are visible, completely and once; aborted,
fenced or abandoned ones are not; and a transaction that a kill of the broker interrupts ends the
same way in all partitions.

librdkafka and aiokafka use the protocol before KIP-890, Apache Kafka's Java client that of KIP-890
(its checks are in kafka/TransactionChecks.java).
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Protocol

import aiokafka
import confluent_kafka as ck
import pytest
from aiokafka.errors import KafkaError
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop import kafka_jars
from tests.interop.kafka_tools import KafkaTools
from tests.interop.test_restart import Restarted
from tests.support.logs import until
from tests.support.release import gate_has
from tests.support.warm_broker import WarmBroker as Broker

DEADLINE_S = 60.0
KILLS = int(os.environ.get("TRANSACTION_KILLS", "4"))
SEED = int(os.environ.get("TRANSACTION_SEED", "1"))


class Failed(Exception):
    """The reason why a transaction did not commit; `is_over`: this producer cannot continue."""

    def __init__(self, why: object, is_over: bool) -> None:
        super().__init__(str(why))
        self.is_over = is_over


class Producer(Protocol):
    def begin(self) -> None: ...
    def send(self, topic: str, partition: int, value: str) -> None: ...
    def flush(self) -> None: ...
    def send_offset(self, group: str, topic: str, offset: int) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class Librdkafka:
    def __init__(self, address: str, name: str, timeout_ms: int = 60_000) -> None:
        self._address = address
        self._producer = ck.Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": name,
                "transaction.timeout.ms": timeout_ms,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._do(self._producer.init_transactions, DEADLINE_S)

    def _do(self, job: Callable[..., Any], *given: Any) -> Any:
        end = time.monotonic() + DEADLINE_S
        while True:
            try:
                return job(*given)
            except ck.KafkaException as failed:
                error = failed.args[0]
                if error.retriable() and time.monotonic() < end:
                    continue
                raise Failed(error, not error.txn_requires_abort()) from failed

    def begin(self) -> None:
        self._do(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: str) -> None:
        self._producer.produce(topic, value.encode(), partition=partition)

    def flush(self) -> None:
        assert self._producer.flush(DEADLINE_S) == 0

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        consumer = ck.Consumer({"bootstrap.servers": self._address, "group.id": group})
        with closing(consumer):
            place = ck.TopicPartition(topic, 0, offset)
            whose = consumer.consumer_group_metadata()
            self._do(self._producer.send_offsets_to_transaction, [place], whose, DEADLINE_S)

    def commit(self) -> None:
        self._do(self._producer.commit_transaction, DEADLINE_S)

    def abort(self) -> None:
        self._do(self._producer.abort_transaction, DEADLINE_S)

    def close(self) -> None:
        self._producer.purge()
        self._producer.poll(0)


class Aiokafka:
    def __init__(self, address: str, name: str, timeout_ms: int = 60_000) -> None:
        self._loop = asyncio.new_event_loop()
        self._sent: list[Any] = []
        self._run(self._start(address, name, timeout_ms))

    async def _start(self, address: str, name: str, timeout_ms: int) -> None:
        self._producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=address,
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            request_timeout_ms=10_000,
        )
        await self._producer.start()

    def _run(self, job: Any) -> Any:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(job, DEADLINE_S))
        except (KafkaError, asyncio.TimeoutError) as error:
            is_fenced = isinstance(error, aiokafka.errors.ProducerFenced)
            raise Failed(repr(error), is_over=is_fenced) from error

    def begin(self) -> None:
        self._sent = []
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: str) -> None:
        sent = self._run(self._producer.send(topic, value.encode(), partition=partition))
        self._sent.append(sent)

    def flush(self) -> None:
        self._run(self._all_sent())

    async def _all_sent(self) -> None:
        await asyncio.gather(*self._sent)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        place = {aiokafka.TopicPartition(topic, 0): offset}
        self._run(self._producer.send_offsets_to_transaction(place, group))

    def commit(self) -> None:
        self.flush()
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        with suppress(Failed):
            self._run(self._producer.stop())
        self._loop.close()


CLIENTS = pytest.mark.parametrize(
    "made", gate_has([Librdkafka], "a second client of the same protocol", [Librdkafka, Aiokafka])
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Broker(tmp_path_factory.mktemp("transactions") / "data") as broker:
        yield broker.kafka


@pytest.fixture
def topic(address: str) -> str:
    return created(address, f"t-{uuid.uuid4().hex[:8]}", 2)


def created(address: str, topic: str, partitions: int) -> str:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(DEADLINE_S)
    return topic


def values(address: str, topic: str, partition: int = 0, *, all_of_them: bool = False) -> list[str]:
    """The values up to the end of the partition, which an open transaction would delay."""
    consumer = ck.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "log_level": 0,
            "isolation.level": "read_uncommitted" if all_of_them else "read_committed",
            "enable.partition.eof": True,
        }
    )
    found, end = [], time.monotonic() + DEADLINE_S
    with closing(consumer):
        consumer.assign([ck.TopicPartition(topic, partition, 0)])
        while time.monotonic() < end:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() and message.error().code() == ck.KafkaError._PARTITION_EOF:
                return found
            assert not message.error(), message.error()
            found.append(message.value().decode())
    raise AssertionError(f"the end of {topic} was not reached: {found}")


def committed_offset(address: str, group: str, topic: str) -> int:
    consumer = ck.Consumer({"bootstrap.servers": address, "group.id": group})
    with closing(consumer):
        (place,) = consumer.committed([ck.TopicPartition(topic, 0)], DEADLINE_S)
        return int(place.offset)


@CLIENTS
def test_what_is_committed_is_seen_and_what_is_aborted_is_not(
    made: type[Any], address: str, topic: str
) -> None:
    with closing(made(address, topic)) as producer:
        for n in range(9):
            producer.begin()
            for partition in (0, 1):
                producer.send(topic, partition, str(n))
            producer.flush()
            producer.abort() if n % 3 == 1 else producer.commit()
    wanted = [str(n) for n in range(9) if n % 3 != 1]
    assert [values(address, topic, each) for each in (0, 1)] == [wanted, wanted]
    assert values(address, topic, all_of_them=True) == [str(n) for n in range(9)]


@CLIENTS
def test_offsets_are_committed_with_what_was_made_of_the_records(
    made: type[Any], address: str, topic: str
) -> None:
    with closing(made(address, topic)) as producer:
        for offset, is_commit in ((3, True), (8, False), (6, True), (9, False)):
            before = committed_offset(address, topic, topic)
            producer.begin()
            producer.send(topic, 0, f"up to {offset}")
            producer.send_offset(topic, topic, offset)
            producer.commit() if is_commit else producer.abort()
            after = committed_offset(address, topic, topic)
            assert after == (offset if is_commit else before)
    assert values(address, topic) == ["up to 3", "up to 6"]


def write_and_commit(producer: Producer, topic: str) -> None:
    producer.send(topic, 0, "late")
    producer.commit()


@CLIENTS
def test_a_zombie_is_fenced(made: type[Any], address: str, topic: str) -> None:
    with closing(made(address, topic)) as zombie:
        zombie.begin()
        zombie.send(topic, 0, "lost")
        zombie.flush()
        with closing(made(address, topic)) as producer:
            producer.begin()
            producer.send(topic, 0, "kept")
            producer.commit()
        with pytest.raises(Failed) as failed:
            write_and_commit(zombie, topic)
        assert failed.value.is_over, failed.value
    assert values(address, topic) == ["kept"]


@CLIENTS
def test_a_silent_producer_holds_up_readers_for_its_timeout_only(
    made: type[Any], address: str, topic: str
) -> None:
    with closing(made(address, topic, timeout_ms=1000)) as silent:
        silent.begin()
        silent.send(topic, 0, "lost")
        silent.flush()
        with closing(made(address, f"{topic}-other")) as producer:
            producer.begin()
            producer.send(topic, 0, "kept")
            producer.commit()
        end = time.monotonic() + DEADLINE_S
        while values(address, topic) != ["kept"]:
            assert time.monotonic() < end
        with pytest.raises(Failed):
            write_and_commit(silent, topic)
    assert values(address, topic) == ["kept"]


# Apache Kafka's tools


@pytest.fixture(scope="module")
def tools(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    started = KafkaTools(address, tmp_path_factory.mktemp("tools"))
    try:
        yield started
    finally:
        started.close()


def rows(said: str) -> list[dict[str, str]]:
    lines = [line.split() for line in said.splitlines() if line.strip()]
    return [dict(zip(lines[0], line, strict=False)) for line in lines[1:]]


def test_kafkas_tool_lists_describes_and_ends_transactions(
    tools: KafkaTools, address: str, topic: str
) -> None:
    with closing(Librdkafka(address, topic)) as producer:
        producer.begin()
        producer.send(topic, 0, "x")
        producer.flush()
        (row,) = [
            each
            for each in rows(tools.must("kafka-transactions", "list"))
            if each["TransactionalId"] == topic
        ]
        assert row["TransactionState"] == "Ongoing"
        (told,) = rows(tools.must("kafka-transactions", "describe", "--transactional-id", topic))
        assert (told["ProducerId"], told["TransactionState"]) == (row["ProducerId"], "Ongoing")
        assert told["TopicPartitions"] == f"{topic}-0"
        place = ("--topic", topic, "--partition", "0")
        (known,) = rows(tools.must("kafka-transactions", "describe-producers", *place))
        assert (known["ProducerId"], known["CurrentTransactionStartOffset"]) == (
            row["ProducerId"],
            "0",
        )
        tools.must("kafka-transactions", "abort", *place, "--start-offset", "0")
        (known,) = rows(tools.must("kafka-transactions", "describe-producers", *place))
        assert known["CurrentTransactionStartOffset"] == "None"
    assert values(address, topic) == []


def test_kafkas_formatter_reads_our_records(tools: KafkaTools, address: str, topic: str) -> None:
    with closing(Librdkafka(address, topic)) as producer:
        producer.begin()
        producer.send(topic, 1, "x")
        producer.commit()
    said = tools.must(
        "kafka-console-consumer", "--topic", "__transaction_state", "--from-beginning",
        "--timeout-ms", "8000", "--formatter",
        "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter",
    )  # fmt: skip
    own = [each for each in said.split('{"key"') if f'"{topic}"' in each]
    states = [re.search(r'"transactionStatus":(\d+)', each) for each in own]
    assert [each and each[1] for each in states] == ["0", "1", "2", "4"]
    assert f'"topic":"{topic}","partitionIds":[1]' in own[2]


def test_kafkas_tool_finds_ids_by_pattern_and_nothing_that_hangs(
    tools: KafkaTools, address: str, topic: str
) -> None:
    with closing(Librdkafka(address, topic)) as producer:
        producer.begin()
        producer.send(topic, 0, "x")
        producer.flush()

        def listed(*words: str) -> list[str]:
            said = tools.must("kafka-transactions", "list", *words)
            return [each["TransactionalId"] for each in rows(said)]

        assert listed("--transactional-id-pattern", f"{topic}.*") == [topic]
        assert listed("--transactional-id-pattern", "nobody.*") == []
        assert topic in listed("--duration-filter", "0")
        assert topic not in listed("--duration-filter", "3600000")
        for where in (("--broker-id", "1"), ("--topic", topic)):
            assert rows(tools.must("kafka-transactions", "find-hanging", *where)) == []
        tools.must("kafka-transactions", "forceTerminateTransaction", "--transactionalId", topic)
        (told,) = rows(tools.must("kafka-transactions", "describe", "--transactional-id", topic))
        assert told["TransactionState"] == "Empty"  # for the next test
    assert values(address, topic) == []


def test_kafkas_formatter_reads_offsets_of_transactions(
    tools: KafkaTools, address: str, topic: str
) -> None:
    with closing(Librdkafka(address, topic)) as producer:
        for offset, is_commit in ((3, True), (8, False), (6, True)):
            producer.begin()
            producer.send_offset(topic, topic, offset)
            producer.commit() if is_commit else producer.abort()
    for isolation, wanted in (("read_uncommitted", [3, 8, 6]), ("read_committed", [3, 6])):
        said = tools.must(
            "kafka-console-consumer", "--topic", "__consumer_offsets", "--from-beginning",
            "--timeout-ms", "8000", "--isolation-level", isolation, "--formatter",
            "org.apache.kafka.tools.consumer.OffsetsMessageFormatter",
        )  # fmt: skip
        own = [each for each in said.split('{"key"') if f'"group":"{topic}"' in each]
        found = [re.search(r'"offset":(\d+)', each) for each in own]
        assert [int(each[1]) for each in found if each] == wanted


# Kills

ACCOUNTS = ("debit", "credit")
AMOUNTS = 1000


class Bank:
    """Moves money between two topics, one transaction per transfer, through every kill."""

    def __init__(self, address: str, made: type[Any], name: str) -> None:
        self.address, self.made, self.name = address, made, name
        self.committed: set[str] = set()
        self.aborted: set[str] = set()
        self.count = 0

    def run(self, is_over: threading.Event) -> None:
        dice = random.Random(f"{SEED} {self.name}")
        while not is_over.is_set():
            try:
                with closing(self.made(self.address, self.name, 20_000)) as producer:
                    while not is_over.is_set():
                        self._transfer(producer, dice)
            except Failed:
                continue  # the next producer of this name aborts the open transaction

    def _transfer(self, producer: Producer, dice: random.Random) -> None:
        self.count += 1
        which, amount = f"{self.name}.{self.count}", dice.randrange(AMOUNTS)
        producer.begin()
        try:
            for topic, sign in zip(ACCOUNTS, (-1, 1), strict=True):
                producer.send(topic, dice.randrange(2), f"{which} {sign * amount}")
            if dice.random() < 0.2:
                producer.flush()
                producer.abort()
                self.aborted.add(which)
            else:
                producer.commit()
                self.committed.add(which)
        except Failed as failed:
            if failed.is_over:
                raise
            producer.abort()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Restarted]:
    with closing(Restarted(tmp_path)) as made:
        yield made


def test_totals_balance_whenever_the_broker_is_killed(broker: Restarted) -> None:
    for topic in ACCOUNTS:
        created(broker.address, topic, 2)
    banks = [
        Bank(broker.address, made, f"{made.__name__}-{n}")
        for made in (Librdkafka, Aiokafka)
        for n in range(2)
    ]
    dice, is_over = random.Random(SEED), threading.Event()
    with ThreadPoolExecutor(len(banks)) as threads:
        running = [threads.submit(each.run, is_over) for each in banks]
        for _ in range(KILLS):
            wanted = committed_by(banks) + 20
            until(lambda wanted=wanted: committed_by(banks) >= wanted, DEADLINE_S)
            time.sleep(dice.random() * 0.3)
            broker.kill()
        is_over.set()
        for each in running:
            each.result(DEADLINE_S)
    for each in banks:  # the next producer of the name ends open transactions
        each.made(broker.address, each.name).close()
    check_books(broker.address, banks)


def committed_by(banks: list[Bank]) -> int:
    return sum(len(each.committed) for each in banks)


def check_books(address: str, banks: list[Bank]) -> None:
    seen: dict[str, dict[str, int]] = {topic: {} for topic in ACCOUNTS}
    times: Counter[tuple[str, str]] = Counter()
    for topic in ACCOUNTS:
        for partition in (0, 1):
            for value in values(address, topic, partition):
                which, amount = value.split()
                seen[topic][which] = int(amount)
                times[topic, which] += 1
    assert set(times.values()) == {1}, "a transfer was read twice"
    debit, credit = (seen[topic] for topic in ACCOUNTS)
    assert {which: -amount for which, amount in debit.items()} == credit
    committed = set().union(*[each.committed for each in banks])
    aborted = set().union(*[each.aborted for each in banks])
    assert committed <= set(debit), "a committed transfer is lost"
    assert not aborted & set(debit), "an aborted transfer was read"
    assert len(committed) >= 20 * KILLS
    print(
        f"{KILLS} kills: {len(committed)} committed, {len(aborted)} aborted, "
        f"{len(debit)} read, total {sum(debit.values()) + sum(credit.values())}"
    )


COPIES = 3000


@pytest.mark.release("tests/interop/test_streams.py has the Java client through kills")
def test_kafkas_copier_copies_each_once_through_kills(broker: Restarted) -> None:
    """Consume, transform, produce: the Java client, with offsets in its transactions."""
    for topic in ("in", "out"):
        created(broker.address, topic, 1)
    source = ck.Producer({"bootstrap.servers": broker.address})
    for n in range(COPIES):
        source.produce("in", str(n).encode())
    assert source.flush(DEADLINE_S) == 0
    words = [
        "--broker-list", broker.address, "--input-topic", "in", "--input-partition", "0",
        "--output-topic", "out", "--transactional-id", "copier", "--consumer-group", "copier",
        "--transaction-size", "20", "--max-messages", str(COPIES), "--enable-random-aborts",
    ]  # fmt: skip
    command = kafka_jars.command("org.apache.kafka.tools.TransactionalMessageCopier", words)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as copier:
        assert copier.stdout is not None
        reader = ThreadPoolExecutor(1).submit(copier.stdout.read)
        try:
            for share in (0.2, 0.5, 0.8):
                until(lambda share=share: copier.poll() is not None
                      or broker.end_offset("out") >= share * COPIES, DEADLINE_S)
                broker.kill()
            assert copier.wait(DEADLINE_S) == 0, reader.result(5)
        finally:
            copier.kill()
    assert values(broker.address, "out") == [str(n) for n in range(COPIES)]
    assert committed_offset(broker.address, "copier", "in") == COPIES
