"""More than one client may have: requests, responses, connections, partitions, sessions."""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.api.handlers import SERVED
from appliance.protocol.messages.fetch import FetchRequest, FetchResponse
from appliance.protocol.messages.metadata import MetadataRequest
from appliance.testing import running_broker
from tests.hostile.conftest import SETTINGS, SLOWEST_S, SOURCES
from tests.hostile.generator import framed, golden, mutated
from tests.hostile.witness import METADATA, TOPIC, Witness, batch, ends
from tests.support.serving import Serving
from tests.support.wire_client import WireClient, frame_of

ALL_TOPICS = frame_of(MetadataRequest(topics=None), METADATA, 9)
API_VERSIONS = struct.pack(">hhih", 18, 0, 7, -1)
FLOOD_S = 5.0
PATIENCE_S = 120.0  # for responses, on a busy machine


def push(client: WireClient, octets: bytes, seconds: float = FLOOD_S) -> int:
    """Sends until all is sent, the connection ends or time is over. Returns the sent bytes."""
    sent, end = 0, time.monotonic() + seconds
    client.socket.settimeout(0.2)
    with contextlib.suppress(ConnectionError):
        while sent < len(octets) and time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                sent += client.socket.send(octets[sent : sent + (1 << 18)])
    return sent




@pytest.mark.parametrize("what", ["ApiVersions", "Metadata", "Fetch"])
def test_100_000_requests_whose_answers_nobody_reads(
    broker: Serving, source: str, what: str
) -> None:
    frame = {"ApiVersions": API_VERSIONS, "Metadata": ALL_TOPICS, "Fetch": fetch_of(40, 0)}
    with WireClient(broker.kafka, source=source) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        push(client, framed(frame[what]) * 100_000)
        # A peer with a closed window does not get our acknowledgements, so its own bytes stop.
        why = "no answer was taken for 1500 ms|of a frame of .* came in time"
        broker.wait_for_log(f"closed peer={source} why=.*({why}) ")


def test_100_000_requests_whose_answers_are_read(broker: Serving) -> None:
    count = 100_000
    octets = framed(API_VERSIONS) * count
    with WireClient(broker.kafka) as client:
        sender = threading.Thread(target=client.socket.sendall, args=(octets,))
        sender.start()
        for _ in range(count):
            client.receive()
        sender.join()


@pytest.fixture(scope="module")
def large(serving: Serving) -> str:
    """A topic of 16 MB."""
    with WireClient(serving.kafka) as client:
        client.create_topic("large")
        for _ in range(17):
            (part,) = client.produce(batch(b"v" * 1_000_000), topic="large", acks=-1)
            assert part.error_code == 0
    return "large"


def test_a_slow_reader_of_a_large_fetch(broker: Serving, source: str, large: str) -> None:
    """It reads a few KB regularly: this is progress, so it may continue, and costs no memory."""
    with WireClient(broker.kafka, source=source) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(20):
            client.send_fetch(0, topic=large, partition_max_bytes=50 << 20)
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            assert client.socket.recv(4096)
            time.sleep(0.05)


def test_a_reader_that_stopped(broker: Serving, source: str, large: str) -> None:
    with WireClient(broker.kafka, source=source) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.send_fetch(0, topic=large, partition_max_bytes=50 << 20)
        broker.wait_for_log(f"closed peer={source} why=.*no answer was taken for 1500 ms ")


