"""The data plane over real sockets, with a real log: no control plane behind it."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance._log import Log
from appliance.config import LogConfig, NetworkConfig
from appliance.data_dir.log_dir import LogDir
from appliance.network._data_plane import DataPlane
from appliance.protocol.messages.fetch import FetchRequest, FetchResponse
from appliance.protocol.messages.produce import ProduceResponse
from appliance.record import _batch_builder
from appliance.record._batch import headers, records
from appliance.record._mirror_batches import gap
from appliance.record._records import Record
from tests.support.logs import until
from tests.support.wire_client import TOPIC_ID, WireClient, fetch_frame, frame_of, produce_frame

PARTITIONS = 3
FETCHES_AT_ONCE = 200
COMMITS_MET = 400  # by fetches just then
NETWORK = NetworkConfig(drain_timeout_ms=1000)


def batch(text: bytes = b"value", count: int = 1, **facts: Any) -> bytes:
    now = int(time.time() * 1000)
    return bytes(_batch_builder.batch([Record(now, b"key", text) for _ in range(count)], **facts))


class Plane:
    """A data directory with topic `t` behind a data plane."""

    def __init__(self, path: Path, network: NetworkConfig, log: LogConfig) -> None:
        self.log_dir = LogDir.open(path)
        self.logs = [self.log_dir.create("t", each, log) for each in range(PARTITIONS)]
        self.data_plane = DataPlane(network)
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = listener.getsockname()
        self.data_plane.listen(listener)
        self.data_plane.put_topic("t", TOPIC_ID.bytes, list[Log | None](self.logs))
        self.data_plane.start()

    def client(self, timeout: float = 20) -> WireClient:
        return WireClient(self.address, timeout)

    def stop(self) -> None:
        self.data_plane.stop(1000)
        self.log_dir.close()

    def wait_for(self, counter: str, value: int) -> None:
        deadline = time.monotonic() + 10
        while self.data_plane.counters()[counter] < value:
            assert time.monotonic() < deadline, self.data_plane.counters()
            time.sleep(0.01)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Any]:
    made: list[Plane] = []

    def make_one(visibility: str = "durable", cleanup_policy: str = "delete",
                 mirror_source: str = "", **limits: Any) -> Plane:
        log = LogConfig(visibility=visibility, cleanup_policy=cleanup_policy,
                        mirror_source=mirror_source)
        made.append(Plane(tmp_path / str(len(made)), replace(NETWORK, **limits), log))
        return made[-1]

    yield make_one
    for each in made:
        each.stop()


@pytest.fixture
def plane(make: Any) -> Plane:
    return make()  # type: ignore[no-any-return]


@pytest.fixture
def client(plane: Plane) -> Iterator[WireClient]:
    with plane.client() as made:
        yield made


def values(part: Any) -> list[bytes | None]:
    return [record.value for record in records(part.records, partial_tail=True)]


# Produce

@pytest.mark.parametrize("version", range(3, 14))
def test_every_produce_version(client: WireClient, plane: Plane, version: int) -> None:
    for acks, offset in ((1, 0), (-1, 2)):
        (part,) = client.produce(batch(count=2), acks=acks, version=version)
        assert (part.error_code, part.base_offset, part.index) == (0, offset, 0)
    assert plane.logs[0].durable_offset == 4


def test_acks_all_is_durable_when_it_is_answered(client: WireClient, plane: Plane) -> None:
    for _ in range(20):
        (part,) = client.produce(batch(), acks=-1)
        assert plane.logs[0].durable_offset > part.base_offset


def test_acks_0_has_no_answer_and_an_error_ends_it(client: WireClient, plane: Plane) -> None:
    client.send_produce(batch(), acks=0)
    assert client.produce(batch(), acks=1)[0].base_offset == 1
    client.send_produce(batch(), acks=0, topic="unknown")
    with pytest.raises(EOFError):
        client.receive()


def test_each_partition_gets_its_own_result(client: WireClient) -> None:
    found = client.produce(batch(), batch(b"x") + b"more", b"", batch(), acks=-1)
    assert [part.error_code for part in found] == [0, 87, 87, 3]
    assert [part.base_offset for part in found] == [0, -1, -1, -1]


@pytest.mark.parametrize(
    ("facts", "version", "error"),
    [({"topic": "nope"}, 9, 3), ({"acks": 5}, 9, 21), ({"partition": 9}, 9, 3),
     ({"partition": 9}, 13, 3), ({"partition": -1}, 9, 3)],
)
def test_what_is_refused(client: WireClient, facts: Any, version: int, error: int) -> None:
    (part,) = client.produce(batch(), version=version, **facts)
    assert (part.error_code, part.base_offset) == (error, -1)
    assert client.produce(batch())[0].error_code == 0


def test_a_damaged_batch_is_refused_with_a_reason(client: WireClient, plane: Plane) -> None:
    damaged = bytearray(batch())
    damaged[-1] ^= 1
    (part,) = client.produce(bytes(damaged), version=8)
    assert (part.error_code, part.error_message) == (
        2, "the record batch does not match its checksum or structure")
    assert plane.logs[0].log_end_offset == 0


def test_a_repeated_batch_has_its_first_offset(client: WireClient) -> None:
    sent = batch(producer_id=7, producer_epoch=0, base_sequence=0)
    assert [client.produce(sent, acks=-1)[0].base_offset for _ in range(2)] == [0, 0]
    gap = batch(producer_id=7, producer_epoch=0, base_sequence=5)
    assert client.produce(gap)[0].error_code == 45


@pytest.mark.parametrize(("is_deleted", "error"), [(True, 3), (False, 6)])
def test_a_closed_log_answers_who_waits(
    client: WireClient, plane: Plane, is_deleted: bool, error: int
) -> None:
    client.send_fetch(0, wait_ms=10_000)
    plane.wait_for("fetch_partitions", 1)
    if is_deleted:
        plane.data_plane.remove_topic("t")
        plane.log_dir.delete("t", 0)
    else:
        plane.log_dir.reopen("t", 0, LogConfig())
    (topic,) = client.answer(FetchResponse,
                             1, 12).responses
    assert topic.partitions[0].error_code == error


# Fetch

@pytest.mark.parametrize("version", range(4, 19))
def test_every_fetch_version(client: WireClient, version: int) -> None:
    client.produce(batch(b"one"), acks=-1)
    part = client.fetch_one(0, version=version)
    assert (part.error_code, part.high_watermark, values(part)) == (0, 1, [b"one"])
    assert client.fetch_one(1, version=version).records == b""
    assert client.fetch_one(2, version=version).error_code == 1


@pytest.mark.alone
def test_a_fetch_waits_for_data_and_for_no_longer_than_it_said(client: WireClient) -> None:
    begin = time.monotonic()
    assert client.fetch_one(0, wait_ms=200).records == b""
    assert 0.19 < time.monotonic() - begin < 1.5


@pytest.mark.alone
@pytest.mark.parametrize("visibility", ["durable", "appended"])
def test_an_append_wakes_a_fetch(make: Any, visibility: str) -> None:
    plane = make(visibility)
    with plane.client() as reader, plane.client() as writer:
        reader.send_fetch(0, wait_ms=15_000)
        time.sleep(0.1)
        writer.produce(batch(b"news"), acks=1)
        begin = time.monotonic()
        answer = reader.receive()
        assert b"news" in answer
        assert time.monotonic() - begin < 2


@pytest.mark.parametrize(("visibility", "acks"), [("appended", 1), ("durable", -1)])
def test_who_wakes_others_does_their_mail(make: Any, visibility: str, acks: int) -> None:
    """Mail that nobody is told of would lie until the sweep, 0.2 s."""
    plane = make(visibility)
    took = []
    with contextlib.ExitStack() as stack:
        # By turns for one thread of the broker and for the other.
        clients = [stack.enter_context(plane.client()) for _ in range(2 * PARTITIONS)]
        readers, writer = clients[::2], clients[1]
        for offset in range(300):
            for partition, reader in enumerate(readers):
                reader.send_fetch(offset, partitions=(partition,), wait_ms=15_000)
            for partition, reader in enumerate(readers):
                text = b"%d of %d" % (offset, partition)
                begin = time.monotonic()
                writer.produce(batch(text), partition=partition, acks=acks)
                assert text in reader.receive()
                took.append(time.monotonic() - begin)
    assert plane.data_plane.counters()["processor_visits"] > 100
    assert sum(each > 0.1 for each in took) <= len(took) // 50


def test_what_is_not_durable_is_not_seen(client: WireClient, plane: Plane) -> None:
    """And a reader that waits makes it durable: no flush interval is waited for."""
    client.produce(batch(), acks=1)
    part = client.fetch_one(0, wait_ms=10_000)
    assert values(part) == [b"value"]
    assert plane.logs[0].durable_offset == 1


def test_who_waits_for_what_is_visible_when_appended_needs_no_disk(make: Any) -> None:
    plane = make(visibility="appended")
    with plane.client() as reader, plane.client() as writer:
        for offset in range(5):
            reader.send_fetch(offset, wait_ms=15_000)
            time.sleep(0.05)
            writer.produce(batch(b"news"), acks=1)
            assert b"news" in reader.receive()
    assert plane.logs[0].durable_offset == 0


def network_threads() -> set[Path]:
    """Of all brokers of this process."""
    threads = Path("/proc/self/task").iterdir()
    return {each for each in threads if (each / "comm").read_text().strip() == "processor"}


def wake_ups(threads: set[Path]) -> int:
    """So far."""
    told = ((thread / "status").read_text().splitlines() for thread in threads)
    fields = (dict(line.split(":") for line in lines) for lines in told)
    return sum(int(each["voluntary_ctxt_switches"]) for each in fields)


def test_nobody_is_woken_for_fetches_that_were_answered_before_their_time(make: Any) -> None:
    count, others = 300, network_threads()
    plane = make(visibility="appended")
    threads = network_threads() - others
    with plane.client() as reader, plane.client() as writer:
        for offset in range(count):
            reader.send_fetch(offset, wait_ms=2500)
            writer.produce(batch(b"news"), acks=1)
            assert b"news" in reader.receive()
            time.sleep(0.003)  # so that their ends, too, are apart
        before = wake_ups(threads)
        time.sleep(3)
        # a sweep five times a second, on each of two threads
        assert wake_ups(threads) - before < count / 2


def test_min_bytes_are_waited_for(client: WireClient, plane: Plane) -> None:
    with plane.client() as reader:
        reader.send_fetch(0, wait_ms=15_000, min_bytes=1000)
        for _ in range(3):
            client.produce(batch(b"v" * 400), acks=-1)
        assert len(reader.receive()) > 1000


def test_limits_let_one_batch_through(client: WireClient) -> None:
    client.produce(*[batch(b"v" * 5000) for _ in range(3)], acks=-1)
    answer = client.fetch(0, partitions=(0, 1, 2), max_bytes=100, partition_max_bytes=100)
    sizes = [len(part.records) for part in answer.responses[0].partitions]
    assert sizes[0] > 5000
    assert sizes[1:] == [0, 0]


@pytest.mark.parametrize("isolation", [0, 1])
def test_the_watermark_that_is_told_covers_what_is_sent(make: Any, isolation: int) -> None:
    """Readers ask for the end again and again while commits move it."""
    plane = make()
    offset = brought = 0
    with plane.client() as writer, plane.client() as reader, written_all_the_time(writer):
        while brought < COMMITS_MET:
            parts = asked_at_once(reader, offset, isolation)
            for each in parts:
                ends = [0, *(one.last_offset + 1 for one in headers(each.records))]
                assert ends[-1] <= (each.last_stable_offset if isolation else each.high_watermark)
                assert each.last_stable_offset <= each.high_watermark
            brought += any(each.records for each in parts)
            offset = max(each.high_watermark for each in parts)


@contextlib.contextmanager
def written_all_the_time(writer: WireClient) -> Iterator[None]:
    """One batch after the other, each made durable."""
    is_over = threading.Event()

    def write() -> None:
        while not is_over.is_set():
            writer.produce(batch(), acks=-1)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def asked_at_once(reader: WireClient, offset: int, isolation: int) -> list[Any]:
    reader.socket.sendall(fetch_frame(offset, isolation=isolation) * FETCHES_AT_ONCE)
    answers = [reader.answer(FetchResponse, 1, 12) for _ in range(FETCHES_AT_ONCE)]
    return [answer.responses[0].partitions[0] for answer in answers]


@pytest.mark.parametrize("sendfile_min_bytes", [0, 1 << 30])
def test_large_answers_are_whole(make: Any, sendfile_min_bytes: int) -> None:
    plane = make(sendfile_min_bytes=sendfile_min_bytes)
    sent = [bytes([i]) * 300_000 for i in range(20)]
    with plane.client() as client:
        for each in sent:
            client.produce(batch(each), acks=-1)
        answer = client.fetch_one(0, partition_max_bytes=20 << 20)
        assert values(answer) == sent


def test_leader_epochs_are_checked(client: WireClient) -> None:
    client.produce(batch(), acks=-1)
    assert client.fetch_one(0, leader_epoch=0).error_code == 0
    assert client.fetch_one(0, leader_epoch=9).error_code == 75


def test_an_unknown_partition_is_told_by_name_and_by_id(client: WireClient) -> None:
    assert client.fetch_one(0, topic="nope").error_code == 3
    assert client.fetch_one(0, partitions=(7,), version=13).error_code == 3


# Sessions

def test_a_session_tells_only_what_is_new(client: WireClient) -> None:
    client.produce(batch(b"a"), batch(b"b"), acks=-1)
    first = client.fetch(1, partitions=(0, 1, 2), session=(0, 0))
    assert first.session_id > 0
    assert [part.partition_index for part in first.responses[0].partitions] == [0, 1, 2]
    quiet = client.fetch(partitions=(), session=(first.session_id, 1))
    assert [part.error_code for topic in quiet.responses for part in topic.partitions] == [1]
    client.fetch(0, partitions=(2,), session=(first.session_id, 2))
    client.produce(batch(b"c"), acks=-1, partition=1)
    news = client.fetch(partitions=(), session=(first.session_id, 3))
    assert [part.partition_index for part in news.responses[0].partitions] == [1]


def test_a_session_waits_for_news(client: WireClient, plane: Plane) -> None:
    session = client.fetch(0, partitions=(0, 1), session=(0, 0)).session_id
    client.send_fetch(partitions=(), session=(session, 1), wait_ms=15_000)
    with plane.client() as writer:
        writer.produce(batch(b"news"), acks=1, partition=1)
    assert b"news" in client.receive()


@pytest.mark.parametrize("waits", [False, True], ids=["silent", "waiting"])
def test_a_session_keeps_no_deleted_partition(make: Any, waits: bool) -> None:
    plane = make()
    log_dir = plane.log_dir
    with plane.client() as client:
        session = client.fetch(0, partitions=(0, 1), session=(0, 0)).session_id
        client.send_fetch(partitions=(), session=(session, 1), wait_ms=15_000 if waits else 0)
        if not waits:
            client.receive()
        directory = str(log_dir.path / "deleted" / "t-1")
        plane.data_plane.put_topic("t", TOPIC_ID.bytes, [plane.logs[0], None, plane.logs[2]])
        del plane.logs[1]
        log_dir.delete("t", 1)
        if not waits:
            client.send_fetch(partitions=(), session=(session, 2))
        client.receive()
        until(lambda: not any(each.startswith(directory) for each in open_files()))


NOT_LEADER, UNKNOWN_TOPIC, UNKNOWN_ID, STORAGE_ERROR = 6, 3, 100, 56
BY_NAME_AND_BY_ID = pytest.mark.parametrize(
    ("version", "unknown"), [(12, UNKNOWN_TOPIC), (13, UNKNOWN_ID)], ids=["by name", "by id"]
)


def told(answer: Any) -> list[tuple[int, int, list[bytes | None]]]:
    return [
        (part.partition_index, part.error_code, values(part) if part.records else [])
        for topic in answer.responses
        for part in topic.partitions
    ]


@BY_NAME_AND_BY_ID
def test_a_session_reads_on_from_a_log_that_was_opened_again(
    client: WireClient, plane: Plane, version: int, unknown: int
) -> None:
    client.produce(batch(b"a"), acks=-1, partition=1)

    def again(epoch: int) -> Any:
        return told(client.fetch(partitions=(), session=(session, epoch), version=version))

    session = client.fetch(1, partitions=(0, 1), session=(0, 0), version=version).session_id
    new = plane.log_dir.reopen("t", 1, LogConfig())
    # Meanwhile, and after an attempt that failed, it is no partition that the client might forget.
    assert again(1) == [(0, 1, []), (1, NOT_LEADER, [])]
    assert (1, NOT_LEADER, []) in again(2)
    plane.logs[1] = new
    plane.data_plane.put_topic("t", TOPIC_ID.bytes, list[Log | None](plane.logs))
    new.append_durable(batch(b"news"))
    assert (1, NOT_LEADER, []) in again(3)
    assert (1, 0, [b"news"]) in again(4)


@BY_NAME_AND_BY_ID
@pytest.mark.parametrize("was_known", [True, False], ids=["partition", "topic"])
def test_a_session_reads_what_could_not_be_served_when_it_began(
    client: WireClient, plane: Plane, version: int, unknown: int, was_known: bool
) -> None:
    plane.logs[1].append_durable(batch(b"a"))
    if was_known:
        without: list[Log | None] = [plane.logs[0], None, plane.logs[2]]
        plane.data_plane.put_topic("t", TOPIC_ID.bytes, without)
    else:
        plane.data_plane.remove_topic("t")
    first = client.fetch(0, partitions=(1,), session=(0, 0), version=version)
    assert told(first) == [(1, STORAGE_ERROR if was_known else unknown, [])]
    if was_known:
        assert client.produce(batch(), partition=1)[0].error_code == STORAGE_ERROR
    plane.data_plane.put_topic("t", TOPIC_ID.bytes, list[Log | None](plane.logs))
    seen = [
        told(client.fetch(partitions=(), session=(first.session_id, epoch), version=version))
        for epoch in (1, 2)
    ]
    assert seen[-1] == [(1, 0, [b"a"])]


def open_files() -> list[str]:
    return [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if os.path.lexists(each)]


def test_wrong_sessions_are_refused(client: WireClient) -> None:
    assert client.fetch(partitions=(), session=(12345, 1)).error_code == 70
    session = client.fetch(0, session=(0, 0)).session_id
    assert client.fetch(partitions=(), session=(session, 7)).error_code == 71
    assert client.fetch(partitions=(), session=(session, 1)).error_code == 0
    client.fetch(partitions=(), session=(session, -1))
    assert client.fetch(partitions=(), session=(session, 2)).error_code == 70


# Order

def test_answers_keep_the_order_of_requests(client: WireClient) -> None:
    """A fetch that waits does not stop the produce behind it, but its answer goes first."""
    client.send_fetch(0, wait_ms=400)
    client.send_produce(batch(b"after"), acks=1)
    client.send(frame_of(FetchRequest(), 1, 12,
                         correlation_id=77))
    assert b"after" in client.receive()
    client.receive()
    assert client.receive()[:4] == struct.pack(">i", 77)


def test_a_thousand_requests_in_one_write(client: WireClient, plane: Plane) -> None:
    for _ in range(1000):
        client.send_produce(batch(), acks=-1)
    for i in range(1000):
        frame = client.receive()
        assert struct.pack(">q", i) in frame
    assert plane.logs[0].durable_offset == 1000


def test_more_requests_than_may_be_in_flight(make: Any) -> None:
    plane = make(requests_per_connection=4)
    with plane.client() as client:
        for _ in range(50):
            client.send_produce(batch(), acks=-1)
        assert [struct.pack(">q", i) in client.receive() for i in range(50)] == [True] * 50


# The control plane's side

def test_other_requests_are_passed_on(client: WireClient, plane: Plane) -> None:
    client.send(struct.pack(">hhih", 18, 0, 42, -1))
    client.send_fetch(0)
    plane.wait_for("punted_requests", 1)
    (punt,), _ = plane.data_plane.punts()
    assert punt.peer == "127.0.0.1"
    assert punt.frame[:2] == b"\0\x12"
    plane.data_plane.reply_all([(punt.connection, punt.slot, b"answer")])
    assert client.receive() == b"answer"
    client.receive()
    plane.data_plane.reply_all([(punt.connection, punt.slot, b"twice is once")])
    plane.data_plane.close(punt.connection)
    with pytest.raises(EOFError):
        client.receive()


def test_a_compacted_topic_gets_keys_itself_and_passes_on_what_lacks_them(make: Any) -> None:
    plane = make(cleanup_policy="compact")
    keyless = bytes(_batch_builder.batch([Record(0, b"k", b"v"), Record(1, None, b"v")]))
    with plane.client() as client:
        assert client.produce(batch())[0].error_code == 0
        assert client.produce(batch()[:-1])[0].error_code == 2
        assert plane.data_plane.counters()["punted_requests"] == 0
        for number, data in enumerate([keyless, batch(codec="gzip")], 1):
            client.send_produce(data)
            plane.wait_for("punted_requests", number)
            (punt,), _ = plane.data_plane.punts()
            plane.data_plane.reply_all([(punt.connection, punt.slot, b"answer")])
            assert client.receive() == b"answer"
    assert plane.logs[0].log_end_offset == 1


def test_a_transaction_is_begun_by_the_control_plane_and_goes_on_here(
    client: WireClient, plane: Plane
) -> None:
    def part(sequence: int, epoch: int = 0) -> bytes:
        return batch(
            producer_id=7, producer_epoch=epoch, base_sequence=sequence, transactional=True
        )

    def is_passed_on(data: bytes, number: int) -> bool:
        client.send_produce(data)
        plane.wait_for("punted_requests", number)
        (punt,), _ = plane.data_plane.punts()
        plane.data_plane.reply_all([(punt.connection, punt.slot, b"answer")])
        return client.receive() == b"answer"

    assert is_passed_on(part(0), 1)
    plane.logs[0].append(part(0))
    assert [client.produce(part(n))[0].error_code for n in (1, 2)] == [0, 0]
    assert is_passed_on(part(0, epoch=1), 2)
    plane.logs[0].append(_batch_builder.control_batch("commit", 7, 0, 0, 0), origin="coordinator")
    assert is_passed_on(part(3), 3)
    plain = batch(producer_id=7, producer_epoch=0, base_sequence=3)
    assert client.produce(plain)[0].error_code == 0


def test_no_produce_overtakes_one_that_was_passed_on(make: Any) -> None:
    plane = make(cleanup_policy="compact")
    with plane.client() as client:
        client.send_produce(batch(codec="gzip"))
        client.send_produce(batch(), partition=1)
        client.send_produce(batch())
        plane.wait_for("punted_requests", 3)
        for punt in plane.data_plane.punts()[0]:
            assert [log.log_end_offset for log in plane.logs] == [0, 0, 0]
            plane.data_plane.reply_all([(punt.connection, punt.slot, b"answer")])
            assert client.receive() == b"answer"
        assert client.produce(batch())[0].base_offset == 0


# Hostile peers

@pytest.mark.parametrize("size", [-1, -(2**31), 0, 7, 2**31 - 1, (100 << 20) + 1])
def test_a_length_that_cannot_be_closes(client: WireClient, plane: Plane, size: int) -> None:
    client.socket.sendall(struct.pack(">i", size) + b"x" * 100)
    with pytest.raises((EOFError, ConnectionError)):
        client.receive()
    plane.wait_for("connections_closed_frame", 1)
    assert plane.data_plane.counters()["queued_bytes"] == 0


@pytest.mark.parametrize("key", [0, 1])
def test_no_truncated_request_is_answered_or_appended(plane: Plane, key: int) -> None:
    whole = (produce_frame(batch()) if key == 0 else fetch_frame())[4:]
    for size in range(10, len(whole)):
        with plane.client() as client:
            client.send(whole[:size])
            with pytest.raises((EOFError, ConnectionError)):
                client.receive()
    assert plane.logs[0].log_end_offset == 0
    with plane.client() as client:
        client.send(whole)
        assert client.receive()


def test_array_bombs_cost_nothing(plane: Plane) -> None:
    head = struct.pack(">hhih", 1, 11, 1, -1) + struct.pack(">iiiibii", -1, 0, 0, 1, 0, 0, -1)
    for count in (2**31 - 1, -2, -(2**31), 1_000_000):
        with plane.client() as client:
            client.send(head + struct.pack(">i", count))
            with pytest.raises((EOFError, ConnectionError)):
                client.receive()
    plane.wait_for("connections_closed_malformed", 4)


def test_a_large_request_for_the_control_plane_closes(make: Any) -> None:
    """Its decoding would keep the one thread of the control plane from everything else."""
    plane = make(control_max_bytes=1024)
    with plane.client() as client:
        client.send(struct.pack(">hhih", 3, 9, 1, -1) + b"x" * 1100)
        with pytest.raises((EOFError, ConnectionError)):
            client.receive()
    assert plane.data_plane.punts()[0] == []


def test_half_a_frame_ends_in_time(make: Any) -> None:
    plane = make(frame_timeout_ms=300)
    with plane.client() as client:
        client.socket.sendall(struct.pack(">i", 50_000_000) + b"x" * 1000)
        with pytest.raises((EOFError, ConnectionError)):
            client.receive()
    assert plane.data_plane.counters()["queued_bytes"] == 0
    assert plane.data_plane.counters()["connections_closed_frame"] == 1


def test_an_idle_connection_ends(make: Any) -> None:
    plane = make(idle_timeout_ms=300)
    with plane.client() as client, pytest.raises(EOFError):
        client.receive()
    assert plane.data_plane.counters()["connections_closed_idle"] == 1


def test_a_reader_that_does_not_read_ends_and_delays_nobody(make: Any) -> None:
    plane = make(send_timeout_ms=500)
    with plane.client() as slow, plane.client() as busy:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(8):
            busy.produce(batch(b"v" * 1_000_000), acks=-1)
        for _ in range(20):
            slow.send_fetch(0, partition_max_bytes=50 << 20)
        for _ in range(100):
            assert busy.produce(batch(), acks=1)[0].error_code == 0
        plane.wait_for("connections_closed_slow", 1)


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_ip"])
def test_connections_have_limits(make: Any, limit: str) -> None:
    plane = make(**{limit: 3})
    clients = [plane.client() for _ in range(3)]
    for each in clients:
        each.produce(batch())
    with plane.client() as refused, pytest.raises((EOFError, ConnectionError)):
        refused.receive()
    clients.pop().socket.close()
    deadline = time.monotonic() + 5
    while plane.data_plane.counters()["connections_open"] > 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with plane.client() as welcome:
        assert welcome.produce(batch())[0].error_code == 0
    for each in clients:
        each.socket.close()


def test_the_limit_of_an_address_may_change_and_ends_no_connection(make: Any) -> None:
    plane = make()
    with plane.client() as first, plane.client() as second:
        for each in (first, second):
            each.produce(batch())
        plane.data_plane.limit_connections_per_ip(2)
        with plane.client() as refused, pytest.raises((EOFError, ConnectionError)):
            refused.receive()
        for each in (first, second):
            assert each.produce(batch())[0].error_code == 0
        plane.data_plane.limit_connections_per_ip(3)
        with plane.client() as welcome:
            assert welcome.produce(batch())[0].error_code == 0


def noise(chance: random.Random, whole: bytes) -> bytes:
    """A request with some bytes changed; in one of ten, none of it is left."""
    if chance.random() < 0.1:
        return chance.randbytes(chance.randint(8, 400))
    octets = bytearray(whole)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(4, len(octets))
        octets[at : at + 4] = chance.choice(
            [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"", chance.randbytes(5)])
    return bytes(octets) + bytes(8)


def test_noise_is_answered_or_closes(plane: Plane) -> None:
    """Under a sanitizer this finds a byte that is read behind the end."""
    chance = random.Random(20261121)
    fetches = [fetch_frame(0, version=each)[4:] for each in (4, 7, 11, 12, 13, 17)]
    produces = [produce_frame(batch(), version=each)[4:] for each in (3, 8, 9, 13)]
    for _ in range(300):
        with plane.client(0.01) as client, contextlib.suppress(ConnectionError):
            for _ in range(10):
                client.send(noise(chance, chance.choice(fetches + produces)))
            with contextlib.suppress(TimeoutError, EOFError):
                client.receive()
    with plane.client() as client:
        assert client.produce(batch())[0].error_code == 0


def test_large_requests_wait_for_memory(make: Any) -> None:
    """More is claimed than may be queued: all are served, one after the other."""
    plane = make(queued_max_bytes=1 << 20)
    sent = batch(b"v" * 900_000)
    results: list[int] = []

    def work() -> None:
        with plane.client() as client:
            for _ in range(5):
                results.append(client.produce(sent, acks=1)[0].error_code)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert results == [0] * 30
    assert plane.data_plane.counters()["queued_bytes"] == 0


@pytest.mark.parametrize("seed", range(4))
def test_frames_of_every_size_in_pieces_of_every_size(make: Any, seed: int) -> None:
    """Large frames are collected in memory of their own, small ones run where they were read."""
    chance = random.Random(seed)
    plane = make(visibility="appended")
    sizes = [chance.choice([10, 5_000, 100_000, 300_000, 900_000]) for _ in range(40)]
    texts = [chance.randbytes(size) for size in sizes]
    with plane.client() as client:
        whole = b"".join(produce_frame(batch(text)) for text in texts)
        sender = threading.Thread(target=send_in_pieces, args=(client, whole, chance))
        sender.start()
        for offset in range(len(texts)):
            ((part,),) = [each.partition_responses
                          for each in client.answer(ProduceResponse, 0, 9).responses]
            assert (part.error_code, part.base_offset) == (0, offset)
        sender.join()
    stored = b"".join(plane.logs[0].read(offset, 1) for offset in range(len(texts)))
    assert [each.value for each in records(stored)] == texts


def send_in_pieces(client: WireClient, whole: bytes, chance: random.Random) -> None:
    while whole:
        size = chance.choice([3, 700, 4096, 70_000, 400_000, 2_000_000])
        client.socket.sendall(whole[:size])
        whole = whole[size:]


def test_a_frame_byte_by_byte(client: WireClient) -> None:
    whole = produce_frame(batch())
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for i in range(len(whole)):
        client.socket.sendall(whole[i : i + 1])
    assert client.receive()


@pytest.mark.parametrize("first", [1, 2, 3, 4, 5, 11])
def test_a_length_field_in_two_reads(client: WireClient, first: int) -> None:
    """The rest of the frame, and the next one, come with the second."""
    whole = produce_frame(batch()) * 2
    client.socket.sendall(whole[:first])
    time.sleep(0.05)
    client.socket.sendall(whole[first:])
    assert [client.receive()[:4] for _ in range(2)] == [struct.pack(">i", 1)] * 2


# Life

@pytest.mark.alone
def test_a_stop_answers_what_waits(make: Any) -> None:
    plane = make()
    with plane.client() as client:
        client.send_fetch(0, wait_ms=60_000)
        time.sleep(0.1)
        begin = time.monotonic()
        plane.data_plane.stop(5000)
        assert client.receive()
        assert time.monotonic() - begin < 2
        with pytest.raises(EOFError):
            client.receive()


CHILD = """
import sys, time
from tests.support.wire_client import WireClient
from tests.network.test_data_plane import batch
with WireClient(("127.0.0.1", int(sys.argv[1]))) as client:
    sent, end = batch(), time.monotonic() + 2
    slowest, count = 0.0, 0
    while time.monotonic() < end:
        begin = time.monotonic()
        offset = client.produce(sent, acks=-1)[0].base_offset
        assert client.fetch_one(offset).records
        slowest, count = max(slowest, time.monotonic() - begin), count + 1
    print(count, slowest)
