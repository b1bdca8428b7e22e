"""Real clients at a whole broker that leads a partition with a follower."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
import kafka
import pytest
import requests

from appliance import config
from appliance._log import Log
from appliance.admin import topics
from appliance.replication._replica_fetcher import Fetcher
from appliance.server import Server
from tests.support.logs import batch, everything, one_log
from tests.support.replica_site import REPLICATION

COUNT = 500


@contextmanager
def served(data: Path) -> Iterator[tuple[Server, str]]:
    """A whole broker whose logs the test can reach."""
    pairs = ["listeners=PLAINTEXT://127.0.0.1:0", "admin.address=127.0.0.1:0",
             "export.address=127.0.0.1:0", "storage.low.water.bytes=0"]  # fmt: skip
    server = Server(config.load(pairs=pairs, flags={"data.dir": str(data)}), is_embedded=True)
    ready, loops = threading.Event(), []

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        serving = asyncio.ensure_future(server.serve(lambda done, found: None))
        await server.ready.wait()
        ready.set()
        await serving

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert ready.wait(20)
    try:
        yield server, str(server.kafka_addresses[0])
    finally:
        loops[0].call_soon_threadsafe(server.stop)
        thread.join()


@contextmanager
def led(
    server: Server, address: str, follower: Log, is_followed: bool = True
) -> Iterator[Log]:
    """The log of `t`-0, once it is led and followed."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": address})
    admin.create_topics([confluent_kafka.admin.NewTopic("t", 1, 1)])["t"].result()
    assert server.broker is not None
    topic = server.broker.topics["t"]
    log = topic.log(0)
    log.lead(1, 1, [2], [2], 2)
    follower.follow(1, 1)
    host, _, port = address.rpartition(":")
    fetcher = Fetcher(1, host, int(port), 2, 7, REPLICATION)
    fetcher.add(topic.id.bytes, "t", 0, follower)
    if is_followed:
        fetcher.start()
    try:
        yield log
    finally:
        assert fetcher.stop(5000)


def produce_by_librdkafka(address: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 1})
    errors: list[object] = []
    for i in range(COUNT):
        producer.produce("t", f"{i}".encode(), callback=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    assert errors == [None] * COUNT


def produce_by_kafka_python(address: str) -> None:
    with closing(kafka.KafkaProducer(bootstrap_servers=address, acks="all")) as producer:
        sent = [producer.send("t", f"{i}".encode()) for i in range(COUNT)]
        assert [each.get(20).offset for each in sent] == list(range(COUNT))


@pytest.mark.parametrize("produce", [produce_by_librdkafka, produce_by_kafka_python])
def test_what_a_client_wrote_is_everywhere(
    tmp_path: Path, produce: Callable[[str], None]
) -> None:
    with (
        served(tmp_path / "1") as (server, address),
        one_log(tmp_path / "2") as follower,
        led(server, address, follower) as log,
    ):
        produce(address)
        assert (log.high_watermark, follower.durable_offset) == (COUNT, COUNT)
        assert everything(follower) == everything(log)
        consumer = kafka.KafkaConsumer(
            "t", bootstrap_servers=address, auto_offset_reset="earliest",
            consumer_timeout_ms=10_000)  # fmt: skip
        with closing(consumer):
            values = [next(consumer).value for _ in range(COUNT)]
        assert values == [f"{i}".encode() for i in range(COUNT)]


def test_a_consumer_does_not_see_what_the_follower_lacks(tmp_path: Path) -> None:
    with served(tmp_path / "1") as (server, address), one_log(tmp_path / "2") as follower:
        with led(server, address, follower) as log:
            produce_by_librdkafka(address)
        with closing(kafka.KafkaProducer(bootstrap_servers=address, acks=1)) as producer:
            assert producer.send("t", b"not yet").get(20).offset == COUNT
        consumer = kafka.KafkaConsumer(bootstrap_servers=address, consumer_timeout_ms=500)
        with closing(consumer):
            consumer.assign([kafka.TopicPartition("t", 0)])
            consumer.seek(kafka.TopicPartition("t", 0), COUNT)
            assert list(consumer) == []
            assert consumer.end_offsets([kafka.TopicPartition("t", 0)]).popitem()[1] == COUNT
            log.set_in_sync(1, [], [], 1)
            ((found,),) = consumer.poll(20_000).values()
            assert found.value == b"not yet"


# What is deleted


def delete(address: str, offset: int, timeout_s: float = 20) -> int:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": address})
    where = confluent_kafka.TopicPartition("t", 0, offset)
    (deleted,) = admin.delete_records([where], operation_timeout=timeout_s).values()
    return int(deleted.result(40).low_watermark)


def empty(server: Server) -> requests.Response:
    url = f"http://{server.admin_address}/api/v1/topics/t/empty"
    return requests.post(url, timeout=40)


def test_what_is_deleted_is_deleted_at_the_follower(tmp_path: Path) -> None:
    """When it is answered: the leader may die in the next moment."""
    with (
        served(tmp_path / "1") as (server, address),
        one_log(tmp_path / "2") as follower,
        led(server, address, follower),
    ):
        produce_by_librdkafka(address)
        assert (delete(address, 3), follower.log_start_offset) == (3, 3)
        emptied = empty(server)
        assert emptied.json()["partitions"][0] == {
            "partition": 0, "from_offset": 3, "to_offset": COUNT}  # fmt: skip
        assert follower.log_start_offset == COUNT


def test_a_follower_that_was_busy_deletes_it_then(tmp_path: Path) -> None:
    """Its leader tells the start once, and something else has the log's files just then."""
    with (
        served(tmp_path / "1") as (server, address),
        one_log(tmp_path / "2") as follower,
        led(server, address, follower),
    ):
        produce_by_librdkafka(address)
        is_over = threading.Event()

        def keep_busy() -> None:
            while not is_over.is_set():
                follower.retain(keep_from=0)

        busy = [threading.Thread(target=keep_busy) for _ in range(2)]
        for each in busy:
            each.start()
        threading.Timer(1.5, is_over.set).start()
        assert (delete(address, 3), follower.log_start_offset) == (3, 3)
        is_over.set()
        for each in busy:
            each.join()


def test_who_cannot_be_waited_for_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "EMPTIED_S", 0.2)
    with (
        served(tmp_path / "1") as (server, address),
        one_log(tmp_path / "2") as follower,
        led(server, address, follower, is_followed=False) as log,
    ):
        log.set_in_sync(1, [], [], 1)
        log.append_durable(batch("a", "b"))
        assert delete(address, 1) == 1, "nobody else is in sync"
        log.fetched_by(2, 0, 1, 2, 1)
        log.set_in_sync(1, [], [2], 1)  # who joins may lead next
        with pytest.raises(confluent_kafka.KafkaException) as refused:
            delete(address, 2, timeout_s=0.2)
        assert refused.value.args[0].code() == confluent_kafka.KafkaError.REQUEST_TIMED_OUT
        log.set_in_sync(1, [2], [], 1)
        refusal = empty(server)
        assert refusal.status_code == 504
        assert "t-0: what is before offset 2 is deleted here" in refusal.text
        assert "brokers [2]" in refusal.text
        log.set_in_sync(1, [], [], 1)
        assert empty(server).json()["partitions"][0]["to_offset"] == 2