def test_a_thousand_readers_that_do_not_read(broker: Serving, large: str) -> None:
    """Each requests 16 MB and reads nothing. A producer that comes after them gets responses."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with contextlib.ExitStack() as stack:
        sources = [next(SOURCES) for _ in range(4)]
        for number in range(1000):
            client = WireClient(broker.kafka, source=sources[number % 4])
            stack.enter_context(client)
            client.send_fetch(number % 17, topic=large, partition_max_bytes=50 << 20)
        for acks in (1, -1):
            with WireClient(broker.kafka, timeout=SLOWEST_S["data"]) as producer:
                (part,) = producer.produce(batch(), topic=TOPIC, acks=acks)
                assert part.error_code == 0
        broker.wait_for_log(f"closed peer={sources[0]} why=.*no answer was taken for 1500 ms ")


def test_many_connections_that_take_no_large_answers(broker: Serving, source: str) -> None:
    """Each keeps its own limits; together they exceed the total, so the largest are closed."""
    with WireClient(broker.kafka) as client:
        client.create_topic("wide", 50)
        for each in range(50):
            client.produce(batch(b"v" * 60_000), topic="wide", acks=-1, partition=each)
    greedy = [WireClient(broker.kafka, source=source) for _ in range(40)]
    for each in greedy:
        each.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with contextlib.suppress(ConnectionError):
            each.send_fetch(0, topic="wide", partitions=tuple(range(50)))
            each.send_fetch(0, topic="wide", partitions=tuple(range(50)))
    broker.wait_for_log(f"closed peer={source} why=.*more than its share of 50331648 ")
    for each in greedy:
        each.socket.close()


def test_large_control_requests_side_by_side(broker: Serving) -> None:
    """Decoding sixty times 1.9 MB takes half a minute, for which no other client waits."""
    rows = [MetadataRequest.MetadataRequestTopic(name=f"t{i:010}") for i in range(140_000)]
    frame = frame_of(MetadataRequest(topics=rows, allow_auto_topic_creation=False), METADATA, 9)
    assert 1_800_000 < len(frame) < 2 << 20
    clients = [WireClient(broker.kafka) for _ in range(60)]
    pushing = [threading.Thread(target=push, args=(each, framed(frame))) for each in clients]
    for thread in pushing:
        thread.start()
    for thread in pushing:
        thread.join()
    with WireClient(broker.kafka) as client:
        for _ in range(20):
            client.send(API_VERSIONS)
            client.receive()
    for each in clients:
        each.socket.close()


def test_more_connections_than_one_address_may_have(broker: Serving, source: str) -> None:
    most = int(SETTINGS["max.connections.per.ip"])
    clients = [WireClient(broker.kafka, source=source) for _ in range(most)]
    for each in (clients[0], clients[-1]):
        each.send(API_VERSIONS)
        assert each.receive()
    for _ in range(200):
        with WireClient(broker.kafka, source=source) as refused:
            assert ends(refused)
    broker.wait_for_log(f"closed peer={source} why=.*{most} connections of this address, wanted ")
    # One line a minute, not one per connection.
    assert broker.log.count(f"peer={source} ") < 20
    for each in clients:
        each.socket.close()


def test_more_connections_than_file_descriptors(tmp_path: Path) -> None:
    """The logs keep theirs: during the flood a topic can be created, written and read."""
    broker = Serving(tmp_path, descriptors=200)
    broker.wait_for_log("fewer connections than max.connections.total .*taken=54 .*descriptors=200")
    clients = [WireClient(broker.kafka, source=f"127.0.210.{i % 2 + 1}") for i in range(54)]
    for each in clients:
        each.send(API_VERSIONS)
        assert each.receive()
    for _ in range(150):
        with WireClient(broker.kafka) as refused:
            assert ends(refused)
    clients[0].create_topic("made", 10)
    for partition in range(10):
        (part,) = clients[0].produce(batch(), topic="made", partition=partition, acks=-1)
        assert part.error_code == 0
        found = clients[0].fetch_one(0, topic="made", partitions=(partition,))
        assert (found.error_code, len(found.records) > 0) == (0, True)
    for each in clients:
        each.socket.close()
    assert broker.stop() == 0
    assert "Traceback" not in broker.log


def test_a_flood_of_connections_waits_at_its_own_listener(tmp_path: Path) -> None:
    """Of many addresses: another listener does not notice, and there is room again."""
    with running_broker(tmp_path, {
        "listeners": "CALM://127.0.0.1:0,FLOODED://127.0.0.1:0",
        "listener.security.protocol.map": "CALM:PLAINTEXT,FLOODED:PLAINTEXT",
        "listener.name.flooded.max.connections": "30",
        "listener.name.flooded.max.connection.creation.rate": "300",
    }) as broker:  # fmt: skip
        calm, flooded = (address_of(broker.addresses[each]) for each in ("CALM", "FLOODED"))
        witness = Witness(calm)
        try:
            clients = [WireClient(flooded, source=next(SOURCES)) for _ in range(600)]
            for _ in range(20):
                witness.wait()
            for each in clients[:30]:
                each.send(API_VERSIONS)
                assert each.receive()
            clients[30].socket.settimeout(0.1)
            clients[30].send(API_VERSIONS)
            with pytest.raises(TimeoutError):
                clients[30].receive()
            for each in clients:
                each.socket.close()
            with WireClient(flooded, timeout=SLOWEST_S["data"]) as late:
                late.send(API_VERSIONS)
                assert late.receive()
            witness.wait()
        finally:
            witness.close()
        assert witness.faults == []
        assert witness.slowest["data"] < SLOWEST_S["data"]


def address_of(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def test_one_address_leaves_room_for_others(tmp_path: Path) -> None:
    """One address gets half of the connections, even with few descriptors."""
    broker = Serving(tmp_path, descriptors=200)
    greedy = [WireClient(broker.kafka, source="127.0.211.1") for _ in range(27)]
    for each in greedy:
        each.send(API_VERSIONS)
        assert each.receive()
    for _ in range(50):
        with WireClient(broker.kafka, source="127.0.211.1") as refused:
            assert ends(refused)
    why = "27 connections of this address, wanted at most 27 .*max.connections.percent.per.ip"
    broker.wait_for_log(f"closed peer=127.0.211.1 why=.*{why}")
    for each in range(10):
        with WireClient(broker.kafka, source=f"127.0.211.{each + 2}") as client:
            client.send(API_VERSIONS)
            assert client.receive()
    for each in greedy:
        each.socket.close()
    assert broker.stop() == 0


def test_connections_that_come_and_go(broker: Serving) -> None:
    for _ in range(3000):
        with WireClient(broker.kafka) as client:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def fetch_of(partitions: int, wait_ms: int, *, partition: int = 0, session: int = -1) -> bytes:
    parts = [
        FetchRequest.FetchPartition(partition=partition + i, partition_max_bytes=1)
        for i in range(partitions)
    ]
    topic = FetchRequest.FetchTopic(topic="nobody", partitions=parts)
    asked = FetchRequest(max_wait_ms=wait_ms, min_bytes=2**31 - 1, max_bytes=2**31 - 1,
                         session_epoch=session, topics=[topic])
    return frame_of(asked, 1, 12)


def test_a_fetch_of_a_million_partitions(broker: Serving, client: WireClient) -> None:
    push(client, framed(fetch_of(1_000_000, 60_000)), PATIENCE_S)
    client.socket.settimeout(PATIENCE_S)
    assert client.answer(FetchResponse, 1, 12).error_code == 42


@pytest.mark.alone
def test_fetches_of_one_partition_named_20_000_times(broker: Serving, client: WireClient) -> None:
    """They wait for more bytes than will ever arrive, while another client appends."""
    client.create_topic("busy")
    parts = [FetchRequest.FetchPartition(partition=0) for _ in range(20_000)]
    topic = FetchRequest.FetchTopic(topic="busy", partitions=parts)
    asked = FetchRequest(max_wait_ms=60_000, min_bytes=2**31 - 1, max_bytes=1, topics=[topic])
    waiting = [WireClient(broker.kafka) for _ in range(8)]
    for each in waiting:
        each.send(frame_of(asked, 1, 11))
    slowest = 0.0
    for _ in range(30):
        begin = time.monotonic()
        assert client.produce(batch(), topic="busy", acks=-1)[0].error_code == 0
        slowest = max(slowest, time.monotonic() - begin)
    print(f"slowest append {slowest:.3f} s")
    assert slowest < 1
    for each in waiting:
        each.socket.close()


def test_waiting_fetches_beyond_what_one_connection_may_have(broker: Serving) -> None:
    """A thousand fetches of 2,000 partitions: the limit may wait, the others get responses."""
    create_wide(broker)
    parts = [FetchRequest.FetchPartition(partition=i % 50) for i in range(2000)]
    topic = FetchRequest.FetchTopic(topic="waiting", partitions=parts)
    asked = FetchRequest(max_wait_ms=60_000, min_bytes=2**31 - 1, max_bytes=1, topics=[topic])
    frame = framed(frame_of(asked, 1, 11))
    with WireClient(broker.kafka) as client:
        push(client, frame * 1000, 4)


def create_wide(broker: Serving) -> None:
    with WireClient(broker.kafka) as client:
        client.create_topic("waiting", 50)


def test_a_flood_of_fetch_sessions(broker: Serving) -> None:
    """Sessions are created up to the limit of their partitions; then fetches have none."""
    ids = []
    clients = [WireClient(broker.kafka) for _ in range(10)]
    for each in clients:
        each.send(fetch_of(15_000, 0, session=0))
        answer = each.answer(FetchResponse, 1, 12)
        assert answer.error_code == 0
        assert sum(len(topic.partitions) for topic in answer.responses) == 15_000
        ids.append(answer.session_id)
    assert ids[0] > 0
    assert ids[-1] == 0
    for each in clients:
        each.socket.close()


def change_all(client: WireClient, count: int, session: int, epoch: int) -> None:
    """Names each of `count` partitions three times: to be forgotten twice, and to be fetched."""
    forgotten = FetchRequest.ForgottenTopic(topic="nobody", partitions=list(range(count)))
    asked = FetchRequest(session_id=session, session_epoch=epoch, max_wait_ms=0)
    asked.forgotten_topics_data = [forgotten] * 2
    asked.topics = [FetchRequest.FetchTopic(
        topic="nobody",
        partitions=[FetchRequest.FetchPartition(partition=i) for i in range(count)])]
    client.send(frame_of(asked, 1, 12))
    assert client.answer(FetchResponse, 1, 12).error_code == 0


def cost_of_changes(broker: Serving, count: int) -> float:
    """Processor seconds of the broker, which other load changes little."""
    with WireClient(broker.kafka, timeout=PATIENCE_S) as client:
        client.send(fetch_of(count, 0, session=0))
        session = client.answer(FetchResponse, 1, 12).session_id
        begin = broker.cpu_s
        for epoch in range(1, 11):
            change_all(client, count, session, epoch)
        return broker.cpu_s - begin


@pytest.mark.alone
def test_a_session_that_is_changed_as_much_as_may_be(broker: Serving) -> None:
    """Every change names all of ten thousand partitions, so a lookup must be fast: a linear search
    would cost a hundred times as much as for a thousand."""
    small, large = cost_of_changes(broker, 1000), cost_of_changes(broker, 10_000)
    print(f"{small:.2f} s, {large:.2f} s")
    assert large < 1 + 30 * small


NOISE_S, MUCH = 4.0, 1000
SEED = 20261121


def send_noise(broker: Serving, source: str, make: Callable[[], bytes]) -> int:
    """Sends to one connection after the other until time is over, and until it is much. Returns the
    number of frames."""
    begin, sent = time.monotonic(), 0
    while (took := time.monotonic() - begin) < NOISE_S or (sent < MUCH and took < PATIENCE_S):
        with (
            contextlib.suppress(ConnectionError),
            WireClient(broker.kafka, source=source) as client,
        ):
            client.socket.settimeout(0.02)
            for _ in range(20):
                sent += 1
                client.socket.sendall(make())
            with contextlib.suppress(TimeoutError, EOFError):
                client.receive()
    return sent


def test_random_bytes(broker: Serving, source: str) -> None:
    chance = random.Random(SEED)
    sent = send_noise(broker, source, lambda: chance.randbytes(chance.randint(1, 300)))
    print(f"{sent} pieces, seed {SEED}")
    assert sent >= MUCH


def test_random_bodies_behind_true_headers(broker: Serving, source: str) -> None:
    chance = random.Random(SEED)

    def make() -> bytes:
        key = chance.choice(list(SERVED))
        version = chance.randint(*SERVED[key])
        head = struct.pack(">hhih", key, version, 1, -1)
        return framed(head + chance.randbytes(chance.randint(0, 200)))

    assert send_noise(broker, source, make) >= MUCH


def test_mutations_of_real_requests(broker: Serving, source: str) -> None:
    chance, seeds = random.Random(SEED), golden()
    assert len(seeds) > 50

    sent = send_noise(broker, source, lambda: framed(mutated(chance.choice(seeds), chance)))
    print(f"{sent} frames, seed {SEED}")
    assert sent >= MUCH