"""


def test_no_thread_of_the_data_plane_takes_the_gil(plane: Plane) -> None:
    """This process's GIL is never let go while another process produces, waits for the disk, and
    fetches: a single acquisition would stop all of it."""
    old = sys.getswitchinterval()
    folders = ":".join(each for each in sys.path if each)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(plane.address[1])], stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2], env={**os.environ, "PYTHONPATH": folders})
    plane.wait_for("produce_requests", 1)
    before = plane.data_plane.counters()["produce_requests"]
    sys.setswitchinterval(1000)  # whoever asks for the GIL waits for the end of the loop
    try:
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            pass
        during = plane.data_plane.counters()["produce_requests"] - before
    finally:
        sys.setswitchinterval(old)
    output, _ = child.communicate(timeout=30)
    assert child.returncode == 0
    count, _ = output.split()
    assert during > 20, f"{during} produce requests while the GIL was held, {count!r} in all"


MIRROR = "cluster/topic"


@pytest.fixture(params=["delete", "compact"])
def mirrored(make: Any, request: pytest.FixtureRequest) -> Plane:
    plane: Plane = make(cleanup_policy=request.param, mirror_source=MIRROR)
    logs = list[Log | None](plane.logs)
    plane.data_plane.put_topic("t", TOPIC_ID.bytes, logs, mirror_source=MIRROR)
    return plane


@pytest.mark.parametrize("version", range(9, 14))
def test_a_mirror_is_answered_and_its_batches_keep_their_offsets(
    mirrored: Plane, version: int
) -> None:
    data = gap(0, 3) + batch(b"a", base_offset=3, codec="lz4") + batch(b"b", 2, base_offset=4)
    again = batch(b"b", 2, base_offset=4) + batch(b"c", base_offset=6)
    with mirrored.client() as client:
        for octets, acks, first, end in ((data, 1, 0, 6), (data, -1, 0, 6), (again, -1, 4, 7)):
            (part,) = client.produce(octets, acks=acks, version=version, mirror_source=MIRROR)
            assert (part.error_code, part.base_offset) == (0, first)
            assert mirrored.logs[0].log_end_offset == end
        assert mirrored.logs[0].durable_offset == 7
        assert values(client.fetch_one()) == [b"a", b"b", b"b", b"c"]
    assert mirrored.data_plane.counters()["punted_requests"] == 0


def test_what_a_mirror_brings_in_the_wrong_place_is_refused_and_the_rest_stays(
    mirrored: Plane
) -> None:
    torn = batch(b"c", base_offset=2)
    for data, code, end in ((batch(b"a", base_offset=0) + batch(b"b", base_offset=5), 1, 1),
                            (batch(b"b", base_offset=1) + torn[:-1], 2, 2),
                            (torn[:20], 2, 2), (b"", 2, 2),
                            (batch(base_offset=2, producer_id=7, producer_epoch=0,
                                   base_sequence=0), 87, 2)):
        with mirrored.client() as client:
            (part,) = client.produce(data, acks=-1, mirror_source=MIRROR)
            assert (part.error_code, part.base_offset) == (code, -1)
            assert mirrored.logs[0].log_end_offset == end
    assert mirrored.data_plane.counters()["punted_requests"] == 0


@pytest.mark.parametrize("source", ["", "cluster/other", MIRROR + "x"])
def test_others_than_its_mirror_are_left_to_the_control_plane(
    mirrored: Plane, source: str
) -> None:
    with mirrored.client() as client:
        client.send_produce(batch(base_offset=0), mirror_source=source)
        mirrored.wait_for("punted_requests", 1)
    assert mirrored.logs[0].log_end_offset == 0


def test_a_mirror_of_a_topic_that_is_none_is_left_to_the_control_plane(plane: Plane) -> None:
    with plane.client() as client:
        client.send_produce(batch(base_offset=0), mirror_source=MIRROR)
        plane.wait_for("punted_requests", 1)
        # the data plane hears of the config a moment before, or behind, the log
        logs = list[Log | None](plane.logs)
    plane.data_plane.put_topic("t", TOPIC_ID.bytes, logs, mirror_source=MIRROR)
    with plane.client() as client:
        client.send_produce(batch(base_offset=0), mirror_source=MIRROR)
        plane.wait_for("punted_requests", 2)
    assert plane.logs[0].log_end_offset == 0


def test_a_mirrors_name_that_is_cut_off_closes_the_connection(mirrored: Plane) -> None:
    whole = produce_frame(batch(base_offset=0), mirror_source=MIRROR)
    at = whole.index(MIRROR.encode()) - 1
    for length in (0xFF, len(MIRROR), len(MIRROR) + 2):
        with mirrored.client() as client:
            client.socket.sendall(whole[:at] + bytes([length]) + whole[at + 1 :])
            with pytest.raises(EOFError):
                client.receive()
    assert mirrored.logs[0].log_end_offset == 0


def test_internal_topics_are_read_but_not_written(make: Any) -> None:
    plane = make()
    logs = list[Log | None](plane.logs)
    plane.logs[0].append_durable(batch())
    plane.data_plane.put_topic("t", TOPIC_ID.bytes, logs, is_internal=True)
    with plane.client() as client:
        for version in (3, 8, 9, 13):
            for acks in (1, -1):
                (part,) = client.produce(batch(), version=version, acks=acks)
                assert (part.error_code, part.base_offset) == (17, -1)
        assert client.fetch_one().high_watermark == 1
        client.send_produce(batch(), acks=0)
        with pytest.raises(EOFError):
            client.receive()
    assert plane.logs[0].log_end_offset == 1


# Readers and the disk


def forget_pages(path: Path) -> bool:
    """Whether the next read of the file comes from the disk: not in a file system in memory."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        try:
            os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
        except BlockingIOError:
            os.preadv(file.fileno(), [bytearray(1)], 0)  # asking began to read it
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return True
        return False


