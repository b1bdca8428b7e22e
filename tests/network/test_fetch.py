"""Fetches as the data plane answers them: what is seen, what wakes them, how much they get."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.protocol.messages.fetch import FetchResponse
from appliance.record._batch import headers
from tests.support import own_threads
from tests.support.data_plane import PARTITIONS, Plane, batch, client, make, plane, values
from tests.support.wire_client import WireClient, fetch_frame

__all__ = ["client", "make", "plane"]

FETCHES_AT_ONCE = 200
COMMITS_MET = 400  # by fetches just then


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


def test_timers_of_answered_fetches_do_not_gather(make: Any) -> None:
    """Behind one that is still to come each would stay as long as its client offered to wait."""
    plane = make("appended", network_threads=1)
    with plane.client() as first, plane.client() as reader, plane.client() as writer:
        first.send_fetch(0, partitions=(0,), wait_ms=600_000)
        for offset in range(3000):
            reader.send_fetch(offset, partitions=(1,), wait_ms=2**31 - 1)
            writer.produce(batch(b"news"), partition=1, acks=1)
            assert b"news" in reader.receive()
        time.sleep(0.5)  # they are counted five times a second
        assert 0 < plane.data_plane.counters()["timers"] < 1500
        writer.produce(batch(b"at last"), partition=0, acks=1)
        assert b"at last" in first.receive()


@pytest.mark.alone
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
    return {*own_threads.named("processor")}


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
                found = headers(each.records, partial_tail=True)
                ends = [0, *(one.last_offset + 1 for one in found)]
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
