"""Fetching at offsets of one's own, from real brokers."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from appliance.client import fetch
from appliance.client.broker_partition import BrokerPartition
from appliance.client.consumer_config import FetchConfig
from appliance.client.errors import (
    BrokerRefused,
    BrokerUnavailable,
    ConfigInvalid,
    MessageTooLarge,
    OffsetOutOfRange,
    PartitionUnknown,
    TopicMadeAnew,
)
from appliance.client.simple_consumer import (
    EARLIEST,
    LATEST,
    FetchRequest,
    MessageSet,
    SimpleConsumer,
)
from appliance.protocol import codec, headers
from appliance.protocol.messages.fetch import API as FETCH
from appliance.protocol.messages.fetch import FetchResponse
from appliance.record import _batch_builder
from appliance.testing import RunningBroker, running_broker
from loadtest.ports import lasting_port
from tests.support.wire_client import WireClient

DEADLINE_S = 20.0
FIRST_MS = 1_700_000_000_000


def address_of(broker: RunningBroker) -> tuple[str, int]:
    host, _, port = broker.bootstrap.rpartition(":")
    return host, int(port)


def wire(broker: RunningBroker) -> WireClient:
    return WireClient(address_of(broker))


def values(count: int, size: int = 10, first_ms: int = FIRST_MS, codec: str = "none") -> bytes:
    return _batch_builder.batch(
        [(first_ms + i, b"key", b"%0*d" % (size, i), [("h", b"x")]) for i in range(count)],
        codec=codec,
    )


def produce(broker: RunningBroker, *batches: bytes, topic: str = "t", partition: int = 0) -> None:
    with wire(broker) as client:
        for each in batches:
            (part,) = client.produce(each, topic=topic, partition=partition, acks=-1)
            assert part.error_code == 0


def consumer(*brokers: RunningBroker, **settings: Any) -> SimpleConsumer:
    found = ",".join(each.bootstrap for each in brokers)
    return SimpleConsumer(FetchConfig(broker_list=found, **settings))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path) as running:
        with wire(running) as client:
            client.create_topic("t", 3)
        yield running


def offsets(found: MessageSet | Exception) -> list[int]:
    assert isinstance(found, MessageSet), found
    return [each.offset for each in found]


def test_messages_come_from_the_offset_on(broker: RunningBroker) -> None:
    produce(broker, values(4), values(3, codec="lz4"))
    with consumer(broker) as client:
        found = client.fetch("t", 0, 2)
        assert offsets(found) == [2, 3, 4, 5, 6]
        assert (found.next_offset, found.high_watermark, found.log_start_offset) == (7, 7, 0)
        first = next(iter(found))
        assert (first.topic, first.partition) == ("t", BrokerPartition(1, 0))
        assert (first.key, first.value) == (b"key", b"0000000002")
        assert (first.timestamp, first.headers) == (FIRST_MS + 2, (("h", b"x"),))
        at_the_end = client.fetch("t", 0, found.next_offset)
        assert (offsets(at_the_end), at_the_end.next_offset) == ([], 7)


def test_an_offset_out_of_range_is_an_exception_of_its_own(broker: RunningBroker) -> None:
    produce(broker, values(4))
    with consumer(broker) as client:
        with pytest.raises(OffsetOutOfRange, match="t/1-0 offset 5: OFFSET_OUT_OF_RANGE"):
            client.fetch("t", 0, 5)
        assert offsets(client.fetch("t", 0, 3)) == [3]


def delete(broker: RunningBroker, topic: str = "t") -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.delete_topics([topic])[topic].result(DEADLINE_S)


def make_anew(broker: RunningBroker, topic: str = "t") -> None:
    delete(broker, topic)
    with wire(broker) as client:
        client.create_topic(topic, 3)


@pytest.mark.parametrize("count", [2, 4, 9], ids=["fewer", "as many", "more"])
def test_an_offset_of_a_topic_that_was_made_anew_is_refused_until_it_is_begun_anew(
    count: int, broker: RunningBroker
) -> None:
    produce(broker, values(4))
    with consumer(broker) as client:
        offset = client.fetch("t", 0, 0).next_offset
        was = client.cluster.topic_id(1, "t")
        make_anew(broker)
        produce(broker, values(count))
        now = client.cluster.topic_id(1, "t")
        for read in (client.fetch, client.fetch_arrow):
            with pytest.raises(TopicMadeAnew, match=r"t/1-0: offset 4 .* created again") as got:
                read("t", 0, offset)
            assert (got.value.was, got.value.now, got.value.offset) == (was, now, 4)
            assert f"{was}, and 't' has id {now} now" in str(got.value)
            assert not got.value.retriable
        (refused,) = client.multifetch([FetchRequest("t", 0, offset)])
        assert isinstance(refused, TopicMadeAnew)
        client.begin_anew("t")
        (first,) = client.get_offsets_before("t", 0, EARLIEST)
        assert offsets(client.fetch("t", 0, first)) == [*range(count)]


def test_a_position_begins_when_its_offset_is_asked_for(broker: RunningBroker) -> None:
    produce(broker, values(4))
    with consumer(broker) as client:
        (offset,) = client.get_offsets_before("t", 0, LATEST)
        make_anew(broker)
        with pytest.raises(TopicMadeAnew):
            client.fetch("t", 0, offset)


def test_a_topic_that_is_deleted_is_unknown_until_there_is_another(broker: RunningBroker) -> None:
    produce(broker, values(4))
    with consumer(broker) as client:
        offset = client.fetch("t", 0, 0).next_offset
        delete(broker)
        with pytest.raises(BrokerRefused, match="UNKNOWN_TOPIC_OR_PARTITION") as got:
            client.fetch("t", 0, offset)
        assert got.value.retriable
        with wire(broker) as asking:
            asking.create_topic("t", 3)
        with pytest.raises(TopicMadeAnew):
            client.fetch("t", 0, offset)


def test_a_topic_id_is_asked_for_once(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(broker, values(4))
    with consumer(broker) as client:
        asked, ask = [], client.cluster.topic_id
        monkeypatch.setattr(client.cluster, "topic_id", lambda *of: asked.append(of) or ask(*of))
        for offset in range(4):
            client.fetch("t", 0, offset)
        client.fetch("t", 1, 0)
        assert asked == [(1, "t")]


def test_where_topics_have_no_id_they_are_fetched_by_name(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(broker, values(4))
    with consumer(broker) as client:
        monkeypatch.setattr(client.cluster, "topic_id", lambda *of: None)
        assert offsets(client.fetch("t", 0, 2)) == [2, 3]


def test_columns_are_the_messages(broker: RunningBroker) -> None:
    produce(broker, values(4), values(300, codec="zstd"))
    with consumer(broker) as client:
        table = client.fetch_arrow("t", 0, 2)
        messages = [*client.fetch("t", 0, 2)]
    assert table.num_rows == 302
    for row, message in zip(table.to_pylist(), messages, strict=True):
        named = [{"key": name, "value": value} for name, value in message.headers]
        assert (row["offset"], row["timestamp"]) == (message.offset, message.timestamp)
        assert (row["key"], row["value"]) == (message.key, message.value)
        assert row["headers"] == named
    assert table.schema.metadata == {b"next_offset": b"304", b"high_watermark": b"304"}


@pytest.mark.parametrize("ahead", [True, False])
def test_columns_are_read_one_fetch_after_the_other(ahead: bool, broker: RunningBroker) -> None:
    for first in range(10):
        produce(broker, values(20, size=100, first_ms=FIRST_MS + 20 * first))
    produce(broker, values(7), partition=1)
    with consumer(broker, fetch_ahead=ahead, fetch_size=4096) as client:
        found: list[int] = []

        def read_on(times: int) -> None:
            for _ in range(times):
                offset = len(found)
                found.extend(client.fetch_arrow("t", 0, offset)["offset"].to_pylist())

        read_on(4)
        assert bool(client._ahead) == ahead
        assert client.fetch_arrow("t", 1, 3).num_rows == 4, "another partition in between"
        read_on(3)
        assert offsets(client.fetch("t", 0, 10))[:5] == [10, 11, 12, 13, 14]
        read_on(1)
        assert client.get_offsets_before("t", 0, LATEST) == [200]
        while len(found) < 200:
            read_on(1)
        assert client.fetch_arrow("t", 0, 200).num_rows == 0
        produce(broker, values(3))
        read_on(1)
        assert found == [*range(203)], "nothing that was asked for too early"


def test_columns_that_are_kept_stay_what_they_were(broker: RunningBroker) -> None:
    """The buffer for answers is used again, the columns are not in it."""
    for first in range(12):
        rows = [(FIRST_MS, None, b"%04d" % (20 * first + i) * 1000) for i in range(20)]
        produce(broker, _batch_builder.batch(rows))
    with consumer(broker, fetch_size=100_000) as client:
        kept = []
        offset = 0
        while offset < 240:
            kept.append(client.fetch_arrow("t", 0, offset))
            offset = int(kept[-1].schema.metadata[b"next_offset"])
        client._buffer[:] = bytes(len(client._buffer))
    assert len(kept) > 2
    found = [row for each in kept for row in each.to_pylist()]
    assert [row["offset"] for row in found] == [*range(240)]
    assert all(row["value"] == b"%04d" % row["offset"] * 1000 for row in found)
    assert all(row["headers"] == [] for row in found)


def test_what_was_asked_ahead_too_long_ago_is_asked_again(broker: RunningBroker) -> None:
    for _ in range(6):
        produce(broker, values(20, size=100))
    settings = {"fetch_size": 2048, "fetch_wait_max_ms": 0}
    with consumer(broker, **settings) as client:
        for first in (0, 20):
            assert client.fetch_arrow("t", 0, first)["offset"].to_pylist()[0] == first
        (connection,) = client._connections.values()
        assert connection.in_flight == 1
        (ahead,) = connection._in_flight
        connection._in_flight[0] = replace(ahead, deadline=time.monotonic())  # its time is over
        assert client.fetch_arrow("t", 0, 40)["offset"].to_pylist()[0] == 40
        assert not connection.is_open


def test_many_partitions_of_many_brokers_at_once(tmp_path: Path) -> None:
    with ExitStack() as stack:
        brokers = [
            stack.enter_context(running_broker(tmp_path / str(n), {"node.id": str(n)}))
            for n in (1, 2)
        ]
        for number, each in enumerate(brokers, 1):
            with wire(each) as client:
                client.create_topic("t", 2)
            produce(each, values(number), partition=1)
        client = stack.enter_context(consumer(*brokers))
        asked = [("1-1", 0), ("2-1", 1), ("2-1", 9), ("1-0", 0), ("2-1", 0)]
        named = [(BrokerPartition.parse(name), offset) for name, offset in asked]
        found = client.multifetch(FetchRequest("t", name, offset) for name, offset in named)
        assert isinstance(found.pop(2), OffsetOutOfRange), "the others are not concerned"
        assert [offsets(each) for each in found] == [[0], [1], [], [0, 1]]
        with pytest.raises(PartitionUnknown, match="got the partition 1, which 2 of 1-0"):
            client.fetch("t", 1, 0)


def test_every_broker_is_asked_before_the_first_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def note(name: str) -> Callable[..., Any]:
        call = getattr(fetch, name)
        return lambda *given: (seen.append(name), call(*given))[1]

    with ExitStack() as stack:
        brokers = [
            stack.enter_context(running_broker(tmp_path / str(n), {"node.id": str(n)}))
            for n in (1, 2)
        ]
        for each in brokers:
            with wire(each) as made:
                made.create_topic("t", 1)
            produce(each, values(1))
        client = stack.enter_context(consumer(*brokers))
        for name in ("send", "receive"):
            monkeypatch.setattr(fetch, name, note(name))
        names = [BrokerPartition.parse(name) for name in ("1-0", "2-0")]
        for offset, wanted in ((0, [[0], [0]]), (1, [[], []])):
            found = client.multifetch(FetchRequest("t", name, offset) for name in names)
            assert [offsets(each) for each in found] == wanted
    assert seen == ["send", "send", "receive", "receive"] * 2


def test_what_others_left_no_room_for_comes_too(broker: RunningBroker) -> None:
    for partition in range(3):
        produce(broker, values(50, size=1000), partition=partition)
    with consumer(broker) as client:
        found = client.multifetch(FetchRequest("t", n, 0, size=1024) for n in range(3))
        assert [offsets(each) for each in found] == [[*range(50)]] * 3


# Offsets by time


def test_offsets_before_a_time(broker: RunningBroker) -> None:
    produce(broker, values(50), values(50, first_ms=FIRST_MS + 1000))
    with consumer(broker) as client:

        def before(time: int, count: int = 1) -> list[int]:
            return client.get_offsets_before("t", 0, time, count)

        assert before(LATEST) == [100]
        assert before(EARLIEST) == before(EARLIEST, 9) == [0]
        assert before(LATEST, 5) == [100, 75, 50, 25, 0]
        assert before(FIRST_MS + 1000) == [50]
        assert before(FIRST_MS + 1000, 3) == [50, 25, 0]
        assert before(FIRST_MS + 9999) == [100]
        assert before(0, 9) == [0]
        assert before(FIRST_MS + 2, 9) == [2, 1, 0]
        assert client.get_offsets_before("t", 1, LATEST, 9) == [0]


# Batches above the fetch size


def test_a_batch_above_the_maximum_is_an_error_with_both_numbers(broker: RunningBroker) -> None:
    batch = values(9, size=1000)
    produce(broker, batch)
    with consumer(broker, fetch_size=1024, fetch_size_max=4096) as client:
        wanted = f"t/1-0 offset 0: a batch of {len(batch)} bytes, fetch_size_max is 4096"
        with pytest.raises(MessageTooLarge, match=wanted):
            client.fetch("t", 0, 0)


class Cutting(socketserver.BaseRequestHandler):
    """Between a client and a broker, makes of it one of old: a batch that is larger than what was
    asked for arrives cut."""

    server: Relay

    def handle(self) -> None:
        with socket.create_connection(self.server.broker) as broker:
            while (request := frame(self.request)) is not None:
                broker.sendall(with_size(request))
                answer = frame(broker)
                assert answer is not None
                key, version = struct.unpack_from(">hh", request)
                self.request.sendall(
                    with_size(self.cut(request, answer, version) if key == 1 else answer)
                )

    def cut(self, request: bytes, answer: bytes, version: int) -> bytes:
        header, body = headers.decode_request(request)
        asked = codec.decode(FETCH.request, body, version)
        _, told = headers.decode_response(answer, 1, version)
        response = codec.decode(FetchResponse, told, version)
        for topic, row in zip(response.responses, asked.topics, strict=True):
            for part, wanted in zip(topic.partitions, row.partitions, strict=True):
                self.server.sizes.append(wanted.partition_max_bytes)
                part.records = (part.records or b"")[: wanted.partition_max_bytes]
        head = headers.encode_response_header(1, version, header.correlation_id)
        return head + codec.encode(response, version)


class Relay(socketserver.ThreadingTCPServer):
    daemon_threads = True
    broker: tuple[str, int]  # is told after the start: it advertises this relay's address

    def __init__(self) -> None:
        self.sizes: list[int] = []  # what was asked for
        super().__init__(("127.0.0.1", 0), Cutting)

    @property
    def address(self) -> str:
        return "{}:{}".format(*self.server_address[:2])


def frame(source: socket.socket) -> bytes | None:
    size = source.recv(4, socket.MSG_WAITALL)
    if len(size) < 4:
        return None
    return source.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL)


def with_size(octets: bytes) -> bytes:
    return struct.pack(">i", len(octets)) + octets


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[Relay]:
    with Relay() as relay:
        settings = {"advertised.listeners": relay.address}
        thread = threading.Thread(target=relay.serve_forever, args=(0.01,))
        thread.start()
        with running_broker(tmp_path, settings) as broker:
            relay.broker = address_of(broker)
            with WireClient(relay.broker) as client:
                client.create_topic("t", 1)
            try:
                yield relay
            finally:
                relay.shutdown()
                thread.join()


def produce_directly(relay: Relay, *batches: bytes) -> None:
    with WireClient(relay.broker) as client:
        for each in batches:
            assert client.produce(each, acks=-1)[0].error_code == 0


def test_a_batch_that_was_cut_is_fetched_by_doubling(relay: Relay) -> None:
    produce_directly(relay, values(4), values(20, size=1000), values(2))
    with SimpleConsumer(FetchConfig(broker_list=relay.address, fetch_size=1024)) as client:
        assert offsets(client.fetch("t", 0, 0)) == [0, 1, 2, 3]
        relay.sizes.clear()
        assert offsets(client.fetch("t", 0, 4))[:20] == [*range(4, 24)]
        assert relay.sizes == [1024, 32768], "the first told how much it takes"


def test_doubling_ends_at_the_maximum(relay: Relay) -> None:
    produce_directly(relay, values(20, size=1000))
    config = FetchConfig(broker_list=relay.address, fetch_size=1024, fetch_size_max=8192)
    with (
        SimpleConsumer(config) as client,
        pytest.raises(MessageTooLarge, match="fetch_size_max is 8192"),
    ):
        client.fetch("t", 0, 0)


# Transactions


def test_what_was_aborted_is_read_only_on_demand(broker: RunningBroker) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": "x"}
    producer = Producer(settings)
    producer.init_transactions(DEADLINE_S)
    for end in ("abort", "commit", "abort", "commit", None):
        producer.begin_transaction()
        for _ in range(2):
            producer.produce("t", str(end), partition=0)
        producer.flush(DEADLINE_S)
        if end:
            getattr(producer, f"{end}_transaction")(DEADLINE_S)
    with consumer(broker) as client:
        found = client.fetch("t", 0, 0)
        assert offsets(found) == [0, 1, 3, 4, 6, 7, 9, 10, 12, 13]
    with consumer(broker, isolation_level="read_committed") as client:
        found = client.fetch("t", 0, 0)
        assert (offsets(found), found.next_offset) == ([3, 4, 9, 10], 12)
        assert client.fetch_arrow("t", 0, 4)["offset"].to_pylist() == [4, 9, 10]
        assert client.get_offsets_before("t", 0, LATEST) == [12]
        # the open transaction is there, and yet not to be read: no buffer grows for it
        assert offsets(client.fetch("t", 0, 12, size=1024)) == []
    producer.abort_transaction(DEADLINE_S)


# Connections


def test_a_broker_that_comes_back_is_found_again(tmp_path: Path) -> None:
    address = f"127.0.0.1:{lasting_port()}"
    with running_broker(tmp_path, {"listeners": address}) as running:
        with wire(running) as client:
            client.create_topic("t", 1)
        produce(running, values(4))
        reader = consumer(running)
        assert offsets(reader.fetch("t", 0, 0)) == [0, 1, 2, 3]
    with pytest.raises(BrokerUnavailable):
        reader.fetch("t", 0, 0)
    with reader, running_broker(tmp_path, {"listeners": address}):
        assert offsets(reader.fetch("t", 0, 0)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"fetch_size": 100}, "fetch_size: got 100, wanted at least 1024 bytes"),
        ({"fetch_size_max": 2048}, "fetch_size_max: got 2048, wanted at least fetch_size"),
        ({"isolation_level": "serializable"}, "isolation_level: got 'serializable', wanted one of"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], wanted: str) -> None:
    with pytest.raises(ConfigInvalid, match=wanted):
        FetchConfig(broker_list="box:9092", **settings)