@pytest.mark.parametrize("size", [1000, 300_000])
def test_what_the_page_cache_lacks_is_read_by_other_threads(
    make: Any, tmp_path: Path, size: int
) -> None:
    """The pipelined fetches are answered in order, and each with all of its bytes."""
    plane = make()
    with plane.client() as client:
        written = [batch(os.urandom(size)) for _ in range(20)]
        for each in written:
            client.produce(each, acks=-1)
        is_cold = forget_pages(next((tmp_path / "0").glob("t-0/*.log")))
        for offset in range(20):
            client.send_fetch(offset, partition_max_bytes=3 * size)
        for offset in range(20):
            (topic,) = client.answer(FetchResponse, 1, 12).responses
            (part,) = topic.partitions
            assert part.error_code == 0
            assert bytes(part.records)[61:300] == written[offset][61:300]
            assert len(part.records) >= len(written[offset])
        assert (plane.data_plane.counters()["cold_reads"] > 0) == is_cold


def test_a_fetch_that_was_looked_up_on_the_disk_waits_for_what_is_still_to_come(
    make: Any, tmp_path: Path
) -> None:
    plane = make()
    with plane.client() as client, plane.client() as producer:
        producer.produce(batch(b"first"), acks=-1)
        forget_pages(next((tmp_path / "0").glob("t-0/*.log")))
        client.send_fetch(0, min_bytes=150, wait_ms=10_000)
        plane.wait_for("fetch_requests", 1)
        producer.produce(batch(b"second"), acks=-1)
        (topic,) = client.answer(FetchResponse, 1, 12).responses
        assert b"second" in topic.partitions[0].records


