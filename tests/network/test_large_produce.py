"""A Produce that is too much for one turn of its thread is appended in several."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import pytest

from appliance.protocol.messages.produce import ProduceRequest
from tests.support.data_plane import PARTITIONS, Plane, batch, client, make, plane, values
from tests.support.wire_client import TOPIC_ID, WireClient, frame_of, produce_frame, with_length

__all__ = ["client", "make", "plane"]

ONE = batch(bytes(700_000))
SIZES = (1, 3, 10, 30)  # batches, two in a turn
PATIENCE_S = 60


@pytest.fixture
def alone(make: Any) -> Plane:
    """All connections are on one thread."""
    made: Plane = make(network_threads=1)
    return made


def ends(plane: Plane) -> list[int]:
    return [log.log_end_offset for log in plane.logs]


def wait(is_so: Callable[[], bool]) -> None:
    """Without a pause: what is waited for lasts some milliseconds."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline


def frame(batches: list[bytes], acks: int = 1, version: int = 9, topics: int = 2) -> bytes:
    """The batches go to the partitions in turn, in as many rows of the topic."""
    asked = ProduceRequest(acks=acks, timeout_ms=PATIENCE_S * 1000)
    parts = [ProduceRequest.PartitionProduceData(index=at % PARTITIONS, records=each)
             for at, each in enumerate(batches)]
    size = -(-len(parts) // topics)
    for at in range(0, len(parts), size):
        asked.topic_data.append(ProduceRequest.TopicProduceData(
            name="t", topic_id=TOPIC_ID, partition_data=parts[at : at + size]))
    return with_length(frame_of(asked, 0, version))


@pytest.mark.parametrize("topics", [1, 2, 30])
@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", [3, 13])
def test_all_of_it_is_appended_in_its_order_and_answered_once(
    alone: Plane, acks: int, version: int, topics: int
) -> None:
    with alone.client(PATIENCE_S) as client:
        for size in SIZES:
            before = ends(alone)
            client.socket.sendall(frame([ONE] * size, acks, version, topics))
            told = [(part.error_code, part.index, part.base_offset)
                    for part in client.produced(version)]
            assert told == [(0, at % PARTITIONS, before[at % PARTITIONS] + at // PARTITIONS)
                            for at in range(size)]
            if acks == -1:
                assert [log.durable_offset for log in alone.logs] == ends(alone)
        assert sum(ends(alone)) == sum(SIZES)
    assert alone.data_plane.counters()["queued_bytes"] == 0


def test_many_small_batches_that_came_with_others_are_all_appended(alone: Plane) -> None:
    """The memory that they were read to is not theirs in the turns after: the other client's come
    to it. Each request comes in one read."""
    rounds, texts = 10, [[b"%c%d" % (who, at) for at in range(PARTITIONS * 200)] for who in b"ab"]
    mine, others = (frame([batch(text) for text in own]) for own in texts)
    assert len(mine) < 60_000
    with alone.client(PATIENCE_S) as one, alone.client(PATIENCE_S) as other:
        for _ in range(rounds):
            one.socket.sendall(produce_frame(batch(b"before")) + mine)
            other.socket.sendall(others)
            one.socket.sendall(produce_frame(batch(b"behind")))
            for client, frames in ((one, 3), (other, 1)):
                for _ in range(frames):
                    assert {part.error_code for part in client.produced()} == {0}
        for partition in range(PARTITIONS):
            got = read(other, partition, alone.logs[partition].log_end_offset)
            wanted = [text for own in texts for text in own[partition::PARTITIONS]]
            wanted += [b"before", b"behind"] if partition == 0 else []
            assert sorted(got) == sorted(wanted * rounds)


def read(client: WireClient, partition: int, end: int) -> list[Any]:
    got: list[Any] = []
    while len(got) < end:
        got += values(client.fetch_one(len(got), partitions=(partition,)))
    return got


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_what_comes_behind_it_waits_for_it(alone: Plane, acks: int) -> None:
    with alone.client(PATIENCE_S) as client:
        large = frame([ONE] * 30, acks)
        client.socket.sendall(large + produce_frame(batch()) + large + produce_frame(batch()))
        for behind in (10, 21):
            if acks != 0:
                assert [part.error_code for part in client.produced()] == [0] * 30
            (part,) = client.produced()
            assert (part.error_code, part.base_offset) == (0, behind)


def test_each_batch_of_it_has_its_own_result(alone: Plane) -> None:
    damaged = bytearray(ONE)
    damaged[-1] ^= 1
    batches = [ONE, ONE, ONE, bytes(damaged), b""] * 5
    with alone.client(PATIENCE_S) as client:
        for acks in (1, -1):
            client.socket.sendall(frame(batches, acks))
            assert [part.error_code for part in client.produced()] == [0, 0, 0, 2, 87] * 5
        client.socket.sendall(frame(batches, acks=0))
        with pytest.raises(EOFError):
            client.receive()
    assert sum(ends(alone)) == 3 * 15


@pytest.mark.parametrize(("size", "each"), [(700_000, 13), (10, 900)])
def test_others_of_the_thread_have_their_turn_between_its_parts(
    alone: Plane, size: int, each: int
) -> None:
    """Seen when a small request came behind its first batch and before its last."""
    whole = frame([batch(bytes(size))] * PARTITIONS * each)
    last = PARTITIONS - 1
    deadline = time.monotonic() + PATIENCE_S
    with alone.client(PATIENCE_S) as large, alone.client(PATIENCE_S) as small:
        while time.monotonic() < deadline:
            first, *_, before = ends(alone)
            large.socket.sendall(whole[:-1])
            large.socket.sendall(whole[-1:])
            wait(lambda first=first: ends(alone)[0] > first)  # type: ignore[misc]
            (part,) = small.produce(batch(), partition=last)
            assert {part.error_code for part in large.produced()} == {0}
            if part.base_offset < before + each:
                return
    pytest.fail("a small request was never answered before all of a large one was appended")


def reset(client: WireClient) -> None:
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_it_is_appended_whole_though_its_client_is_gone(alone: Plane, acks: int) -> None:
    for rounds in range(1, 4):
        before = ends(alone)[0]
        leaving = alone.client()
        leaving.socket.sendall(frame([ONE] * 40, acks))
        wait(lambda before=before: ends(alone)[0] > before)  # type: ignore[misc]
        reset(leaving)
        wait(lambda rounds=rounds: sum(ends(alone)) == 40 * rounds)  # type: ignore[misc]
    wait(lambda: alone.data_plane.counters()["queued_bytes"] == 0)


@pytest.mark.parametrize("drain_ms", [0, PATIENCE_S * 1000])
def test_it_is_appended_whole_though_the_broker_stops(alone: Plane, drain_ms: int) -> None:
    with alone.client() as client:
        client.socket.sendall(frame([ONE] * 40, acks=-1))
        wait(lambda: ends(alone)[0] > 0)
        alone.data_plane.stop(drain_ms)
        if drain_ms:
            assert [part.error_code for part in client.produced()] == [0] * 40
    assert sum(ends(alone)) == 40


def test_several_of_them_take_turns(alone: Plane) -> None:
    """Seen when some of the second was appended before the last of the first."""
    whole = frame([ONE] * 30)
    deadline = time.monotonic() + PATIENCE_S
    with alone.client(PATIENCE_S) as one, alone.client(PATIENCE_S) as other:
        while time.monotonic() < deadline:
            for part in (whole[:-1], whole[-1:]):
                one.socket.sendall(part)
                other.socket.sendall(part)
            told = [each.produced() for each in (one, other)]
            assert [part.error_code for parts in told for part in parts] == [0] * 60
            first, second = sorted((parts[0].base_offset, parts[-1].base_offset) for parts in told)
            if second[0] < first[1]:
                break
        else:
            pytest.fail("the parts of one never came before all of the other was appended")
    assert alone.data_plane.counters()["queued_bytes"] == 0


def test_it_counts_as_memory_until_it_is_appended(make: Any) -> None:
    """Two of them are more than may be queued: the second is read when the first is done."""
    plane = make(network_threads=1, queued_max_bytes=20 << 20)
    whole = frame([ONE] * 25)
    with plane.client(PATIENCE_S) as one, plane.client(PATIENCE_S) as other:
        for _ in range(3):
            before = ends(plane)[0]
            one.socket.sendall(whole)
            wait(lambda before=before: ends(plane)[0] > before + 1)  # it is in its second part
            queued = plane.data_plane.counters()["queued_bytes"]
            if ends(plane)[0] < before + 9:  # not all of it was appended when that was read
                assert queued == len(whole)
            other.socket.sendall(whole)
            for each in (one, other):
                assert [part.error_code for part in each.produced()] == [0] * 25
    assert plane.data_plane.counters()["queued_bytes"] == 0