def is_cached(path: Path) -> bool:
    """Its first byte; asking may begin to read it."""
    with path.open("rb") as file:
        try:
            return os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT) == 1
        except BlockingIOError:
            return False


def test_a_fetch_of_many_cold_partitions_is_answered_after_a_few(
    make: Any, tmp_path: Path
) -> None:
    """The others stay on the disk until they are asked for, and come then."""
    plane, count = make(), 200
    logs = [plane.log_dir.create("many", each, LogConfig()) for each in range(count)]
    plane.data_plane.put_topic("many", b"m" * 16, list[Log | None](logs))
    for log in logs:
        log.append_durable(batch(b"v" * 1000))
    files = sorted((tmp_path / "0").glob("many-*/*.log"))
    are_cold = [forget_pages(each) for each in files]
    wanted, answers = set(range(count)), []
    with plane.client() as client:
        while wanted:
            client.send_fetch(0, topic="many", partitions=tuple(sorted(wanted)))
            (topic,) = client.answer(FetchResponse, 1, 12).responses
            if not answers:
                was_read = sum(is_cached(each) for each in files)
            answers.append({part.partition_index for part in topic.partitions if part.records})
            assert answers[-1]
            wanted -= answers[-1]
    if all(are_cold):
        assert len(answers[0]) <= was_read <= 50


def test_what_stands_beside_a_cold_partition_is_not_cut_short(make: Any, tmp_path: Path) -> None:
    """min_bytes of what is cached is an answer; what is cold comes with one of the next."""
    plane = make()
    with plane.client() as client:
        for partition in range(PARTITIONS):
            client.produce(batch(b"v" * 1000), acks=-1, partition=partition)
        forget_pages(next((tmp_path / "0").glob("t-0/*.log")))
        found: set[int] = set()
        while 0 not in found:
            client.send_fetch(0, partitions=(0, 1, 2))
            (topic,) = client.answer(FetchResponse, 1, 12).responses
            found = {part.partition_index for part in topic.partitions if part.records}
            assert found >= {1, 2}
        client.send_fetch(0, partitions=(0, 1, 2), min_bytes=3000, wait_ms=10_000)
        (topic,) = client.answer(FetchResponse, 1, 12).responses
        assert all(len(part.records) > 1000 for part in topic.partitions)


def test_a_reader_that_takes_nothing_holds_little_of_the_kernels_memory(make: Any) -> None:
    """A socket would take megabytes: `SO_SNDBUF` grows as long as nobody limits what is unsent."""
    plane = make()
    with plane.client() as client:
        for _ in range(5):
            client.produce(batch(b"v" * 900_000), acks=-1)
        before = plane.data_plane.counters()["bytes_out"]
        client.send_fetch(0, partition_max_bytes=50 << 20)
        plane.wait_for("bytes_out", before + 1)
        taken = []
        until(lambda: taken.append(plane.data_plane.counters()["bytes_out"])
              or (len(taken) > 20 and len(set(taken[-20:])) == 1))
        assert taken[-1] - before < 1 << 20
